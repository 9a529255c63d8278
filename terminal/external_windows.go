package terminal

import (
	"context"
	"os"
	"os/exec"
)

// fallbackEditors are looked for if the user has named no editor.
var fallbackEditors = []string{"notepad"}

// runInFront runs a program that has the terminal to itself.
func runInFront(ctx context.Context, cmd *exec.Cmd, _ *os.File) error {
	if err := cmd.Start(); err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() })()
	return cmd.Wait()
}
