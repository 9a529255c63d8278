package archive

import (
	"archive/tar"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Errors of [Extract], to be tested with errors.Is.
var (
	// ErrHostile is returned for an archive that no honest packer makes.
	ErrHostile = errors.New("hostile archive")
	// ErrTooLarge is returned for an archive beyond the limits.
	ErrTooLarge = errors.New("archive is too large")
)

// Limits bound what [Extract] does. The zero value means the defaults.
type Limits struct {
	Bytes   int64 // of all files together; default 64 GiB
	Entries int64 // default 1,000,000
	// Chown, if set, is called for every file, directory and link that was
	// made.
	Chown func(root *os.Root, name string)
}

// Bounds of a name in an archive.
const (
	maxNameLength = 4096
	maxDepth      = 256
)

// Extract unpacks a tar archive below root. Permission bits, times of files
// and symbolic links are kept; links may point anywhere, but nothing is
// written through them to outside of root. Existing files and links are
// replaced, never written into. Special files, hard links to what the archive
// does not itself contain, and names that are absolute or lead upwards are
// errors. What was unpacked before an error stays.
func Extract(r io.Reader, root *os.Root, limits Limits) error {
	limits.Bytes = cmp.Or(limits.Bytes, 64<<30)
	limits.Entries = cmp.Or(limits.Entries, 1_000_000)
	x := &extractor{
		root: root, limits: limits, tr: tar.NewReader(r),
		made: make(map[string]bool), modes: make(map[string]fs.FileMode), buf: make([]byte, 64<<10),
	}
	for {
		header, err := x.tr.Next()
		if errors.Is(err, io.EOF) {
			return x.finish()
		}
		if err == nil {
			err = x.entry(header)
		} else {
			err = fmt.Errorf("read archive: %w", err)
		}
		if err != nil {
			return errors.Join(err, x.finish())
		}
	}
}

// extractor is one run of [Extract].
type extractor struct {
	root   *os.Root
	limits Limits
	tr     *tar.Reader
	made   map[string]bool        // files of the archive, for hard links to them
	modes  map[string]fs.FileMode // of directories, set at the end
	buf    []byte
}

func (x *extractor) entry(h *tar.Header) error {
	if x.limits.Entries--; x.limits.Entries < 0 {
		return fmt.Errorf("%w: too many entries", ErrTooLarge)
	}
	name, err := localName(h.Name)
	if err != nil {
		return err
	}
	switch h.Typeflag {
	case tar.TypeDir:
		err = x.directory(name, h)
	case tar.TypeReg:
		err = x.file(name, h)
	case tar.TypeSymlink:
		err = x.symlink(name, h)
	case tar.TypeLink:
		err = x.hardlink(name, h)
	case tar.TypeXGlobalHeader:
		return nil
	default:
		return fmt.Errorf("%w: %q is a special file", ErrHostile, h.Name)
	}
	if err != nil {
		return fmt.Errorf("unpack %q: %w", h.Name, err)
	}
	if x.limits.Chown != nil && name != "." {
		x.limits.Chown(x.root, name)
	}
	return nil
}

// localName returns the name of an entry for the local system, if it is a
// proper one below the root.
func localName(name string) (string, error) {
	clean := path.Clean(name)
	local := filepath.FromSlash(clean)
	switch {
	case name == "" || len(name) > maxNameLength || strings.ContainsRune(name, 0):
		return "", fmt.Errorf("%w: a name of %d bytes", ErrHostile, len(name))
	case strings.HasPrefix(name, "/") || !filepath.IsLocal(local) || hasParent(name):
		return "", fmt.Errorf("%w: name %q leads outside", ErrHostile, name)
	case strings.Count(clean, "/") >= maxDepth:
		return "", fmt.Errorf("%w: a name with more than %d elements", ErrHostile, maxDepth)
	default:
		return local, nil
	}
}

// hasParent reports whether an element of name is "..".
func hasParent(name string) bool {
	for element := range strings.SplitSeq(name, "/") {
		if element == ".." {
			return true
		}
	}
	return false
}

func (x *extractor) directory(name string, h *tar.Header) error {
	if name == "." {
		return nil
	}
	if err := x.parents(name); err != nil {
		return err
	}
	if err := x.makeDir(name); err != nil {
		return err
	}
	// Its mode may forbid what is still to be put into it, so it comes last.
	x.modes[name] = fs.FileMode(h.Mode).Perm()
	return nil
}

// makeDir makes a directory, or keeps the one that is there. A link in its
// place is replaced: the archive's tree is not to be spread by old links.
func (x *extractor) makeDir(name string) error {
	err := x.root.Mkdir(name, 0o755)
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	info, err := x.root.Lstat(name)
	if err != nil || info.IsDir() {
		return err
	}
	if err := x.root.Remove(name); err != nil {
		return err
	}
	return x.root.Mkdir(name, 0o755)
}

// parents makes the directories above name that the archive does not name.
func (x *extractor) parents(name string) error {
	dir := filepath.Dir(name)
	if dir == "." {
		return nil
	}
	if info, err := x.root.Lstat(dir); err == nil && info.IsDir() {
		return nil
	}
	if err := x.parents(dir); err != nil {
		return err
	}
	if err := x.makeDir(dir); err != nil {
		return err
	}
	if x.limits.Chown != nil {
		x.limits.Chown(x.root, dir)
	}
	return nil
}

// clear removes what is in the way of a new file or link.
func (x *extractor) clear(name string) error {
	if name == "." {
		return fmt.Errorf("%w: the root as a file", ErrHostile)
	}
	if err := x.parents(name); err != nil {
		return err
	}
	delete(x.made, name)
	info, err := x.root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if info.IsDir() {
		return fmt.Errorf("there is a directory in its place: %w", fs.ErrExist)
	}
	return x.root.Remove(name)
}

func (x *extractor) file(name string, h *tar.Header) error {
	if h.Size < 0 || h.Size > x.limits.Bytes {
		return fmt.Errorf("%w: too many bytes", ErrTooLarge)
	}
	x.limits.Bytes -= h.Size
	if err := x.clear(name); err != nil {
		return err
	}
	mode := fs.FileMode(h.Mode).Perm()
	file, err := x.root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	sparse := &sparseWriter{file: file}
	if _, err = io.CopyBuffer(sparse, onlyReader{x.tr}, x.buf); err == nil {
		err = sparse.finish()
	}
	err = errors.Join(err, file.Chmod(mode), file.Close())
	if err != nil {
		return err
	}
	x.made[name] = true
	if h.ModTime.Unix() > 0 {
		// A file system that keeps no times is no reason to fail.
		_ = x.root.Chtimes(name, time.Time{}, h.ModTime)
	}
	return nil
}

// sparseWriter writes to a new file and leaves holes for pieces that are all
// zeros.
type sparseWriter struct {
	file *os.File
	size int64 // with the holes
	end  int64 // of what was written
}

// Write implements io.Writer.
func (w *sparseWriter) Write(p []byte) (int, error) {
	if !allZero(p) {
		if n, err := w.file.WriteAt(p, w.size); err != nil {
			return n, err
		}
		w.end = w.size + int64(len(p))
	}
	w.size += int64(len(p))
	return len(p), nil
}

// finish gives the file its size where it ends in a hole.
func (w *sparseWriter) finish() error {
	if w.end == w.size {
		return nil
	}
	return w.file.Truncate(w.size)
}

// allZero reports whether p holds nothing but zeros: its first byte is one,
// and each of the others is what the one before is.
func allZero(p []byte) bool { return len(p) == 0 || p[0] == 0 && bytes.Equal(p[1:], p[:len(p)-1]) }

func (x *extractor) symlink(name string, h *tar.Header) error {
	if h.Linkname == "" || len(h.Linkname) > maxNameLength || strings.ContainsRune(h.Linkname, 0) {
		return fmt.Errorf("%w: a link to a name of %d bytes", ErrHostile, len(h.Linkname))
	}
	if err := x.clear(name); err != nil {
		return err
	}
	return x.root.Symlink(h.Linkname, name)
}

// hardlink links to a file of the same archive, and to nothing else: a name
// that was there before may be one that the archive has no business with.
func (x *extractor) hardlink(name string, h *tar.Header) error {
	target, err := localName(h.Linkname)
	if err != nil {
		return err
	}
	if !x.made[target] || target == name {
		return fmt.Errorf("%w: a hard link to %q, which is not in it", ErrHostile, h.Linkname)
	}
	if err := x.clear(name); err != nil {
		return err
	}
	if err := x.root.Link(target, name); err != nil {
		return err
	}
	x.made[name] = true
	return nil
}

// finish sets the modes of directories. One that was replaced meanwhile by a
// later entry has none to set.
func (x *extractor) finish() error {
	var result error
	// The deepest first: a mode may take away the way to what is below.
	for _, name := range slices.Backward(slices.Sorted(maps.Keys(x.modes))) {
		if info, err := x.root.Lstat(name); err == nil && info.IsDir() {
			result = errors.Join(result, x.root.Chmod(name, x.modes[name]))
		}
	}
	return result
}
