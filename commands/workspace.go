package commands

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/settings"
)

func script(_ context.Context, _ *pygent.Agent, args string) (string, error) {
	if args == "" {
		return "", errors.New("no command was given: /cmd COMMAND")
	}
	return args, nil
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
	err = a.Runtime().UploadFile(ctx, src, dest)
	switch {
	case errors.Is(err, pygent.ErrOutsideWorkspace):
		return fmt.Errorf("%w; DEST is a place in the workspace, and /export PATH DEST copies from it to this machine", err)
	case err != nil:
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
	replaced := ""
	if info, err := os.Stat(dest); err == nil && !info.IsDir() {
		replaced = ", in place of the file that was there"
	}
	if err := a.Runtime().ExportFile(ctx, names[0], dest); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "copied %s of the workspace to %s%s\n", names[0], dest, replaced)
	return err
}

// atHome replaces "~" at the beginning of a path by the user's home.
func atHome(path string) string {
	home, _ := os.UserHomeDir() // without a home, "~" stays as it is
	return settings.ExpandHome(path, home)
}
