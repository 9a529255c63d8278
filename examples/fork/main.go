// Fork has an agent try three ways from one state, and keeps the best one. It needs
// no key: the models are scripted. Run it with
//
//	go run ./examples/fork
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"

	"github.com/x/pygent"
	"github.com/x/pygent/checkpoint"
	"github.com/x/pygent/pygenttest"
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
	trees, err := os.MkdirTemp("", "trees-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(trees)
	agent, err := pygent.New(
		pygent.WithModel(model("seq 1 100 > numbers.txt")),
		pygent.WithDocker(pygent.DockerNever), // so that the example runs without Docker
		checkpoint.Keep(filepath.Join(trees, "store")))
	if err != nil {
		return err
	}
	defer agent.Close()
	if _, err := agent.RunUntilStop(ctx, "Write the numbers to 100 into a file."); err != nil {
		return err
	}
	list := agent.Checkpoints()
	from := list[len(list)-1].ID

	var best *pygent.Agent
	smallest := 0
	for _, way := range []string{"cp numbers.txt lines", "tr -d '\\n' < numbers.txt > digits", "sed 's/$/,/' numbers.txt > commas"} {
		fork, err := agent.Fork(ctx, from, pygent.WithModel(model(way)))
		if err != nil {
			return err
		}
		defer fork.Close()
		size, err := try(ctx, fork)
		if err != nil {
			return err
		}
		fmt.Printf("%s: %d bytes\n", way, size)
		if best == nil || size < smallest {
			best, smallest = fork, size
		}
	}
	changes, _, err := best.Differences(ctx, best.Checkpoints()[0].ID, 0)
	if err != nil {
		return err
	}
	for _, c := range changes {
		fmt.Println("the best way made", c.Path)
	}
	return nil
}

// try has a fork go its way, and returns how many bytes the result has.
func try(ctx context.Context, fork *pygent.Agent) (int, error) {
	if _, err := fork.RunUntilStop(ctx, "Write them down anew, as short as you can."); err != nil {
		return 0, err
	}
	changes, _, err := fork.Differences(ctx, fork.Checkpoints()[0].ID, 0)
	if err != nil {
		return 0, err
	}
	size := 0
	for _, c := range changes {
		data, err := fork.Runtime().ReadFile(ctx, c.Path)
		if err != nil {
			return 0, err
		}
		size += len(data)
	}
	return size, nil
}

// model plays a model that runs one command.
func model(command string) pygent.Model {
	return pygenttest.NewScriptedModel(
		pygenttest.Call("bash", map[string]any{"cmd": command}),
		pygenttest.Call("stop", nil))
}
