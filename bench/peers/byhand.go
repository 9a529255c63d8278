package main

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
)

// byHand is a loop on openai-go, as its documentation shows it.
type byHand struct {
	client openai.Client
	params openai.ChatCompletionNewParams
}

func openByHand(_ context.Context, baseURL string, history []turn) (session, error) {
	b := &byHand{client: openai.NewClient(option.WithBaseURL(baseURL), option.WithAPIKey("none"))}
	b.params.Model = modelName
	b.params.StreamOptions.IncludeUsage = openai.Bool(true)
	b.params.Tools = []openai.ChatCompletionToolUnionParam{openai.ChatCompletionFunctionTool(openai.FunctionDefinitionParam{
		Name: toolName, Description: openai.String(toolDescription), Parameters: toolSchema,
	})}
	for _, t := range history {
		b.params.Messages = append(b.params.Messages, messageByHand(t))
	}
	return b, nil
}

func messageByHand(t turn) openai.ChatCompletionMessageParamUnion {
	switch t.role {
	case "system":
		return openai.SystemMessage(t.text)
	case "user":
		return openai.UserMessage(t.text)
	case "tool":
		return openai.ToolMessage(t.text, t.id)
	}
	msg := openai.AssistantMessage(t.text)
	if t.id != "" {
		msg.OfAssistant.ToolCalls = []openai.ChatCompletionMessageToolCallUnionParam{{
			OfFunction: &openai.ChatCompletionMessageFunctionToolCallParam{
				ID:       t.id,
				Function: openai.ChatCompletionMessageFunctionToolCallFunctionParam{Name: toolName, Arguments: t.arguments},
			},
		}}
	}
	return msg
}

func (b *byHand) close() error { return nil }

func (b *byHand) say(ctx context.Context, text string, onText func(string)) (string, error) {
	b.params.Messages = append(b.params.Messages, openai.UserMessage(text))
	for {
		msg, err := b.ask(ctx, onText)
		if err != nil {
			return "", err
		}
		b.params.Messages = append(b.params.Messages, msg.ToParam())
		if len(msg.ToolCalls) == 0 {
			return msg.Content, nil
		}
		for _, call := range msg.ToolCalls {
			var a arguments
			if err := json.Unmarshal([]byte(call.Function.Arguments), &a); err != nil {
				return "", err
			}
			result, err := read(a)
			if err != nil {
				return "", err
			}
			b.params.Messages = append(b.params.Messages, openai.ToolMessage(result, call.ID))
		}
	}
}

// ask asks the model once.
func (b *byHand) ask(ctx context.Context, onText func(string)) (openai.ChatCompletionMessage, error) {
	stream := b.client.Chat.Completions.NewStreaming(ctx, b.params)
	defer stream.Close()
	var answer openai.ChatCompletionAccumulator
	for stream.Next() {
		chunk := stream.Current()
		answer.AddChunk(chunk)
		if len(chunk.Choices) > 0 && chunk.Choices[0].Delta.Content != "" {
			onText(chunk.Choices[0].Delta.Content)
		}
	}
	if err := stream.Err(); err != nil {
		return openai.ChatCompletionMessage{}, err
	}
	if len(answer.Choices) == 0 {
		return openai.ChatCompletionMessage{}, errors.New("the model did not answer")
	}
	return answer.Choices[0].Message, nil
}
