// Command delegate_custom_model uses a model of its own that delegates. The
// background agent uses the same model, which distinguishes the two agents by
// their prompts. Events show both at work.
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

// boss delegates the counting of words, waits for the answer and returns it.
type boss struct{}

func (boss) Chat(_ context.Context, req *pygent.ChatRequest) (*pygent.ChatResponse, error) {
	last := req.Messages[len(req.Messages)-1].Text()
	prompt := req.Messages[1].Text()
	switch {
	case strings.HasPrefix(prompt, "Count"):
		return worker(last)
	case last == prompt:
		return call("delegate_task", map[string]any{"prompt": "Count the words of: " + prompt})
	case strings.HasPrefix(last, "started task "):
		return call("task_status", map[string]any{"task_id": strings.Fields(last)[2], "wait": 60})
	}
	_, count, _ := strings.Cut(last, "There are ") // among the state, some numbers and news of the runtime
	count, _, _ = strings.Cut(count, " words")
	return call("stop", map[string]any{"summary": "There are " + count + " words."})
}

// worker is what the model says to the background agent.
func worker(last string) (*pygent.ChatResponse, error) {
	if text, ok := strings.CutPrefix(last, "Count the words of: "); ok {
		return call("bash", map[string]any{"cmd": "echo '" + text + "' | wc -w | tr -d ' '"})
	}
	_, output, _ := strings.Cut(last, "\n") // news of the runtime may follow
	count, _, _ := strings.Cut(output, "\n")
	return call("stop", map[string]any{"summary": "There are " + count + " words."})
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
	// SetDefaultModel serves every agent of the process, delegated ones too.
	pygent.SetDefaultModel(boss{})
	agent, err := pygent.New()
	if err != nil {
		return err
	}
	defer agent.Close()

	var byTask int
	result, err := agent.RunUntilStop(ctx, "how many are we", pygent.OnEvent(func(e pygent.Event) {
		if e.Task != "" && e.Type == pygent.EventToolDone {
			byTask++
		}
	}))
	if err != nil {
		return err
	}
	fmt.Println(result.Summary)
	fmt.Println("tools run by the agent itself:", result.ToolCalls)
	fmt.Println("tools run by its task:", byTask)
	return nil
}
