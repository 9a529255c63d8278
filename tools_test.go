package pygent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
	"github.com/x/pygent/openai"
	"github.com/x/pygent/pygenttest"
)

// sayTool is a tool that always returns the same text.
func sayTool(text string) pygent.ToolFunc {
	return func(context.Context, pygent.Runtime, map[string]any) (string, error) { return text, nil }
}

func toolNames(r *pygent.Registry) []string {
	var all []string
	for _, t := range r.Tools() {
		all = append(all, t.Name)
	}
	return all
}

func toolCall(name, args string) pygent.ToolCall {
	return pygent.ToolCall{ID: "c1", Name: name, Arguments: args}
}

var builtins = []string{
	"bash", "cancel_task", "collect_file", "continue", "delegate_persona_task", "delegate_task", "download_file", "edit_file",
	"job_kill", "job_list", "job_output", "list_personas", "read_image", "send_task", "stop", "task_status", "write_file",
}

func TestDefaultRegistryServesExecuteTool(t *testing.T) {
	t.Cleanup(pygent.ResetTools)
	exec := func(name string) (string, error) {
		return pygent.ExecuteTool(t.Context(), toolCall(name, `{"who":"you"}`), nowhere{})
	}
	require.NoError(t, pygent.RegisterTool("greet", "Greet", map[string]any{"type": "object"},
		func(_ context.Context, _ pygent.Runtime, args map[string]any) (string, error) {
			return fmt.Sprint("hello ", args["who"]), nil
		}))
	got, err := exec("greet")
	require.NoError(t, err)
	require.Equal(t, "hello you", got)

	require.NoError(t, pygent.RegisterTool("greet", "Greet", map[string]any{"type": "object"}, sayTool("replaced")))
	got, err = exec("greet")
	require.NoError(t, err)
	require.Equal(t, "replaced", got)

	typed := pygent.NewTool("typed", "", func(_ context.Context, _ pygent.Runtime, in struct {
		Who string `json:"who"`
	}) (string, error) {
		return in.Who, nil
	})
	require.NoError(t, pygent.AddTool(typed))
	got, err = exec("typed")
	require.NoError(t, err)
	require.Equal(t, "you", got)

	require.NoError(t, pygent.RemoveTool("greet"))
	require.ErrorIs(t, pygent.RemoveTool("greet"), pygent.ErrUnknownTool)
	_, err = exec("greet")
	require.ErrorIs(t, err, pygent.ErrUnknownTool)
	var toolErr *pygent.ToolError
	require.ErrorAs(t, err, &toolErr)
	require.Equal(t, "greet", toolErr.Tool)

	pygent.ClearTools()
	_, err = pygent.ExecuteTool(t.Context(), toolCall("bash", `{"cmd":"true"}`), nowhere{})
	require.ErrorIs(t, err, pygent.ErrUnknownTool)
	pygent.ResetTools()
	_, err = pygent.ExecuteTool(t.Context(), toolCall("bash", `{"cmd":"true"}`), nowhere{})
	require.NoError(t, err)
	_, err = exec("typed")
	require.ErrorIs(t, err, pygent.ErrUnknownTool)
}

func TestAgentsKeepTheToolsTheyWereMadeWith(t *testing.T) {
	t.Cleanup(pygent.ResetTools)
	require.NoError(t, pygent.RegisterTool("early", "", nil, sayTool("")))
	before := newAgentOn(t, nowhere{}, pygenttest.NewScriptedModel())
	require.NoError(t, pygent.RegisterTool("late", "", nil, sayTool("")))
	require.NoError(t, pygent.RemoveTool("early"))
	after := newAgentOn(t, nowhere{}, pygenttest.NewScriptedModel())
	require.Contains(t, toolNames(before.Tools()), "early")
	require.NotContains(t, toolNames(before.Tools()), "late")
	require.Contains(t, toolNames(after.Tools()), "late")
	require.NotContains(t, toolNames(after.Tools()), "early")

	before.Tools().Clear()
	require.Empty(t, toolNames(before.Tools()))
	require.Contains(t, toolNames(after.Tools()), "bash")
	_, err := pygent.ExecuteTool(t.Context(), toolCall("bash", `{"cmd":"true"}`), nowhere{})
	require.NoError(t, err)
}

