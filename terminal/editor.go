package terminal

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/rivo/uniseg"

	"github.com/x/pygent/internal/livearea"
)

// Bounds of what is typed.
const (
	// maxDraft is the longest message, in bytes.
	maxDraft = 4 << 20
	// shownPaste and shownPasteLines are how long a paste may be that is shown as it
	// is. A mark stands for a longer one, up to the end.
	shownPaste      = 1000
	shownPasteLines = 8
	// maxPastes is how many pastes a draft may have marks for.
	maxPastes = 1000
	// maxShown is how long a draft may be besides its pastes. It is laid out for
	// each frame. Of a longer one, which nobody has typed, a part gets a mark.
	maxShown = 32 << 10
	// maxUndo is how many earlier states of the draft are kept.
	maxUndo = 100
)

// firstMark is the first of the characters that stand for pastes in a draft. They
// are private ones that mean nothing; typed ones are replaced.
const firstMark = '\U000F0000'

// editor is the draft of a message. Its text is edited by the characters that a
// person sees (grapheme clusters).
type editor struct {
	text   string   // with marks for long pastes
	cursor int      // in bytes
	pastes []string // those with marks in text, and those that undo brings back
	killed string   // what Ctrl-W and the like took away, for Ctrl-Y; without marks

	undo   []draft
	typing bool // the last change was typing, which is undone at once
}

// draft is a state of the editor.
type draft struct {
	text   string
	cursor int
}

func (e *editor) empty() bool { return e.text == "" }

// message returns the text with the pastes in it.
func (e *editor) message() string { return e.expand(e.text) }

// expand returns a part of the text with the pastes in it.
func (e *editor) expand(text string) string {
	if len(e.pastes) == 0 {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if paste, ok := e.paste(r); ok {
			b.WriteString(paste)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

func (e *editor) paste(r rune) (string, bool) {
	if i := int(r - firstMark); r >= firstMark && i < len(e.pastes) {
		return e.pastes[i], true
	}
	return "", false
}

// fits reports whether so many bytes more are not too much. The marks are looked for
// only if all pastes together, those of earlier states too, could be.
func (e *editor) fits(n int) bool {
	most := len(e.text) + n
	for _, paste := range e.pastes {
		most += len(paste)
	}
	return most <= maxDraft || e.size()+n <= maxDraft
}

// size is the length of the message in bytes.
func (e *editor) size() int {
	n := len(e.text)
	if len(e.pastes) == 0 {
		return n
	}
	for _, r := range e.text {
		paste, _ := e.paste(r)
		n += len(paste)
	}
	return n
}

// set replaces everything, with the cursor at the end.
func (e *editor) set(text string) {
	e.remember(false)
	if text = typed(text); len(text) > maxShown {
		text = e.mark(text)
	}
	e.text, e.cursor = text, len(text)
}

// clear forgets everything.
func (e *editor) clear() { *e = editor{killed: e.killed} }

// append takes over the draft of another editor, in a line below its own. The
// other one has none then.
func (e *editor) append(other *editor) {
	switch {
	case other.empty():
		return
	case e.empty():
		*e = *other
	default:
		e.cursor = len(e.text)
		e.insertPaste("\n" + other.message())
	}
	other.clear()
}

// insert adds what was typed at the cursor. It reports false if that would be too
// much.
func (e *editor) insert(text string) bool {
	text = typed(text)
	if !e.fits(len(text)) {
		return false
	}
	e.remember(text != "\n")
	e.put(text)
	return true
}

// insertPaste adds a paste. A long one gets a mark.
func (e *editor) insertPaste(text string) bool {
	text = typed(text)
	if !e.fits(len(text)) {
		return false
	}
	e.remember(false)
	if (len(text) > shownPaste || strings.Count(text, "\n") >= shownPasteLines) && len(e.pastes) < maxPastes {
		text = e.mark(text)
	}
	e.put(text)
	return true
}

// mark keeps a paste, and returns the mark that stands for it.
func (e *editor) mark(paste string) string {
	kept := len(paste)
	for _, p := range e.pastes {
		kept += len(p)
	}
	if kept > 2*maxDraft || len(e.pastes) == maxPastes {
		e.forget()
	}
	e.pastes = append(e.pastes, paste)
	return string(firstMark + rune(len(e.pastes)-1))
}

// forget drops the earlier states of the draft, and the pastes that only they have.
func (e *editor) forget() {
	var pastes []string
	e.text = strings.Map(func(r rune) rune {
		paste, ok := e.paste(r)
		if !ok {
			return r
		}
		pastes = append(pastes, paste)
		return firstMark + rune(len(pastes)-1)
	}, e.text) // all marks have the same length, so that the cursor stays
	e.pastes, e.undo, e.typing = pastes, nil, false
}

func (e *editor) put(text string) {
	e.text = e.text[:e.cursor] + text + e.text[e.cursor:]
	e.cursor += len(text)
	if len(e.text) > maxShown {
		e.fold()
	}
}

// fold puts a mark in the place of the text before the cursor, or of that after it
// if that is longer.
func (e *editor) fold() {
	folded, rest := e.text[:e.cursor], e.text[e.cursor:]
	ahead := len(folded) >= len(rest)
	if !ahead {
		folded, rest = rest, folded
	}
	whole := e.expand(folded)
	e.text = rest
	e.forget()
	mark := e.mark(whole)
	if ahead {
		e.text, e.cursor = mark+e.text, len(mark)
	} else {
		e.text += mark
	}
}

// typed returns a text as a draft may have it: with LF as line ends, and without
// other control characters and the marks of pastes.
func typed(text string) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	text = strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\r", "\n")
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case unicode.IsControl(r):
			return -1
		case r >= firstMark && r < firstMark+maxPastes:
			return utf8.RuneError
		}
		return r
	}, text)
}

