package main

import (
	"context"
	"errors"
	"io"

	"github.com/cloudwego/eino-ext/components/model/openai"
	"github.com/cloudwego/eino/components/model"
	"github.com/cloudwego/eino/components/tool"
	"github.com/cloudwego/eino/components/tool/utils"
	"github.com/cloudwego/eino/compose"
	"github.com/cloudwego/eino/flow/agent/react"
	"github.com/cloudwego/eino/schema"
)

// einoAgent is eino's ReAct agent with its model for OpenAI's API.
type einoAgent struct {
	agent    *react.Agent
	messages []*schema.Message
}

func openEino(ctx context.Context, baseURL string, history []turn) (session, error) {
	chat, readTool, err := newEino(ctx, baseURL)
	if err != nil {
		return nil, err
	}
	agent, err := react.NewAgent(ctx, &react.AgentConfig{
		ToolCallingModel: chat,
		ToolsConfig:      compose.ToolsNodeConfig{Tools: []tool.BaseTool{readTool}},
		MaxStep:          1 << 20,
	})
	if err != nil {
		return nil, err
	}
	return &einoAgent{agent: agent, messages: einoMessages(history)}, nil
}

// newEino returns eino's model for a server, and the tool.
func newEino(ctx context.Context, baseURL string) (*openai.ChatModel, tool.InvokableTool, error) {
	chat, err := openai.NewChatModel(ctx, &openai.ChatModelConfig{BaseURL: baseURL, APIKey: "none", Model: modelName})
	if err != nil {
		return nil, nil, err
	}
	readTool, err := utils.InferTool(toolName, toolDescription, func(_ context.Context, a arguments) (string, error) { return read(a) })
	return chat, readTool, err
}

func einoMessages(history []turn) []*schema.Message {
	var messages []*schema.Message
	for _, t := range history {
		messages = append(messages, einoMessage(t))
	}
	return messages
}

func einoMessage(t turn) *schema.Message {
	switch t.role {
	case "system":
		return schema.SystemMessage(t.text)
	case "user":
		return schema.UserMessage(t.text)
	case "tool":
		return schema.ToolMessage(t.text, t.id)
	}
	var calls []schema.ToolCall
	if t.id != "" {
		calls = []schema.ToolCall{{ID: t.id, Type: "function", Function: schema.FunctionCall{Name: toolName, Arguments: t.arguments}}}
	}
	return schema.AssistantMessage(t.text, calls)
}

func (e *einoAgent) close() error { return nil }

// say keeps only the answer in words, since the agent gives nothing else back.
func (e *einoAgent) say(ctx context.Context, text string, onText func(string)) (string, error) {
	e.messages = append(e.messages, schema.UserMessage(text))
	stream, err := e.agent.Stream(ctx, e.messages)
	if err != nil {
		return "", err
	}
	defer stream.Close()
	answer, err := wholeAnswer(stream, onText)
	if err != nil {
		return "", err
	}
	e.messages = append(e.messages, answer)
	return answer.Content, nil
}

// wholeAnswer reads an answer to its end.
func wholeAnswer(stream *schema.StreamReader[*schema.Message], onText func(string)) (*schema.Message, error) {
	var pieces []*schema.Message
	for {
		piece, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return schema.ConcatMessages(pieces)
		}
		if err != nil {
			return nil, err
		}
		if piece.Content != "" {
			onText(piece.Content)
		}
		pieces = append(pieces, piece)
	}
}

// einoModel is a loop by hand on eino's model, which is what its agent adds to.
type einoModel struct {
	model    model.ToolCallingChatModel
	tool     tool.InvokableTool
	messages []*schema.Message
}

func openEinoModel(ctx context.Context, baseURL string, history []turn) (session, error) {
	chat, readTool, err := newEino(ctx, baseURL)
	if err != nil {
		return nil, err
	}
	info, err := readTool.Info(ctx)
	if err != nil {
		return nil, err
	}
	withTool, err := chat.WithTools([]*schema.ToolInfo{info})
	if err != nil {
		return nil, err
	}
	return &einoModel{model: withTool, tool: readTool, messages: einoMessages(history)}, nil
}

func (e *einoModel) close() error { return nil }

func (e *einoModel) say(ctx context.Context, text string, onText func(string)) (string, error) {
	e.messages = append(e.messages, schema.UserMessage(text))
	for {
		stream, err := e.model.Stream(ctx, e.messages)
		if err != nil {
			return "", err
		}
		answer, err := wholeAnswer(stream, onText)
		stream.Close()
		if err != nil {
			return "", err
		}
		e.messages = append(e.messages, answer)
		if len(answer.ToolCalls) == 0 {
			return answer.Content, nil
		}
		for _, call := range answer.ToolCalls {
			result, err := e.tool.InvokableRun(ctx, call.Function.Arguments)
			if err != nil {
				return "", err
			}
			e.messages = append(e.messages, schema.ToolMessage(result, call.ID))
		}
	}
}
