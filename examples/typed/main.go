// Typed ends a run with a value of a Go type, and tells what the run used and
// cost. It needs no key: the model is scripted. Run it with
//
//	go run ./examples/typed
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"

	"github.com/x/pygent"
	"github.com/x/pygent/pygenttest"
)

// Release is what the program wants to know.
type Release struct {
	Version string   `json:"version" jsonschema:"of the form 1.2.3"`
	Changes []string `json:"changes" jsonschema:"each change in one line"`
}

// Validate refuses a release without changes; the model reads the reason.
func (r Release) Validate() error {
	if len(r.Changes) == 0 {
		return errors.New("name at least one change")
	}
	return nil
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	agent, err := pygent.New(pygent.WithModel(model()),
		pygent.WithPrices(map[string]pygent.Price{"gpt-4.1-mini": {Prompt: 0.4, Cached: 0.1, Completion: 1.6}}))
	if err != nil {
		return err
	}
	defer agent.Close()
	release, result, err := pygent.RunTyped[Release](ctx, agent, "What is in the next release?")
	if err != nil {
		return err
	}
	fmt.Println(release.Version, release.Changes)
	fmt.Println("status:", result.Status)
	used := agent.Usage()
	fmt.Printf("%d tokens, $%.4f\n", used.Total().Total(), used.Cost)
	return nil
}

// model plays a model that first forgets the changes.
func model() pygent.Model {
	answer := func(changes ...string) pygenttest.Reply {
		release := map[string]any{"version": "1.0.0", "changes": append([]string{}, changes...)}
		return pygenttest.Call("final_answer", release).WithModel("gpt-4.1-mini-2025-04-14").
			WithUsage(pygent.Usage{PromptTokens: 1000, CompletionTokens: 100})
	}
	return pygenttest.NewScriptedModel(answer(), answer("the first release"))
}
