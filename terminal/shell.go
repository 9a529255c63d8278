package terminal

import (
	"context"
	"io"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/safecall"
)

// shellCommand is a command line of the person's own that runs in the workspace, such
// as "!git status". No rule of approval applies, and the agent does not hear of it.
func (s *session) shellCommand(line string) *command {
	return &command{
		sign: shellPrompt, line: line, name: "your command", again: "!",
		run: func(ctx context.Context, out io.Writer) (pygent.CommandResult, error) {
			show := func(c pygent.OutputChunk) { _, _ = io.WriteString(out, c.Text) }
			result, err := safecall.Outlive(ctx, func() (pygent.BashResult, error) {
				return s.agent.Runtime().Bash(ctx, line, pygent.BashTimeout(pygent.NoLimit), pygent.BashOutput(show))
			})
			return pygent.CommandResult{Bash: &result}, err
		},
	}
}
