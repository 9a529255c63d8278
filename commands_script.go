package pygent

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/x/pygent/internal/slash"
)

// runScript carries out a command with a Script. What it prints goes to out while
// it runs or, if that only keeps it, whole at the end. A status other than zero is
// an error.
func (c Command) runScript(ctx context.Context, a *Agent, args string, out *slash.Output) (CommandResult, error) {
	script, err := c.Script(ctx, a, args)
	if err != nil {
		return CommandResult{}, err
	}
	shown := &scriptOutput{to: out}
	opts := []BashOption{BashTimeout(NoLimit)}
	if out.Live() {
		opts = append(opts, BashOutput(shown.add))
	}
	r, err := a.runtime.Bash(ctx, script, opts...)
	if err != nil {
		return CommandResult{Bash: &r}, err
	}
	shown.end(r)
	if r.ExitCode != 0 {
		err = fmt.Errorf("exit code %d after %s", r.ExitCode, r.Duration.Round(time.Millisecond))
	}
	return CommandResult{Bash: &r}, err
}

// scriptOutput writes what a command prints, and ends it with a line feed.
type scriptOutput struct {
	to io.Writer

	mu    sync.Mutex // guards what follows; held while to writes, since a call of add may be left behind
	began bool
	last  byte
}

func (s *scriptOutput) add(c OutputChunk) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.Skipped > 0 {
		s.endLine()
		s.write(fmt.Sprintf("… %d bytes not shown …\n", c.Skipped))
	}
	s.write(c.Text)
}

// end writes the whole output if nothing of it came before, as from a runtime that
// has no live output, and where there is more of it.
func (s *scriptOutput) end(r BashResult) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.began {
		s.write(r.Output)
	}
	s.endLine()
	if r.FullPath != "" {
		s.write("[the output is in " + r.FullPath + "]\n")
	}
}

func (s *scriptOutput) write(text string) {
	if text != "" {
		s.began, s.last = true, text[len(text)-1]
		_, _ = io.WriteString(s.to, text)
	}
}

func (s *scriptOutput) endLine() {
	if s.began && s.last != '\n' {
		s.write("\n")
	}
}
