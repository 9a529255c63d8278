package pygent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
	"github.com/x/pygent/openai"
	"github.com/x/pygent/pygenttest"
)

var builtins = []string{
	"bash", "cancel_task", "collect_file", "continue", "delegate_persona_task", "delegate_task", "download_file", "edit_file",
	"job_kill", "job_list", "job_output", "list_personas", "read_image", "send_task", "stop", "task_status", "write_file",
}

func TestNewToolRefusesWhatIsNoStruct(t *testing.T) {
	t.Parallel()
	type in = struct{}
	for want, tool := range map[string]pygent.Tool{
		"tool t: the function is nil": pygent.NewTool[in, string]("t", "", nil),
		"type object":                 pygent.NewTool("t", "", func(context.Context, pygent.Runtime, string) (string, error) { return "", nil }),
		"tool t: derive the schema":   pygent.NewTool("t", "", func(context.Context, pygent.Runtime, struct{ C chan int }) (string, error) { return "", nil }),
		"1 to 64":                     pygent.NewTool("not ok", "", func(context.Context, pygent.Runtime, in) (string, error) { return "", nil }),
		"tool u: the description has": pygent.NewTool("t", "", func(context.Context, pygent.Runtime, in) (string, error) { return "", nil }, nil, func(t *pygent.Tool) { t.Name, t.Description = "u", strings.Repeat("x", 1025) }),
		"tool t: Run is nil":          {Name: "t"},
	} {
		require.ErrorContains(t, tool.Check(), want)
		_, err := pygent.New(pygent.WithRuntime(nowhere{}), pygent.WithModel(pygenttest.NewScriptedModel()), pygent.WithTools(tool))
		require.EqualError(t, err, tool.Check().Error())
	}
}

func TestTypedToolsGiveTextResultsAndValues(t *testing.T) {
	t.Parallel()
	type in struct{}
	type weather struct {
		City    string  `json:"city"`
		Degrees float64 `json:"degrees"`
	}
	full := pygent.ToolResult{Content: "see", Images: []string{"https://example.com/a.png"}, Locations: []pygent.Location{{Path: "a.go", Line: 3}}, End: pygent.StatusStopped}
	r, err := pygent.NewRegistry(
		pygent.NewTool("text", "", func(context.Context, pygent.Runtime, in) (string, error) { return "<b>", nil }),
		pygent.NewTool("result", "", func(context.Context, pygent.Runtime, in) (pygent.ToolResult, error) { return full, nil }),
		pygent.NewTool("pointer", "", func(context.Context, pygent.Runtime, in) (*pygent.ToolResult, error) { return &full, nil }),
		pygent.NewTool("nothing", "", func(context.Context, pygent.Runtime, in) (*pygent.ToolResult, error) { return nil, nil }),
		pygent.NewTool("value", "", func(context.Context, pygent.Runtime, in) (weather, error) { return weather{"<Rome>", 21.5}, nil }),
		pygent.NewTool("any", "", func(context.Context, pygent.Runtime, in) (any, error) { return "as it is", nil }),
		pygent.NewTool("broken", "", func(context.Context, pygent.Runtime, in) (any, error) { return func() {}, nil }),
		pygent.NewTool("fails", "", func(context.Context, pygent.Runtime, in) (weather, error) { return weather{}, errors.New("it rains") }),
		pygent.NewTool("marked", "", func(context.Context, pygent.Runtime, in) (string, error) { return "", nil },
			func(t *pygent.Tool) { t.ReadOnly = true }),
	)
	require.NoError(t, err)
	for name, want := range map[string]pygent.ToolResult{
		"text":    {Content: "<b>"},
		"result":  full,
		"pointer": full,
		"nothing": {},
		"value":   {Content: `{"city":"<Rome>","degrees":21.5}`, Value: json.RawMessage(`{"city":"\u003cRome\u003e","degrees":21.5}`)},
		"any":     {Content: "as it is"},
	} {
		got, err := r.Execute(t.Context(), toolCall(name, "{}"), nowhere{})
		require.NoError(t, err)
		want.Outcome = pygent.OutcomeOK
		require.Equal(t, &want, got, name)
	}
	_, err = r.Execute(t.Context(), toolCall("broken", "{}"), nowhere{})
	require.ErrorContains(t, err, "tool broken: encode the result: json: unsupported type: func()")
	_, err = r.Execute(t.Context(), toolCall("fails", "{}"), nowhere{})
	require.EqualError(t, err, "tool fails: it rains")
	for _, tool := range r.Tools() {
		require.Equal(t, tool.Name == "marked", tool.ReadOnly)
	}
}

// unit is a type with a fixed set of values.
type unit string

func (unit) Enum() []unit { return []unit{"km", "mile"} }

