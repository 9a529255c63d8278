package pygent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
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
	"job_kill", "job_list", "job_output", "list_personas", "read_image", "read_skill", "send_task", "stop", "task_status", "write_file",
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
