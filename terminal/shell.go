package terminal

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/guard"
)

// shell is a command line of the person's own that runs in the workspace, such as
// "!git status". The agent does not hear of it.
type shell struct {
	line   string
	began  time.Time
	tail   string // the end of its output
	cancel context.CancelCauseFunc
}

// submitShell runs a command line, unless another one runs.
func (s *session) submitShell(line string) bool {
	switch {
	case line == "":
		s.hint("a command line follows the !")
		return false
	case s.shell != nil:
		s.hint("a command goes on already")
		return false
	}
	s.startShell(line)
	return true
}

// startShell runs a command line. No rule of approval applies, since it is the
// person's own.
func (s *session) startShell(line string) {
	ctx, cancel := context.WithCancelCause(s.ctx)
	c := &shell{line: line, began: time.Now(), cancel: cancel}
	s.shell, s.display.changed = c, true
	show := func(out pygent.OutputChunk) {
		s.post(func() {
			c.tail, s.display.changed = end(c.tail+out.Text, maxTail), true
		})
	}
	s.background(func() {
		result, err := guard.Outlive(ctx, func() (pygent.BashResult, error) {
			return s.agent.Runtime().Bash(ctx, line, pygent.BashTimeout(pygent.NoLimit), pygent.BashOutput(show))
		})
		interrupted := context.Cause(ctx) == errInterrupted
		cancel(nil)
		s.post(func() {
			s.shell = nil
			s.shellDone(c, result, err, interrupted)
		})
	})
}

// shellDone prints a command line with what it wrote.
func (s *session) shellDone(c *shell, r pygent.BashResult, err error, interrupted bool) {
	text := s.theme.accent(shellPrompt) + style("1", strings.ReplaceAll(visible(c.line), "\n", "\n  "))
	if out := strings.TrimRight(r.Output, "\n"); out != "" {
		text += "\n" + visible(out)
	}
	if r.FullPath != "" {
		text += "\n" + s.theme.dim("… the whole output is in "+visible(r.FullPath)+", where commands can read it")
	}
	took := " · " + seconds(time.Since(c.began))
	switch {
	case interrupted:
		text += "\n" + s.theme.warn("■ Interrupted") + s.theme.dim(took)
	case err != nil:
		text += "\n" + s.theme.bad("✗ ") + visible(err.Error())
	case r.ExitCode != 0:
		text += "\n" + s.theme.bad("✗ ") + s.theme.dim(fmt.Sprintf("exit %d%s", r.ExitCode, took))
	default:
		text += "\n" + s.theme.good("✓ ") + s.theme.dim("exit 0"+took)
	}
	s.tell(text)
}

// shellRows shows the command line that goes on.
func (s *session) shellRows(now time.Time) (rows []string) {
	c := s.shell
	if c == nil {
		return nil
	}
	rows = []string{s.theme.accent(spinner(now)+" "+shellPrompt) + oneLine(c.line) + s.theme.dim(" · "+wholeSeconds(now.Sub(c.began))+" · Ctrl-C ends it")}
	for _, line := range lastLines(c.tail, liveLines) {
		rows = append(rows, s.theme.dim("  "+line))
	}
	return rows
}