// outline contains itself.
type outline struct {
	Title string    `json:"title"`
	Parts []outline `json:"parts,omitempty"`
	Unit  unit      `json:"unit,omitempty"`
}

func TestTypedToolsTakeEnumsAndWhatContainsItself(t *testing.T) {
	t.Parallel()
	var got outline
	tool := pygent.NewTool("outline", "", func(_ context.Context, _ pygent.Runtime, in outline) (string, error) {
		got = in
		return "", nil
	})
	var schema any
	shown := shownTools(t, pygent.WithTools(tool))["outline"].Parameters
	require.NoError(t, json.Unmarshal(shown, &schema))
	requirePortable(t, "outline", schema)
	require.Contains(t, string(shown), `"enum":["km","mile"]`)
	r, err := pygent.NewRegistry(tool)
	require.NoError(t, err)
	_, err = r.Execute(t.Context(), toolCall("outline", `{"title":"1","unit":"km","parts":[{"title":"2","parts":[{"title":"3","parts":["{\"title\":\"4\"}"]}]}]}`), nowhere{})
	require.NoError(t, err)
	require.Equal(t, "4", got.Parts[0].Parts[0].Parts[0].Title)
	_, err = r.Execute(t.Context(), toolCall("outline", `{"title":"1","unit":"inch"}`), nowhere{})
	require.ErrorContains(t, err, "inch")

	tool.Unchecked = true
	require.NoError(t, r.Add(tool))
	_, err = r.Execute(t.Context(), toolCall("outline", `{"unit":"inch"}`), nowhere{})
	require.NoError(t, err)
	require.Equal(t, outline{Unit: "inch"}, got)
}

type searchInput struct {
	Query string   `json:"query" jsonschema:"what to look for"`
	Limit int      `json:"limit,omitempty"`
	Tags  []string `json:"tags,omitempty"`
	Range *struct {
		From float64 `json:"from"`
		To   float64 `json:"to,omitempty"`
	} `json:"range,omitempty"`
	Labels map[string]bool `json:"labels,omitempty"`
	hidden int
}

func TestNewToolDerivesTheSchema(t *testing.T) {
	t.Parallel()
	tool := pygent.NewTool("search", "Search", func(_ context.Context, _ pygent.Runtime, in searchInput) (string, error) {
		return fmt.Sprint(in.Query, in.Limit, in.Tags, in.hidden), nil
	})
	var schema struct {
		Type       string
		Required   []string
		Properties map[string]struct {
			Type        any
			Description string
			Items       map[string]any
			Required    []string
			Properties  map[string]any
		}
		AdditionalProperties any
	}
	require.NoError(t, json.Unmarshal(tool.Parameters, &schema))
	require.Equal(t, "object", schema.Type)
	require.Equal(t, []string{"query"}, schema.Required)
	require.Equal(t, "what to look for", schema.Properties["query"].Description)
	require.Equal(t, "integer", schema.Properties["limit"].Type)
	require.Equal(t, "string", schema.Properties["tags"].Items["type"])
	require.Equal(t, []string{"from"}, schema.Properties["range"].Required)
	require.Contains(t, schema.Properties["range"].Properties, "to")
	require.Len(t, schema.Properties, 5)
}

func TestArgumentErrorsArePrecise(t *testing.T) {
	t.Parallel()
	tool := pygent.NewTool("search", "", func(_ context.Context, _ pygent.Runtime, in searchInput) (string, error) {
		return in.Query, nil
	})
	r, err := pygent.NewRegistry(tool)
	require.NoError(t, err)
	require.NoError(t, r.Register("pick", "", map[string]any{
		"type":       "object",
		"properties": map[string]any{"color": map[string]any{"enum": []string{"red", "blue"}}},
	}, sayTool("picked")))
	tests := []struct {
		name, tool, args string
		want             []string // parts of the error; nil if no error is expected
	}{
		{"all there", "search", `{"query":"x","limit":2,"tags":["a"],"range":{"from":1.5},"labels":{"l":true}}`, nil},
		{"space around", "search", " {\"query\":\"x\"}\n", nil},
		{"missing", "search", `{}`, []string{"query is missing; expected {query: string, limit?: integer, "}},
		{"empty is no arguments", "search", ` `, []string{"query is missing"}},
		{"null is no arguments", "search", `null`, []string{"query is missing"}},
		{"unknown", "search", `{"query":"x","qurey":"y"}`, []string{"qurey"}},
		{"wrong type", "search", `{"query":{"a":1}}`, []string{`query: expected string, given object {"a":1}`}},
		{"a number for a text", "search", `{"query":1}`, nil},
		{"not whole", "search", `{"query":"x","limit":1.5}`, []string{"limit", "integer"}},
		{"nested", "search", `{"query":"x","range":{"from":"low"}}`, []string{"range", "from", "number"}},
		{"nested missing", "search", `{"query":"x","range":{}}`, []string{"range", "from"}},
		{"in an array", "search", `{"query":"x","tags":["a",["b"]]}`, []string{`tags[1]: expected string, given array ["b"]`}},
		{"enum", "pick", `{"color":"green"}`, []string{"color", "red", "blue"}},
		{"enum fits", "pick", `{"color":"red"}`, nil},
		{"cut off", "search", `{"query":"x`, []string{"not a JSON object: a string is not closed", "expected {"}},
		{"a brace missing", "search", `{"query":"x"`, []string{"the last } is missing, so they may be cut off"}},
		{"a brace too many", "search", `{"query":"x"}}`, nil},
		{"a bracket too many", "search", `{"query":"x"}]`, nil},
		{"two objects", "search", `{"query":"x"}{"query":"y"}`, []string{"text after the JSON object"}},
		{"a string", "search", `"x"`, []string{"not a JSON object"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := r.Execute(t.Context(), toolCall(tt.tool, tt.args), nowhere{})
			if tt.want == nil {
				require.NoError(t, err)
				return
			}
			var toolErr *pygent.ToolError
			require.ErrorAs(t, err, &toolErr)
			for _, want := range tt.want {
				require.ErrorContains(t, err, want)
			}
		})
	}
}

