package callset

import (
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/x/pygent/internal/edit"
)

// file is what a patch does with one file.
type file struct {
	kind    kind
	path    string
	to      string // its new name; empty if it stays
	content string // of a new file
	hunks   []hunk // of one that changes
}

type kind int

const (
	update kind = iota
	create
	remove
)

// hunk is a change of some lines.
type hunk struct {
	context []string // lines, one after the other, behind which the place is
	lines   []line
	last    bool // at the end of the file
	ending  ending
	near    int // the line, from 0, near which the place is; for an insertion the lines before it, -1 for all

	insert  bool       // lines come after line near
	replace *edit.Edit // instead of lines; an empty old text is a new file
}

// ending tells whether the last line of a file will have an end, if the file ends with a hunk.
type ending int

const (
	endsAsBefore ending = iota
	endsClosed
	endsOpen
)

// line is a line of a hunk: ' ' for one that stays, '-' for one that goes, '+' for a new one.
type line struct {
	op   byte
	text string
}

// Marks of a patch.
const (
	begin = "*** Begin Patch"
	end   = "*** End Patch"
	atEnd = "*** End of File"

	noNewline = `\ No newline`
	moveTo    = "*** Move to:"
)

var sections = []struct {
	mark string
	kind kind
}{{"*** Add File:", create}, {"*** Delete File:", remove}, {"*** Update File:", update}}

// Bounds of a patch.
const (
	maxPatch   = 8 << 20 // bytes
	maxContext = 20      // lines of @@ before a change
)

// parse reads a patch in any of the forms. name is the file that it changes where the patch
// does not say.
func parse(patch, name string) ([]file, error) {
	if len(patch) > maxPatch {
		return nil, fmt.Errorf("the patch has more than %d bytes", maxPatch)
	}
	lines := strings.Split(strings.ReplaceAll(patch, "\r\n", "\n"), "\n")
	p := parser{lines: lines, name: name, last: len(lines) - 1}
	for p.last >= 0 && (strings.TrimSpace(lines[p.last]) == "" || strings.TrimSpace(lines[p.last]) == end) {
		p.last--
	}
	var err error
	switch form := formOf(lines); form {
	case "patch":
		err = p.patch()
	case "blocks":
		err = p.blocks()
	case "diff":
		err = p.diff()
	default:
		err = fmt.Errorf("this is no patch: it goes from %q to %q, with %q, %q or %q for each file", begin, end, "*** Update File: path", "*** Add File: path", "*** Delete File: path")
	}
	if err == nil {
		err = p.check()
	}
	return p.files, err
}

// formOf tells the form of a patch by its first mark.
func formOf(lines []string) string {
	for i, l := range lines {
		switch {
		case strings.TrimSpace(l) == begin, isSection(l):
			return "patch"
		case aSearch.MatchString(l):
			return "blocks"
		case strings.HasPrefix(l, "@@"), isDiffHeader(lines, i):
			return "diff"
		}
	}
	return ""
}

type parser struct {
	lines []string
	at    int // the line that is read
	last  int // the last one that is neither empty nor the end of a patch
	name  string
	files []file
}

func (p *parser) errorf(format string, values ...any) error {
	return fmt.Errorf("line %d of the patch: %s", p.at+1, fmt.Sprintf(format, values...))
}

// check refuses what cannot be meant.
func (p *parser) check() error {
	if len(p.files) == 0 {
		return errors.New("the patch changes no file")
	}
	if len(p.files) > maxCalls {
		return fmt.Errorf("the patch changes %d files, more than the %d that one may", len(p.files), maxCalls)
	}
	for i, f := range p.files {
		switch {
		case f.path == "":
			return errors.New("the patch names no file: write its path, such as *** Update File: path")
		case f.kind == update && len(f.hunks) == 0 && f.to == "":
			return fmt.Errorf("the patch changes nothing in %s: it has no lines that begin with + or -", f.path)
		case len(f.hunks) > edit.MaxEdits:
			return fmt.Errorf("the patch has %d changes of %s, more than the %d that one may", len(f.hunks), f.path, edit.MaxEdits)
		case slices.ContainsFunc(f.hunks, func(h hunk) bool { return len(h.context) > maxContext }):
			return fmt.Errorf("a change of %s has more than %d lines of @@", f.path, maxContext)
		case f.to == f.path:
			p.files[i].to = ""
		}
	}
	return nil
}

