package terminal

import (
	"context"
	"strings"
	"time"

	"github.com/x/pygent"
)

// command is a command of the session, such as /help, that goes on.
type command struct {
	name   string
	began  time.Time
	cancel context.CancelCauseFunc
}

// startCommand carries out a line that begins with a slash.
func (s *session) startCommand(line string) {
	ctx, cancel := context.WithCancelCause(s.ctx)
	c := &command{name: strings.Fields(line)[0], began: time.Now(), cancel: cancel}
	s.command = c
	s.say(kindUser, s.theme.accent("› ")+visible(line))
	s.work.Go(func() {
		result, err := s.agent.RunCommand(ctx, line, nil)
		interrupted := context.Cause(ctx) == errInterrupted
		cancel(nil)
		s.post(func() {
			s.command = nil
			s.commandDone(result, err, interrupted)
		})
	})
}

// commandDone shows what a command wrote, and does what is left to do.
func (s *session) commandDone(r pygent.CommandResult, err error, interrupted bool) {
	if out := strings.TrimRight(r.Output, "\n"); out != "" {
		s.say(kindEnd, visible(out))
	}
	switch {
	case interrupted:
		s.say(kindEnd, s.theme.warn("■ Interrupted"))
	case err != nil:
		s.say(kindEnd, s.wrapped(s.theme.bad("✗ ")+visible(err.Error())))
	case r.Leave:
		s.leave()
	case r.Resume && s.turn != nil:
		s.hint("a turn goes on already")
	case r.Resume:
		s.resume()
	case r.Message != nil && s.sayLater(*r.Message) && s.turn == nil:
		s.sendUnheard()
	}
}
