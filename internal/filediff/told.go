package filediff

import (
	"strings"

	"github.com/x/pygent/internal/cut"
	"github.com/x/pygent/internal/numeral"
	"github.com/x/pygent/internal/survey"
)

// Bounds of what is said of files.
const (
	maxListed = 1500 // bytes of the files' names and sizes, for a model
	maxNamed  = 5    // files in a line
	maxName   = 200  // bytes of one
)

// notAll says that a workspace without a change may have some.
const notAll = "Its workspace was not looked through to the end: there may be changed files for collect_file that nobody was told of."

// Told are the files of which somebody is told.
type Told struct {
	Changes []Change
	More    int  // how many there are besides
	Partial bool // the workspace could not be looked through: there may be others
}

// List is the files for a model, one in a line below a heading; empty for none.
func (t Told) List(heading string) string {
	switch {
	case len(t.Changes) == 0 && t.Partial:
		return notAll
	case len(t.Changes) == 0:
		return ""
	}
	var b strings.Builder
	b.WriteString(heading)
	shown, size := 0, 0
	for _, c := range t.Changes {
		line := survey.Quote(c.Path) + " (" + c.about() + ")"
		if size += len(line); size > maxListed {
			break
		}
		shown++
		b.WriteString("\n- " + line)
	}
	switch more := t.More + len(t.Changes) - shown; {
	case t.Partial:
		b.WriteString("\n- and perhaps more, not all was looked through")
	case more > 0:
		b.WriteString("\n- and " + numeral.Count(more, "other file"))
	}
	return b.String()
}

// about is what is known of a file.
func (c Change) about() string {
	size := numeral.Count(c.Size, "byte")
	switch c.Kind {
	case Removed:
		return string(Removed)
	case Same:
		return size
	}
	return string(c.Kind) + ", " + size
}

// Named names the files that are new or changed, in a line for people: "a, b and 3 others".
// It is empty for none.
func (t Told) Named() string {
	var names []string
	for _, c := range t.Changes {
		if c.Kind == New || c.Kind == Changed {
			names = append(names, cut.Line(survey.Quote(c.Path), maxName))
		}
	}
	all := len(names) == len(t.Changes) // so that the others may be new or changed, too
	if all && t.Partial && len(names) > 0 && len(names) <= maxNamed {
		return strings.Join(names, ", ") + " and perhaps others"
	}
	return numeral.Some(names, maxNamed, all && len(names) > 0 && (t.Partial || t.More > 0))
}
