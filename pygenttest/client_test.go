package pygenttest_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
	"github.com/x/pygent/pygenttest"
)

const (
	plainBody  = `{"model":"m1","messages":[{"role":"user","content":"hi"}],"temperature":0.5,"tools":[{"type":"function","function":{"name":"bash","parameters":{"type":"object","properties":{}}}}]}`
	streamBody = `{"model":"m1","messages":[{"role":"user","content":"hi"}],"stream":true}`
	usageBody  = `{"model":"m1","messages":[{"role":"user","content":"hi"}],"stream":true,"stream_options":{"include_usage":true}}`
)

// post sends a chat request over a connection of its own.
func post(t *testing.T, s *pygenttest.Server, body string) (*http.Response, error) {
	t.Helper()
	return postContext(t.Context(), s, body)
}

func postContext(ctx context.Context, s *pygenttest.Server, body string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL()+"/chat/completions", strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer sk-scripted")
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	return client.Do(req)
}

// answer reads a whole answer. err is set if the connection is cut off.
func answer(t *testing.T, s *pygenttest.Server, body string) (status int, header http.Header, text string, err error) {
	t.Helper()
	resp, err := post(t, s, body)
	if err != nil {
		return 0, nil, "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, resp.Header, string(b), err
}

// events returns the data of a stream's events.
func events(t *testing.T, text string) []string {
	t.Helper()
	var out []string
	lines := bufio.NewScanner(strings.NewReader(text))
	for lines.Scan() {
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			out = append(out, data)
		}
	}
	require.NoError(t, lines.Err())
	return out
}

// chunk has the fields of a plain answer or an event that these tests check.
type chunk struct {
	ID      string
	Choices []struct {
		Message *pygent.Message
		Delta   struct {
			Role, Content string
			Reasoning     string `json:"reasoning_content"`
			ToolCalls     []struct {
				ID       string
				Index    *int
				Function struct {
					Name      string
					Arguments json.RawMessage
				}
			} `json:"tool_calls"`
		}
		FinishReason *chat.FinishReason `json:"finish_reason"`
	}
	Usage *pygent.Usage
	Error *struct{ Code, Message, Type, Param string }
}

func decode(t *testing.T, text string) chunk {
	t.Helper()
	var c chunk
	require.NoError(t, json.Unmarshal([]byte(text), &c), text)
	return c
}

func stream(t *testing.T, s *pygenttest.Server, body string) []chunk {
	t.Helper()
	status, header, text, err := answer(t, s, body)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, status)
	require.Equal(t, "text/event-stream", header.Get("Content-Type"))
	var out []chunk
	for _, e := range events(t, text) {
		if e != "[DONE]" {
			out = append(out, decode(t, e))
		}
	}
	return out
}

// assembled is what a client of a healthy stream reads.
type assembled struct {
	text, reasoning  string
	names, arguments []string
	finish           chat.FinishReason
	usage            *pygent.Usage
}

func assemble(t *testing.T, chunks []chunk) assembled {
	t.Helper()
	var out assembled
	for _, c := range chunks {
		out.usage = c.Usage
		for _, choice := range c.Choices {
			out.text += choice.Delta.Content
			out.reasoning += choice.Delta.Reasoning
			for _, call := range choice.Delta.ToolCalls {
				if *call.Index == len(out.names) {
					out.names = append(out.names, "")
					out.arguments = append(out.arguments, "")
				}
				var args string
				require.NoError(t, json.Unmarshal(call.Function.Arguments, &args))
				out.names[*call.Index] += call.Function.Name
				out.arguments[*call.Index] += args
			}
			if choice.FinishReason != nil {
				out.finish = *choice.FinishReason
			}
		}
	}
	return out
}
