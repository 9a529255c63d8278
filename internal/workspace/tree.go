// Package workspace gives access to confined file trees: directories whose
// files are read, written and copied in such a way that no path and no symbolic
// link leads out.
//
// The confinement relies on [os.Root], which resolves every element of a path
// relative to an open directory. It holds even if commands change the tree at
// the same time.
package workspace

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/x/pygent/internal/patherr"
	"github.com/x/pygent/internal/progress"
	"github.com/x/pygent/internal/tempname"
	"github.com/x/pygent/internal/tree"
)

// Errors of a Tree, for use with errors.Is.
var (
	// ErrOutside is returned for a path that leads out of the tree.
	ErrOutside = errors.New("path is outside the workspace")
	// ErrTooLarge is returned for a file that exceeds the caller's limit.
	ErrTooLarge = errors.New("the file is too large to read at once")
)

// Tree is a directory with everything below it. Its methods take
// slash-separated paths relative to the directory. Absolute paths are accepted
// if they begin with the directory itself or with a mount point under which
// commands see it. All methods are safe for concurrent use.
type Tree struct {
	root   *os.Root
	dir    string   // absolute, without symbolic links
	mounts []string // other absolute paths of dir, slash-separated
}

// Open returns the tree of an existing directory. mounts are further paths
// under which commands see the directory.
func Open(dir string, mounts ...string) (*Tree, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	real, err := filepath.EvalSymlinks(abs)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(real)
	if err != nil {
		return nil, err
	}
	t := &Tree{root: root, dir: real}
	for _, m := range append(mounts, abs, real) {
		t.mounts = append(t.mounts, filepath.ToSlash(m))
	}
	return t, nil
}

// escapes reports whether an error of root says that a path leads out of it.
// The standard library does not export that error, so it is provoked here for
// comparison.
func escapes(root *os.Root, err error) bool {
	_, escape := root.Lstat("..")
	return errors.Is(err, patherr.Cause(escape))
}

// Dir returns the absolute path of the tree's directory, without symbolic
// links.
func (t *Tree) Dir() string { return t.dir }

// Close releases the directory. It removes nothing.
func (t *Tree) Close() error { return t.root.Close() }

// Rel returns name as a clean path relative to the tree, "." for the tree
// itself. It examines only the name and does not access the disk.
func (t *Tree) Rel(name string) (string, error) {
	clean := path.Clean(filepath.ToSlash(name))
	if path.IsAbs(clean) || filepath.IsAbs(name) {
		for _, m := range t.mounts {
			if clean == m {
				return ".", nil
			}
			if rest, ok := strings.CutPrefix(clean, strings.TrimSuffix(m, "/")+"/"); ok {
				return rest, nil
			}
		}
		return "", ErrOutside
	}
	if !filepath.IsLocal(filepath.FromSlash(clean)) {
		return "", ErrOutside
	}
	return clean, nil
}

// Stat describes the file or directory at name. Symbolic links are followed
// inside the tree.
func (t *Tree) Stat(name string) (fs.FileInfo, error) {
	rel, err := t.Rel(name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	info, err := t.root.Stat(rel)
	if err != nil {
		return nil, t.errorAt(name, err)
	}
	return info, nil
}

// ReadFile returns the content of a regular file. If it has more than limit
// bytes, the error is [ErrTooLarge].
func (t *Tree) ReadFile(name string, limit int64) ([]byte, error) {
	f, info, err := t.open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info.Size() > limit {
		return nil, fmt.Errorf("%s: %w: %d bytes, the limit is %d", name, ErrTooLarge, info.Size(), limit)
	}
	// The file may grow while it is read, and files in /proc report no size.
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return nil, t.errorAt(name, err)
	}
	if int64(len(data)) > limit {
		return nil, fmt.Errorf("%s: %w: the limit is %d bytes", name, ErrTooLarge, limit)
	}
	return data, nil
}

// ReadRange returns at most limit bytes from offset on, and the size of the
// whole file.
func (t *Tree) ReadRange(name string, offset, limit int64) ([]byte, int64, error) {
	if offset < 0 || limit < 0 {
		return nil, 0, fmt.Errorf("%s: negative offset or limit", name)
	}
	f, info, err := t.open(name)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.NewSectionReader(f, offset, limit))
	if err != nil {
		return nil, 0, t.errorAt(name, err)
	}
	return data, info.Size(), nil
}

// ReadTo copies the content of a regular file from offset on to w, and returns how
// many bytes it copied.
func (t *Tree) ReadTo(name string, offset int64, w io.Writer) (int64, error) {
	if offset < 0 {
		return 0, fmt.Errorf("%s: negative offset", name)
	}
	f, _, err := t.open(name)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	return io.Copy(w, io.NewSectionReader(f, offset, math.MaxInt64-offset))
}

