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

// Names of temporary workspaces. They are in the directory for temporary files,
// like those of other programs; only the note says whose a directory is.
const (
	tempPrefix = "pygent-"   // begins the parent's name
	tempDir    = "workspace" // the workspace, in the parent
	noteFile   = "owner"     // the note beside it, made by [owner.Self.Note]
)

// MakeTemp makes a temporary workspace and returns its path. With open, any
// user of a container may write the workspace. Its parent is private to the
// calling user, so that other users of this machine cannot reach the workspace
// even then.
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
		err = os.Chmod(dir, 0o777) // regardless of the umask
	}
	if err != nil {
		os.RemoveAll(parent)
		return "", err
	}
	return dir, nil
}

// Temp is a temporary workspace that FindTemps has found.
type Temp struct {
	Path   string // of the parent directory
	Owner  string // the name of the process that made it
	Proved bool   // it is proved that this user's pygent made it under that name
	Made   time.Time
}

// FindTemps lists the temporary workspaces of this user. Those of earlier
// versions are included, but have no proof. Directories of other programs are
// left out.
func FindTemps() []Temp {
	dir := os.TempDir()
	names, err := readNames(dir)
	if err != nil {
		return nil // the directory does not exist
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

// errNoTemp means that a directory is not a temporary workspace of this user.
var errNoTemp = errors.New("not a temporary workspace of pygent")

// openTemp opens the parent of a temporary workspace. It examines the parent
// only through the opened directory, so that nobody can exchange it meanwhile.
func openTemp(parent string) (_ *os.Root, t Temp, err error) {
	before, err := os.Lstat(parent)
	if err != nil {
		return nil, t, err
	}
	if !before.IsDir() {
		return nil, t, errNoTemp // a link, which leads elsewhere
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

// likeEarlier checks a directory without a proof. It refuses one that does not
// look like those of pygent: they contain only a workspace and the owner's
// note.
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

// RemoveFound removes a temporary workspace that FindTemps has found. It
// refuses if the workspace's owner is alive.
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

// RemoveTemp removes a workspace that this process made with MakeTemp.
// Read-only directories in it are removed too.
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

// IsTemp reports whether a workspace that this process made with MakeTemp is still
// there, and not something that others have put in its place.
func IsTemp(dir string) bool {
	parent, err := os.Lstat(filepath.Dir(dir))
	if err != nil || !parent.IsDir() || !owner.Private(parent, 0o077) {
		return false
	}
	info, err := os.Lstat(dir)
	return err == nil && info.IsDir()
}

func isGone(path string) bool {
	_, err := os.Lstat(path)
	return errors.Is(err, fs.ErrNotExist)
}

// removeTemp removes the content of an opened parent, and the parent. The note
// with the owner is removed last. So if the removal is interrupted, whoever
// finds the directory can finish it.
func removeTemp(root *os.Root, parent string) error {
	err := tree.Remove(root, tempDir)
	if err == nil {
		err = root.Remove(noteFile)
	}
	err = errors.Join(err, root.Close())
	if err != nil {
		return err
	}
	return os.Remove(parent) // removes only an empty directory
}
