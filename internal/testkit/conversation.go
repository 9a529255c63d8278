package testkit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/x/pygent"
	"github.com/x/pygent/chat"
)

// CheckStrictly returns what a strict provider would reject in a conversation.
func CheckStrictly(msgs []chat.Message) error {
	ids := map[string]bool{}
	for i := 0; i < len(msgs); i++ {
		m := msgs[i]
		switch {
		case m.Role == chat.RoleTool:
			return fmt.Errorf("message %d: a result without a call", i)
		case m.ToolCallID != "":
			return fmt.Errorf("message %d: answers a call but is no result", i)
		case m.Role != chat.RoleAssistant && len(m.ToolCalls) > 0:
			return fmt.Errorf("message %d: only an assistant calls tools", i)
		case strings.TrimSpace(m.Text()) == "" && len(m.Parts) == 0 && len(m.ToolCalls) == 0:
			return fmt.Errorf("message %d: it is empty", i)
		}
		for n, call := range m.ToolCalls {
			if err := legalCall(call, ids); err != nil {
				return fmt.Errorf("message %d: call %d: %w", i, n, err)
			}
			if i+1+n >= len(msgs) {
				return fmt.Errorf("message %d: call %d has no result", i, n)
			}
			switch result := msgs[i+1+n]; {
			case result.Role != chat.RoleTool || result.ToolCallID != call.ID:
				return fmt.Errorf("message %d: call %d is not answered in its place", i, n)
			case result.Parts != nil:
				return fmt.Errorf("message %d: the result is more than text", i+1+n)
			}
		}
		i += len(m.ToolCalls)
	}
	return nil
}

func legalCall(call chat.ToolCall, ids map[string]bool) error {
	var object map[string]json.RawMessage
	switch {
	case call.ID == "" || ids[call.ID]:
		return fmt.Errorf("its id %q is empty or taken", call.ID)
	case call.Name == "" || len(call.Name) > 64 || strings.Trim(call.Name, nameCharacters) != "":
		return fmt.Errorf("its name %q is illegal", call.Name)
	case json.Unmarshal([]byte(call.Arguments), &object) != nil || object == nil:
		return errors.New("its arguments are no object")
	}
	ids[call.ID] = true
	return nil
}

const nameCharacters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"

// OpenHistory opens a history, which is closed at the end of the test.
func OpenHistory(t testing.TB, path string) *chat.History {
	t.Helper()
	h, err := chat.OpenHistory(path)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, h.Close()) })
	return h
}

// ActionTool returns a tool without arguments that calls f.
func ActionTool(t testing.TB, name string, f func() string) pygent.Tool {
	t.Helper()
	tool := pygent.NewTool(name, "Acts", func(context.Context, pygent.Runtime, struct{}) (string, error) { return f(), nil })
	return tool
}

// Spill is a tool with a long result.
func Spill(bytes int) pygent.Tool {
	return pygent.NewTool("spill", "Print a lot", func(_ context.Context, _ pygent.Runtime, in struct {
		N int `json:"n"`
	}) (string, error) {
		line := fmt.Sprintf("line of result %d\n", in.N)
		return strings.Repeat(line, bytes/len(line)+1) + fmt.Sprintf("[the whole output is in /tmp/%d]", in.N), nil
	})
}
