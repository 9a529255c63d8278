package filetext

import (
	"cmp"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/x/pygent/internal/escape"
	"github.com/x/pygent/internal/numeral"
)

// Entry is a file in a directory.
type Entry struct {
	Name string
	Size int64 // negative if it is not known
	Mode fs.FileMode
}

// Listing shows a directory in at most limit bytes: its directories, and then its
// files with their sizes. more says that there are others than the entries.
func Listing(dir string, entries []Entry, more bool, limit int) Piece {
	limit = max(limit, minLimit)
	title := short(dir) + ": a directory with " + numeral.Count(len(entries), "entry")
	switch {
	case len(entries) == 0:
		title = short(dir) + ": an empty directory"
	case more:
		title = fmt.Sprintf("%s: a directory with more than %s entries", short(dir), numeral.Grouped(len(entries)))
	}
	entries = slices.Clone(entries)
	slices.SortStableFunc(entries, func(a, b Entry) int {
		if a.Mode.IsDir() != b.Mode.IsDir() {
			return cmp.Compare(b2i(b.Mode.IsDir()), b2i(a.Mode.IsDir()))
		}
		return cmp.Compare(a.Name, b.Name)
	})
	var b strings.Builder
	b.WriteString(title)
	shown := 0
	for _, e := range entries {
		line := "\n" + e.line()
		if b.Len()+len(line) > limit-forTitle {
			break
		}
		b.WriteString(line)
		shown++
	}
	if left := len(entries) - shown; left > 0 || more {
		words := "others"
		if !more {
			words = numeral.Grouped(left) + " more"
		}
		fmt.Fprintf(&b, "\n[… and %s; list them with ls or find in bash]", words)
	}
	return Piece{Title: title, Text: b.String()}
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// longestName is how long the name of an entry can be, in bytes. A file system
// allows 255, each of which takes four if it is quoted.
const longestName = 1024

// line shows an entry. A name with odd characters is quoted.
func (e Entry) line() string {
	name := escape.Name(e.Name)
	if len(name) > longestName {
		name = fmt.Sprintf("%.200q…", e.Name)
	}
	switch {
	case e.Mode.IsDir():
		return name + "/"
	case e.Mode&fs.ModeSymlink != 0:
		return name + "  (symbolic link)"
	case !e.Mode.IsRegular():
		return name + "  (no regular file)"
	case e.Size < 0:
		return name
	case e.Mode.Perm()&0o111 != 0:
		return fmt.Sprintf("%s  %s, executable", name, numeral.Count(e.Size, "byte"))
	}
	return fmt.Sprintf("%s  %s", name, numeral.Count(e.Size, "byte"))
}
