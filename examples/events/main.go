// Command events follows the events of a run, and ends it early. The model is
// scripted, so no key is needed.
package main

import (
	"context"
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

func run(ctx context.Context) error {
	model := pygenttest.NewScriptedModel(
		pygenttest.TextAndCalls("Let me look.", pygenttest.Call("bash", map[string]any{"cmd": "echo data > input.txt; cat input.txt"})),
		pygenttest.Call("bash", map[string]any{"cmd": "echo this command never runs"}),
	)
	agent, err := pygent.New(pygent.WithModel(model))
	if err != nil {
		return err
	}
	defer agent.Close()

	for event, err := range agent.Events(ctx, "Look at the input.") {
		if err != nil {
			return err
		}
		switch event.Type {
		case pygent.EventMessage:
			fmt.Println("the model says:", event.Message.Text())
		case pygent.EventToolCall:
			fmt.Println("it calls:", event.Call.Name, event.Call.Arguments)
		case pygent.EventToolDone:
			fmt.Println("the result is:", event.Output.Content)
		}
		if event.Type == pygent.EventStep && event.Step == 2 {
			fmt.Println("that is enough")
			break // cancels the run; the history stays a legal conversation
		}
	}
	return nil
}