// Lstat describes what is at name, and where it leads if it is a symbolic link,
// which is not followed.
func (t *Tree) Lstat(name string) (info fs.FileInfo, target string, err error) {
	rel, err := t.Rel(name)
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", name, err)
	}
	if info, err = t.root.Lstat(rel); err != nil {
		return nil, "", t.errorAt(name, err)
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		target, _ = t.root.Readlink(rel)
	}
	return info, target, nil
}

// maxListed is how many names of a directory List looks at.
const maxListed = 100_000

// List describes the first entries of a directory by name, at most limit. more says
// that there are others. Of a directory with more than maxListed names it knows only
// those that the system tells first. Only what it returns is looked at: in a large
// directory, most of the time is that.
func (t *Tree) List(name string, limit int) (infos []fs.FileInfo, more bool, err error) {
	rel, err := t.Rel(name)
	if err != nil {
		return nil, false, fmt.Errorf("%s: %w", name, err)
	}
	dir, err := t.root.OpenRoot(rel + string(filepath.Separator) + ".") // which waits for no pipe
	if err != nil {
		return nil, false, t.errorAt(name, err)
	}
	defer dir.Close()
	names, more, err := firstNames(dir)
	if err != nil {
		return nil, false, t.errorAt(name, err)
	}
	for _, base := range names {
		if len(infos) >= limit {
			return infos, true, nil
		}
		if info, err := dir.Lstat(base); err == nil { // or it has gone meanwhile
			infos = append(infos, info)
		}
	}
	return infos, more, nil
}

// firstNames returns at most maxListed names in a directory, sorted; more says that
// there are others. [os.File.ReadDir] would look at each of them.
func firstNames(dir *os.Root) (names []string, more bool, err error) {
	f, err := dir.OpenFile(".", os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, false, err
	}
	defer f.Close()
	for len(names) <= maxListed {
		some, err := f.Readdirnames(1024)
		names = append(names, some...)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, false, err
		}
	}
	if more = len(names) > maxListed; more {
		names = names[:maxListed]
	}
	slices.Sort(names)
	return names, more, nil
}

// Remove removes a file, a symbolic link or an empty directory; with all, a
// directory with its content. The tree itself is only emptied.
func (t *Tree) Remove(name string, all bool) error {
	rel, err := t.Rel(name)
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", name, err)
	case rel == "." && all:
		err = tree.Empty(t.root, rel)
	case rel == ".":
		err = fmt.Errorf("%w: it is the workspace", fs.ErrInvalid)
	case all:
		err = tree.Remove(t.root, rel)
	default:
		err = t.root.Remove(rel)
	}
	if err != nil {
		return t.errorAt(name, err)
	}
	return nil
}

// WriteFile creates or replaces a file, and makes missing parent directories.
// The new content appears all at once, so that no reader sees half of it. An
// existing file keeps its mode, and its owner and group if they may be set. A symbolic
// link is followed inside the tree, so that its target is written.
func (t *Tree) WriteFile(name string, data []byte) error {
	return t.WriteFrom(name, bytes.NewReader(data))
}

// WriteFrom is WriteFile with the content of r. If r fails, or the disk is full,
// the file stays as it is, unless its directory cannot be written.
func (t *Tree) WriteFrom(name string, r io.Reader) error {
	rel, err := t.Rel(name)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if dir := path.Dir(rel); dir != "." {
		if err := t.root.MkdirAll(dir, 0o777); errors.Is(err, fs.ErrExist) {
			return fmt.Errorf("%s: %w", name, syscall.ENOTDIR) // something else is in the place of a directory
		} else if err != nil {
			return t.errorAt(name, err)
		}
	}
	if err := t.write(rel, r); err != nil {
		return t.errorAt(name, err)
	}
	return nil
}

func (t *Tree) write(rel string, r io.Reader) error {
	rel, info, err := t.target(rel)
	switch {
	case err == nil && info.IsDir():
		return syscall.EISDIR
	case err == nil && !info.Mode().IsRegular():
		return t.overwrite(rel, r)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	}
	begun := false
	err = ReplaceFile(t.root, rel, 0o666, func(f *os.File) error {
		begun = true
		_, err := io.Copy(f, r)
		if err == nil && info != nil {
			keepOwner(f, info)
			err = f.Chmod(info.Mode().Perm())
		}
		return err
	})
	if !begun && errors.Is(err, fs.ErrPermission) && info != nil {
		return t.overwrite(rel, r) // only the directory may be read-only, and not the file
	}
	return err
}

// target returns the file to which a name leads through symbolic links, if that
// is a regular file, and else the name itself.
func (t *Tree) target(rel string) (string, fs.FileInfo, error) {
	info, err := t.root.Lstat(rel)
	if err != nil || info.Mode().Type() != fs.ModeSymlink {
		return rel, info, err
	}
	meant, err := t.root.Stat(rel)
	if err != nil {
		return rel, info, nil // writing it tells why
	}
	at, found := rel, info
	for range maxLinks {
		link, err := t.root.Readlink(at)
		if err != nil || path.IsAbs(link) {
			break
		}
		at = path.Join(path.Dir(at), link)
		if found, err = t.root.Lstat(at); err != nil {
			break
		}
		if found.Mode().Type() != fs.ModeSymlink {
			// A link to a directory on the way may lead elsewhere than its name says.
			if found.Mode().IsRegular() && os.SameFile(found, meant) {
				return at, found, nil
			}
			break
		}
	}
	return rel, info, nil
}

