package terminal

import (
	"errors"
	"fmt"

	"golang.org/x/term"
)

// stepAside gives the terminal to somebody else, in the mode that it had before the
// session, until comeBack. The session goes on, but neither reads nor draws.
func (s *session) stepAside() error {
	err := s.tty.draw(s.display.area.Remove(s.display.take()))
	select {
	case <-s.tty.interrupted: // it came before
	default:
	}
	return errors.Join(err, s.tty.end())
}

// comeBack takes the terminal again, in whatever state it was left.
func (s *session) comeBack() error {
	if err := s.tty.again(); err != nil {
		return err
	}
	s.display.area.Redraw()
	s.display.last, s.display.changed = kindNone, true
	return nil
}

// cleanScreen puts a terminal right that a program has left in some state: in its
// other screen, with mouse reports, margins, colours or without a cursor. The cursor
// is in an empty row then.
const cleanScreen = "\x1b[?1047l\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[!p\x1b[m\x1b[?25h\r\n\x1b[J"

// again begins anew after end, with the mode that was restored then: what had the
// terminal meanwhile may have left it in another one.
func (t *tty) again() error {
	if t.begun {
		return nil
	}
	if err := term.Restore(int(t.in.Fd()), t.before); err != nil {
		return fmt.Errorf("restore the terminal's mode: %w", err)
	}
	if err := t.draw(cleanScreen); err != nil {
		return err
	}
	return t.begin()
}