func isSection(l string) bool {
	for _, s := range sections {
		if strings.HasPrefix(l, s.mark) {
			return true
		}
	}
	return false
}

// patch reads what is between the marks. A patch with the first one only may be cut off. One
// without both is read to its end, and several are one.
func (p *parser) patch() error {
	open, closed := false, false
	for p.at < len(p.lines) {
		l := strings.TrimSpace(p.lines[p.at])
		switch {
		case l == begin:
			open = true
			p.at++
		case l == end:
			open, closed = false, true
			p.at++
		case isSection(l):
			if err := p.section(l); err != nil {
				return err
			}
		case l == "", strings.HasPrefix(l, "```"), !open && (closed || len(p.files) == 0): // words around it
			p.at++
		default:
			return p.errorf("%.80q belongs to no file: each begins with *** Update File: path, *** Add File: path or *** Delete File: path", l)
		}
	}
	if open {
		return fmt.Errorf("the patch has no %q at its end, so that it may be cut off", end)
	}
	return nil
}

// section reads what is done with one file.
func (p *parser) section(header string) error {
	p.at++
	for _, s := range sections {
		name, ok := strings.CutPrefix(header, s.mark)
		if !ok {
			continue
		}
		f := file{kind: s.kind, path: strings.TrimSpace(name)}
		var err error
		switch s.kind {
		case create:
			f.content, err = p.content()
		case update:
			err = p.update(&f)
		}
		p.files = append(p.files, f)
		return err
	}
	return nil
}

// isMark reports whether a line is one of the patch's own, which begin no line of a hunk.
func isMark(l string) bool {
	return strings.HasPrefix(l, "*** ") && (isSection(l) || strings.TrimSpace(l) == end || strings.TrimSpace(l) == atEnd || strings.HasPrefix(l, moveTo))
}

// content reads the lines of a new file. Models forget the + of empty ones.
func (p *parser) content() (string, error) {
	var b strings.Builder
	empty, open := 0, false
	for ; p.at < len(p.lines); p.at++ {
		l := p.lines[p.at]
		switch text, isNew := strings.CutPrefix(l, "+"); {
		case isNew:
			b.WriteString(strings.Repeat("\n", empty) + text + "\n")
			empty = 0
		case strings.TrimSpace(l) == "":
			empty++
		case strings.TrimSpace(l) == atEnd:
		case strings.HasPrefix(l, noNewline):
			open = true
		case isMark(l), strings.HasPrefix(l, "```"), strings.TrimSpace(l) == end:
			return ended(b.String(), open), nil
		default:
			return "", p.errorf("%.80q: each line of a new file begins with +", l)
		}
	}
	return ended(b.String(), open), nil
}

// update reads the hunks of a file.
func (p *parser) update(f *file) error {
	for p.at < len(p.lines) && f.to == "" {
		name, ok := strings.CutPrefix(p.lines[p.at], moveTo)
		if !ok {
			break
		}
		f.to = strings.TrimSpace(name)
		p.at++
	}
	return p.hunks(f, func(l string) bool { return isMark(l) || strings.TrimSpace(l) == end && p.restIsEmpty() })
}

// unified is the header of a hunk in a unified diff.
var unified = regexp.MustCompile(`^@@+ -(\d+)(?:,(\d+))? \+\d+(?:,\d+)? @@+`)

