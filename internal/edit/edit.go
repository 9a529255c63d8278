// Package edit changes a text in the way that models ask for: old text to be
// replaced, and new text to put in its place. Where the old text is not found, it
// says what comes nearest to it. Texts are hostile: the work is proportional to
// their length.
package edit

import (
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"
	"unicode/utf8"

	"github.com/x/pygent/internal/numeral"
)

// Edit is a text to be replaced. It must occur exactly once, or with All at least
// once.
type Edit struct {
	Old, New string
	All      bool
}

// Applied is what edits have made of a text.
type Applied struct {
	Text  string
	Count int    // how many pieces were replaced
	Where string // the lines, as "at lines 3, 8 and 12"
	Line  int    // the first of them
	Shown string // the changed lines with their numbers and some around them
	Notes []string
}

// Bounds of edits.
const (
	// MaxEdits is how many edits can be made at once.
	MaxEdits = 100
	// MaxText is how long a text can become, in bytes.
	MaxText = 64 << 20

	maxFailures = 3 // edits of which it is said why they fail
	maxMatches  = 1 << 20
	bom         = "\ufeff"
)

// Apply makes edits one after another, each in the text that the ones before have
// left. If one fails, none is made, and the error tells of all that fail, up to
// maxFailures.
//
// Models write LF, and no blanks that nobody sees. If the old text does not occur
// as given, Apply looks for it with other line ends and other blanks at line ends,
// and without the numbers of lines that a model has copied. Lines that are the
// same in the old and the new text stay as they are then. The new text gets the
// line ends of its surroundings, unless the old one was given with CRLF and occurs:
// then the model minds line ends.
func Apply(text string, edits []Edit) (Applied, error) {
	if err := Check(edits); err != nil {
		return Applied{}, err
	}
	mark := ""
	if strings.HasPrefix(text, bom) && !slices.ContainsFunc(edits, func(e Edit) bool { return strings.Contains(e.Old, bom) }) {
		mark, text = bom, text[len(bom):]
	}
	w := work{text: text}
	var failed []error
	for i, e := range edits {
		err := w.apply(e)
		if err != nil && len(edits) > 1 {
			err = fmt.Errorf("edit %d of %d: %w", i+1, len(edits), err)
		}
		if err != nil {
			failed = append(failed, err)
		}
		if len(failed) >= maxFailures {
			break
		}
	}
	if len(failed) > 0 {
		return Applied{}, fmt.Errorf("%w\n[nothing was changed]", errors.Join(failed...))
	}
	if !utf8.ValidString(text) && slices.ContainsFunc(edits, func(e Edit) bool { return !isASCII(e.New) }) {
		w.notes = append(w.notes, "the file is not UTF-8, but what is new in it is; convert the file with iconv in bash if it should be one or the other")
	}
	return w.applied(mark), nil
}

func isASCII(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r >= utf8.RuneSelf }) < 0
}

