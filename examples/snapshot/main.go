// Snapshot saves an agent in a directory, and goes on from there twice: with its files
// and its conversation, in new workspaces. The snapshot stays as it is. It needs no key:
// the models are scripted. Run it with
//
//	go run ./examples/snapshot
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
	"github.com/x/pygent/pygenttest"
	"github.com/x/pygent/snapshot"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	temp, err := os.MkdirTemp("", "snapshots-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	dir := filepath.Join(temp, "numbers") // must not exist yet
	if err := save(ctx, dir); err != nil {
		return err
	}
	for _, command := range []string{"paste -sd+ numbers.txt | tee sum.txt", "wc -l < numbers.txt; ls"} {
		if err := goOn(ctx, dir, command); err != nil {
			return err
		}
	}
	return nil
}

// save has an agent begin a piece of work, and saves it.
func save(ctx context.Context, dir string) error {
	agent, err := newAgent("seq 1 5 > numbers.txt")
	if err != nil {
		return err
	}
	defer agent.Close()
	if _, err := agent.RunUntilStop(ctx, "Write the numbers to 5 into a file."); err != nil {
		return err
	}
	_, err = snapshot.Save(ctx, agent, dir)
	return err
}

// goOn has another agent go on from what is saved.
func goOn(ctx context.Context, dir, command string) error {
	saved, err := snapshot.Load(ctx, dir) // refuses one that was changed or damaged
	if err != nil {
		return err
	}
	files, bytes := saved.Files()
	fmt.Printf("from %d messages, and %d file of %d bytes:\n", len(saved.Messages()), files, bytes)
	agent, err := newAgent(command, saved.Options()...)
	if err != nil {
		return err
	}
	defer agent.Close()
	if _, err := agent.RunUntilStop(ctx, "What is in it?"); err != nil {
		return err
	}
	for _, m := range agent.History().Messages()[len(saved.Messages()):] {
		if m.Role == chat.RoleTool && m.Text() != "" {
			fmt.Println(m.Text())
		}
	}
	return nil
}

// newAgent makes an agent whose model runs one command.
func newAgent(command string, opts ...pygent.Option) (*pygent.Agent, error) {
	return pygent.New(append([]pygent.Option{
		pygent.WithModel(pygenttest.NewScriptedModel(
			pygenttest.Call("bash", map[string]any{"cmd": command}),
			pygenttest.Call("stop", nil))),
		pygent.WithDocker(pygent.DockerNever), // so that the example runs without Docker
	}, opts...)...)
}