func TestPanicsAreToolErrorsWithTheirStack(t *testing.T) {
	t.Parallel()
	var r pygent.Registry
	require.NoError(t, r.Register("boom", "", nil, func(context.Context, pygent.Runtime, map[string]any) (string, error) { panic("oh no") }))
	_, err := r.Execute(t.Context(), toolCall("boom", ""), nowhere{})
	var toolErr *pygent.ToolError
	require.ErrorAs(t, err, &toolErr)
	require.EqualError(t, err, "tool boom: panic: oh no")
	require.Contains(t, string(toolErr.Stack), "tools_test.go")

	cause := errors.New("the cause")
	require.NoError(t, r.Register("fails", "", nil, func(context.Context, pygent.Runtime, map[string]any) (string, error) { return "lost", cause }))
	result, err := r.Execute(t.Context(), toolCall("fails", ""), nowhere{})
	require.ErrorIs(t, err, cause)
	require.Nil(t, result)
}

func TestToolsMayEndTheRunAndShowImages(t *testing.T) {
	t.Parallel()
	finish := pygent.Tool{Name: "finish", Run: func(context.Context, pygent.Runtime, json.RawMessage) (*pygent.ToolResult, error) {
		return &pygent.ToolResult{Content: "finished", Images: []string{"https://example.com/x.png"}, End: pygent.StatusStopped, Summary: "it is done"}, nil
	}}
	agent := newAgentOn(t, nowhere{}, pygenttest.NewScriptedModel(pygenttest.TextAndCalls("Well.", pygenttest.Call("finish", nil), pygenttest.Call("finish", nil))), pygent.WithTools(finish))
	result, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.Equal(t, pygent.StatusStopped, result.Status)
	require.Equal(t, "it is done", result.Summary)
	require.Equal(t, 1, result.ToolCalls)
	require.Equal(t, []string{"finished", "not run: an earlier call of the same message ended the run"}, results(agent))
	last := agent.History().Messages()[agent.History().Len()-1]
	require.Equal(t, "https://example.com/x.png", last.Parts[1].ImageURL)

	empty := pygent.Tool{Name: "empty", Run: func(context.Context, pygent.Runtime, json.RawMessage) (*pygent.ToolResult, error) { return nil, nil }}
	r, err := pygent.NewRegistry(empty)
	require.NoError(t, err)
	got, err := r.Execute(t.Context(), toolCall("empty", ""), nowhere{})
	require.NoError(t, err)
	require.Equal(t, &pygent.ToolResult{Outcome: pygent.OutcomeOK}, got)
}

// shownTools runs an agent for one step, and returns the tools that its model
// was given, by name.
func shownTools(t *testing.T, opts ...pygent.Option) map[string]chat.ToolSpec {
	t.Helper()
	return shownToolsOn(t, hollow{}, opts...)
}

// requirePortable fails for keywords and forms that some provider rejects.
func requirePortable(t *testing.T, path string, v any) {
	t.Helper()
	schema, ok := v.(map[string]any)
	require.True(t, ok, "%s: %v", path, v)
	for name := range schema {
		require.Contains(t, []string{"type", "description", "properties", "required", "items", "enum", "anyOf"}, name, path)
	}
	if schema["anyOf"] != nil {
		return
	}
	require.IsType(t, "", schema["type"], path)
	switch schema["type"] {
	case "array":
		requirePortable(t, path+"[]", schema["items"])
	case "object":
		require.NotEmpty(t, schema["properties"], path)
		for name, p := range schema["properties"].(map[string]any) {
			requirePortable(t, path+"."+name, p)
		}
	}
}

