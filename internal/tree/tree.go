// Package tree copies trees of files that nobody vouches for, and removes them.
//
// A tree travels as a tar archive. It is either one file, which is the
// archive's only entry, or a directory, whose first entry is "./" and the others
// relative to it. [Pack] writes such an archive, [Extract] unpacks it, and
// [Reader] checks and bounds one on its way from one place to another.
//
// All work below an os.Root, and every directory is opened relative to the open
// directory that holds it. So no name and no symbolic link leads out, also while
// somebody changes the tree. Symbolic links below the top are copied as links
// and never followed.
//
// Holes of files stay holes: an archive has only the data of a sparse file, and
// says where it belongs.
package tree

import (
	"archive/tar"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"strings"
)

// Errors of this package, to be tested with errors.Is.
var (
	// ErrHostile is returned for an archive that no honest packer makes.
	ErrHostile = errors.New("hostile archive")
	// ErrTooLarge is returned for a tree beyond the limits.
	ErrTooLarge = errors.New("too large to be copied")
	// ErrNotRegular is returned for a file that is named and is neither a
	// regular file nor a directory.
	ErrNotRegular = errors.New("not a regular file")
	// ErrLink is returned for a symbolic link where none may be.
	ErrLink = errors.New("a symbolic link, which cannot be copied to here")
)

// Limits bound a tree. The zero value means the defaults.
type Limits struct {
	Bytes   int64 // of data in all files together, holes left out; default 64 GiB
	Entries int64 // files, directories and links; default 1,000,000
}

// Bounds of a name in a tree.
const (
	maxNameLength = 4096
	// MaxDepth is how deep a tree may be that is copied.
	MaxDepth = 256
)

// Budget is what is left of [Limits]. Trees that share one are bounded together.
type Budget struct {
	of             Limits
	bytes, entries int64
}

// NewBudget returns a budget of which nothing is spent.
func NewBudget(l Limits) *Budget {
	l.Bytes = cmp.Or(l.Bytes, 64<<30)
	l.Entries = cmp.Or(l.Entries, 1_000_000)
	return &Budget{of: l, bytes: l.Bytes, entries: l.Entries}
}

// entry takes one entry, and the bytes that it brings, off the budget.
func (b *Budget) entry(name string, bytes int64) error {
	if b.entries--; b.entries < 0 {
		return fmt.Errorf("%w: more than %d files", ErrTooLarge, b.of.Entries)
	}
	if bytes > b.bytes {
		return fmt.Errorf("%w: %q has %s of data, which is more than is left of the limit of %s",
			ErrTooLarge, name, size(bytes), size(b.of.Bytes))
	}
	b.bytes -= bytes
	return nil
}

// size writes a number of bytes for people.
func size(n int64) string {
	const units = "KMGTPE"
	if n < 1<<10 {
		return fmt.Sprintf("%d bytes", n)
	}
	value, unit := float64(n)/(1<<10), 0
	for value >= 1<<10 {
		value, unit = value/(1<<10), unit+1
	}
	return fmt.Sprintf("%.4g %ciB", value, units[unit])
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
	case strings.Count(clean, "/") >= MaxDepth:
		return "", fmt.Errorf("%w: a name with more than %d elements", ErrHostile, MaxDepth)
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

// linkTarget checks where a symbolic link leads, which may be anywhere.
func linkTarget(h *tar.Header) error {
	if h.Linkname == "" || len(h.Linkname) > maxNameLength || strings.ContainsRune(h.Linkname, 0) {
		return fmt.Errorf("%w: a link to a name of %d bytes", ErrHostile, len(h.Linkname))
	}
	return nil
}

// isTop reports whether an entry stands for the whole tree, which then is a
// directory.
func isTop(h *tar.Header) bool {
	return h.Typeflag == tar.TypeDir && path.Clean(h.Name) == "."
}

// permissions are the bits of a mode that are copied. Those by which a file
// runs as its owner are not.
func permissions(h *tar.Header) fs.FileMode { return fs.FileMode(h.Mode).Perm() }