// remember keeps the state before a change for Ctrl-_.
func (e *editor) remember(typing bool) {
	if typing && e.typing {
		return
	}
	e.typing = typing
	if len(e.undo) == maxUndo {
		e.undo = slices.Delete(e.undo, 0, 1)
	}
	e.undo = append(e.undo, draft{e.text, e.cursor})
}

// back undoes the last change.
func (e *editor) back() {
	if n := len(e.undo); n > 0 {
		e.text, e.cursor = e.undo[n-1].text, e.undo[n-1].cursor
		e.undo, e.typing = e.undo[:n-1], false
	}
}

// erase removes the text between two places.
func (e *editor) erase(from, to int) {
	if from < to {
		e.remember(false)
		e.text, e.cursor = e.text[:from]+e.text[to:], from
	}
}

// kill is erase for Ctrl-Y to bring back.
func (e *editor) kill(from, to int) {
	if from < to {
		e.killed = e.expand(e.text[from:to])
		e.erase(from, to)
	}
}

// key does what a key does in an editor. It reports false for a key that it does
// not know.
func (e *editor) key(name string) bool {
	switch name {
	case "backspace", "ctrl+h", "shift+backspace":
		e.erase(e.before(e.cursor), e.cursor)
	case "delete", "ctrl+d":
		e.erase(e.cursor, e.after(e.cursor))
	case "ctrl+w", "alt+backspace", "ctrl+backspace":
		e.kill(e.wordBefore(), e.cursor)
	case "alt+d", "ctrl+delete", "alt+delete":
		e.kill(e.cursor, e.wordAfter())
	case "ctrl+u":
		e.kill(e.lineBegin(), e.cursor)
	case "ctrl+k":
		e.kill(e.cursor, e.lineEnd())
	case "ctrl+y":
		e.insertPaste(e.killed)
	case "ctrl+_", "ctrl+/":
		e.back()
	default:
		return e.move(name)
	}
	return true
}

// move does what a key does that moves the cursor.
func (e *editor) move(name string) bool {
	at := e.cursor
	switch name {
	case "left", "ctrl+b":
		at = e.before(at)
	case "right", "ctrl+f":
		at = e.after(at)
	case "ctrl+left", "alt+left", "alt+b":
		at = e.wordBefore()
	case "ctrl+right", "alt+right", "alt+f":
		at = e.wordAfter()
	case "home", "ctrl+a":
		at = e.lineBegin()
	case "end", "ctrl+e":
		at = e.lineEnd()
	case "ctrl+home", "alt+<":
		at = 0
	case "ctrl+end", "alt+>":
		at = len(e.text)
	default:
		return false
	}
	e.cursor, e.typing = at, false
	return true
}

