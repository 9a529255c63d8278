package cli

import (
	"context"
	"fmt"
	"os"
	"time"

	"golang.org/x/term"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/numeral"
	"github.com/x/pygent/internal/screen"
)

// note tells the user on standard error what is good to know.
func note(format string, args ...any) {
	fmt.Fprintf(screen.Stderr(), "· "+format+"\n", args...)
}

// tellProtection prints how commands are confined if they run on this machine. A
// container is reported by an event when it starts.
func tellProtection(ctx context.Context, agent *pygent.Agent) {
	if info := describe(ctx, agent); info.Protection != "" {
		note("commands run on this machine; protection: %s (%s)", info.Protection, info.ProtectionNote)
	}
}

// tellUnasked prints that a session asks nobody before commands run on this machine:
// that was chosen, and the input is no terminal.
func tellUnasked(ctx context.Context, cfg pygent.Config, agent *pygent.Agent) {
	asks := term.IsTerminal(int(os.Stdin.Fd())) || cfg.ConfirmBash != nil
	if !asks && !agent.UseDocker() && describe(ctx, agent).Fallback == "" {
		note("commands run on this machine without a question: nobody can be asked, since the input is no terminal, and the local runtime was chosen; PYGENT_CONFIRM_BASH=1 denies them")
	}
}

func describe(ctx context.Context, agent *pygent.Agent) pygent.RuntimeInfo {
	if d, ok := agent.Runtime().(pygent.Describer); ok {
		return d.Describe(ctx)
	}
	return pygent.RuntimeInfo{}
}

// tellHistory prints what there is of the conversation with a name that goes on.
func tellHistory(name string, agent *pygent.Agent) {
	if recap := agent.Recap(); recap != "" {
		note("%s %s", name, recap)
	}
}

// Bounds of what is said about the files of a temporary workspace.
const (
	shownFiles  = 5 // how many are named
	listingTime = 5 * time.Second
)

// tellFiles prints which files of a temporary workspace go with it, and how they
// come back, or would have been kept. session is the ID of the session, empty if it
// is not kept.
func tellFiles(ctx context.Context, agent *pygent.Agent, session string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), listingTime)
	defer cancel()
	files, more, err := agent.TemporaryFiles(ctx)
	if err != nil || len(files) == 0 && !more {
		return // the run has said what is wrong with the runtime
	}
	var names []string
	for _, f := range files {
		names = append(names, f.Path)
	}
	how := "To keep them, give --cwd or --workspace DIR."
	if session != "" {
		how = "pygent --resume " + session + " puts them back; to work in a directory that stays, give --cwd or --workspace DIR."
	}
	note("the workspace was temporary and goes with its files: %s. %s", numeral.Some(names, shownFiles, more), how)
}
