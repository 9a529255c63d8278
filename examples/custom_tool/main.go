// Command custom_tool registers two tools: one whose arguments are a plain
// map, and one whose arguments are a struct. A scripted model calls both, so
// no key is needed.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
	"github.com/x/pygent/pygenttest"
)

// hello gets its arguments as a map. Their JSON Schema is written out below.
func hello(_ context.Context, _ pygent.Runtime, args map[string]any) (string, error) {
	return fmt.Sprintf("Hello %s!", args["name"]), nil
}

// countInput defines the schema: names come from the json tags, descriptions from
// the jsonschema tags. The function is never called with arguments that do not
// fit.
type countInput struct {
	Path string `json:"path" jsonschema:"a file of the workspace"`
}

// count uses the runtime, as the built-in tools do.
func count(ctx context.Context, rt pygent.Runtime, in countInput) (string, error) {
	data, err := rt.ReadFile(ctx, in.Path)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s has %d bytes", in.Path, len(data)), nil
}

func main() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	// This tool is for every agent that is made from now on.
	err := pygent.RegisterTool("hello", "Greet the user", map[string]any{
		"type":       "object",
		"properties": map[string]any{"name": map[string]any{"type": "string"}},
		"required":   []string{"name"},
	}, hello)
	if err != nil {
		return err
	}
	model := pygenttest.NewScriptedModel(
		pygenttest.Call("hello", map[string]any{"name": "Ada"}),
		pygenttest.Call("write_file", map[string]any{"path": "notes.txt", "content": "twelve bytes"}),
		pygenttest.Call("count", map[string]any{"path": "notes.txt"}),
		pygenttest.Call("count", map[string]any{"file": "notes.txt"}), // does not fit: the model gets an error
		pygenttest.Call("stop", nil),
	)
	// This one is only for this agent.
	agent, err := pygent.New(pygent.WithModel(model), pygent.WithTools(pygent.NewTool("count", "Count the bytes of a file", count)))
	if err != nil {
		return err
	}
	defer agent.Close()

	if _, err := agent.RunUntilStop(ctx, "Try the tools."); err != nil {
		return err
	}
	for _, m := range agent.History().Messages() {
		if m.Role == chat.RoleTool {
			fmt.Println(m.Text())
		}
	}
	return nil
}
