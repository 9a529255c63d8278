package terminal

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/x/pygent/internal/escape"
	"github.com/x/pygent/internal/pathname"
)

// suggestFile lists files for the mention at the cursor.
func (s *session) suggestFile(before, after string) {
	at := pathname.MentionAt(before)
	if r, size := utf8.DecodeRuneInString(after); at < 0 || size > 0 && !unicode.IsSpace(r) {
		return
	}
	s.refreshFiles()
	c := &s.input.completion
	c.from, c.pending = at, s.fileList.at.IsZero()
	typed := before[at+len("@"):]
	if quoted, ok := strings.CutPrefix(typed, `"`); ok {
		typed = pathname.Unquoted(quoted)
	}
	c.word = typed
	for _, f := range s.fileList.match(typed) {
		text := pathname.Mention(f.path)
		c.choices = append(c.choices, choice{text: text, word: f.path, label: visible(escape.Name(f.path))})
	}
	if len(c.choices) == 1 && strings.TrimRight(c.choices[0].text, " ") == before[at:] {
		c.choices = nil // it is there
	}
}

// completePath completes the word at the cursor of a command line of the person's own
// to the name of a file, or to what the names of several have in common. If they have
// nothing more in common, it lists them.
func (s *session) completePath() {
	ed, c := &s.input.editor, &s.input.completion
	before := ed.text[:ed.cursor]
	from := strings.LastIndexAny(before, " \t\n;|&<>()=!") + 1
	if strings.HasPrefix(before[from:], "./") {
		from += len("./")
	}
	s.refreshFiles()
	*c = completion{text: ed.text, cursor: ed.cursor, from: from, word: before[from:]}
	if c.pending = !s.fileList.since.IsZero(); c.pending {
		c.tab = true // refreshFiles goes on with it
		return
	}
	for _, f := range s.fileList.list {
		isThere := f.path == c.word && strings.HasSuffix(f.path, "/")
		if strings.HasPrefix(f.path, c.word) && !isThere {
			c.choices = append(c.choices, choice{text: shellWord(f.path), word: f.path, label: visible(escape.Name(f.path))})
		}
	}
	slices.SortFunc(c.choices, func(a, b choice) int { return strings.Compare(a.word, b.word) })
	c.choices = c.choices[:min(len(c.choices), maxChoices)]
	if len(c.choices) == 0 {
		s.hint("no matching file")
		return
	}
	if _, more := c.common(); more || len(c.choices) == 1 {
		s.takeChoice(false)
	}
}

// shellWord is a path as a word of a command line, with a blank behind the name of a
// file.
func shellWord(path string) string {
	const odd = "\t\n \"#$&'()*;<>?[\\]`{|}~!"
	word := path
	if strings.ContainsAny(path, odd) {
		word = "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
	}
	if strings.HasSuffix(path, "/") {
		return word
	}
	return word + " "
}
