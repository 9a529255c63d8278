package e2e

import (
	"context"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/openai"
	"github.com/x/pygent/pygenttest"
)

// provider is a server with a provider's rules, and how many requests it refuses
// until the library has adapted to it.
type provider struct {
	rules    pygenttest.Provider
	protocol openai.Protocol
	model    string
	path     string // the path of the accepted requests
	refused  int
}

const (
	chat      = "/v1/chat/completions"
	responses = "/v1/responses"
)

var providers = map[string]provider{
	"OpenAI":            {model: "gpt-4.1-mini", path: chat},
	"OpenAI, responses": {model: "gpt-5.4", protocol: openai.Responses, path: responses},
	"OpenAI, 5.6":       {model: "gpt-5.6-sol", path: responses, refused: 1},
	"OpenAI, codex 5.3": {model: "gpt-5.3-codex", path: responses, refused: 1},
	"OpenAI, codex":     {model: "gpt-5.1-codex", path: responses, refused: 1},
	"Gemini":            {model: "gemini-3-flash", rules: pygenttest.Gemini, path: chat},
	"Mistral":           {model: "devstral-medium", rules: pygenttest.Mistral, path: chat, refused: 2}, // for the reasoning, and for a user's message after a tool's
	"Ollama":            {model: "qwen3", rules: pygenttest.Ollama, path: chat},
	"Ollama, responses": {model: "qwen3", rules: pygenttest.Ollama, protocol: openai.Responses, path: responses},
}

// dot is a picture of one pixel.
const dot = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

// odd is a tool's input with every kind of field.
type odd struct {
	Names    []string          `json:"names" jsonschema:"who is meant"`
	Count    *int              `json:"count,omitempty"`
	Anything any               `json:"anything,omitempty"`
	Raw      json.RawMessage   `json:"raw,omitempty"`
	Labels   map[string]string `json:"labels,omitempty"`
	Nested   []struct {
		Deep *[]bool `json:"deep,omitempty"`
	} `json:"nested,omitempty"`
	When time.Time `json:"when,omitzero"`
}

// tools are tools of an embedding program, with and without arguments.
func tools(t *testing.T) []pygent.Tool {
	t.Helper()
	today := pygent.NewTool("today", "Tells the day.", func(context.Context, pygent.Runtime, struct{}) (string, error) {
		return "it is Sunday", nil
	})
	count := pygent.NewTool("count_names", "Counts names.", func(_ context.Context, _ pygent.Runtime, in odd) (string, error) {
		return strings.Repeat("x", len(in.Names)) + " names", nil
	})
	return []pygent.Tool{today, count}
}

// told returns what an earlier result says, by a pattern.
func told(req *pygent.ChatRequest, pattern string) string {
	for _, m := range req.Messages {
		if found := regexp.MustCompile(pattern).FindStringSubmatch(m.Text()); found != nil {
			return found[1]
		}
	}
	return "not told: " + pattern
}

// with returns a call whose argument is taken from an earlier result.
func with(tool, argument, pattern string, more map[string]any) pygenttest.Reply {
	return pygenttest.Decide(func(req *pygent.ChatRequest) pygenttest.Reply {
		args := map[string]any{argument: told(req, pattern)}
		for name, value := range more {
			args[name] = value
		}
		return pygenttest.Call(tool, args)
	})
}

func bash(cmd string) pygenttest.Reply {
	return pygenttest.Call("bash", map[string]any{"cmd": cmd})
}

// everything returns a script that uses every part of the library that makes
// messages.
func everything() []pygenttest.Reply {
	const job, task = `started job (\S+)`, `started task (\S+)`
	return []pygenttest.Reply{
		pygenttest.TextAndCalls("I begin.",
			pygenttest.Call("write_file", map[string]any{"path": "dot.txt", "content": dot}), bash("base64 -d dot.txt > dot.png; echo made")).
			WithReasoning("A picture first."),
		pygenttest.Call("bash", map[string]any{"cmd": "echo started; sleep 600", "background": true}),
		pygenttest.Calls(pygenttest.Call("job_list", nil), pygenttest.Call("list_personas", nil), pygenttest.Call("no_such_tool", nil)),
		with("job_output", "id", job, map[string]any{"until": "started", "wait": 60}),
		with("job_kill", "id", job, nil),
		pygenttest.Calls(pygenttest.Call("today", nil), pygenttest.Call("count_names", map[string]any{"names": []string{"a", "b"}}),
			pygenttest.Call("count_names", "not JSON")),
		pygenttest.Call("read_image", map[string]any{"path": "dot.png"}),
		pygenttest.Call("delegate_task", map[string]any{"prompt": "Count the letters.", "files": []string{"dot.txt"}}),
		with("task_status", "task_id", task, map[string]any{"wait": 600}),
		with("collect_file", "task_id", task, map[string]any{"path": "letters"}),
		bash("cat letters"),
		pygenttest.Call("stop", map[string]any{"summary": "All done."}),
		bash("true"), // this run ends at its limit
		pygenttest.Decide(func(req *pygent.ChatRequest) pygenttest.Reply {
			if len(req.Tools) == 0 {
				return pygenttest.Text("I ran out of steps.")
			}
			return pygenttest.Call("stop", map[string]any{"summary": "Done again."})
		}),
	}
}

