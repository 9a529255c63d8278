package survey

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/x/pygent/internal/pathname"
	"github.com/x/pygent/internal/tempname"
)

// Bounds of a listing.
const (
	maxListing  = 1000 // bytes of the top level
	maxInside   = 600  // bytes up to which directories are shown with what is in them
	mostCounted = 1000 // entries of one directory that are counted
	mostOpened  = 48   // directories that are looked into
	longestName = 80   // bytes of one name
)

// closed are directories of which only the number of entries is shown, besides those of
// caches: they say little about a project.
var closed = []string{"vendor", pathname.Target, "dist", "build"}

// Entry is a file or directory.
type Entry struct {
	Name string
	Dir  bool
}

// ListFunc returns the entries of a directory, at most limit of them; more says
// that there are others.
type ListFunc func(ctx context.Context, dir string, limit int) (entries []Entry, more bool, err error)

// Listing returns what a workspace holds, an entry a line, directories first: the top level,
// each directory with the number of its entries, and what is in the first
// directories as long as there is room. .git is left out. The listing of an empty
// workspace is empty. The error is that of the top level.
func Listing(ctx context.Context, list ListFunc) (string, error) {
	l := lister{list: list}
	top, more, err := l.entries(ctx, ".")
	if err != nil {
		return "", err
	}
	var b strings.Builder
	shown := make([]line, 0, len(top))
	for _, e := range top {
		line := l.line(ctx, ".", e)
		if l.size += len(line.text); l.size > maxListing {
			break
		}
		shown = append(shown, line)
	}
	left := len(top) - len(shown)
	for _, line := range shown {
		b.WriteString(line.text)
		if left == 0 && !more {
			b.WriteString(l.inside(ctx, line))
		}
	}
	if left > 0 || more {
		b.WriteString("and " + number(left, more) + " more\n")
	}
	return strings.TrimSuffix(b.String(), "\n"), nil
}

// lister makes a listing.
type lister struct {
	list   ListFunc
	opened int // directories looked into
	size   int // bytes of the listing
}

// line is an entry of the listing, and what is in it.
type line struct {
	text   string
	path   string
	inside []Entry // of a directory that may be shown with its entries
}

// entries returns what is in a directory, the directories first, each sorted by name.
func (l *lister) entries(ctx context.Context, dir string) ([]Entry, bool, error) {
	l.opened++
	entries, more, err := l.list(ctx, dir, mostCounted)
	if err != nil {
		return nil, false, err
	}
	entries = slices.DeleteFunc(slices.Clone(entries), func(e Entry) bool { return e.Name == ".git" || tempname.Is(e.Name) })
	slices.SortFunc(entries, func(a, b Entry) int {
		if a.Dir != b.Dir { // of a long listing the end is cut off, and files say less
			return map[bool]int{true: -1, false: 1}[a.Dir]
		}
		return strings.Compare(a.Name, b.Name)
	})
	return entries, more, nil
}

// line describes one entry of dir.
func (l *lister) line(ctx context.Context, dir string, e Entry) line {
	text := Name(e.Name)
	if !e.Dir {
		return line{text: text + "\n"}
	}
	text += "/"
	where := path.Join(dir, e.Name)
	if l.opened >= mostOpened {
		return line{text: text + "\n"}
	}
	inside, more, err := l.entries(ctx, where)
	if err != nil {
		return line{text: text + "\n"}
	}
	text += " (" + number(len(inside), more) + ")\n"
	if more || strings.HasPrefix(e.Name, ".") || pathname.IsCache(e.Name) || slices.Contains(closed, e.Name) {
		inside = nil
	}
	return line{text: text, path: where, inside: inside}
}

// inside describes what is in a directory. It is empty if there is no room for
// all of that.
func (l *lister) inside(ctx context.Context, dir line) string {
	if len(dir.inside) > maxInside/4 {
		return ""
	}
	var b strings.Builder
	for _, e := range dir.inside {
		b.WriteString("  " + l.line(ctx, dir.path, e).text)
		if l.size+b.Len() > maxInside {
			return ""
		}
	}
	l.size += b.Len()
	return b.String()
}

// number writes a number that may be too small.
func number(n int, more bool) string {
	if more {
		return fmt.Sprintf("at least %d", n)
	}
	return strconv.Itoa(n)
}

// Name returns the name of a file as Quote does, but cuts a long one.
func Name(name string) string {
	text := Quote(name)
	if len(text) <= longestName {
		return text
	}
	cut := longestName
	for !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + "…"
}

// Quote returns the name of a file as a text of one line that cannot be mistaken
// for anything else: one with control characters, invisible ones, or marks that
// quote and tag, is a Go string literal.
func Quote(name string) string {
	if isPlain(name) {
		return name
	}
	return strings.NewReplacer("<", `\x3c`, ">", `\x3e`).Replace(strconv.QuoteToGraphic(name))
}

// isPlain reports whether a name may be shown as it is.
func isPlain(name string) bool {
	if name == "" || name[0] == ' ' || strings.HasSuffix(name, " ") || strings.Contains(name, "  ") {
		return false
	}
	for _, r := range name {
		switch {
		case r == utf8.RuneError, strings.ContainsRune("<>\"`\\", r), r != ' ' && !unicode.IsGraphic(r), unicode.Is(unicode.Zs, r) && r != ' ':
			return false
		}
	}
	return true
}
