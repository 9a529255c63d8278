package pygent_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/pygenttest"
)

// toolCalls runs an agent on a script and returns its tool_call events.
func toolCalls(t *testing.T, model pygent.Model, opts ...pygent.Option) (calls []pygent.Event) {
	t.Helper()
	agent := newAgentOn(t, nowhere{}, model, append(opts, pygent.OnEvent(func(e pygent.Event) {
		if e.Type == pygent.EventToolCall {
			calls = append(calls, e)
		}
	}))...)
	_, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	return calls
}

func TestCallsAreDescribedToPeople(t *testing.T) {
	t.Parallel()
	described := func(title string, paths ...string) func(*pygent.Tool) {
		return func(t *pygent.Tool) {
			t.Title, t.Kind, t.ReadOnly = "The tool", pygent.ToolSearch, true
			t.Describe = func(args json.RawMessage) pygent.CallDescription {
				if title == "panic" {
					panic("oh no")
				}
				return pygent.CallDescription{Title: title + string(args), Paths: paths}
			}
		}
	}
	type in struct {
		Path string `json:"path,omitempty"`
	}
	noop := func(context.Context, pygent.Runtime, in) (string, error) { return "", nil }
	many := strings.Split(strings.Repeat("p ", 1000), " ")
	calls := toolCalls(t, pygenttest.NewScriptedModel(pygenttest.Calls(
		callBash("go test ./..."),
		pygenttest.Call("plain", map[string]any{"path": "a.txt"}),
		pygenttest.Call("own", map[string]any{"path": "b"}),
		pygenttest.Call("own", map[string]any{"path": []int{7}}),
		pygenttest.Call("panics", nil),
		pygenttest.Call("long", nil),
		pygenttest.Call("nobody", nil),
	), stop), pygent.WithTools(
		pygent.NewTool("plain", "Plain", noop),
		pygent.NewTool("own", "", noop, described("does ", "x", "y")),
		pygent.NewTool("panics", "", noop, described("panic")),
		pygent.NewTool("long", "", noop, described(strings.Repeat("ä", 1<<20), many...)),
	))
	info := func(name, title string, kind pygent.ToolKind, summary string, paths ...string) pygent.ToolInfo {
		return pygent.ToolInfo{Name: name, Title: title, Kind: kind, Summary: summary, Paths: paths, ReadOnly: kind == pygent.ToolSearch}
	}
	for i, want := range []pygent.ToolInfo{
		info("bash", "Bash", pygent.ToolRun, "$ go test ./..."),
		info("plain", "plain", pygent.ToolOther, "plain a.txt", "a.txt"),
		info("own", "The tool", pygent.ToolSearch, `does {"path":"b"}`, "x", "y"),
		info("own", "The tool", pygent.ToolSearch, `own path=[7]`),
		info("panics", "The tool", pygent.ToolSearch, "panics"),
	} {
		require.NotNil(t, calls[i].Tool)
		want.Description = calls[i].Tool.Description
		require.Equal(t, want, *calls[i].Tool)
	}
	require.Equal(t, "Plain", calls[1].Tool.Description)
	require.LessOrEqual(t, len(calls[5].Tool.Summary), 4<<10)
	require.Len(t, calls[5].Tool.Paths, 100)
	require.Equal(t, info("nobody", "nobody", pygent.ToolOther, "nobody"), *calls[6].Tool)
}

func TestBuiltinToolsTellPeopleWhatTheyDo(t *testing.T) {
	t.Parallel()
	var r pygent.Registry
	r.Reset()
	for _, tool := range r.Tools() {
		require.Regexp(t, "^[A-Z][a-z ]+$", tool.Title)
		require.NotEmpty(t, tool.Kind)
		require.NotEmpty(t, tool.Describe(json.RawMessage(`{}`)).Title, tool.Name)
		require.Empty(t, tool.Describe(json.RawMessage(`[]`)).Title, tool.Name)
	}
}

func TestToolsThatTheRuntimeCannotServeAreNeitherOfferedNorRun(t *testing.T) {
	t.Parallel()
	jobs := func(rt pygent.Runtime) bool { _, ok := rt.(pygent.JobRunner); return ok }
	needs := func(name string, can func(pygent.Runtime) bool) pygent.Tool {
		return pygent.NewTool(name, "", func(context.Context, pygent.Runtime, struct{}) (string, error) { return "ran", nil },
			func(t *pygent.Tool) { t.Needs = can })
	}
	tools := pygent.WithTools(needs("jobs", jobs), needs("panics", func(pygent.Runtime) bool { panic("oh no") }))
	require.Contains(t, shownToolsOn(t, silentJobs{}, tools), "jobs")
	shown := shownTools(t, tools)
	require.NotContains(t, shown, "jobs")
	require.NotContains(t, shown, "panics")
	require.NotContains(t, shown, "job_list")

	agent := newAgentOn(t, nowhere{}, pygenttest.NewScriptedModel(pygenttest.Calls(
		pygenttest.Call("jobs", nil), pygenttest.Call("job_list", nil), pygenttest.Call("nobody", nil),
		pygenttest.Call("bash", map[string]any{"cmd": "true", "background": true}),
	)), tools)
	_, err := agent.Step(t.Context(), "go")
	require.NoError(t, err)
	require.NotContains(t, agent.History().Messages()[0].Content, "job_output")
	got := results(agent)
	require.Equal(t, "error: the tool is disabled: this runtime cannot serve it", got[0])
	require.Equal(t, got[0], got[1])
	require.NotContains(t, got[2], "job_list")
	require.Contains(t, got[3], "background")
	require.Contains(t, got[3], "error: ")

	// A tool that was replaced keeps its parameters.
	var r pygent.Registry
	r.Reset()
	for _, tool := range r.Tools() {
		if tool.Name == "bash" {
			tool.Parameters = json.RawMessage(`{"type":"object","properties":{"cmd":{"type":"string"},"background":{"type":"string"}}}`)
			require.NoError(t, r.Add(tool))
		}
	}
	require.Contains(t, string(shownTools(t, pygent.WithRegistry(&r))["bash"].Parameters), "background")
}
