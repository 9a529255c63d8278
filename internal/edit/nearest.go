package edit

import (
	"errors"
	"fmt"
	"hash/maphash"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/x/pygent/internal/cut"
	"github.com/x/pygent/internal/filetext"
)

// Bounds of the search for the nearest passage. It goes through the text a few
// times, whatever is in it.
const (
	maxSearched  = 8 << 20 // bytes of a text that is searched
	maxOldLines  = 2000    // lines of the old text that are looked for
	maxSameLines = 4       // places of the same line in the old text
	maxFolded    = 400     // bytes of a line that are compared
	passageLines = 12      // lines of a passage that are shown
	minAlike     = 0.5     // the part of a line that must occur in another
	minKnown     = 8       // bytes of a new text that is recognised
)

// notFound is the error for an old text that does not occur. It shows what comes
// nearest.
func notFound(text string, e Edit) error {
	const missing = "old_text does not occur in the file"
	if at := strings.Index(text, e.New); at >= 0 && len(strings.TrimSpace(e.New)) >= minKnown {
		return fmt.Errorf("%s, but new_text does, on line %d: was this edit made before?", missing, lineAt(text, at))
	}
	if len(text) > maxSearched || !filetext.IsText([]byte(cut.Head(text, maxFolded))) {
		return errors.New(missing + "; look for the text with grep in bash, and copy it exactly")
	}
	if unescaped := unescape.Replace(e.Old); unescaped != e.Old {
		if found, err := findText(text, Edit{Old: unescaped, New: e.New}); err == nil && len(found.at) == 1 {
			return fmt.Errorf(`%s, because it has escapes such as \n or \" written out: with real line ends and quotes it occurs on line %d`, missing, lineAt(text, found.at[0].from))
		}
	}
	near := nearest(text, e.Old)
	if near == "" {
		return errors.New(missing + ", and nothing like it; read the file and copy the text exactly")
	}
	return errors.New(missing + ". " + near)
}

// unescape undoes escapes that were written twice.
var unescape = strings.NewReplacer(`\n`, "\n", `\t`, "\t", `\"`, `"`, `\'`, `'`, `\\`, `\`)

// lineAt returns the number, from 1, of the line that contains byte at.
func lineAt(text string, at int) int { return 1 + strings.Count(text[:at], "\n") }

// nearest describes the passage of a text that is most like old, or returns "".
func nearest(text, old string) string {
	wanted := linesOf(strings.Trim(old, "\r\n"))
	wanted = wanted[:min(len(wanted), maxOldLines)]
	lines := linesOf(text)
	begin, ok := byLines(lines, wanted)
	if !ok {
		begin, ok = byParts(lines, wanted)
	}
	if !ok {
		return ""
	}
	return describe(lines, begin, wanted)
}

// linesOf returns the lines of a text without their ends.
func linesOf(text string) []string {
	end := "\n"
	if crAlone(text) {
		end = "\r"
	}
	lines := strings.Split(strings.TrimSuffix(text, end), end)
	for i, line := range lines {
		lines[i] = strings.TrimRight(line, blanks)
	}
	return lines
}

// byLines finds the place where most lines of the wanted ones are, whatever their
// white space, quotes and case. It returns the index of the line that stands for
// the first wanted one, which may be before the first line.
func byLines(lines, wanted []string) (begin int, ok bool) {
	seed := maphash.MakeSeed()
	places := make(map[uint64][]int, len(wanted))
	weight := make([]int, len(wanted))
	for i, line := range wanted {
		folded := fold(line)
		if weight[i] = len(folded); len(folded) == 0 {
			continue
		}
		if h := maphash.String(seed, folded); len(places[h]) < maxSameLines {
			places[h] = append(places[h], i)
		}
	}
	votes := make([]int32, len(lines)+len(wanted))
	best, most := 0, int32(0)
	for i, line := range lines {
		folded := fold(line)
		if folded == "" {
			continue
		}
		for _, at := range places[maphash.String(seed, folded)] {
			n := i - at + len(wanted)
			votes[n] += int32(min(weight[at], maxFolded))
			if votes[n] > most {
				best, most = n, votes[n]
			}
		}
	}
	return best - len(wanted), most > minKnown || most > 0 && len(wanted) == 1
}

// byParts finds the line that shares most with the longest wanted line.
func byParts(lines, wanted []string) (begin int, ok bool) {
	key, at := "", 0
	for i, line := range wanted {
		if folded := fold(line); len(folded) > len(key) {
			key, at = folded, i
		}
	}
	if len(key) < 3 {
		return 0, false
	}
	var in [1 << 16]bool
	parts := 0
	for i := 0; i+3 <= len(key); i++ {
		if h := part(key[i:]); !in[h] {
			in[h] = true
			parts++
		}
	}
	best, found := 0.0, 0
	seen := [1 << 16]int32{}
	for i, line := range lines {
		folded := fold(line)
		shared := 0
		for j := 0; j+3 <= len(folded); j++ {
			if h := part(folded[j:]); in[h] && seen[h] != int32(i+1) {
				seen[h] = int32(i + 1)
				shared++
			}
		}
		alike := float64(shared)/float64(parts) - float64(len(folded))/1e6 // of two, the shorter one
		if alike > best {
			best, found = alike, i
		}
	}
	return found - at, best >= minAlike
}

// part returns a small number for three bytes.
func part(s string) uint16 {
	return uint16(s[0])*7919 ^ uint16(s[1])*251 ^ uint16(s[2])<<3
}

// fold returns the beginning of a line without what models get wrong: white space,
// kinds of quotes and dashes, case.
func fold(line string) string {
	var b strings.Builder
	for _, r := range cut.Head(line, maxFolded) {
		if !unicode.IsSpace(r) {
			b.WriteRune(unicode.ToLower(straight(r)))
		}
	}
	return b.String()
}

// straight returns the plain form of quotes, dashes and blanks.
func straight(r rune) rune {
	switch r {
	case '‘', '’', '‚', '′', '`', '´':
		return '\''
	case '“', '”', '„', '″', '«', '»':
		return '"'
	case '‐', '‑', '‒', '–', '—', '−':
		return '-'
	case '\u00a0', '\u2007', '\u202f':
		return ' '
	}
	return r
}