// delegated returns the script of the delegated task.
func delegated() []pygenttest.Reply {
	return []pygenttest.Reply{bash("wc -c < dot.txt > letters"), pygenttest.Call("stop", nil)}
}

// strictServer starts a server with the provider's rules.
func strictServer(t *testing.T, p provider, script ...pygenttest.Reply) *pygenttest.Server {
	t.Helper()
	return pygenttest.NewServer(t, script...).Strict(p.rules).On("Count the letters.", delegated()...)
}

// requireTaken checks that the server refused no more requests than expected.
func requireTaken(t *testing.T, p provider, s *pygenttest.Server) {
	t.Helper()
	var refusals []string
	for _, r := range s.Requests() {
		if r.Err != nil {
			refusals = append(refusals, r.Err.Error()+"\n"+string(r.Body))
			continue
		}
		require.Equal(t, p.path, r.Path)
	}
	require.LessOrEqual(t, len(refusals), p.refused, strings.Join(refusals, "\n"))
	require.Zero(t, s.Remaining())
}

// requireImage checks that a picture reached the model.
func requireImage(t *testing.T, s *pygenttest.Server) {
	t.Helper()
	require.True(t, slices.ContainsFunc(s.Requests(), func(r pygenttest.Request) bool {
		return r.Err == nil && slices.ContainsFunc(r.Chat.Messages, pygent.Message.HasImages)
	}), "no request has an image")
}

func TestAgentWorksWithEveryProvider(t *testing.T) {
	for name, p := range providers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := strictServer(t, p, everything()...).RepeatLast()
			agent, err := pygent.New(
				pygent.WithModelName(p.model),
				pygent.WithOpenAI(openai.BaseURL(s.URL())), pygent.WithOpenAI(openai.Key("sk-scripted")), pygent.WithOpenAI(openai.API(p.protocol)),
				pygent.WithDocker(pygent.DockerNever),
				pygent.WithTools(tools(t)...))
			require.NoError(t, err)
			defer func() { require.NoError(t, agent.Close()) }()
			result, err := agent.RunUntilStop(t.Context(), "Do everything.")
			require.NoError(t, err)
			require.Equal(t, pygent.StatusStopped, result.Status, result.Reason)
			require.Equal(t, "All done.", result.Summary)
			result, err = agent.RunUntilStop(t.Context(), "Once more.", pygent.MaxSteps(1))
			require.NoError(t, err)
			require.Equal(t, pygent.StatusMaxSteps, result.Status)
			result, err = agent.RunUntilStop(t.Context(), "Go on.")
			require.NoError(t, err)
			require.Equal(t, "Done again.", result.Summary)
			requireTaken(t, p, s)
			requireImage(t, s)

			said := said(agent.History().Messages())
			for _, want := range []string{"made", "started\n", "it is Sunday", "xx names", "$ cat letters\n96"} {
				require.Contains(t, said, want)
			}
			require.NoError(t, pygenttest.CheckConversation(agent.History().Messages()))
		})
	}
}

// said returns the text of all messages.
func said(messages []pygent.Message) string {
	var b strings.Builder
	for _, m := range messages {
		b.WriteString(m.Text() + "\n")
	}
	return b.String()
}

func TestCommandWorksWithEveryProvider(t *testing.T) {
	for name, p := range providers {
		if p.protocol != "" {
			continue // the command finds the protocol by itself
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := strictServer(t, p,
				pygenttest.TextAndCalls("I begin.", bash("printf 42 > answer; printf "+dot+" | base64 -d > dot.png"), pygenttest.Call("job_list", nil)),
				pygenttest.Call("read_image", map[string]any{"path": "dot.png"}),
				bash("cat answer"),
				pygenttest.Call("stop", map[string]any{"summary": "It is 42."}))
			got := pygentRun(t, append(s.Env(), "PYGENT_MODEL="+p.model), "Do it.")
			require.Zero(t, got.code, got.stderr)
			require.Equal(t, pygent.StatusStopped, got.result(t).Status)
			require.Equal(t, "It is 42.", got.result(t).Summary)
			require.Contains(t, got.text(), "I begin.")
			requireTaken(t, p, s)
			requireImage(t, s)
		})
	}
}