func TestBuiltinToolsAreShownInThePortableForm(t *testing.T) {
	t.Parallel()
	shown := shownToolsOn(t, struct {
		silentJobs
		pygent.TaskRuntimeMaker
	}{TaskRuntimeMaker: hollow{}}, pygent.TaskPersonas(pygent.Persona{Name: "Ada"}))
	require.Len(t, shown, len(builtins))
	without := shownTools(t) // a runtime without background commands, and no personas
	require.Len(t, without, len(builtins)-5)
	require.NotContains(t, string(without["bash"].Parameters), "background")
	require.Contains(t, string(shown["bash"].Parameters), "background")
	without["bash without jobs"] = without["bash"]
	maps.Copy(without, shown)
	for name, spec := range without {
		if name == "job_list" || name == "list_personas" {
			require.Empty(t, spec.Parameters, name)
			continue
		}
		var schema any
		require.NoError(t, json.Unmarshal(spec.Parameters, &schema))
		requirePortable(t, name, schema)
	}
	var delegate struct{ Properties map[string]any }
	require.NoError(t, json.Unmarshal(shown["delegate_task"].Parameters, &delegate))
	require.Equal(t, map[string]any{"type": "array", "items": map[string]any{"type": "string"}, "description": "files and directories of your workspace; they keep their paths"}, delegate.Properties["files"])
}

func TestToolWithoutArgumentsHasNoParameters(t *testing.T) {
	t.Parallel()
	typed := pygent.NewTool("typed", "", func(context.Context, pygent.Runtime, struct{}) (string, error) { return "", nil })
	r, err := pygent.NewRegistry(typed)
	require.NoError(t, err)
	require.NoError(t, r.Register("nil", "", nil, sayTool("")))
	require.NoError(t, r.Register("object", "", map[string]any{"type": "object"}, sayTool("")))
	for name, spec := range shownTools(t, pygent.WithRegistry(r)) {
		require.Empty(t, spec.Parameters, name)
	}
}

func TestFreeFormArgumentsTravelAsText(t *testing.T) {
	t.Parallel()
	type input struct {
		Filter json.RawMessage   `json:"filter"`
		Labels map[string]string `json:"labels"`
		Limit  int               `json:"limit,omitempty"`
	}
	var got []input
	tool := pygent.NewTool("find", "", func(_ context.Context, _ pygent.Runtime, in input) (string, error) {
		got = append(got, in)
		return "", nil
	})
	var schema any
	require.NoError(t, json.Unmarshal(shownTools(t, pygent.WithTools(tool))["find"].Parameters, &schema))
	requirePortable(t, "find", schema)
	r, err := pygent.NewRegistry(tool)
	require.NoError(t, err)
	for _, args := range []string{
		`{"filter":"{\"a\":[1]}","labels":"{\"x\":\"y\"}","limit":null}`,
		`{"filter":{"a":[1]},"labels":{"x":"y"}}`,
	} {
		_, err = r.Execute(t.Context(), toolCall("find", args), nowhere{})
		require.NoError(t, err)
	}
	want := input{Filter: json.RawMessage(`{"a":[1]}`), Labels: map[string]string{"x": "y"}}
	require.Equal(t, []input{want, want}, got)
}

// rich is a schema as generators in other languages write it.
const rich = `{"$schema":"https://json-schema.org/draft/2020-12/schema","$ref":"#/$defs/In","$defs":{
	"Color":{"enum":["red","green"],"type":"string"},
	"Tree":{"type":"object","properties":{"name":{"type":"string"},"children":{"type":"array","items":{"$ref":"#/$defs/Tree"}}}},
	"In":{"title":"In","type":"object","required":["color"],"additionalProperties":false,"properties":{
		"color":{"$ref":"#/$defs/Color","description":"which one"},
		"maybe":{"anyOf":[{"type":"string","format":"uri"},{"type":"null"}],"default":null},
		"either":{"type":["string","integer"]},
		"union":{"oneOf":[{"type":"object","properties":{"kind":{"const":"a"}}},{"type":"array","items":{"$ref":"#/$defs/Color"}}]},
		"level":{"type":"integer","enum":[1,2,3]},
		"pair":{"type":"array","prefixItems":[{"type":"number"},{"type":"string"}]},
		"rows":{"type":"array"},
		"labels":{"type":"object","additionalProperties":{"$ref":"#/$defs/Color"}},
		"tree":{"$ref":"#/$defs/Tree"},
		"empty":{"type":"object","properties":{}},
		"any":true,
		"all":{"allOf":[{"type":"object","properties":{"x":{"type":"number","exclusiveMinimum":0}}},{"required":["x"]}]}
	}}}}`

