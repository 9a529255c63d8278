package pygent

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/x/pygent/internal/lineinput"
)

// line is what was read.
type line struct {
	text string
	err  error
	at   int64 // how many questions had been put when it was complete
	more bool  // more came with it
	came time.Time
}

// maxLine is the longest line that is read, in bytes.
const maxLine = 1 << 20

var (
	// errLongLine is what becomes of a line that exceeds maxLine.
	errLongLine = fmt.Errorf("the line is longer than %d bytes; put the text in a file", maxLine)
	// errCutLine is what becomes of a line that the terminal may have cut.
	errCutLine = errors.New("the terminal cuts lines of this length; put the text in a file")
)

// takeKeys has a terminal hand over each key, since one that collects lines
// cuts long ones. What is typed has to be shown by us then, so that only works
// when the output is a terminal too. It returns a function that puts the
// terminal back.
func (s *session) takeKeys() (restore func()) {
	if !s.terminal || !s.printer.screen.Terminal() {
		return func() {}
	}
	mode, err := lineinput.Open(s.file)
	if err != nil {
		s.agent.log.Warn("long lines may be cut by the terminal", "error", err)
		return func() {}
	}
	s.mode, s.keys = mode, lineinput.NewReader(s.file, maxLine, s.printer.echo)
	s.printer.unfinished = s.keys.Typed
	return func() {
		if err := mode.Close(); err != nil {
			s.agent.log.Warn("the terminal was not put back", "error", err)
		}
	}
}

// readLines feeds s.lines on demand. It ends with ctx, except while a read of
// the terminal waits: that goroutine ends with the process or the next line.
func (s *session) readLines(ctx context.Context) {
	for {
		select {
		case <-s.wanted:
		case <-ctx.Done():
			return
		}
		l := s.readLine()
		l.at = s.questions.Load()
		l.more = s.keys == nil && s.terminal && (s.in.Buffered() > 0 || lineinput.More(s.file))
		l.came = time.Now()
		select {
		case s.lines <- l:
		case <-ctx.Done():
			return
		}
	}
}

// readLine reads a line, whose end may be missing at the end of the input.
// Keeps at most maxLine bytes of a long line.
func (s *session) readLine() line {
	if s.keys != nil {
		text, err := s.keys.ReadLine()
		if errors.Is(err, lineinput.ErrTooLong) {
			err = errLongLine
		}
		return line{text: text, err: err}
	}
	var text []byte
	for {
		piece, err := s.in.ReadSlice('\n')
		text = append(text, piece[:min(len(piece), maxLine+1-len(text))]...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil && len(text) == 0:
			return line{err: err}
		case len(text) > maxLine:
			return line{err: errLongLine}
		case s.terminal && len(text) > lineinput.CutAt: // with its end
			return line{err: errCutLine}
		}
		return line{text: strings.TrimRight(string(text), "\r\n")}
	}
}

// ask prompts for a line. A second interrupt leaves the session; a nil channel
// leaves interrupts to others.
func (s *session) ask(ctx context.Context, prompt string, interrupts <-chan os.Signal) (string, error) {
	if err := s.asking.LockContext(ctx); err != nil {
		return "", err
	}
	defer s.asking.Unlock()
	l, err := s.read(ctx, prompt, interrupts)
	return l.text, err
}

// read prompts for a line, as ask does. The caller holds asking.
func (s *session) read(ctx context.Context, prompt string, interrupts <-chan os.Signal) (line, error) {
	if s.terminal {
		s.printer.prompt(prompt)
	}
	s.shown()
	defer s.printer.unask()
	wanted := s.wanted
	for {
		select {
		case wanted <- struct{}{}:
			wanted = nil
		case l := <-s.lines:
			if s.terminal && l.err == nil {
				s.printer.typed()
			}
			return l, l.err
		case <-interrupts:
			if s.warned {
				return line{}, errLeave
			}
			s.warned = true
			s.discard()
			s.printer.say("(Ctrl-C again, or /exit, to leave)")
			if s.terminal {
				s.printer.prompt(prompt)
			}
		case <-ctx.Done():
			s.discard()
			return line{}, context.Cause(ctx)
		}
	}
}

// shown notes that the user sees a question from now on. The caller holds asking.
func (s *session) shown() {
	s.asked = time.Now()
	if s.keys != nil {
		s.keys.Asked()
	}
}

// discard drops what was typed, as the terminal does.
func (s *session) discard() {
	if s.keys != nil {
		s.keys.Discard()
	}
}