// hunks reads hunks to a line that ends them.
func (p *parser) hunks(f *file, ends func(string) bool) error {
	h := hunk{near: -1}
	add := func() {
		stays := func(l line) bool { return l.op != '+' }
		if h.insert && slices.ContainsFunc(h.lines, func(l line) bool { return stays(l) && l != line{' ', ""} }) {
			h.insert, h.near = false, h.near-1 // the number is wrong
		}
		if h.insert {
			h.lines = slices.DeleteFunc(h.lines, stays) // empty lines behind it
		}
		if len(h.lines) > 0 {
			f.hunks = append(f.hunks, h)
		}
		h = hunk{near: -1}
	}
	for ; p.at < len(p.lines); p.at++ {
		l := p.lines[p.at]
		switch {
		case strings.TrimSpace(l) == atEnd:
			h.last = len(h.lines) > 0
			add()
		case strings.HasPrefix(l, "@@"):
			if len(h.lines) > 0 {
				add()
			}
			h.header(l)
		case ends(l), strings.HasPrefix(l, "```") && p.restIsEmpty():
			add()
			return nil
		case l == "":
			if len(h.lines) > 0 || len(h.context) > 0 {
				h.lines = append(h.lines, line{' ', ""})
			}
		case strings.IndexByte(" +-", l[0]) >= 0:
			h.lines = append(h.lines, line{l[0], l[1:]})
		case strings.HasPrefix(l, noNewline):
			if h.ending = endsOpen; len(h.lines) > 0 && h.lines[len(h.lines)-1].op == '-' {
				h.ending = endsClosed // only what goes has no end
			}
		default:
			return p.errorf("%.80q: each line of a change begins with a blank if it stays, with - if it goes, and with + if it is new", l)
		}
	}
	add()
	return nil
}

// restIsEmpty reports whether nothing follows a line. The fence of a code block, or an end
// of a patch with blanks before it, may also be text.
func (p *parser) restIsEmpty() bool { return p.at >= p.last }

// header reads "@@", "@@ class A", and "@@ -1,2 +3,4 @@".
func (h *hunk) header(l string) {
	if m := unified.FindStringSubmatch(l); m != nil {
		fmt.Sscan(m[1], &h.near) // digits only
		h.insert = m[2] == "0"   // "@@ -3,0 +4 @@" adds after line 3
		if !h.insert {
			h.near--
		}
		return
	}
	text := strings.TrimPrefix(strings.TrimPrefix(l, "@@"), " ")
	text = strings.TrimSuffix(strings.TrimRight(text, " \t"), " @@")
	if strings.Trim(text, " .@") != "" {
		h.context = append(h.context, text)
	}
}

// isDiffHeader reports whether the two names of a unified diff stand at a line.
func isDiffHeader(lines []string, at int) bool {
	return at+1 < len(lines) && strings.HasPrefix(lines[at], "--- ") && strings.HasPrefix(lines[at+1], "+++ ")
}

// diff reads a unified diff.
func (p *parser) diff() error {
	for p.at < len(p.lines) {
		l := p.lines[p.at]
		f := file{path: p.name}
		switch {
		case strings.HasPrefix(l, "rename ") || strings.HasPrefix(l, "copy ") || strings.HasPrefix(l, "GIT binary"):
			return p.errorf("%.80q cannot be done by a diff here: use mv or cp in bash", l)
		case isDiffHeader(p.lines, p.at):
			before, after := diffName(l[4:]), diffName(p.lines[p.at+1][4:])
			f.path = after
			if b, ok := strings.CutPrefix(after, "b/"); ok && (before == "/dev/null" || strings.HasPrefix(before, "a/")) {
				f.path = b
			}
			if before == "/dev/null" {
				f.kind = create
			}
			if after == "/dev/null" {
				f.kind, f.path = remove, strings.TrimPrefix(before, "a/")
			}
			p.at += 2
		case !strings.HasPrefix(l, "@@"):
			p.at++ // the lines of git
			continue
		}
		ends := func(l string) bool {
			return strings.HasPrefix(l, "diff --git ") || isDiffHeader(p.lines, p.at) && p.at+2 < len(p.lines) && strings.HasPrefix(p.lines[p.at+2], "@@")
		}
		if err := p.hunks(&f, ends); err != nil {
			return err
		}
		if f.kind == create {
			f.content, f.hunks = newContent(f.hunks), nil
		}
		p.files = append(p.files, f)
	}
	return nil
}

