package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// bare is the least that talks with a model: structs of the fields that are needed, and
// the whole history encoded for each request, as anybody would write it.
//
// It does not retry, limits neither the time nor the memory that an answer takes, takes
// no compressed answers, does not notice a stream that broke off, knows one call in each
// answer and no server's oddities, loses fields that it does not know, such as the
// reasoning that some servers want back, and tells nobody what it does.
type bare struct {
	client   http.Client
	url      string
	messages []bareMessage
}

type bareMessage struct {
	Role       string     `json:"role"`
	Content    string     `json:"content"`
	ToolCalls  []bareCall `json:"tool_calls,omitempty"`
	ToolCallID string     `json:"tool_call_id,omitempty"`
}

type bareCall struct {
	ID       string       `json:"id"`
	Type     string       `json:"type"`
	Function bareFunction `json:"function"`
}

type bareFunction struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// bareRequest is a request, whose tools are the same each time.
type bareRequest struct {
	Model         string         `json:"model"`
	Stream        bool           `json:"stream"`
	StreamOptions map[string]any `json:"stream_options"`
	Messages      []bareMessage  `json:"messages"`
	Tools         []any          `json:"tools"`
}

// bareChunk is what it reads of a chunk.
type bareChunk struct {
	Choices []struct {
		Delta struct {
			Content   string     `json:"content"`
			ToolCalls []bareCall `json:"tool_calls"`
		} `json:"delta"`
	} `json:"choices"`
}

func openBare(_ context.Context, baseURL string, history []turn) (session, error) {
	b := &bare{url: baseURL + "/chat/completions"}
	for _, t := range history {
		msg := bareMessage{Role: t.role, Content: t.text}
		switch {
		case t.role == "tool":
			msg.ToolCallID = t.id
		case t.id != "":
			msg.ToolCalls = []bareCall{{ID: t.id, Type: "function", Function: bareFunction{toolName, t.arguments}}}
		}
		b.messages = append(b.messages, msg)
	}
	return b, nil
}

func (b *bare) close() error { return nil }

func (b *bare) say(ctx context.Context, text string, onText func(string)) (string, error) {
	b.messages = append(b.messages, bareMessage{Role: "user", Content: text})
	for {
		msg, err := b.ask(ctx, onText)
		if err != nil {
			return "", err
		}
		b.messages = append(b.messages, msg)
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
			b.messages = append(b.messages, bareMessage{Role: "tool", ToolCallID: call.ID, Content: result})
		}
	}
}

// ask asks the model once.
func (b *bare) ask(ctx context.Context, onText func(string)) (bareMessage, error) {
	body, err := json.Marshal(bareRequest{
		Model: modelName, Stream: true, StreamOptions: map[string]any{"include_usage": true}, Messages: b.messages,
		Tools: []any{map[string]any{"type": "function", "function": map[string]any{"name": toolName, "description": toolDescription, "parameters": toolSchema}}},
	})
	if err != nil {
		return bareMessage{}, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, b.url, bytes.NewReader(body))
	if err != nil {
		return bareMessage{}, err
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := b.client.Do(req)
	if err != nil {
		return bareMessage{}, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		said, _ := io.ReadAll(res.Body)
		return bareMessage{}, fmt.Errorf("%s: %s", res.Status, said)
	}
	return readAnswer(res.Body, onText)
}

// readAnswer puts an answer together. It reads to the end, so that the connection can be
// used again.
func readAnswer(r io.Reader, onText func(string)) (bareMessage, error) {
	var content, args strings.Builder
	var call bareCall
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data: "))
		if !ok || bytes.Equal(data, []byte("[DONE]")) {
			continue
		}
		var c bareChunk
		if err := json.Unmarshal(data, &c); err != nil {
			return bareMessage{}, err
		}
		if len(c.Choices) == 0 {
			continue
		}
		delta := c.Choices[0].Delta
		if delta.Content != "" {
			content.WriteString(delta.Content)
			onText(delta.Content)
		}
		for _, piece := range delta.ToolCalls {
			if piece.ID != "" {
				call = piece
			}
			args.WriteString(piece.Function.Arguments)
		}
	}
	msg := bareMessage{Role: "assistant", Content: content.String()}
	if call.ID != "" {
		call.Function.Arguments = args.String()
		msg.ToolCalls = []bareCall{call}
	}
	return msg, lines.Err()
}
