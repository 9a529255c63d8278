package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
	"github.com/x/pygent/openai"
)

// newModel returns pygent's model for a server.
func newModel(baseURL string) (*openai.Model, error) {
	return openai.New(openai.Env(nil), openai.Key("none"),
		openai.BaseURL(baseURL), openai.DefaultModel(modelName), openai.HTTPClient(&http.Client{}))
}

func newTool() pygent.Tool {
	return pygent.NewTool(toolName, toolDescription, func(_ context.Context, _ pygent.Runtime, a arguments) (string, error) { return read(a) })
}

func pygentMessages(history []turn) []pygent.Message {
	var messages []pygent.Message
	for _, t := range history {
		msg := pygent.Message{Role: chat.Role(t.role), Content: t.text}
		switch {
		case t.role == "tool":
			msg.ToolCallID = t.id
		case t.id != "":
			msg.ToolCalls = []pygent.ToolCall{{ID: t.id, Name: toolName, Arguments: t.arguments}}
		}
		messages = append(messages, msg)
	}
	return messages
}

// agent is pygent's agent. It has the one tool that the others have, and no more to say
// to the model than they.
type agent struct{ agent *pygent.Agent }

func openPygent(_ context.Context, baseURL string, history []turn) (session, error) {
	model, err := newModel(baseURL)
	if err != nil {
		return nil, err
	}
	var tools pygent.Registry
	if err := tools.Add(newTool()); err != nil {
		return nil, err
	}
	a, err := pygent.New(pygent.WithModel(model), pygent.WithRuntime(nowhere{}), pygent.WithRegistry(&tools),
		pygent.WithHistory(chat.NewHistory(pygentMessages(history)...)))
	if err != nil {
		return nil, err
	}
	return agent{a}, nil
}

func (a agent) close() error { return a.agent.Close() }

func (a agent) say(ctx context.Context, text string, onText func(string)) (string, error) {
	result, err := a.agent.RunUntilStop(ctx, text, pygent.WithEndOnReply(), pygent.MaxSteps(1<<20), pygent.MaxToolCalls(1<<20),
		pygent.OnEvent(func(e pygent.Event) {
			if e.Type == pygent.EventText {
				onText(e.Text)
			}
		}))
	if err != nil {
		return "", err
	}
	if result.Status != pygent.StatusReplied {
		return "", fmt.Errorf("the run ended as %s: %s", result.Status, result.Reason)
	}
	return result.Message.Text(), nil
}

// nowhere is a runtime that runs nothing, since the tool needs none.
type nowhere struct{ pygent.Runtime }

// Cleanup has nothing to remove.
func (nowhere) Cleanup() error { return nil }

// ReadFile finds no file.
func (nowhere) ReadFile(context.Context, string) ([]byte, error) { return nil, io.EOF }

// modelByHand is a loop on pygent's model, for what of a step is the agent's.
type modelByHand struct {
	model    *openai.Model
	tools    []chat.ToolSpec
	messages *pygent.History
}

func openModel(_ context.Context, baseURL string, history []turn) (session, error) {
	model, err := newModel(baseURL)
	if err != nil {
		return nil, err
	}
	tool := newTool()
	tools := []chat.ToolSpec{{Name: tool.Name, Description: tool.Description, Parameters: tool.Parameters}}
	return &modelByHand{model: model, tools: tools, messages: chat.NewHistory(pygentMessages(history)...)}, nil
}

func (m *modelByHand) close() error { return nil }

func (m *modelByHand) say(ctx context.Context, text string, onText func(string)) (string, error) {
	if err := m.messages.Append(chat.UserMessage(text)); err != nil {
		return "", err
	}
	for {
		request := &pygent.ChatRequest{Messages: m.messages.Conversation(), Tools: m.tools}
		response, err := m.model.ChatStream(ctx, request, func(d pygent.Delta) {
			if d.Text != "" {
				onText(d.Text)
			}
		})
		if err != nil {
			return "", err
		}
		if err := m.messages.Append(response.Message); err != nil {
			return "", err
		}
		if len(response.Message.ToolCalls) == 0 {
			return response.Message.Text(), nil
		}
		for _, call := range response.Message.ToolCalls {
			var a arguments
			if err := json.Unmarshal([]byte(call.Arguments), &a); err != nil {
				return "", err
			}
			result, err := read(a)
			if err != nil {
				return "", err
			}
			if err := m.messages.Append(chat.ToolMessage(call.ID, result)); err != nil {
				return "", err
			}
		}
	}
}