// describe shows the lines that stand for the wanted ones, and how they differ.
func describe(lines []string, begin int, wanted []string) string {
	from, to := max(begin, 0), min(begin+len(wanted), len(lines))
	var differ differences
	first := -1
	for i := from; i < to; i++ {
		if differ.add(lines[i], wanted[i-begin]) && first < 0 {
			first = i
		}
	}
	if first < 0 {
		first = from
	}
	at := fmt.Sprintf("line %d", from+1)
	if to-from > 1 {
		at = fmt.Sprintf("lines %d–%d", from+1, to)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "The nearest passage is %s", at)
	if words := differ.words(); words != "" {
		fmt.Fprintf(&b, ", which differs in %s", words)
	}
	fmt.Fprintf(&b, ":\n")
	if first-from > passageLines/2 {
		from = first - passageLines/2
		b.WriteString(gap)
	}
	for i := from; i < min(to, from+passageLines); i++ {
		b.WriteString(filetext.Line(i+1, lines[i], lineBytes))
	}
	if from+passageLines < to {
		b.WriteString(gap)
	}
	if n := first - begin; n >= 0 && n < len(wanted) && lines[first] != wanted[n] {
		fmt.Fprintf(&b, "In line %d the file has %s, and old_text has %s.", first+1, quoted(lines[first]), quoted(wanted[n]))
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func quoted(line string) string {
	short := cut.Head(line, lineBytes)
	if short != line {
		return fmt.Sprintf("%q…", short)
	}
	return fmt.Sprintf("%q", short)
}

// differences are how lines of the file differ from those of the old text.
type differences struct {
	tabs, spaces, indent, inner, quotes, letters, other bool
}

// add compares a line of the file with one of the old text, without the blanks at
// their ends. It returns false if they are the same.
func (d *differences) add(line, old string) bool {
	if line == old {
		return false
	}
	a, b := strings.TrimLeft(line, " \t"), strings.TrimLeft(old, " \t")
	before, begins := line[:len(line)-len(a)], old[:len(old)-len(b)]
	switch {
	case before == begins:
	case strings.Contains(before, "\t") && !strings.Contains(begins, "\t") && begins != "":
		d.tabs = true
	case strings.Contains(begins, "\t") && !strings.Contains(before, "\t") && before != "":
		d.spaces = true
	default:
		d.indent = true
	}
	switch {
	case a == b:
	case withoutSpace(a) == withoutSpace(b):
		d.inner = true
	case withoutSpace(strings.Map(straight, a)) == withoutSpace(strings.Map(straight, b)):
		d.quotes = true
	case strings.EqualFold(a, b):
		d.letters = true
	default:
		d.other = true
	}
	return true
}

func withoutSpace(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) && r < utf8.RuneSelf {
			return -1
		}
		return r
	}, s)
}

// words names the differences.
func (d differences) words() string {
	var all []string
	for _, w := range []struct {
		is   bool
		text string
	}{
		{d.tabs, "its indentation (tabs in the file, spaces in old_text)"},
		{d.spaces, "its indentation (spaces in the file, tabs in old_text)"},
		{d.indent, "its indentation"},
		{d.inner, "white space within lines"},
		{d.quotes, "kinds of quotes, dashes or blanks"},
		{d.letters, "capital letters"},
		{d.other, "its words"},
	} {
		if w.is {
			all = append(all, w.text)
		}
	}
	return strings.Join(all, " and ")
}
