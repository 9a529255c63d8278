// Command delegate gives a background agent a task from Go code: it copies files
// in, sets limits, waits for the status, and copies files back. The model is
// scripted, so no key is needed.
package main

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/x/pygent"
	"github.com/x/pygent/pygenttest"
)

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	model := pygenttest.NewScriptedModel(
		pygenttest.Call("bash", map[string]any{"cmd": "sort names.txt > sorted.txt && wc -l < sorted.txt"}),
		pygenttest.Call("stop", map[string]any{"summary": "The names are in sorted.txt."}),
	)
	rt, err := pygent.NewRuntime(ctx)
	if err != nil {
		return err
	}
	defer rt.Cleanup()
	if err := rt.WriteFile(ctx, "names.txt", []byte("Grace\nAda\nBarbara\n")); err != nil {
		return err
	}

	tasks, err := pygent.NewTaskManager(pygent.TaskAgents(pygent.WithModel(model)))
	if err != nil {
		return err
	}
	defer tasks.Close()
	id, err := tasks.StartTask(ctx, "Sort names.txt.", rt,
		pygent.WithTaskFiles("names.txt"),
		pygent.WithTaskLimits(pygent.Limits{MaxSteps: 5, MaxTime: time.Minute}))
	if err != nil {
		return err
	}
	status, err := tasks.Wait(ctx, id)
	if err != nil {
		return err
	}
	fmt.Printf("%s after %d steps: %s\n", status, status.Steps, status.Summary())

	if _, err := tasks.CollectFile(ctx, rt, id, "sorted.txt", ""); err != nil {
		return err
	}
	sorted, err := rt.ReadFile(ctx, "sorted.txt")
	fmt.Print(string(sorted))
	return err
}