func TestProvidersTakeSchemasOfOtherGenerators(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		rules    pygenttest.Provider
		protocol openai.Protocol
	}{
		"OpenAI":    {},
		"Responses": {protocol: openai.Responses},
		"Gemini":    {rules: pygenttest.Gemini},
		"Mistral":   {rules: pygenttest.Mistral},
		"Ollama":    {rules: pygenttest.Ollama},
	} {
		t.Run(name, func(t *testing.T) {
			server := pygenttest.NewServer(t,
				pygenttest.Call("paint", map[string]any{"color": "red", "labels": `{"a":"green"}`, "maybe": nil, "level": nil}),
				pygenttest.Call("stop", map[string]any{})).Strict(tt.rules)
			model, err := openai.New(openai.BaseURL(server.URL()), openai.Key("k"), openai.API(tt.protocol))
			require.NoError(t, err)
			r, err := pygent.NewRegistry()
			require.NoError(t, err)
			r.Reset()
			require.NoError(t, r.Register("paint", "Paint", json.RawMessage(rich), func(_ context.Context, _ pygent.Runtime, args map[string]any) (string, error) {
				return fmt.Sprint(args), nil
			}))
			agent := newAgentOn(t, nowhere{}, model, pygent.WithModelName("m"), pygent.WithRegistry(r))
			result, err := agent.RunUntilStop(t.Context(), "go")
			require.NoError(t, err)
			require.Equal(t, pygent.StatusStopped, result.Status)
			require.Equal(t, "map[color:red labels:map[a:green] maybe:<nil>]", results(agent)[0])
			for _, req := range server.Requests() {
				require.NoError(t, req.Err)
			}
		})
	}
}

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
	gone := needs("gone", nil)
	gone.Unoffered = "the shop is closed"
	tools := pygent.WithTools(gone, needs("jobs", jobs), needs("panics", func(pygent.Runtime) bool { panic("oh no") }))
	require.Contains(t, shownToolsOn(t, silentJobs{}, tools), "jobs")
	shown := shownTools(t, tools)
	require.NotContains(t, shown, "jobs")
	require.NotContains(t, shown, "panics")
	require.NotContains(t, shown, "job_list")
	require.NotContains(t, shown, "gone")

	agent := newAgentOn(t, nowhere{}, pygenttest.NewScriptedModel(pygenttest.Calls(
		pygenttest.Call("jobs", nil), pygenttest.Call("job_list", nil), pygenttest.Call("nobody", nil),
		pygenttest.Call("bash", map[string]any{"cmd": "true", "background": true}), pygenttest.Call("gone", nil),
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
	require.Contains(t, got[4], "error: the tool is disabled: the shop is closed\n")
	require.Equal(t, "the shop is closed", agent.Tools().WhyUnoffered("gone", agent.Runtime()))
	require.Contains(t, agent.Tools().WhyUnoffered("jobs", agent.Runtime()), "the runtime cannot serve it")
	require.Contains(t, agent.State().Settings.Unoffered, "gone")

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

func TestBashShowsOutputAndExitCode(t *testing.T) {
	t.Parallel()
	b := newToolBench(t)
	require.NoError(t, os.Mkdir(filepath.Join(b.dir, "sub"), 0o700))
	tests := []struct {
		name string
		args map[string]any
		want string
	}{
		{"output", map[string]any{"cmd": "echo hi"}, "$ echo hi\nhi\n"},
		{"both streams in order", map[string]any{"cmd": "echo 1; echo 2 >&2; echo 3"}, "$ echo 1; echo 2 >&2; echo 3\n1\n2\n3\n"},
		{"nothing", map[string]any{"cmd": "true"}, "$ true\n(no output)"},
		{"nothing but a line end", map[string]any{"cmd": "echo; exit 2"}, "$ echo; exit 2\n\n(no output)\n[exit code 2]"},
		{"progress and colours", map[string]any{"cmd": `printf ' 10%%\r 50%%\r100%%\n\033[31mred\033[0m\n'`}, "$ printf ' 10%%\\r 50%%\\r100%%\\n\\033[31mred\\033[0m\\n'\n100%\nred\n"},
		{"exit code", map[string]any{"cmd": "echo no; exit 3"}, "$ echo no; exit 3\nno\n[exit code 3]"},
		{"exit code after an open line", map[string]any{"cmd": "printf no; false"}, "$ printf no; false\nno\n[exit code 1]"},
		{"signal", map[string]any{"cmd": "kill -9 $$"}, "$ kill -9 $$\n(no output)\n[exit code 137]"},
		{"cwd", map[string]any{"cmd": "basename $PWD", "cwd": "sub"}, "$ basename $PWD\nsub\n"},
		{"no input", map[string]any{"cmd": "cat; echo end"}, "$ cat; echo end\nend\n"},
		{"timeout given", map[string]any{"cmd": "echo ok", "timeout": 5.5}, "$ echo ok\nok\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			require.Equal(t, tt.want, b.call("bash", tt.args).Content)
		})
	}
	result := b.call("bash", map[string]any{"cmd": "echo begun; sleep 60", "timeout": 0.3})
	require.Contains(t, result.Content, "begun\n[stopped at the time limit after ")
}

func TestBashRefuses(t *testing.T) {
	t.Parallel()
	b := newToolBench(t)
	tests := []struct {
		name string
		args map[string]any
		want string
	}{
		{"no command", map[string]any{"cmd": " \n"}, "cmd is empty"},
		{"a negative timeout", map[string]any{"cmd": "true", "timeout": -1}, "must not be negative"},
		{"a NUL byte", map[string]any{"cmd": "echo \x00"}, "NUL"},
		{"a directory outside", map[string]any{"cmd": "true", "cwd": "../.."}, "outside the workspace"},
		{"no such directory", map[string]any{"cmd": "true", "cwd": "nope"}, "nope"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := b.try("bash", tt.args)
			require.ErrorContains(t, err, tt.want)
		})
	}
}

// stubRuntime is a runtime whose commands are a function of the test.
type stubRuntime struct {
	nowhere
	bash func(cmd string, o pygent.BashOptions) (pygent.BashResult, error)
	file []byte
}

func (s stubRuntime) Bash(_ context.Context, cmd string, opts ...pygent.BashOption) (pygent.BashResult, error) {
	return s.bash(cmd, pygent.NewBashOptions(opts...))
}

func (s stubRuntime) ReadFile(context.Context, string) ([]byte, error) { return s.file, nil }

func TestBashTimeoutIsCapped(t *testing.T) {
	t.Parallel()
	tests := []struct{ seconds, want float64 }{
		{0, 120}, {1.5, 1.5}, {600, 600}, {601, 600}, {1e12, 600}, {1e300, 600},
	}
	for _, tt := range tests {
		var got float64
		rt := stubRuntime{bash: func(_ string, o pygent.BashOptions) (pygent.BashResult, error) {
			got = o.Timeout.Seconds()
			return pygent.BashResult{}, nil
		}}
		result, err := callOn(t, rt, "bash", map[string]any{"cmd": "true", "timeout": tt.seconds})
		require.NoError(t, err)
		require.Equal(t, tt.want, got)
		require.Equal(t, tt.seconds > 600, strings.HasSuffix(result.Content, "\n[the timeout was cut to 600 seconds, the most there is; use background for longer work]"))
	}
}

func TestBashShowsAModelWhatATerminalWould(t *testing.T) {
	t.Parallel()
	gzip := "\x1f\x8b\x08\x00" + strings.Repeat("\xff\x00", 100)
	for name, tt := range map[string]struct {
		result pygent.BashResult
		want   string
	}{
		"bytes that are not UTF-8": {pygent.BashResult{Output: "a\xff\xfeb\n"}, "$ x\na<0xFF><0xFE>b\n"},
		"binary output":            {pygent.BashResult{Output: "ok\n" + gzip + "\n"}, "$ x\nok\n[binary output, 205 bytes, looks like gzip data]\n"},
		"a long time":              {pygent.BashResult{Output: "ok\n", Duration: 12345 * time.Millisecond}, "$ x\nok\n[took 12.3s]"},
		"a failure after long":     {pygent.BashResult{Output: "no\n", ExitCode: 2, Duration: 5 * time.Second}, "$ x\nno\n[exit code 2 after 5s]"},
		"a short time":             {pygent.BashResult{Output: "ok\n", Duration: 4999 * time.Millisecond}, "$ x\nok\n"},
		"much after cleaning":      {pygent.BashResult{Output: strings.Repeat("\x01", 10_000)}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			rt := stubRuntime{bash: func(_ string, o pygent.BashOptions) (pygent.BashResult, error) {
				require.True(t, o.Raw)
				return tt.result, nil
			}}
			result, err := callOn(t, rt, "bash", map[string]any{"cmd": "x"})
			require.NoError(t, err)
			if tt.want != "" {
				require.Equal(t, tt.want, result.Content)
			}
			require.Less(t, len(result.Content), pygent.DefaultMaxOutput+100)
			require.Equal(t, strings.ToValidUTF8(tt.result.Output, "\ufffd"), result.Bash.Output, "programs get what was printed")
		})
	}
}