// Check refuses edits that cannot be meant, whatever the text.
func Check(edits []Edit) error {
	if len(edits) == 0 {
		return errors.New("old_text is missing; to create a file or to write it anew, use write_file")
	}
	if len(edits) > MaxEdits {
		return fmt.Errorf("%d edits are too many for one call: at most %d", len(edits), MaxEdits)
	}
	for i, e := range edits {
		var err error
		switch {
		case e.Old == "":
			err = errors.New("old_text is empty; to create a file or to add to its end, use write_file")
		case e.Old == e.New:
			err = errors.New("old_text and new_text are the same; nothing to do")
		}
		if err != nil && len(edits) > 1 {
			err = fmt.Errorf("edit %d of %d: %w", i+1, len(edits), err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// work is a text that is being edited.
type work struct {
	text  string
	count int
	spans []span // changed pieces, as far as they are shown
	notes []string
}

// span is a piece of a text.
type span struct{ from, to int }

// Bounds of what is remembered of changes.
const (
	maxSpans     = 64
	spansPerEdit = 16
)

func (w *work) apply(e Edit) error {
	found, err := find(w.text, e)
	if err != nil {
		return err
	}
	if !e.All && len(found.at) > 1 {
		return ambiguous(w.text, found.at)
	}
	if found.note != "" {
		w.notes = append(w.notes, found.note)
	}
	return w.replace(&found)
}

// replace puts the new text in the place of what was found.
func (w *work) replace(found *matches) error {
	if size := len(w.text) + len(found.at)*len(found.new); size > MaxText {
		return fmt.Errorf("the file would become too long: up to %s bytes", numeral.Grouped(size))
	}
	var b strings.Builder
	after := make([]span, 0, len(found.at))
	last := 0
	for i, at := range found.at {
		from, new := found.place(at)
		from = max(from, last) // the piece before may end between CR and LF
		b.WriteString(w.text[last:from])
		begin := b.Len()
		b.WriteString(new)
		after = append(after, span{begin, b.Len()})
		found.at[i].from = from
		last = at.to
	}
	b.WriteString(w.text[last:])
	w.move(found.at, after)
	w.spans = append(w.spans, after[:min(len(after), spansPerEdit, max(maxSpans-len(w.spans), 0))]...)
	w.text = b.String()
	w.count += len(after)
	return nil
}

// move adjusts the remembered spans to a change of pieces before to pieces after.
func (w *work) move(before, after []span) {
	to := func(at int) int {
		n := sort.Search(len(before), func(i int) bool { return before[i].to > at })
		if n < len(before) && before[n].from < at {
			return after[n].from // it was inside of what is replaced
		}
		if n == 0 {
			return at
		}
		return at - before[n-1].to + after[n-1].to
	}
	for i, s := range w.spans {
		from := to(s.from)
		w.spans[i] = span{from, max(from, to(s.to))}
	}
}

func (w *work) applied(mark string) Applied {
	sort.Slice(w.spans, func(i, j int) bool { return w.spans[i].from < w.spans[j].from })
	lines := numbersOf(w.text, w.spans)
	return Applied{
		Text: mark + w.text, Count: w.count, Line: lines[0],
		Where: "at " + listOf(lines, w.count), Shown: show(w.text, w.spans), Notes: w.notes,
	}
}

// numbersOf returns the numbers of the lines on which spans begin, which are in
// order.
func numbersOf(text string, spans []span) []int {
	numbers := make([]int, len(spans))
	line, at := 1, 0
	for i, s := range spans {
		line += strings.Count(text[at:s.from], "\n")
		at = s.from
		numbers[i] = line
	}
	return numbers
}

// shownNumbers is how many lines are named.
const shownNumbers = 10

// listOf names lines, in order: "lines 3, 8 and 12". total is how many there are,
// if they are not all.
func listOf(lines []int, total int) string {
	var names []string
	last := 0
	for _, n := range lines {
		if n != last {
			names = append(names, fmt.Sprint(n))
		}
		last = n
	}
	word := "lines "
	if len(names) == 1 {
		word = "line "
	}
	if more := total - len(lines); more > 0 || len(names) > shownNumbers {
		shown := names[:min(len(names), shownNumbers)]
		return fmt.Sprintf("%s%s and %s more", word, strings.Join(shown, ", "), numeral.Grouped(total-len(shown)))
	}
	if n := len(names); n > 1 {
		names = []string{strings.Join(names[:n-1], ", ") + " and " + names[n-1]}
	}
	return word + names[0]
}

// ambiguous is the error for an old text that occurs more than once.
func ambiguous(text string, at []span) error {
	shown := at[:min(len(at), shownNumbers)]
	return fmt.Errorf("old_text occurs %s times, on %s; add lines around it to make it unique, or set replace_all",
		numeral.Grouped(len(at)), listOf(numbersOf(text, shown), len(at)))
}
