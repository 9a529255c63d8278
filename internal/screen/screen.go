// Package screen is the only way to the terminal. What models, tools, servers,
// engines and file names say may hold escape sequences, which move the cursor,
// rename the window or answer questions in the user's stead. So every text goes
// through a [Screen], which makes them visible, and a test sees to it that
// nothing else in this module writes to standard output or standard error. What
// we ourselves want of a terminal is one of a few constants, a [Control].
package screen

import (
	"io"
	"os"
	"sync"
	"unicode/utf8"

	"golang.org/x/term"
)

// Control is something that we have a terminal do.
type Control string

// All that is ever written to a terminal beside visible text.
const (
	Erase    Control = "\b \b"       // takes back a column of the line
	PasteOn  Control = "\x1b[?2004h" // has the terminal mark what is pasted
	PasteOff Control = "\x1b[?2004l"
)

// Screen writes text for people. It is safe for concurrent use.
type Screen struct {
	mu      sync.Mutex
	w       io.Writer
	pending []byte // the begin of a character, or of a line end, that the next Write may complete
}

// New returns a screen over a writer.
func New(w io.Writer) *Screen {
	if s, ok := w.(*Screen); ok {
		return s
	}
	return &Screen{w: w}
}

// Stdout returns standard output as a screen.
func Stdout() *Screen { return New(os.Stdout) }

// Stderr returns standard error as a screen.
func Stderr() *Screen { return New(os.Stderr) }

// Answers returns standard output for what a program may read: a screen where
// it is a terminal, and else the file itself, which gets every byte as it is.
func Answers() io.Writer {
	if s := Stdout(); s.Terminal() {
		return s
	}
	return os.Stdout
}

// Write writes a text visibly. A character that is not complete yet is kept for
// the next Write.
func (s *Screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := append(s.pending, p...)
	whole := len(text) - incomplete(text)
	s.pending = append([]byte(nil), text[whole:]...)
	if _, err := io.WriteString(s.w, Visible(string(text[:whole]))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Control has the terminal do something. Where there is none, nothing is
// written.
func (s *Screen) Control(c Control) error {
	if !s.Terminal() {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	_, err := io.WriteString(s.w, string(c))
	return err
}

// Terminal reports whether a person sees what is written.
func (s *Screen) Terminal() bool {
	file, ok := s.w.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// Size returns how many columns and rows are seen at once: those of a small
// terminal where it is not known.
func (s *Screen) Size() (columns, rows int) {
	if file, ok := s.w.(*os.File); ok {
		if columns, rows, err := term.GetSize(int(file.Fd())); err == nil && columns > 0 && rows > 0 {
			return columns, rows
		}
	}
	return 80, 24
}

// incomplete returns how many bytes at the end of a text may belong to a
// character or a line end that goes on.
func incomplete(text []byte) int {
	if n := len(text); n > 0 && text[n-1] == '\r' {
		return 1
	}
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		if last := text[len(text)-n:]; utf8.RuneStart(last[0]) {
			if !utf8.FullRune(last) {
				return n
			}
			return 0
		}
	}
	return 0
}
