package terminal

import (
	"errors"
	"fmt"

	"golang.org/x/term"

	"github.com/x/pygent/internal/livearea"
)

// suspend gives the terminal to the shell until it continues the process.
func (s *session) suspend() {
	s.outside(func() (killed bool) {
		if !stopProcess() {
			s.hint("there is no shell to suspend to")
		}
		return false
	})
}

// continued goes on after the process was stopped without a word, by SIGSTOP, if
// somebody has used the terminal meanwhile.
func (s *session) continued() {
	if s.isAway() || s.tty.isSet() {
		return
	}
	width, height := s.tty.out.Size()
	s.display.area = livearea.New(width, height, terminalKind()...) // the rows have scrolled away
	if err := errors.Join(s.tty.end(), s.comeBack(false)); err != nil {
		s.fail(err)
	}
}

// outside gives the terminal to f, and waits for it. f reports whether a program was
// killed there.
func (s *session) outside(f func() (killed bool)) {
	err := s.stepAside()
	killed := false
	if err == nil {
		killed = f()
	}
	s.tty.forgetSignals()
	if err = errors.Join(err, s.comeBack(killed)); err != nil {
		s.fail(err)
	}
}

// stepAside gives the terminal to somebody else, in the mode that it had before the
// session, until comeBack. The session goes on, but neither reads nor draws.
func (s *session) stepAside() error {
	err := s.tty.draw(s.display.area.Remove(s.display.take()) + saveCursor)
	s.tty.forgetSignals()
	return errors.Join(err, s.tty.end())
}

// comeBack takes the terminal again, in whatever state it was left. killed says that
// a program was ended that may have been in the terminal's other screen.
func (s *session) comeBack(killed bool) error {
	if err := s.tty.again(killed); err != nil {
		return err
	}
	s.display.area.Redraw()
	s.display.last, s.display.changed = kindNone, true
	return nil
}

// What puts a terminal right that a program has left in some state: in its other
// screen, with mouse reports, margins, colours or without a cursor. The cursor is in
// an empty row then.
const (
	leaveScreen = "\x1b[?1047l"
	cleanScreen = "\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?1l\x1b>\x1b[!p\x1b[m\x1b[?25h\r\n\x1b[J"
)

// After a program that was killed in the other screen, the cursor has to go back to
// where the program entered that, or else what is below would be lost. If it was not
// there, the cursor goes to where the session saved it.
const (
	saveCursor   = "\x1b7"
	leaveAndGoTo = "\x1b[?1049l"
)

// again begins anew after end, with the mode that was restored then: what had the
// terminal meanwhile may have left it in another one.
func (t *tty) again(killed bool) error {
	if t.begun {
		return nil
	}
	if err := term.Restore(int(t.in.Fd()), t.before); err != nil {
		return fmt.Errorf("restore the terminal's mode: %w", err)
	}
	leave := leaveScreen
	if killed {
		leave = leaveAndGoTo
	}
	if err := t.draw(leave + cleanScreen); err != nil {
		return err
	}
	return t.begin()
}
