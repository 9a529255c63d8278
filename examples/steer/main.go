// Command steer follows an agent at work and speaks to it meanwhile. The model is
// scripted, so no key is needed.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
	"github.com/x/pygent/pygenttest"
)

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	model := pygenttest.NewScriptedModel(
		pygenttest.TextAndCalls("I build it.", pygenttest.Call("build", map[string]any{})),
		pygenttest.Text("Built, and the tests are as they were."))
	said := make(chan struct{})
	build := pygent.NewTool("build", "Build the program", func(ctx context.Context, _ pygent.Runtime, _ struct{}) (string, error) {
		<-said // it takes long enough to speak to the agent
		return "done", nil
	})
	agent, err := pygent.New(pygent.WithModel(model), pygent.WithTools(build))
	if err != nil {
		return err
	}
	defer agent.Close()

	ended := make(chan error, 1)
	go func() {
		_, err := agent.RunUntilStop(ctx, "Build the program.", pygent.WithEndOnReply())
		ended <- err
	}()
	for event, err := range agent.Subscribe(ctx, 0) {
		if err != nil {
			return err
		}
		switch event.Type {
		case pygent.EventUser:
			fmt.Println("user:", event.Text)
		case pygent.EventMessage:
			fmt.Println("model:", event.Message.Text())
		case pygent.EventToolStart:
			state := agent.State()
			fmt.Println("now:", state.Activity, state.Call.Name)
			if _, err := agent.Say(chat.UserMessage("Leave the tests alone.")); err != nil {
				return err
			}
			close(said)
		case pygent.EventRunEnd:
			return <-ended
		}
	}
	return nil
}