// TestRegistriesMadeFromOneAnotherChangeAlone changes each of three registries, and looks
// at the others.
func TestRegistriesMadeFromOneAnotherChangeAlone(t *testing.T) {
	t.Parallel()
	var given pygent.Registry
	for _, name := range []string{"a", "b"} {
		require.NoError(t, given.Register(name, "", nil, sayTool("")))
	}
	made := func() *pygent.Registry {
		return newAgentOn(t, nowhere{}, pygenttest.NewScriptedModel(), pygent.WithRegistry(&given)).Tools()
	}
	one, two := made(), made()
	require.NoError(t, given.Register("c", "", nil, sayTool("")))
	require.NoError(t, one.Remove("a"))
	require.NoError(t, two.Register("d", "", nil, sayTool("")))
	require.Equal(t, []string{"a", "b", "c"}, toolNames(&given))
	require.Equal(t, []string{"b"}, toolNames(one))
	require.Equal(t, []string{"a", "b", "d"}, toolNames(two))
	one.Reset()
	two.Reset()
	one.Clear()
	require.Empty(t, toolNames(one))
	require.Equal(t, builtins, toolNames(two))
}

func TestRegistry(t *testing.T) {
	t.Parallel()
	var r pygent.Registry
	require.Empty(t, toolNames(&r))
	_, err := r.Execute(t.Context(), toolCall("b", ""), nowhere{})
	require.ErrorIs(t, err, pygent.ErrUnknownTool)
	require.NoError(t, r.Register("b", "", nil, sayTool("b")))
	require.NoError(t, r.Register("a", "", nil, sayTool("a")))
	require.Equal(t, []string{"a", "b"}, toolNames(&r))
	result, err := r.Execute(t.Context(), toolCall("b", ""), nowhere{})
	require.NoError(t, err)
	require.Equal(t, "b", result.Content)
	require.ErrorIs(t, r.Remove("c"), pygent.ErrUnknownTool)
	require.ErrorContains(t, r.Remove("c"), `"c"; the tools are: a, b`)
	require.NoError(t, r.Remove("a"))
	require.Equal(t, []string{"b"}, toolNames(&r))
	r.Clear()
	require.Empty(t, toolNames(&r))
	r.Reset()
	require.Equal(t, builtins, toolNames(&r))

	_, err = pygent.NewRegistry(pygent.Tool{Name: "no run"})
	require.Error(t, err)
}

func TestDisablingWinsOverAdding(t *testing.T) {
	t.Parallel()
	var r pygent.Registry
	r.Disable("a", "nobody")
	require.NoError(t, r.Register("a", "", nil, sayTool("a")))
	require.NoError(t, r.Register("b", "", nil, sayTool("b")))
	require.Equal(t, []string{"b"}, toolNames(&r))
	_, err := r.Execute(t.Context(), toolCall("a", ""), nowhere{})
	require.ErrorIs(t, err, pygent.ErrToolDisabled)
	_, err = r.Execute(t.Context(), toolCall("nope", ""), nowhere{})
	require.NotContains(t, err.Error(), "are: a")
	r.Reset()
	require.NoError(t, r.Register("a", "", nil, sayTool("a")))
	require.Contains(t, toolNames(&r), "a")

	agent := newAgentOn(t, nowhere{}, pygenttest.NewScriptedModel())
	agent.Tools().Disable("mine")
	require.NoError(t, agent.Tools().Register("mine", "", nil, sayTool("")))
	require.NotContains(t, toolNames(agent.Tools()), "mine")
}

func TestInvalidToolsAreRefused(t *testing.T) {
	t.Parallel()
	object := map[string]any{"type": "object"}
	tests := []struct {
		name, tool string
		parameters any
		fn         pygent.ToolFunc
		want       string
	}{
		{"no name", "", object, sayTool(""), "1 to 64"},
		{"a space", "two words", object, sayTool(""), "1 to 64"},
		{"a dot", "a.b", object, sayTool(""), "1 to 64"},
		{"a newline", "a\n", object, sayTool(""), "1 to 64"},
		{"too long", strings.Repeat("x", 65), object, sayTool(""), "1 to 64"},
		{"no function", "t", object, nil, "the function is nil"},
		{"not an object", "t", map[string]any{"type": "string"}, sayTool(""), "type object"},
		{"no schema", "t", []int{1}, sayTool(""), "not a JSON Schema"},
		{"a text", "t", `{"type":"object"}`, sayTool(""), "want what encodes to a JSON object, such as a map or a json.RawMessage"},
		{"a dangling reference", "t", json.RawMessage(`{"type":"object","properties":{"a":{"$ref":"#/nowhere"}}}`), sayTool(""), "parameters"},
		{"a bad pattern", "t", json.RawMessage(`{"type":"object","properties":{"a":{"type":"string","pattern":"("}}}`), sayTool(""), "parameters"},
		{"not JSON", "t", json.RawMessage(`{"type":`), sayTool(""), "encode the parameters"},
		{"not encodable", "t", func() {}, sayTool(""), "encode the parameters"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var r pygent.Registry
			require.ErrorContains(t, r.Register(tt.tool, "", tt.parameters, tt.fn), tt.want)
			require.Empty(t, toolNames(&r))
		})
	}
	var r pygent.Registry
	require.ErrorContains(t, r.Add(pygent.Tool{Name: "t"}), "Run is nil")
	for _, parameters := range []any{nil, json.RawMessage(nil), json.RawMessage("null")} {
		require.NoError(t, r.Register("t", "", parameters, sayTool("")))
	}
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