func diffName(text string) string {
	name, _, _ := strings.Cut(text, "\t")
	return strings.TrimSpace(name)
}

func newContent(hunks []hunk) string {
	var b strings.Builder
	open := false
	for _, h := range hunks {
		open = h.ending == endsOpen
		for _, l := range h.lines {
			if l.op == '+' {
				b.WriteString(l.text + "\n")
			}
		}
	}
	return ended(b.String(), open)
}

// ended returns a text whose last line has no end if it is open.
func ended(text string, open bool) string {
	if open {
		return strings.TrimSuffix(text, "\n")
	}
	return text
}

// Marks of blocks of SEARCH and REPLACE.
var (
	aSearch  = regexp.MustCompile(`^(?:<{5,9}|-{5,9}) SEARCH>?\s*$`)
	aDivider = regexp.MustCompile(`^={5,9}\s*$`)
	aReplace = regexp.MustCompile(`^(?:>{5,9}|\+{5,9}) REPLACE\s*$`)
	aRemark  = regexp.MustCompile(`^:(start|end)_line:\s*\d+\s*$`)
	aRule    = regexp.MustCompile(`^-{5,9}\s*$`)
)

// blocks reads blocks of SEARCH and REPLACE. The path of each stands before it, or is that
// of the block before.
func (p *parser) blocks() error {
	name, from := p.name, 0
	for ; p.at < len(p.lines); p.at++ {
		if !aSearch.MatchString(p.lines[p.at]) {
			continue
		}
		if above := nameAbove(p.lines[from:p.at]); above != "" {
			name = above
		}
		p.at++
		for p.at < len(p.lines) && aRemark.MatchString(p.lines[p.at]) {
			p.at++
			if p.at < len(p.lines) && aRule.MatchString(p.lines[p.at]) {
				p.at++
			}
		}
		old, ok1 := p.upTo(aDivider)
		new, ok2 := p.upTo(aReplace)
		if !ok1 || !ok2 {
			return p.errorf("a block goes from <<<<<<< SEARCH over ======= to >>>>>>> REPLACE, and this one does not, so that it may be cut off")
		}
		p.at--
		from = p.at + 1
		h := hunk{replace: &edit.Edit{Old: old, New: new}}
		if n := len(p.files) - 1; n >= 0 && p.files[n].path == name {
			p.files[n].hunks = append(p.files[n].hunks, h)
			continue
		}
		p.files = append(p.files, file{path: name, hunks: []hunk{h}})
	}
	return nil
}

// upTo returns the lines before one that ends them, and goes behind that.
func (p *parser) upTo(ends *regexp.Regexp) (text string, ok bool) {
	var b strings.Builder
	for ; p.at < len(p.lines); p.at++ {
		if ends.MatchString(p.lines[p.at]) {
			p.at++
			return b.String(), true
		}
		b.WriteString(p.lines[p.at] + "\n")
	}
	return "", false
}

// nameAbove returns the path in the line above a block, or above the fence before it.
func nameAbove(lines []string) string {
	for n := 1; n <= min(len(lines), 3); n++ {
		l := strings.TrimSpace(lines[len(lines)-n])
		if l == "" || strings.HasPrefix(l, "```") || aReplace.MatchString(l) {
			continue
		}
		l = strings.Trim(strings.TrimSuffix(l, ":"), "`*# \t")
		if strings.Contains(l, " ") && path.Ext(l) == "" {
			return ""
		}
		return l
	}
	return ""
}
