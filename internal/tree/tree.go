// Package tree copies and removes file trees that are not trusted.
//
// A tree is transferred as a tar archive. It is either a single file, the only
// entry of the archive, or a directory. The first entry of a directory is "./";
// the names of the others are relative to it. [Pack] writes such an archive,
// and [Extract] unpacks it. [Reader] checks an archive and limits its size on
// its way from one place to another.
//
// All functions work below an os.Root, and open every directory relative to its
// open parent. So no name and no symbolic link leads out of the root, even if
// somebody changes the tree at the same time. Symbolic links below the top are
// copied as links and never followed.
//
// Sparse files stay sparse: the archive has only the data of such a file, and
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

// Errors of this package, for use with errors.Is.
var (
	// ErrHostile is returned for an archive that no honest packer would make.
	ErrHostile = errors.New("hostile archive")
	// ErrTooLarge is returned for a tree that exceeds the limits.
	ErrTooLarge = errors.New("too large to be copied")
	// ErrNotRegular is returned if a file that was asked for is neither a
	// regular file nor a directory.
	ErrNotRegular = errors.New("not a regular file")
	// ErrLink is returned for a symbolic link where links are not allowed.
	ErrLink = errors.New("a symbolic link, which cannot be copied to here")
)

// Limits limit the size of a tree. The zero value means the defaults.
type Limits struct {
	Bytes   int64 // of the data of all files together, without holes; default 64 GiB
	Entries int64 // files, directories and links; default 1,000,000
}

// Limits for names in a tree.
const (
	maxNameLength = 4096
	// MaxDepth is how many levels a tree may have to be copied.
	MaxDepth = 256
)

// Budget is the remaining part of [Limits]. Trees that share a budget are
// limited together.
type Budget struct {
	of             Limits
	bytes, entries int64
}

// NewBudget returns a budget with all of l remaining.
func NewBudget(l Limits) *Budget {
	l.Bytes = cmp.Or(l.Bytes, 64<<30)
	l.Entries = cmp.Or(l.Entries, 1_000_000)
	return &Budget{of: l, bytes: l.Bytes, entries: l.Entries}
}

// Bytes returns how many bytes of data were taken off the budget.
func (b *Budget) Bytes() int64 { return b.of.Bytes - b.bytes }

// Entries returns how many files, directories and links were taken off the budget.
func (b *Budget) Entries() int64 { return b.of.Entries - b.entries }

// entry takes one entry, and the number of bytes in it, off the budget.
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

// size formats a number of bytes for people.
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

// localName returns the name of an entry in the form of the local system. It
// fails if the name is not a proper one below the root.
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

// linkTarget checks the target of a symbolic link. It may lead anywhere.
func linkTarget(h *tar.Header) error {
	if h.Linkname == "" || len(h.Linkname) > maxNameLength || strings.ContainsRune(h.Linkname, 0) {
		return fmt.Errorf("%w: a link to a name of %d bytes", ErrHostile, len(h.Linkname))
	}
	return nil
}

// isTop reports whether an entry stands for the whole tree, which is a
// directory then.
func isTop(h *tar.Header) bool {
	return h.Typeflag == tar.TypeDir && path.Clean(h.Name) == "."
}

// permissions returns the mode bits that are copied. The setuid and setgid bits
// are not among them.
func permissions(h *tar.Header) fs.FileMode { return fs.FileMode(h.Mode).Perm() }
