package web

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/faces"
	"github.com/x/pygent/internal/plain"
	"github.com/x/pygent/internal/safecall"
)

// shell is a command line of the person's own that runs in the workspace. No rule of
// approval applies, and the agent does not hear of it. The session's goroutine has it.
type shell struct {
	card   *card
	cancel context.CancelCauseFunc
	done   chan struct{} // closed when it has ended; result and err are set before

	result pygent.BashResult
	err    error
}

// errOneCommand is the answer to one who runs a second command line.
var errOneCommand = fail(http.StatusConflict, "busy", "your command is still running; stop it first")

// postShell runs a command line. It answers at once, or when the command has ended.
// The command goes on when the one who asked for it has left.
func (s *Server) postShell(c call) (any, error) {
	one, err := c.session(s)
	if err != nil {
		return nil, err
	}
	if !s.opts.allowed().Shell {
		return nil, errNoRight
	}
	var in struct {
		Command string `json:"command"`
		Wait    bool   `json:"wait"`
	}
	if err := c.read(&in); err != nil {
		return nil, err
	}
	var sh *shell
	if err := one.do(c.Context(), func() (err error) {
		sh, err = one.startShell(strings.TrimSpace(in.Command))
		return err
	}); err != nil {
		return nil, err
	}
	if !in.Wait {
		return &status{http.StatusAccepted, map[string]any{}}, nil
	}
	select {
	case <-sh.done:
		return sh.answer()
	case <-c.Context().Done():
		return nil, c.Context().Err()
	case <-one.ended:
		return nil, errClosed
	}
}

// answer is how the command ended, for a program.
func (sh *shell) answer() (any, error) {
	if sh.err != nil && !errors.Is(sh.err, faces.ErrInterrupted) {
		return nil, sh.err
	}
	return map[string]any{
		"output": plain.Clean(sh.result.Output), "exit_code": sh.result.ExitCode, "stopped": sh.err != nil,
		"truncated": sh.result.Truncated, "full_path": sh.result.FullPath,
	}, nil
}

// deleteShell ends the command line that runs.
func (s *Server) deleteShell(c call) (any, error) {
	one, err := c.session(s)
	if err != nil {
		return nil, err
	}
	return nil, one.do(c.Context(), func() error {
		if one.shell == nil {
			return fail(http.StatusConflict, "nothing", "no command of yours is running")
		}
		one.shell.cancel(faces.ErrInterrupted)
		return nil
	})
}

// startShell runs a command line in a goroutine that the session waits for.
func (s *session) startShell(line string) (*shell, error) {
	switch {
	case line == "":
		return nil, fail(http.StatusBadRequest, "empty", "the command is missing")
	case s.shell != nil:
		return nil, errOneCommand
	}
	ctx, cancel := context.WithCancelCause(s.ctx)
	sh := &shell{card: shellCard(line), cancel: cancel, done: make(chan struct{})}
	s.shell = sh
	s.view.endMessage()
	s.view.putCard(sh.card)
	s.background(func() {
		defer close(sh.done)
		defer cancel(nil)
		show := func(c pygent.OutputChunk) {
			s.post(func() { s.log.appendOut(sh.card.key, sh.card.clean(c)) })
		}
		result, err := safecall.Outlive(ctx, func() (pygent.BashResult, error) {
			return s.agent.Runtime().Bash(ctx, line, pygent.BashTimeout(pygent.NoLimit), pygent.BashOutput(show))
		})
		if errors.Is(context.Cause(ctx), faces.ErrInterrupted) {
			err = faces.ErrInterrupted
		}
		sh.result, sh.err = result, err
		s.post(func() { s.endShell(sh) })
	})
	return sh, nil
}

// shellCard is the card of a command line. Its key is none of the view's, because the
// view may begin anew while the command runs.
func shellCard(line string) *card {
	arguments, _ := json.Marshal(faces.BashCall{Cmd: line}) // a struct of texts and numbers
	c := &card{key: "sh-" + newEpoch(), state: cardRuns, began: time.Now()}
	c.describe(pygent.ToolCall{Name: "bash", Arguments: string(arguments)}, nil)
	c.verb = verb{"You run", "You ran"}
	c.foot = `<div class="more"><span></span><button type="button" class="btn quiet" data-act="stop-shell">Stop</button></div>`
	return c
}

// endShell shows how a command line ended.
func (s *session) endShell(sh *shell) {
	s.shell = nil
	s.server.use(s)
	end := pygent.ToolResult{Bash: &sh.result, Outcome: pygent.OutcomeOK}
	switch {
	case errors.Is(sh.err, faces.ErrInterrupted):
		end.Outcome = pygent.OutcomeInterrupted
	case sh.err != nil:
		end = pygent.ToolResult{IsError: true, Outcome: pygent.OutcomeFailed, Content: sh.err.Error()}
	}
	sh.card.foot = ""
	sh.card.end(pygent.Event{Type: pygent.EventToolDone, Time: time.Now(), Output: &end})
	sh.card.open = true // somebody asked to see it
	s.view.putCard(sh.card)
	s.log.filesChanged()
}
