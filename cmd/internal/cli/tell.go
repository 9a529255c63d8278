package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/term"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/docker"
	"github.com/x/pygent/internal/export"
	"github.com/x/pygent/internal/screen"
	"github.com/x/pygent/internal/spelling"
	"github.com/x/pygent/sessions"
)

// note tells the user on standard error what is good to know.
func note(format string, args ...any) {
	fmt.Fprintf(screen.Stderr(), "· "+format+"\n", args...)
}

// tellIf is note, of nothing if there is nothing to tell.
func tellIf(text string) {
	if text != "" {
		note("%s", text)
	}
}

// tellingOfEngine returns a context with which a person hears which engine is waited for.
func tellingOfEngine(ctx context.Context) context.Context {
	return docker.WithWaiting(ctx, func(engine string) {
		note("waiting for the Docker Engine at %s; Ctrl-C to stop", engine)
	})
}

// tellProtection prints how commands are confined if they run on this machine, and what
// does not work there. A container is reported by an event when it starts.
func tellProtection(ctx context.Context, agent *pygent.Agent) {
	info := describe(ctx, agent)
	if info.Protection != "" {
		note("commands run on this machine; protection: %s (%s)", info.Protection, info.ProtectionNote)
	}
	for _, text := range info.Notes {
		note("%s", text)
	}
}

// tellPlace prints where commands run, and warns if that is this machine for want of an
// engine.
func tellPlace(ctx context.Context, agent *pygent.Agent) {
	info := describe(ctx, agent)
	if info.Fallback != "" {
		warn("NOT in a container: " + info.Fallback)
	}
	if agent.UseDocker() {
		note("commands run in a container of the image %s", info.Image)
	}
	tellProtection(ctx, agent)
}

// tellUnasked prints that a session asks nobody before commands run on this machine:
// that was chosen, and the input is no terminal.
func tellUnasked(ctx context.Context, cfg pygent.Config, agent *pygent.Agent) {
	asks := term.IsTerminal(int(os.Stdin.Fd())) || cfg.ConfirmBash != nil
	if !asks && !agent.UseDocker() && describe(ctx, agent).Fallback == "" {
		note("commands run on this machine without asking, because the input is not a terminal and you chose to run locally; set PYGENT_CONFIRM_BASH=1 to deny them")
	}
}

func describe(ctx context.Context, agent *pygent.Agent) pygent.RuntimeInfo {
	if d, ok := agent.Runtime().(pygent.Describer); ok {
		return d.Describe(ctx)
	}
	return pygent.RuntimeInfo{}
}

// newWorkspace returns a note that the workspace will be a new directory, or "". Its name
// may be misspelt: then one beside it has nearly the same.
func newWorkspace(cfg pygent.Config) string {
	if cfg.Workspace == "" {
		return ""
	}
	if _, err := os.Stat(cfg.Workspace); !errors.Is(err, fs.ErrNotExist) {
		return ""
	}
	said := "the workspace " + short(cfg.Workspace) + " did not exist and was created"
	if like := spelling.Nearest(filepath.Base(cfg.Workspace), dirsIn(filepath.Dir(cfg.Workspace))); like != "" {
		said += ". Did you mean " + short(filepath.Join(filepath.Dir(cfg.Workspace), like)) + "?"
	}
	return said
}

// dirsIn are the names of the directories in one, up to a bound.
func dirsIn(dir string) (names []string) {
	const most = 1000
	f, err := os.Open(dir)
	if err != nil {
		return nil
	}
	defer f.Close()
	entries, _ := f.ReadDir(most) // what cannot be read is not suggested
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names
}

// tellHistory prints what there is of the conversation with a name that goes on.
func tellHistory(name string, agent *pygent.Agent) {
	if recap := sessions.Recap(agent); recap != "" {
		note("%s %s", name, recap)
	}
}

// listingTime is how long the files of a temporary workspace may take to be listed.
const listingTime = 5 * time.Second

// tellFiles prints which files of a temporary workspace go with it, and how they come
// back, or would have been kept.
func tellFiles(ctx context.Context, agent *pygent.Agent) {
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
	note("%s", export.Gone(names, more, restorable(agent)))
}

// restorable returns the ID of the session that puts the files back; empty if it is not
// kept, or if its checkpoints do not have them.
func restorable(agent *pygent.Agent) string {
	info, kept := sessions.Of(agent)
	list := agent.Checkpoints()
	if !kept || len(list) == 0 || !list[len(list)-1].Files {
		return ""
	}
	return info.ID
}
