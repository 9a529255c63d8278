package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// The tool, which does nothing, and the model, of which the server knows nothing.
const (
	toolName        = "read"
	toolDescription = "Read a line of a file."
	modelName       = "gpt-4.1-mini"
)

// arguments are those of the tool.
type arguments struct {
	Path string `json:"path" jsonschema:"required"`
	Line int    `json:"line" jsonschema:"required"`
}

// toolSchema is the JSON Schema of arguments, for peers that do not make it.
var toolSchema = map[string]any{
	"type":       "object",
	"properties": map[string]any{"path": map[string]any{"type": "string"}, "line": map[string]any{"type": "integer"}},
	"required":   []string{"path", "line"},
}

// read is the tool.
func read(a arguments) (string, error) {
	if a.Path == "" {
		return "", errors.New("no path was given")
	}
	return fmt.Sprintf("line %d of %s", a.Line, a.Path), nil
}

// turn is a message of a history, in no peer's form. One with an ID is an answer that
// calls the tool, or the call's result.
type turn struct {
	role, text, id, arguments string
}

// history is a conversation of about n messages, like that of a coding session.
func history(n int) []turn {
	turns := []turn{{role: "system", text: "You are a coding assistant."}, {role: "user", text: "Fix the bug."}}
	for i := 0; len(turns) < n; i++ {
		id := fmt.Sprintf("earlier_%d", i)
		turns = append(turns,
			turn{role: "assistant", text: "Let me look.", id: id, arguments: fmt.Sprintf(`{"path":"main.go","line":%d}`, i)},
			turn{role: "tool", id: id, text: strings.Repeat(fmt.Sprintf("line %d of the file\n", i), 10)})
	}
	return append(turns, turn{role: "assistant", text: "It is fixed."})
}

// peer is a way to talk with a model.
type peer struct {
	name string
	open func(ctx context.Context, baseURL string, history []turn) (session, error)
}

// session is a conversation.
type session interface {
	// say makes steps until the model answers in words, and returns the answer. onText
	// gets the text of the answers while it arrives.
	say(ctx context.Context, text string, onText func(string)) (string, error)
	close() error
}

// Names of peers that have goals of their own.
const (
	bareName        = "net/http by hand"
	modelByHandName = "pygent's model by hand"
	ours            = "pygent's agent"
)

// peers are all ways. The first is what the others are compared with.
var peers = []peer{
	{bareName, openBare},
	{"openai-go by hand", openByHand},
	{"eino's model by hand", openEinoModel},
	{"eino's agent", openEino},
	{modelByHandName, openModel},
	{ours, openPygent},
}

func names() []string {
	var all []string
	for _, p := range peers {
		all = append(all, p.name)
	}
	return all
}

// selected returns the peer of a name, and all of them for none.
func selected(name string) ([]peer, error) {
	if name == "" {
		return peers, nil
	}
	for _, p := range peers {
		if p.name == name {
			return []peer{p}, nil
		}
	}
	return nil, fmt.Errorf("%q is no peer; there are %s", name, strings.Join(names(), ", "))
}
