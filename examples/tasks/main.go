// Command tasks has background agents work on several tasks, decides about their
// commands, takes the answers as they come, and asks one of them to go on. The
// model is scripted, so no key is needed.
package main

import (
	"context"
	"fmt"
	"log"
	"slices"
	"strings"

	"github.com/x/pygent"
	"github.com/x/pygent/pygenttest"
)

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

// model counts the words of a text, removes the file, and says so.
func model() pygent.Model {
	bash := func(cmd string) pygenttest.Reply { return pygenttest.Call("bash", map[string]any{"cmd": cmd}) }
	stop := func(text string) pygenttest.Reply {
		return pygenttest.Call("stop", map[string]any{"summary": text})
	}
	return pygenttest.NewScriptedModel().
		On("count", bash("echo one two > words; wc -w < words"), stop("There are 2 words."), stop("In German: Es sind 2 Wörter.")).
		On("clean", bash("rm -rf cache"), stop("I was not allowed to remove it."))
}

func run(ctx context.Context) error {
	rt, err := pygent.NewRuntime(ctx)
	if err != nil {
		return err
	}
	defer rt.Cleanup()
	tasks, err := pygent.NewTaskManager(
		pygent.TaskAgents(pygent.WithModel(model()), pygent.WithApprovalFor("bash")),
		pygent.TaskApproval(func(ctx context.Context, _ pygent.ApprovalRequest) (pygent.Decision, error) {
			<-ctx.Done() // decide below
			return pygent.Decision{}, ctx.Err()
		}))
	if err != nil {
		return err
	}
	defer tasks.Close()

	var open []string
	for _, prompt := range []string{"count", "clean"} {
		id, err := tasks.StartTask(ctx, prompt, rt, pygent.WithTaskID(prompt))
		if err != nil {
			return err
		}
		if err := decide(ctx, tasks, id); err != nil {
			return err
		}
		open = append(open, id)
	}
	answers := map[string]string{}
	for len(open) > 0 {
		status, err := tasks.WaitAny(ctx, open...)
		if err != nil {
			return err
		}
		if err := status.Err(); err != nil {
			return err
		}
		answers[status.ID] = status.Summary()
		open = slices.DeleteFunc(open, func(id string) bool { return id == status.ID })
	}
	fmt.Println(answers["count"])
	fmt.Println(answers["clean"])

	if _, err := tasks.Send(ctx, "count", "And in German?"); err != nil {
		return err
	}
	status, err := tasks.Wait(ctx, "count")
	fmt.Println(status.Summary())
	return err
}

// decide answers the first question about a command of the task, as a page or
// another program could.
func decide(ctx context.Context, tasks *pygent.TaskManager, id string) error {
	for e, err := range tasks.Events(ctx, id, 0) {
		switch {
		case err != nil:
			return err
		case e.Type == pygent.EventApproval:
			safe := !strings.Contains(e.Call.Arguments, "rm")
			fmt.Printf("%s wants to run %s: %t\n", id, e.Call.Arguments, safe)
			return tasks.Decide(ctx, id, e.Call.ID, pygent.Decision{Allow: safe, Reason: "nothing is removed here", By: "example"})
		}
	}
	return nil
}
