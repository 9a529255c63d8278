package pygent

import (
	"context"
	"fmt"
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
	shown := slash.NewScript(out)
	opts := []BashOption{BashTimeout(NoLimit)}
	if out.Live() {
		opts = append(opts, BashOutput(func(c OutputChunk) { shown.Add(c.Skipped, c.Text) }))
	}
	r, err := a.runtime.Bash(ctx, script, opts...)
	if err != nil {
		return CommandResult{Bash: &r}, err
	}
	shown.End(r.Output, r.FullPath)
	if r.ExitCode != 0 {
		err = fmt.Errorf("exit code %d after %s", r.ExitCode, r.Duration.Round(time.Millisecond))
	}
	return CommandResult{Bash: &r}, err
}
