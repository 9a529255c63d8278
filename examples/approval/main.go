// Command approval decides about calls: it shows the change that a call would
// make, allows writes to a file for the session, changes a command, and follows
// the progress of a tool. The model is scripted, so no key is needed.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"

	"github.com/x/pygent"
	"github.com/x/pygent/pygenttest"
)

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

// decide stands in for a person.
func decide(_ context.Context, r pygent.ApprovalRequest) (pygent.Decision, error) {
	for _, change := range r.Changes {
		fmt.Printf("%s would become %q, was %q\n", change.Path, change.After, change.Before)
		return pygent.Decision{Allow: true, Session: true, By: "Ada"}, nil
	}
	if r.Call.Name == "bash" {
		return pygent.Decision{Allow: true, Arguments: json.RawMessage(`{"cmd":"cat plan.txt"}`), By: "Ada"}, nil
	}
	return pygent.Decision{Allow: true, By: "Ada"}, nil
}

type countInput struct {
	To int `json:"to"`
}

// count tells how far it is.
func count(ctx context.Context, _ pygent.Runtime, in countInput) (string, error) {
	for i := range in.To {
		pygent.Progress(ctx, pygent.ProgressInfo{Text: "counting", Current: int64(i + 1), Total: int64(in.To)})
	}
	return "counted", nil
}

func write(content string) pygenttest.Reply {
	return pygenttest.Call("write_file", map[string]any{"path": "plan.txt", "content": content})
}

func run(ctx context.Context) error {
	model := pygenttest.NewScriptedModel(
		write("first\n"),
		write("second\n"),
		pygenttest.Call("bash", map[string]any{"cmd": "rm plan.txt"}),
		pygenttest.Call("count", map[string]any{"to": 1000}),
		pygenttest.Call("stop", nil),
	)
	agent, err := pygent.New(pygent.WithModel(model), pygent.WithTools(pygent.NewTool("count", "Count", count)), pygent.WithApproval(decide))
	if err != nil {
		return err
	}
	defer agent.Close()

	var progress *pygent.ProgressInfo
	for event, err := range agent.Events(ctx, "Make a plan.") {
		if err != nil {
			return err
		}
		switch event.Type {
		case pygent.EventDecision:
			fmt.Printf("%s: allowed by %s\n", event.Call.Name, event.Decision.By)
		case pygent.EventProgress:
			progress = event.Progress
		case pygent.EventToolDone:
			if bash := event.Output.Bash; bash != nil {
				fmt.Printf("it ran %q: %q\n", bash.Command, bash.Output)
			}
		}
	}
	fmt.Println("progress at the end:", progress.Current, "of", progress.Total)
	return nil
}
