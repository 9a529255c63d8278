// Command custom_model uses a model of its own, which only repeats what it is
// told, so no key is needed.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
)

// echo answers with the last message.
func echo(_ context.Context, req *pygent.ChatRequest) (*pygent.ChatResponse, error) {
	last := req.Messages[len(req.Messages)-1]
	return &pygent.ChatResponse{
		Message:      chat.AssistantMessage("You said: " + last.Text()),
		FinishReason: chat.FinishStop,
	}, nil
}

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	// WithModel sets the model of one agent. SetDefaultModel sets it for all agents
	// that are made from now on.
	pygent.SetDefaultModel(pygent.ModelFunc(echo))
	agent, err := pygent.New()
	if err != nil {
		return err
	}
	defer agent.Close()

	result, err := agent.Step(ctx, "Is anybody there?")
	if err != nil {
		return err
	}
	fmt.Println(result.Message.Text())
	return nil
}
