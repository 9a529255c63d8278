package commands

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/settings"
)

// runShell runs a command and shows its output while it comes.
func runShell(ctx context.Context, a *pygent.Agent, args string, out io.Writer) error {
	if args == "" {
		return errors.New("no command was given: /cmd COMMAND")
	}
	shown := &tail{to: out}
	r, err := a.Runtime().Bash(ctx, args, pygent.BashTimeout(pygent.NoLimit), pygent.BashOutput(shown.add))
	if err != nil {
		return err
	}
	shown.end(r.Output)
	if r.ExitCode != 0 {
		return fmt.Errorf("exit code %d after %s", r.ExitCode, r.Duration.Round(time.Millisecond))
	}
	return nil
}

// tail writes what a command prints, and ends it with a line feed.
type tail struct {
	to io.Writer

	mu    sync.Mutex // guards what follows; held while to writes, since a call of add may be left behind
	began bool
	last  byte
}

func (t *tail) add(c pygent.OutputChunk) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c.Skipped > 0 {
		t.endLine()
		t.write(fmt.Sprintf("… %d bytes not shown …\n", c.Skipped))
	}
	t.write(c.Text)
}

// end writes the whole output if nothing of it came before, as from a runtime that
// has no live output.
func (t *tail) end(whole string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.began {
		t.write(whole)
	}
	t.endLine()
}

func (t *tail) write(text string) {
	if text != "" {
		t.began, t.last = true, text[len(text)-1]
		_, _ = io.WriteString(t.to, text)
	}
}

func (t *tail) endLine() {
	if t.began && t.last != '\n' {
		t.write("\n")
	}
}

func upload(ctx context.Context, a *pygent.Agent, args string, out io.Writer) error {
	names, err := arguments(args, 1, 2, "/cp SRC [DEST]")
	if err != nil {
		return err
	}
	src, dest := atHome(names[0]), "."
	if len(names) == 2 {
		dest = names[1]
	}
	if err := a.Runtime().UploadFile(ctx, src, dest); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "copied %s to %s in the workspace\n", src, dest)
	return err
}

func export(ctx context.Context, a *pygent.Agent, args string, out io.Writer) error {
	names, err := arguments(args, 2, 2, "/export PATH DEST")
	if err != nil {
		return err
	}
	dest := atHome(names[1])
	if err := a.Runtime().ExportFile(ctx, names[0], dest); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "copied %s of the workspace to %s\n", names[0], dest)
	return err
}

// atHome replaces "~" at the beginning of a path by the user's home.
func atHome(path string) string {
	home, _ := os.UserHomeDir() // without a home, "~" stays as it is
	return settings.ExpandHome(path, home)
}
