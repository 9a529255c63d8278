package workspace

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/x/pygent/internal/owner"
	"github.com/x/pygent/internal/tree"
)

// Names of temporary workspaces, which lie in the directory for temporary files
// like those of other programs: only the note tells whose a directory is.
const (
	tempPrefix = "pygent-"   // of the parent's name
	tempDir    = "workspace" // in the parent
	noteFile   = "owner"     // beside it, made by [owner.Self.Note]
)

// MakeTemp makes a temporary workspace and returns its path. Its parent is
// private to the caller, so that a workspace which any user of a container may
// write (open) is still closed to the other users of this machine.
func MakeTemp(open bool) (string, error) {
	parent, err := os.MkdirTemp("", tempPrefix)
	if err != nil {
		return "", err
	}
	dir := filepath.Join(parent, tempDir)
	err = os.WriteFile(filepath.Join(parent, noteFile), owner.Here().Note(filepath.Base(parent)), 0o600)
	if err == nil {
		err = os.Mkdir(dir, 0o700)
	}
	if err == nil && open {
		err = os.Chmod(dir, 0o777) // past the umask
	}
	if err != nil {
		os.RemoveAll(parent)
		return "", err
	}
	return dir, nil
}

// Temp is a temporary workspace that was found.
type Temp struct {
	Path   string // of the parent
	Owner  string // the process that made it
	Proved bool   // this user's pygent made it under that name
	Made   time.Time
}

// FindTemps lists the temporary workspaces of this user, also of earlier
// versions, which prove nothing. Directories of other programs are left out.
func FindTemps() []Temp {
	dir := os.TempDir()
	names, err := readNames(dir)
	if err != nil {
		return nil // there is none then
	}
	var found []Temp
	for _, name := range names {
		if !strings.HasPrefix(name, tempPrefix) {
			continue
		}
		if root, t, err := openTemp(filepath.Join(dir, name)); err == nil {
			root.Close()
			found = append(found, t)
		}
	}
	return found
}

func readNames(dir string) ([]string, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	slices.Sort(names)
	return names, err
}

// errNoTemp tells that a directory is not a temporary workspace of this user.
var errNoTemp = errors.New("not a temporary workspace of pygent")

// openTemp opens the parent of a temporary workspace and looks at it through
// nothing but the opened directory, so that nobody can put another in its place.
func openTemp(parent string) (_ *os.Root, t Temp, err error) {
	before, err := os.Lstat(parent)
	if err != nil {
		return nil, t, err
	}
	if !before.IsDir() {
		return nil, t, errNoTemp // a link leads elsewhere
	}
	root, err := os.OpenRoot(parent)
	if err != nil {
		return nil, t, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, root.Close())
		}
	}()
	info, err := root.Stat(".")
	if err != nil {
		return nil, t, err
	}
	if !os.SameFile(before, info) || !owner.Private(info, 0o077) {
		return nil, t, errNoTemp
	}
	t = Temp{Path: parent, Made: info.ModTime()}
	t.Owner, t.Proved, err = readNote(root, filepath.Base(parent))
	if err == nil && !t.Proved {
		err = likeEarlier(root, t.Owner)
	}
	return root, t, err
}

func readNote(root *os.Root, name string) (by string, proved bool, err error) {
	info, err := root.Lstat(noteFile)
	if err != nil {
		return "", false, err
	}
	if !info.Mode().IsRegular() || !owner.Private(info, 0o077) || info.Size() > owner.MaxNote {
		return "", false, errNoTemp
	}
	data, err := root.ReadFile(noteFile)
	if err != nil {
		return "", false, err
	}
	by, proved = owner.Here().ReadNote(data, name)
	return by, proved, nil
}

// likeEarlier refuses a directory that does not look as pygent makes them: there
// is nothing in it but a workspace and the owner's name.
func likeEarlier(root *os.Root, by string) error {
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return err
	}
	other := func(e fs.DirEntry) bool { return e.Name() != noteFile && !(e.Name() == tempDir && e.IsDir()) }
	if strings.Count(by, "/") < 4 || slices.ContainsFunc(entries, other) {
		return errNoTemp
	}
	return nil
}

// RemoveFound removes a temporary workspace that FindTemps found. One whose
// owner lives stays.
func RemoveFound(parent string) error {
	root, t, err := openTemp(parent)
	if errors.Is(err, fs.ErrNotExist) && isGone(parent) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: %w", parent, err)
	}
	if owner.Here().StateOf(t.Owner) == owner.Alive {
		return errors.Join(fmt.Errorf("%s: %w", parent, errInUse), root.Close())
	}
	return removeTemp(root, parent)
}

var errInUse = errors.New("it is in use")

// RemoveTemp removes a workspace that this process made with MakeTemp, read-only
// directories included.
func RemoveTemp(dir string) error {
	parent := filepath.Dir(dir)
	root, t, err := openTemp(parent)
	if errors.Is(err, fs.ErrNotExist) && isGone(parent) {
		return nil
	}
	if err == nil && (!t.Proved || t.Owner != owner.Here().Name()) {
		err = errors.Join(errNoTemp, root.Close())
	}
	if err != nil {
		return fmt.Errorf("%s: %w", parent, err)
	}
	return removeTemp(root, parent)
}

func isGone(path string) bool {
	_, err := os.Lstat(path)
	return errors.Is(err, fs.ErrNotExist)
}

// removeTemp removes what is in an opened parent, and the parent. What tells
// whom it belongs to goes last, so that a removal that is cut short is finished
// by whoever finds it.
func removeTemp(root *os.Root, parent string) error {
	err := tree.Remove(root, tempDir)
	if err == nil {
		err = root.Remove(noteFile)
	}
	err = errors.Join(err, root.Close())
	if err != nil {
		return err
	}
	return os.Remove(parent) // of an empty directory: nothing else goes
}