// before returns the place one character earlier. A line is looked at from its
// beginning, because what is one character is known only from there.
func (e *editor) before(at int) int {
	if at == 0 {
		return 0
	}
	begin := strings.LastIndexByte(e.text[:at-1], '\n') + 1
	last := begin
	for g := uniseg.NewGraphemes(e.text[begin:at]); g.Next(); {
		from, _ := g.Positions()
		last = begin + from
	}
	return last
}

// after returns the place one character later.
func (e *editor) after(at int) int {
	c, _, _, _ := uniseg.FirstGraphemeClusterInString(e.text[at:], -1)
	return at + len(c)
}

func (e *editor) lineBegin() int { return strings.LastIndexByte(e.text[:e.cursor], '\n') + 1 }

func (e *editor) lineEnd() int {
	if n := strings.IndexByte(e.text[e.cursor:], '\n'); n >= 0 {
		return e.cursor + n
	}
	return len(e.text)
}

// wordBefore returns where the word begins that is before the cursor.
func (e *editor) wordBefore() int {
	words := strings.TrimRightFunc(e.text[:e.cursor], notInWord)
	return len(strings.TrimRightFunc(words, inWord))
}

// wordAfter returns where the word ends that is after the cursor.
func (e *editor) wordAfter() int {
	words := strings.TrimLeftFunc(e.text[e.cursor:], notInWord)
	return len(e.text) - len(strings.TrimLeftFunc(words, inWord))
}

func inWord(r rune) bool {
	return unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r) || r == '_' || r >= firstMark
}
func notInWord(r rune) bool { return !inWord(r) }

// editorRow is a row of the draft as it is shown.
type editorRow struct {
	from, to int // in the text, in bytes
	shown    string
}

// rows breaks the draft into rows of at most so many columns, and returns the row
// and the column of the cursor. There is always room for the cursor behind a row's
// last character.
func (e *editor) rows(columns int) (rows []editorRow, row, col int) {
	columns = max(columns-1, 2)
	row = -1
	var b strings.Builder
	from, used := 0, 0
	end := func(to int) {
		rows = append(rows, editorRow{from, to, b.String()})
		b.Reset()
		from, used = to, 0
	}
	at := 0
	for g := uniseg.NewGraphemes(e.text); g.Next(); {
		c := g.Str()
		if c == "\n" {
			if e.cursor == at {
				row, col = len(rows), used
			}
			end(at)
			at += len(c)
			from = at
			continue
		}
		shown := e.shown(c)
		width := livearea.Width(shown)
		if used > 0 && used+width > columns {
			end(at)
		}
		if e.cursor == at {
			row, col = len(rows), used
		}
		b.WriteString(shown)
		used += width
		at += len(c)
	}
	if row < 0 {
		row, col = len(rows), used
	}
	end(at)
	return rows, row, col
}

// shown is what a character looks like.
func (e *editor) shown(c string) string {
	r, _ := utf8.DecodeRuneInString(c)
	paste, ok := e.paste(r)
	switch {
	case !ok && c == "\t":
		return "    "
	case !ok:
		return visible(c)
	}
	if n := strings.Count(strings.TrimSuffix(paste, "\n"), "\n") + 1; n > 1 {
		return fmt.Sprintf("[pasted %d lines]", n)
	}
	return fmt.Sprintf("[pasted %d characters]", utf8.RuneCountInString(paste))
}

// vertical moves the cursor a row up or down. It reports false at the first and
// the last row.
func (e *editor) vertical(by, columns int) bool {
	rows, row, col := e.rows(columns)
	to := row + by
	if to < 0 || to >= len(rows) {
		return false
	}
	e.cursor, e.typing = rows[to].from, false
	for used := 0; e.cursor < rows[to].to; {
		next := e.after(e.cursor)
		width := livearea.Width(e.shown(e.text[e.cursor:next]))
		if used+width > col {
			break
		}
		e.cursor, used = next, used+width
	}
	return true
}
