// Package screen is the only way to the terminal. Text from models, tools,
// servers and engines, and even file names, may contain escape sequences, which
// move the cursor, rename the window or answer questions in the user's place. So
// every text goes through a [Screen], which makes them visible, and a test
// checks that nothing else in this module writes to standard output or standard
// error. The control sequences that the module itself sends to a terminal are a
// few constants of type [Control].
//
// [LayOut] lays out a text, such as a command, for a person who has to judge it and who sees
// only as much as the terminal has room for. The text may be written to deceive: with line
// ends or spaces that push its dangerous part out of sight, with invisible characters, or with
// lines that look like the question itself. So each row begins with a margin that the text
// cannot imitate, long runs of blank lines and spaces are replaced by their number, rows are
// wrapped here and not by the terminal, and rows that are left out are counted.
package screen

import (
	"io"
	"os"
	"runtime"
	"sync"
	"unicode/utf8"

	"golang.org/x/term"
)

// Control is a control sequence for a terminal.
type Control string

// All that is ever written to a terminal besides visible text.
const (
	Erase    Control = "\b \b"       // erases one column of the line
	PasteOn  Control = "\x1b[?2004h" // makes the terminal mark pasted text
	PasteOff Control = "\x1b[?2004l" // ends PasteOn

	ClearLine Control = "\r\x1b[K" // erases the line, and goes back to its beginning
)

// Screen writes text for people. It is safe for concurrent use.
type Screen struct {
	mu      sync.Mutex
	w       io.Writer
	pending []byte // the beginning of a character, or of a line end, that the next Write may complete
	shape   shape  // of what was written
}

// New returns a screen that writes to w, or w itself if that is a screen.
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

// Answers returns standard output for results that a program may read. It is a
// screen on a terminal, and otherwise the file itself, which gets every byte as
// it is.
func Answers() io.Writer {
	if s := Stdout(); s.Terminal() {
		return s
	}
	return os.Stdout
}

// Write writes text with control characters made visible. It keeps an incomplete
// character at the end for the next Write.
func (s *Screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := append(s.pending, p...)
	whole := len(text) - incomplete(text)
	s.pending = append([]byte(nil), text[whole:]...)
	if _, err := io.WriteString(s.w, s.shape.visible(string(text[:whole]))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Control sends a control sequence to the terminal. It writes nothing if the
// screen is not on a terminal.
func (s *Screen) Control(c Control) error {
	if !s.Terminal() || c != Erase && IsDumb() {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	_, err := io.WriteString(s.w, string(c))
	return err
}

// Draw writes what a face has drawn for a terminal: text in which control
// characters are visible already, and control sequences of the face's own. Only
// package terminal calls it, which has every text pass livearea.Clean.
func (s *Screen) Draw(frame string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, err := io.WriteString(s.w, frame)
	return err
}

// Terminal reports whether the screen writes to a terminal, where a person sees
// the text.
func (s *Screen) Terminal() bool {
	file, ok := s.w.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// Overwrites reports whether the screen is a terminal on which a line can be taken back.
func (s *Screen) Overwrites() bool { return s.Terminal() && !IsDumb() }

// IsDumb reports whether the terminal can do nothing but print, or may: nothing is
// known of one without TERM, but on Windows, which has no such variable.
func IsDumb() bool {
	name := os.Getenv("TERM")
	return name == "dumb" || name == "" && runtime.GOOS != "windows"
}

// Redirected reports whether the screen writes to a file or a pipe, which is not
// where a person who types at a terminal looks.
func (s *Screen) Redirected() bool {
	_, ok := s.w.(*os.File)
	return ok && !s.Terminal()
}

// Terminal returns the terminal of the process, for what must not get into a
// redirected output: standard error, or else the controlling terminal. It reports
// false if there is none. close is called when the screen is not needed any more.
func Terminal() (s *Screen, close func(), ok bool) {
	if s := Stderr(); s.Terminal() {
		return s, func() {}, true
	}
	file, err := os.OpenFile(controlling, os.O_WRONLY, 0)
	if err != nil {
		return nil, nil, false
	}
	s, close = New(file), func() { _ = file.Close() } // it was written to without a buffer
	if !s.Terminal() {
		close()
		return nil, nil, false
	}
	return s, close, true
}

// Size returns the number of columns and rows of the terminal. If they are not
// known, they are 80 and 24.
func (s *Screen) Size() (columns, rows int) {
	if file, ok := s.w.(*os.File); ok {
		if columns, rows, err := term.GetSize(int(file.Fd())); err == nil && columns > 0 && rows > 0 {
			return columns, rows
		}
	}
	return 80, 24
}

// incomplete returns how many bytes at the end of a text may be the beginning of
// a character or of a line end, or are characters that depend on the next one.
func incomplete(text []byte) int {
	if n := len(text); n > 0 && text[n-1] == '\r' {
		return 1
	}
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		if last := text[len(text)-n:]; utf8.RuneStart(last[0]) {
			if !utf8.FullRune(last) {
				return n + unfinished(text[:len(text)-n])
			}
			break
		}
	}
	return unfinished(text)
}
