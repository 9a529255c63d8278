package lines

import (
	"cmp"
	"context"
	"errors"
	"sync/atomic"

	"github.com/x/pygent"
)

// Failure is what failed in a session, the first if several things did: a turn that failed,
// reached a limit or made no progress, a command that could not be carried out, a line that
// could not be read, or a question of the model at the end that nobody answered. The session
// has shown it, and went on. A person at the terminal sees to it: then only the last turn
// counts, if the person neither interrupted it nor left with its question.
type Failure struct {
	Result *pygent.Result // of the turn; nil where it was none
	Err    error          // that was shown; nil if the result says it all
}

// Error says what failed.
func (e *Failure) Error() string {
	switch {
	case e.Err != nil:
		return "the session: " + e.Err.Error()
	case e.Result.Question != nil:
		return "the session ended before a question was answered: " + e.Result.Question.Prompt
	}
	return "the session: " + cmp.Or(e.Result.Reason, e.Result.NoCommand, string(e.Result.Status))
}

// Unwrap returns the error that was shown.
func (e *Failure) Unwrap() error { return e.Err }

type failureKey struct{}

// WithFailure returns a context for [pygent.Agent.RunInteractive]. failure returns what
// failed in the session by lines that went on with it, or nil: a program can turn that into
// its exit code, as pygent does. A session of another face notes nothing.
func WithFailure(ctx context.Context) (_ context.Context, failure func() *Failure) {
	var noted atomic.Pointer[Failure]
	return context.WithValue(ctx, failureKey{}, &noted), noted.Load
}

// noteFailure notes what failed, for [WithFailure].
func (s *session) noteFailure(ctx context.Context) {
	noted, wanted := ctx.Value(failureKey{}).(*atomic.Pointer[Failure])
	if !wanted {
		return
	}
	failure := s.last
	if failure != nil && s.talk.Person() && failure.Err == nil && failure.Result.Status == pygent.StatusAwaitingUser {
		return
	}
	if err := s.talk.Failed(); err != nil && !s.talk.Person() && !errors.As(err, &failure) {
		failure = &Failure{Err: err}
	}
	noted.Store(failure)
}

// ended reports whether a turn ended as it should.
func ended(status pygent.Status) bool {
	return status == pygent.StatusStopped || status == pygent.StatusReplied
}
