// Command runtime uses a runtime by itself: no agent, no model.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"time"

	"github.com/x/pygent"
)

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	// This uses Docker if an engine answers, and this machine if not.
	rt, err := pygent.NewRuntime(ctx)
	if err != nil {
		return err
	}
	defer rt.Cleanup()

	if err := rt.WriteFile(ctx, "greet.sh", []byte("echo \"Hello $1\"\n")); err != nil {
		return err
	}
	greeting, err := rt.Bash(ctx, "sh greet.sh world | tee greeting.txt")
	if err != nil {
		return err
	}
	fmt.Print(greeting)

	failed, err := rt.Bash(ctx, "exit 3")
	if err != nil {
		return err
	}
	fmt.Println("exit code:", failed.ExitCode)

	slow, err := rt.Bash(ctx, "sleep 60", pygent.BashTimeout(200*time.Millisecond))
	if err != nil {
		return err
	}
	fmt.Println("timed out:", slow.TimedOut)

	dir, err := os.MkdirTemp("", "example-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := rt.ExportFile(ctx, "greeting.txt", filepath.Join(dir, "greeting.txt")); err != nil {
		return err
	}
	data, err := os.ReadFile(filepath.Join(dir, "greeting.txt"))
	if err != nil {
		return err
	}
	fmt.Printf("exported: %s", data)
	return nil
}
