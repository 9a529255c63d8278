// Middleware logs the calls of a model and of the tools, and lets another model
// answer when the first one fails. It needs no key: both models are scripted.
// Run it with
//
//	go run ./examples/middleware
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"

	"github.com/x/pygent"
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
	first := pygenttest.NewScriptedModel(
		pygenttest.Call("bash", map[string]any{"cmd": "echo hello"}),
		pygenttest.Text("Let me th").FailAfter(1, "server_error", "the server crashed"))
	second := pygenttest.NewScriptedModel(pygenttest.Call("stop", map[string]any{"summary": "The second model took over."}))

	agent, err := pygent.New(pygent.WithModel(first),
		pygent.WithModelMiddleware(logged, orElse(second)),
		pygent.WithToolMiddleware(traced))
	if err != nil {
		return err
	}
	defer agent.Close()
	result, err := agent.RunUntilStop(ctx, "Say hello.")
	if err != nil {
		return err
	}
	fmt.Println(result.Summary)
	return nil
}

// logged says how each call of a model ended. The answer streams through it.
func logged(next pygent.Model) pygent.Model {
	return pygent.StreamFunc(func(ctx context.Context, req *pygent.ChatRequest, emit func(pygent.Delta)) (*pygent.ChatResponse, error) {
		resp, err := pygent.Stream(ctx, next, req, emit)
		if err == nil {
			fmt.Printf("model: %d messages in, %d calls out\n", len(req.Messages), len(resp.Message.ToolCalls))
		}
		return resp, err
	})
}

// orElse has another model answer when the first one fails, and takes back what
// that one has written.
func orElse(other pygent.Model) func(pygent.Model) pygent.Model {
	return func(next pygent.Model) pygent.Model {
		return pygent.StreamFunc(func(ctx context.Context, req *pygent.ChatRequest, emit func(pygent.Delta)) (*pygent.ChatResponse, error) {
			resp, err := pygent.Stream(ctx, next, req, emit)
			if err == nil || ctx.Err() != nil {
				return resp, err
			}
			emit(pygent.Delta{Withdrawn: true, Notice: "another model answers: " + err.Error()})
			return pygent.Stream(ctx, other, req, emit)
		})
	}
}

// traced says which tools run, and forbids one.
func traced(next pygent.ToolHandler) pygent.ToolHandler {
	return func(ctx context.Context, rt pygent.Runtime, call pygent.ToolCall) (*pygent.ToolResult, error) {
		fmt.Println("tool:", call.Name)
		if call.Name == "write_file" {
			return nil, fmt.Errorf("files are not written here")
		}
		return next(ctx, rt, call)
	}
}