func TestBashKeepsWhatAnInterruptedCommandPrinted(t *testing.T) {
	t.Parallel()
	lost := errors.New("the container is gone")
	output := "half"
	rt := stubRuntime{bash: func(string, pygent.BashOptions) (pygent.BashResult, error) {
		return pygent.BashResult{Output: output, ExitCode: -1}, lost
	}}
	result, err := callOn(t, rt, "bash", map[string]any{"cmd": "make"})
	require.NoError(t, err)
	require.True(t, result.IsError)
	require.Equal(t, "$ make\nhalf\n[exit code -1]\n[did not finish: the container is gone]", result.Content)
	output = ""
	_, err = callOn(t, rt, "bash", map[string]any{"cmd": "make"})
	require.ErrorIs(t, err, lost)
}

func TestBashShortensALongCommandAndNotItsOutput(t *testing.T) {
	t.Parallel()
	b := newToolBench(t)
	script := "echo first\n: " + strings.Repeat("ä", 100_000) + "\necho last"
	result := b.call("bash", map[string]any{"cmd": script})
	require.Less(t, len(result.Content), 500)
	require.True(t, strings.HasPrefix(result.Content, "$ echo first\n: ää"))
	require.True(t, strings.HasSuffix(result.Content, "ä …\nfirst\nlast\n"), result.Content)
	require.Equal(t, "$ "+script+"\nfirst\nlast\n", result.Display)
}

