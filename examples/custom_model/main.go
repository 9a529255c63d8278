// Command custom_model plugs in a model of its own: here one that needs no key
// because it only repeats what it hears.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/x/pygent"
)

// echo answers with the last message.
func echo(_ context.Context, req *pygent.ChatRequest) (*pygent.ChatResponse, error) {
	last := req.Messages[len(req.Messages)-1]
	return &pygent.ChatResponse{
		Message:      pygent.AssistantMessage("You said: " + last.Text()),
		FinishReason: pygent.FinishStop,
	}, nil
}

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	// One agent can be given its model; SetDefaultModel gives it to all that follow.
	pygent.SetDefaultModel(pygent.ModelFunc(echo))
	agent, err := pygent.New()
	if err != nil {
		return err
	}
	defer agent.Close()

	reply, err := agent.Step(ctx, "Is anybody there?")
	if err != nil {
		return err
	}
	fmt.Println(reply.Text())
	return nil
}
