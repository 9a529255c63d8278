// Package lineinput reads lines that a person types at a terminal. A terminal in
// canonical mode, in which it collects lines itself, silently cuts long ones: at
// 4,095 bytes on Linux. So [Open] makes the terminal pass on each key, and a
// [Reader] does what people expect while they type: it echoes, it erases a
// character, a word or the line, and it ends the input.
//
// A terminal that collects lines would also send a line that was typed like one that was
// pasted: as a whole. Where keys come one by one, a paste without marks shows by its end coming
// together with other keys, so that none approves a command ([Reader.ExpectAnswer]).
package lineinput

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"
)

// ErrTooLong is returned for a line above the reader's limit. The line is
// consumed.
var ErrTooLong = errors.New("the line is too long")

// The keys with a function. The terminal still turns Ctrl-C and the like into
// signals.
const (
	keyEnd       = 0x04 // Ctrl-D
	keyBackspace = 0x08
	keyKill      = 0x15 // Ctrl-U
	keyWord      = 0x17 // Ctrl-W
	keyEscape    = 0x1b
	keyDelete    = 0x7f // what most terminals send for backspace
)

// Reader reads lines from a terminal that passes on each key. Only one goroutine
// may call ReadLine; the other methods are safe for concurrent use.
type Reader struct {
	in    io.Reader
	echo  func(string) // shows what is typed, or erases it
	limit int

	mu     sync.Mutex // guards what follows
	keys   []byte     // read, but not processed yet
	line   []byte     // what was typed of the current line
	long   bool       // whether the line exceeds the limit
	escape []byte     // the beginning of a key that sends several bytes
	shown  []byte     // what to echo for the processed keys
	hidden bool       // whether only the ends of lines are echoed

	reading bool // whether ReadLine waits for keys
	answers bool // whether the line answers a question
	begun   bool // whether the line was begun before the question
	paste   bool // whether the keys are inside a paste, by the terminal's marks
	pasted  bool // whether a part of the line was pasted
	pastes  bool // whether a pasted line is an answer, too

	// more reports whether more input comes at once, of a terminal that sends whole lines;
	// nil for any other.
	more func() bool

	delay   time.Duration // how long after a question keys are too soon to answer it
	asked   time.Time     // when the question appeared on the screen; zero before that
	tooSoon bool          // whether the last keys that were read came too soon
	early   bool          // whether the line has keys that came too soon
}

// What a terminal sends around a paste, if it was told to mark pastes.
const (
	pasteBegins = "\x1b[200~"
	pasteEnds   = "\x1b[201~"
)

// NewReader returns a reader of lines of at most limit bytes. It calls echo with
// what the terminal should show.
func NewReader(in io.Reader, limit int, echo func(string)) *Reader {
	return &Reader{in: in, echo: echo, limit: limit, delay: AnswerDelay}
}

// ReadLine returns the next line without its end. The error is io.EOF when the
// user ends the input, and [ErrTooLong] for a line above the limit.
func (r *Reader) ReadLine() (string, error) {
	buf := make([]byte, 4096)
	for {
		line, done, err := r.take()
		if done {
			return line, err
		}
		r.mu.Lock()
		r.reading = true
		r.mu.Unlock()
		n, err := r.in.Read(buf)
		r.mu.Lock()
		r.reading = false
		r.read(buf[:n])
		r.mu.Unlock()
		if err != nil && n == 0 {
			return "", err
		}
	}
}

// Discard drops what was typed and not returned yet, as a terminal does at
// Ctrl-C.
func (r *Reader) Discard() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drop()
}

// Hide says whether what is typed is hidden: of it, only the ends of lines are
// echoed.
func (r *Reader) Hide(on bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hidden = on
}

// Typed returns what was typed of the current line, unless that is hidden.
func (r *Reader) Typed() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.hidden {
		return ""
	}
	return string(r.line)
}

// take processes the keys that were read until they end a line, and echoes them.
func (r *Reader) take() (line string, done bool, err error) {
	r.mu.Lock()
	for len(r.keys) > 0 && !done {
		key := r.keys[0]
		r.keys = r.keys[1:]
		line, done, err = r.key(key)
	}
	shown := string(r.shown)
	r.shown = nil
	if r.hidden {
		shown = strings.Repeat("\n", strings.Count(shown, "\n"))
	}
	r.mu.Unlock()
	if shown != "" {
		r.echo(shown)
	}
	return line, done, err
}

// The methods below are called with r.mu held.

func (r *Reader) reset() {
	r.line, r.long, r.pasted, r.begun, r.early = nil, false, false, false, false
}

// drop forgets all that was typed.
func (r *Reader) drop() {
	r.keys, r.escape, r.paste = nil, nil, false
	r.reset()
}

// read adds the keys that one read of the terminal returned. A person's keys
// come one by one, so a line whose end comes with other keys was pasted, unless the
// terminal sends whole lines.
func (r *Reader) read(keys []byte) {
	if len(keys) > 1 && bytes.ContainsAny(keys, "\r\n") && !r.isWholeLine(keys) {
		r.pasted = true
	}
	r.keys = append(r.keys, keys...)
	r.tooSoon = r.tooEarly()
}

