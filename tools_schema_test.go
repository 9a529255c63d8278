package pygent_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/pygenttest"
)

// shownTools runs an agent for one step, and returns the tools that its model
// was given, by name.
func shownTools(t *testing.T, opts ...pygent.Option) map[string]pygent.ToolSpec {
	t.Helper()
	return shownToolsOn(t, hollow{}, opts...)
}

func shownToolsOn(t *testing.T, rt pygent.Runtime, opts ...pygent.Option) map[string]pygent.ToolSpec {
	t.Helper()
	shown := map[string]pygent.ToolSpec{}
	model := pygent.ModelFunc(func(_ context.Context, req *pygent.ChatRequest) (*pygent.ChatResponse, error) {
		for _, spec := range req.Tools {
			shown[spec.Name] = spec
		}
		return &pygent.ChatResponse{Message: pygent.Message{Role: pygent.RoleAssistant, Content: "hello"}}, nil
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
	require.Len(t, shown, len(builtins)-1, "all but the one that reads skills")
	without := shownTools(t) // a runtime without background commands, and no personas
	require.Len(t, without, len(builtins)-6)
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
		protocol pygent.OpenAIProtocol
	}{
		"OpenAI":    {},
		"Responses": {protocol: pygent.OpenAIResponses},
		"Gemini":    {rules: pygenttest.Gemini},
		"Mistral":   {rules: pygenttest.Mistral},
		"Ollama":    {rules: pygenttest.Ollama},
	} {
		t.Run(name, func(t *testing.T) {
			server := pygenttest.NewServer(t,
				pygenttest.Call("paint", map[string]any{"color": "red", "labels": `{"a":"green"}`, "maybe": nil, "level": nil}),
				pygenttest.Call("stop", map[string]any{})).Strict(tt.rules)
			model, err := pygent.NewOpenAIModel(pygent.OpenAIBaseURL(server.URL()), pygent.OpenAIKey("k"), pygent.OpenAIAPI(tt.protocol))
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
