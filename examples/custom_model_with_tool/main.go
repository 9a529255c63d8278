// Command custom_model_with_tool uses a model of its own that calls tools: it
// lists the workspace, and ends the run with the listing.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"strings"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
)

// lister calls bash first, and then stop with bash's result.
type lister struct{}

func (lister) Chat(_ context.Context, req *pygent.ChatRequest) (*pygent.ChatResponse, error) {
	last := req.Messages[len(req.Messages)-1]
	if last.Role != chat.RoleTool {
		return call("bash", map[string]any{"cmd": "echo 42 > answer.txt && ls"})
	}
	_, output, _ := strings.Cut(last.Text(), "\n")
	output, _, _ = strings.Cut(output, "\n[") // news of the runtime may follow
	return call("stop", map[string]any{"summary": "The workspace holds: " + strings.TrimSpace(output)})
}

func call(tool string, args map[string]any) (*pygent.ChatResponse, error) {
	data, err := json.Marshal(args)
	if err != nil {
		return nil, err
	}
	return &pygent.ChatResponse{
		Message:      chat.AssistantMessage("", pygent.ToolCall{ID: "call_" + tool, Name: tool, Arguments: string(data)}),
		FinishReason: chat.FinishToolCalls,
	}, nil
}

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	agent, err := pygent.New(pygent.WithModel(lister{}))
	if err != nil {
		return err
	}
	defer agent.Close()

	result, err := agent.RunUntilStop(ctx, "What is in the workspace?")
	if err != nil {
		return err
	}
	fmt.Println(result.Status)
	fmt.Println(result.Summary)
	return nil
}