func TestBashOutputIsBounded(t *testing.T) {
	t.Parallel()
	result := newToolBench(t).call("bash", map[string]any{"cmd": "echo head; head -c 5000000 /dev/zero | tr '\\0' x; echo tail; exit 4"})
	require.Less(t, len(result.Content), pygent.DefaultMaxOutput+300)
	require.True(t, strings.Contains(result.Content, "\nhead\nxxx"))
	require.Contains(t, result.Content, "xxxtail\n[the output is in /")
	require.True(t, strings.HasSuffix(result.Content, "\n[exit code 4]"))
	require.Contains(t, result.Content, "bytes left out")
}

func TestContinueAndStopEndTheRun(t *testing.T) {
	t.Parallel()
	b := newToolBench(t)
	result := b.call("continue", map[string]any{"prompt": "Which?", "options": []string{"a", "b"}})
	require.Equal(t, pygent.StatusAwaitingUser, result.End)
	require.Equal(t, &pygent.Question{Prompt: "Which?", Options: []string{"a", "b"}}, result.Question)
	require.NotEmpty(t, result.Content)
	for _, nothing := range []map[string]any{{}, {"prompt": " "}, {"options": []string{"a"}}} {
		_, err := b.try("continue", nothing)
		require.ErrorContains(t, err, "prompt is missing")
	}
	result = b.call("stop", map[string]any{"summary": "done"})
	require.Equal(t, pygent.StatusStopped, result.End)
	require.Equal(t, "done", result.Summary)
	require.NotEmpty(t, result.Content)
	require.Equal(t, pygent.StatusStopped, b.call("stop", map[string]any{}).End)
	_, err := b.try("continue", map[string]any{"options": map[string]any{"a": 1}})
	require.ErrorContains(t, err, "options")
}

func TestACommandEndsBeforeItsStep(t *testing.T) {
	t.Parallel()
	forEachStarted(t, func(t *testing.T, r pygent.Runtime) {
		agent := newAgentOn(t, r, pygenttest.NewScriptedModel(callBash("echo begun; sleep 600"), stop), pygent.LendRuntime(r))
		require.NoError(t, r.(pygent.Starter).Start(t.Context()))
		result, err := agent.RunUntilStop(t.Context(), "go", pygent.StepTimeout(8*time.Second))
		require.NoError(t, err)
		require.Equal(t, pygent.StatusStopped, result.Status, "the run goes on")
		require.Regexp(t, `^\$ echo begun; sleep 600\nbegun\n(.*\n)?\[did not finish: it was ended because the time of its step, or of the run, is almost over; run what takes long with background\]`, results(agent)[0])
	})
}

func TestResultOfACommandIsMoreThanWords(t *testing.T) {
	t.Parallel()
	agent := newAgent(t, pygenttest.NewScriptedModel(
		callBash("echo '[exit code 7]'; exit 3"),
		pygenttest.Call("bash", map[string]any{"cmd": "sleep 60", "timeout": 0.05}), stop))
	_, outputs := told(t, agent)
	require.Equal(t, "[exit code 7]\n", outputs[0].Bash.Output)
	require.Equal(t, 3, outputs[0].Bash.ExitCode)
	require.Equal(t, "echo '[exit code 7]'; exit 3", outputs[0].Bash.Command)
	require.True(t, outputs[1].Bash.TimedOut)
	require.Equal(t, pygent.OutcomeFailed, outputs[1].Outcome)
	require.Nil(t, outputs[2].Bash)
}