// maxLinks is how many symbolic links are followed to a file.
const maxLinks = 40

// ReplaceFile lets fill write a new file, and then puts the file in the place
// of dest. If fill fails, dest stays as it is. The mode of the new file is perm
// without the bits of the umask.
func ReplaceFile(root *os.Root, dest string, perm fs.FileMode, fill func(*os.File) error) error {
	f, err := tempname.Create(root, path.Dir(dest), perm)
	if err != nil {
		return err
	}
	if err := fill(f.File); err != nil {
		return errors.Join(err, f.Remove())
	}
	return f.Become(dest)
}

// overwrite replaces the content of the file to which rel leads, and keeps the
// file itself.
func (t *Tree) overwrite(rel string, r io.Reader) error {
	f, err := t.root.OpenFile(rel, os.O_WRONLY|os.O_CREATE|syscall.O_NONBLOCK, 0o666)
	if err != nil {
		return err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil {
		return err
	} else if !info.Mode().IsRegular() {
		return errNotRegular
	}
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err = io.Copy(f, r)
	return errors.Join(err, f.Close())
}

// RemoveStages removes what processes that were killed have left in the tree's directory:
// temporary files, and the temporary directories of copies. It ends with ctx.
func (t *Tree) RemoveStages(ctx context.Context) error {
	tempname.Sweep(t.root)
	return tree.RemoveStages(ctx, t.root)
}

// Pack calls take with the archive of the file or directory name; see package
// tree. If name is a symbolic link, it is followed inside the tree.
func (t *Tree) Pack(ctx context.Context, name string, take func(io.Reader) error) error {
	rel, err := t.Rel(name)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	err = Pipe(ctx, func(w io.Writer) error { return tree.Pack(w, t.root, rel, tree.PackOptions{}) }, take)
	return t.copyError(name, err)
}

// Unpack unpacks the archive that fill writes into the directory dir. If there is
// no such directory, it appears with the tree.
func (t *Tree) Unpack(ctx context.Context, dir string, fill func(io.Writer) error) (placed tree.Placed, err error) {
	rel, err := t.Rel(dir)
	if err != nil {
		return placed, fmt.Errorf("%s: %w", dir, err)
	}
	err = Pipe(ctx, fill, func(r io.Reader) (err error) {
		placed, err = tree.Extract(r, t.root, tree.ExtractOptions{Into: rel})
		return err
	})
	return placed, t.copyError(dir, err)
}

// CopyIn copies a source into the directory dir; a file gets the name as there. If
// there is no such directory, it appears with the tree.
func (t *Tree) CopyIn(ctx context.Context, src *Source, dir, as string, o tree.ExtractOptions) error {
	rel, err := t.Rel(dir)
	if err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	o.Into, o.As = rel, as
	_, err = tree.Duplicate(ctx, src.root, src.name, t.root, o, progress.Counter(ctx))
	return t.copyError(dir, err)
}

// CopyOut copies the file or directory name to its destination. If name is a symbolic
// link, it is followed inside the tree.
func (t *Tree) CopyOut(ctx context.Context, name string, to *Destination, limits tree.Limits) error {
	rel, err := t.Rel(name)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	o := to.options(tree.ExtractOptions{Limits: limits})
	_, err = tree.Duplicate(ctx, t.root, rel, to.root, o, progress.Counter(ctx))
	return t.copyError(name, err)
}

var errNotRegular = errors.New("not a regular file")

// open opens a regular file. It never blocks, not even on a named pipe.
func (t *Tree) open(name string) (*os.File, fs.FileInfo, error) {
	rel, err := t.Rel(name)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", name, err)
	}
	f, err := t.root.OpenFile(rel, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, t.errorAt(name, err)
	}
	info, err := f.Stat()
	switch {
	case err != nil:
	case info.IsDir():
		err = syscall.EISDIR
	case !info.Mode().IsRegular():
		err = errNotRegular
	}
	if err != nil {
		f.Close()
		return nil, nil, t.errorAt(name, err)
	}
	return f, info, nil
}

// errorAt adds the path as the caller wrote it, and turns an escape into
// ErrOutside.
func (t *Tree) errorAt(name string, err error) error {
	if escapes(t.root, err) {
		return fmt.Errorf("%s: %w", name, ErrOutside)
	}
	return fmt.Errorf("%s: %w", name, patherr.Cause(err))
}

// copyError is like errorAt for the error of a whole tree, which may name a
// file below name.
func (t *Tree) copyError(name string, err error) error {
	if err == nil {
		return nil
	}
	if _, itself := err.(*fs.PathError); itself || escapes(t.root, err) {
		return t.errorAt(name, err)
	}
	return fmt.Errorf("%s: %w", name, err)
}