func TestRegistryIsSafeForConcurrentUse(t *testing.T) {
	t.Parallel()
	r, err := pygent.NewRegistry()
	require.NoError(t, err)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			name := fmt.Sprint("tool", i)
			for range 50 {
				_ = r.Register(name, "", nil, sayTool(name))
				_, _ = r.Execute(t.Context(), toolCall(name, ""), nowhere{})
				_ = r.Tools()
				r.Disable("other")
				_ = r.Remove(name)
			}
		})
	}
	all.Go(func() {
		for range 20 {
			agent, err := pygent.New(pygent.WithRegistry(r), pygent.WithModel(pygenttest.NewScriptedModel()), pygent.WithRuntime(nowhere{}))
			if err == nil {
				err = agent.Close()
			}
			if err != nil {
				t.Error(err)
			}
		}
	})
	all.Wait()
	require.Empty(t, toolNames(r))
}

// shownTools runs an agent for one step, and returns the tools that its model
// was given, by name.
func shownTools(t *testing.T, opts ...pygent.Option) map[string]chat.ToolSpec {
	t.Helper()
	return shownToolsOn(t, hollow{}, opts...)
}

func shownToolsOn(t *testing.T, rt pygent.Runtime, opts ...pygent.Option) map[string]chat.ToolSpec {
	t.Helper()
	shown := map[string]chat.ToolSpec{}
	model := pygent.ModelFunc(func(_ context.Context, req *pygent.ChatRequest) (*pygent.ChatResponse, error) {
		for _, spec := range req.Tools {
			shown[spec.Name] = spec
		}
		return &pygent.ChatResponse{Message: pygent.Message{Role: chat.RoleAssistant, Content: "hello"}}, nil
	})
	_, err := newAgentOn(t, rt, model, opts...).Step(t.Context(), "go")
	require.NoError(t, err)
	return shown
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

func TestRegistrationSaysWhatNoProviderTakes(t *testing.T) {
	t.Parallel()
	var r pygent.Registry
	require.EqualError(t, r.Register("t", strings.Repeat("ä", 1025), nil, sayTool("")), "tool t: the description has 1025 characters, and providers take at most 1024")
	require.NoError(t, r.Register("t", strings.Repeat("ä", 1024), nil, sayTool("")))
	require.EqualError(t, r.Register("t", "", json.RawMessage(`{"type":"object","properties":{"two words":{"type":"string"}}}`), sayTool("")),
		"tool t: parameters: two words: the name of a property has 1 to 64 letters, digits, dots, _ or -")
	require.ErrorContains(t, r.Register("t", "", json.RawMessage(`{"type":"object","properties":{"next":{"$ref":"#/properties/next"}}}`), sayTool("")), "tool t: parameters: next: #/properties/next refers to itself only")
}

func TestMoreToolsThanProvidersTakeEndTheRun(t *testing.T) {
	t.Parallel()
	var r pygent.Registry
	for i := range 129 {
		require.NoError(t, r.Register(fmt.Sprintf("t%03d", i), "", nil, sayTool("")))
	}
	agent := newAgentOn(t, nowhere{}, pygenttest.NewScriptedModel(pygenttest.Text("hello")), pygent.WithRegistry(&r))
	for range 2 {
		_, err := agent.Step(t.Context(), "go")
		require.ErrorContains(t, err, "129 tools are active, and providers take at most 128")
	}
	require.NoError(t, agent.Tools().Remove("t000"))
	_, err := agent.Step(t.Context(), "go")
	require.NoError(t, err)
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