func TestOutputOfACommandIsToldWhileItRuns(t *testing.T) {
	t.Parallel()
	agent := newAgent(t, pygenttest.NewScriptedModel(callBash("echo early; while [ ! -e go ]; do sleep 0.01; done; echo late"), stop))
	var text string
	var calls []string
	for e, err := range agent.Events(t.Context(), "go") {
		require.NoError(t, err)
		if e.Type != pygent.EventOutput {
			continue
		}
		require.Equal(t, "bash", e.Call.Name)
		require.Empty(t, e.Call.Arguments)
		require.Equal(t, 1, e.Step)
		require.LessOrEqual(t, len(e.Chunk.Text), 4<<10)
		calls = append(calls, e.Call.ID)
		text += e.Chunk.Text
		if text == "early\n" {
			require.NoError(t, agent.Runtime().WriteFile(t.Context(), "go", nil))
		}
	}
	require.Equal(t, "early\nlate\n", text)
	require.NotEmpty(t, calls[0])
}

func TestProgressOfATool(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		work := plainTool("work", func(tool *pygent.Tool) {
			tool.Run = func(ctx context.Context, _ pygent.Runtime, _ json.RawMessage) (*pygent.ToolResult, error) {
				for i := range int64(100) {
					pygent.Progress(ctx, pygent.ProgressInfo{Text: strings.Repeat("ä", 1000), Current: i + 1, Total: 100})
					time.Sleep(10 * time.Millisecond)
				}
				go pygent.Progress(context.WithoutCancel(ctx), pygent.ProgressInfo{Current: 101})
				pygent.Progress(ctx, pygent.ProgressInfo{Text: "done \xff"})
				return nil, nil
			}
		})
		agent := newAgentOn(t, nowhere{}, pygenttest.NewScriptedModel(pygenttest.Call("work", nil), stop), pygent.WithTools(work))
		var got []pygent.ProgressInfo
		over := false
		for e, err := range agent.Events(t.Context(), "go") {
			require.NoError(t, err)
			switch e.Type {
			case pygent.EventProgress:
				require.False(t, over)
				require.Equal(t, "work", e.Call.Name)
				require.LessOrEqual(t, len(e.Progress.Text), 1<<10)
				got = append(got, *e.Progress)
			case pygent.EventToolDone:
				over = true
			}
		}
		require.Greater(t, len(got), 5)
		require.LessOrEqual(t, len(got), 12)
		last := got[len(got)-1]
		require.True(t, last.Text == "done \uFFFD" || last.Current == 101, last)
	})
	pygent.Progress(t.Context(), pygent.ProgressInfo{Text: "nobody's"})
}

func TestProgressOfATaskReachesItsParent(t *testing.T) {
	t.Parallel()
	work := plainTool("work", func(tool *pygent.Tool) {
		tool.Run = func(ctx context.Context, _ pygent.Runtime, _ json.RawMessage) (*pygent.ToolResult, error) {
			pygent.Progress(ctx, pygent.ProgressInfo{Text: "half", Current: 1, Total: 2})
			return nil, nil
		}
	})
	model := pygenttest.NewScriptedModel(follow(always(delegate("Work")), func(id string) pygenttest.Reply { return wait(id) }, always(stop))).RepeatLast().
		On("Work", pygenttest.Call("work", nil), stop)
	agent := newAgentOn(t, hollow{}, model, pygent.WithTools(work))
	var task string
	for e, err := range agent.Events(t.Context(), "go") {
		require.NoError(t, err)
		if e.Type == pygent.EventProgress && e.Progress.Text == "half" {
			task = e.Task
		}
	}
	all, err := agent.Tasks().Tasks(t.Context(), pygent.TaskFilter{})
	require.NoError(t, err)
	require.Equal(t, all[0].ID, task)
}

func TestJobOutputWaitsAtMostTenMinutes(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		args map[string]any
		want time.Duration
	}{
		{map[string]any{}, 0}, {map[string]any{"wait": 0.5}, time.Second / 2}, {map[string]any{"wait": 1e300}, 600 * time.Second},
		{map[string]any{"until": "x"}, 60 * time.Second}, {map[string]any{"until": "x", "wait": 5}, 5 * time.Second},
	} {
		tt.args["id"] = "1"
		synctest.Test(t, func(t *testing.T) {
			begun := time.Now()
			result, err := callOn(t, endlessJob{}, "job_output", tt.args)
			require.NoError(t, err)
			require.Equal(t, tt.want, time.Since(begun))
			require.Contains(t, result.Content, "(no new output)")
			require.Equal(t, tt.args["until"] != nil, strings.Contains(result.Content, "; the text was not printed within "))
		})
	}
}

// endlessJob is a runtime with a job that prints nothing.
type endlessJob struct {
	nowhere
	pygent.JobRunner
}

func (endlessJob) JobOutput(_ context.Context, _ string, _ int64, wait time.Duration) (pygent.JobOutput, error) {
	time.Sleep(wait)
	return pygent.JobOutput{Job: pygent.Job{ID: "1", Running: true}}, nil
}