// isWholeLine reports whether keys are one line, and all that was sent, from a terminal
// that sends lines. It matters only for answers.
func (r *Reader) isWholeLine(keys []byte) bool {
	if r.more == nil || !r.answers || len(r.keys) > 0 || len(r.line) > 0 || r.paste {
		return false
	}
	text := bytes.TrimSuffix(bytes.TrimSuffix(keys, []byte("\n")), []byte("\r"))
	isKey := func(c rune) bool { return c < ' ' && c != '\t' || c == keyDelete } // such a line erases by itself
	return bytes.IndexFunc(text, isKey) < 0 && !r.more()
}

// key processes one byte of input.
func (r *Reader) key(b byte) (line string, done bool, err error) {
	if within := r.paste; r.escaped(b) {
		if within && !r.paste && r.answers && !r.pastes {
			r.shown = append(r.shown, '\n')
			return "", true, r.refuse(ErrPasted)
		}
		return "", false, nil
	}
	if r.paste && r.answers && !r.pastes && b != keyEscape {
		return "", false, nil
	}
	switch b {
	case '\n', '\r':
		r.shown = append(r.shown, '\n')
		return r.end()
	case keyEnd:
		if len(r.line) == 0 && !r.tooSoon {
			return "", true, io.EOF
		}
	case keyBackspace, keyDelete:
		r.erase(1)
	case keyKill:
		r.erase(utf8.RuneCount(r.line))
		r.long, r.begun, r.early = false, false, false
	case keyWord:
		r.erase(lastWord(r.line))
	case keyEscape:
		r.escape = []byte{b}
	default:
		if b >= ' ' || b == '\t' {
			r.add(b)
		}
	}
	return "", false, nil
}

// end completes the line.
func (r *Reader) end() (string, bool, error) {
	if why := r.noAnswer(); r.answers && why != nil {
		return "", true, r.refuse(why)
	}
	line, long := string(r.line), r.long
	r.reset()
	if long {
		return "", true, ErrTooLong
	}
	return line, true, nil
}

// escaped reports whether b belongs to a key that sends several bytes, such as
// an arrow. Such keys have no function. A control character ends an incomplete
// one.
func (r *Reader) escaped(b byte) bool {
	switch {
	case len(r.escape) == 0:
		return false
	case b < ' ':
		r.escape = nil
		return false
	case len(r.escape) == 1 && (b == '[' || b == 'O'):
		r.escape = append(r.escape, b)
		return true
	case len(r.escape) == 1: // the escape key itself
		r.escape = nil
		return false
	}
	if len(r.escape) < len(pasteBegins) {
		r.escape = append(r.escape, b)
	}
	if r.escape[1] == 'O' || b >= 0x40 && b <= 0x7e {
		r.marksPaste(string(r.escape))
		r.escape = nil
	}
	return true
}

// marksPaste processes the marks around a paste.
func (r *Reader) marksPaste(key string) {
	switch key {
	case pasteBegins:
		r.paste, r.pasted = true, true
	case pasteEnds:
		r.paste = false
	}
}

// add adds a byte to the line. A character is shown once it is complete.
func (r *Reader) add(b byte) {
	r.early = r.early || r.tooSoon
	if len(r.line) >= r.limit {
		r.long = true
		return
	}
	r.line = append(r.line, b)
	switch {
	case b == '\t':
		r.shown = append(r.shown, ' ') // erase takes a tab for one column wide
	case b < utf8.RuneSelf:
		r.shown = append(r.shown, b)
	default:
		if start := lastRune(r.line); utf8.FullRune(r.line[start:]) {
			r.shown = append(r.shown, string([]rune(string(r.line[start:])))...)
		}
	}
}

// erase removes the last n characters.
func (r *Reader) erase(n int) {
	for range n {
		if len(r.line) == 0 {
			return
		}
		last, size := utf8.DecodeLastRune(r.line)
		r.line = r.line[:len(r.line)-size]
		for range columns(last) {
			r.shown = append(r.shown, "\b \b"...)
		}
	}
}

// lastRune returns where the last character of line begins, complete or not.
func lastRune(line []byte) int {
	for i := len(line) - 1; i >= max(0, len(line)-utf8.UTFMax); i-- {
		if utf8.RuneStart(line[i]) {
			return i
		}
	}
	return len(line) - 1
}

// lastWord counts the characters of the last word and of the space after it.
func lastWord(line []byte) int {
	n, inWord := 0, false
	for len(line) > 0 {
		last, size := utf8.DecodeLastRune(line)
		space := unicode.IsSpace(last)
		if space && inWord {
			break
		}
		inWord = inWord || !space
		line = line[:len(line)-size]
		n++
	}
	return n
}

// columns returns how wide a terminal shows a character, which is exact enough
// for erasing it.
func columns(r rune) int {
	switch {
	case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		return 0
	case unicode.In(r, unicode.Han, unicode.Hangul, unicode.Hiragana, unicode.Katakana),
		r >= 0xff01 && r <= 0xff60, r >= 0x1f300 && r <= 0x1faff:
		return 2
	}
	return 1
}
