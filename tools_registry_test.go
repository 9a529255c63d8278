package pygent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
	"github.com/x/pygent/pygenttest"
)

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

// toolSaying returns a tool without arguments that says something.
func toolSaying(name, text string) pygent.Tool {
	return pygent.NewTool(name, "", func(context.Context, pygent.Runtime, struct{}) (string, error) { return text, nil })
}

// closed counts how often it was closed.
type closed struct{ times atomic.Int32 }

func (c *closed) Close() error { c.times.Add(1); return nil }

// offered returns the names of the tools that a request offers, without the
// built-in ones.
func offered(req pygent.ChatRequest) (names []string) {
	for _, s := range req.Tools {
		if !slices.Contains(builtins, s.Name) {
			names = append(names, s.Name)
		}
	}
	return names
}

func TestToolSourcesServeAnAgentAndItsTasks(t *testing.T) {
	t.Parallel()
	var c closed
	var opened []pygent.Runtime
	source := func(_ context.Context, rt pygent.Runtime, set func(...pygent.Tool) error) (io.Closer, error) {
		opened = append(opened, rt)
		mine := len(opened)
		where := pygent.NewTool("where", "", func(_ context.Context, rt pygent.Runtime, _ struct{}) (string, error) {
			require.Equal(t, opened[mine-1], rt)
			return string(rune('0' + mine)), nil
		})
		return &c, set(where)
	}
	model := pygenttest.NewScriptedModel(
		pygenttest.Call("where", nil), pygenttest.Call("delegate_task", map[string]any{"prompt": "Find out."}),
		pygenttest.Call("task_status", map[string]any{"wait": 60}), stop).
		On("Find out.", pygenttest.Call("where", nil), stop)
	agent := newAgentOn(t, forkable{}, model, pygent.WithToolSource("place", source))
	require.NotContains(t, toolNames(agent.Tools()), "where", "it is opened by the first run")
	_, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.Equal(t, "1", results(agent)[0])
	require.Len(t, opened, 2)
	messages, err := agent.Tasks().TaskHistory(t.Context(), onlyTask(t, agent).ID)
	require.NoError(t, err)
	require.True(t, slices.ContainsFunc(messages, func(m pygent.Message) bool { return m.Role == chat.RoleTool && m.Content == "2" }))
	_, err = agent.Step(t.Context(), "again")
	require.Error(t, err) // the script is over
	require.Len(t, opened, 2, "it stays open")
	require.NoError(t, agent.Close())
	require.EqualValues(t, 2, c.times.Load())
}

func TestASourceReplacesItsToolsAllOrNone(t *testing.T) {
	t.Parallel()
	var set func(...pygent.Tool) error
	source := func(_ context.Context, _ pygent.Runtime, s func(...pygent.Tool) error) (io.Closer, error) {
		set = s
		return nil, set(toolSaying("a", "1"), toolSaying("change", ""))
	}
	other := func(_ context.Context, _ pygent.Runtime, s func(...pygent.Tool) error) (io.Closer, error) {
		return nil, s(toolSaying("theirs", ""))
	}
	model := pygenttest.NewScriptedModel(pygenttest.Call("a", nil), pygenttest.Call("b", nil), stop, pygenttest.Text("hello"))
	agent := newAgentOn(t, nowhere{}, model, pygent.WithToolSource("mine", source), pygent.WithToolSource("other", other),
		pygent.WithDisabledTools("later"), pygent.OnEvent(func(e pygent.Event) {
			if e.Type == pygent.EventToolDone && e.Call.Name == "a" {
				require.NoError(t, set(toolSaying("b", "2"), toolSaying("later", "")))
			}
		}))
	_, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.Equal(t, []string{"1", "2", "stopped"}, results(agent))
	require.Equal(t, []string{"a", "change", "theirs"}, offered(model.Requests()[0]))
	require.Equal(t, []string{"b", "theirs"}, offered(model.Requests()[1]))
	require.Equal(t, model.Requests()[0].Messages[0], model.Requests()[1].Messages[0], "the system message")

	for want, tools := range map[string][]pygent.Tool{
		"tool source mine: tool bash: the agent has one of that name already":               {toolSaying("c", ""), toolSaying("bash", "")},
		"tool source mine: tool theirs: the tool source other has one of that name already": {toolSaying("theirs", "")},
		"tool source mine: it has two tools c":                                              {toolSaying("c", ""), toolSaying("c", "")},
		`tool source mine: tool "no name": a name has 1 to 64 letters, digits, _ or -`:      {toolSaying("c", ""), toolSaying("no name", "")},
	} {
		require.EqualError(t, set(tools...), want)
	}
	require.EqualError(t, agent.Tools().Add(toolSaying("b", "")), "tool b: the tool source mine has one of that name")
	require.Contains(t, toolNames(agent.Tools()), "b")
	require.NotContains(t, toolNames(agent.Tools()), "c")

	agent.Tools().Clear()
	require.NoError(t, agent.Tools().Add(toolSaying("b", "")))
	require.NoError(t, set(toolSaying("d", "")))
	require.NoError(t, set())
	require.Equal(t, []string{"b"}, toolNames(agent.Tools()))
	require.NoError(t, agent.Close())
	err = set(toolSaying("e", ""))
	require.ErrorIs(t, err, pygent.ErrAgentClosed)
	require.ErrorIs(t, err, pygent.ErrSourceClosed)
}

func TestASourceThatWasGivenUpIsToldSo(t *testing.T) {
	t.Parallel()
	var early func(...pygent.Tool) error
	source := func(_ context.Context, _ pygent.Runtime, set func(...pygent.Tool) error) (io.Closer, error) {
		early = set
		return nil, errors.New("no server")
	}
	agent := newAgentOn(t, nowhere{}, pygenttest.NewScriptedModel(stop), pygent.WithToolSource("server", source))
	_, err := agent.RunUntilStop(t.Context(), "go")
	require.EqualError(t, err, "tool source server: no server")
	err = early(toolSaying("late", ""))
	require.EqualError(t, err, "tool source server: the agent has closed this source")
	require.ErrorIs(t, err, pygent.ErrSourceClosed)
	require.NotErrorIs(t, err, pygent.ErrAgentClosed, "it is open")
}

func TestASourceHearsAtOnceOfToolsThatNoRequestTakes(t *testing.T) {
	t.Parallel()
	many := func(prefix string, n int) (tools []pygent.Tool) {
		for i := range n {
			tools = append(tools, toolSaying(fmt.Sprintf("%s%d", prefix, i), ""))
		}
		return tools
	}
	var told []error
	source := func(_ context.Context, _ pygent.Runtime, set func(...pygent.Tool) error) (io.Closer, error) {
		for _, n := range []int{126, 127, 128} {
			told = append(told, set(many("a", n)...))
		}
		useless := toolSaying("useless", "")
		useless.Needs = func(pygent.Runtime) bool { return false }
		told = append(told, set(append(many("b", 127), useless)...), set(many("a", 127)...))
		return nil, nil
	}
	registry, err := pygent.NewRegistry(pygent.NewTool("stop", "", func(context.Context, pygent.Runtime, struct{}) (*pygent.ToolResult, error) {
		return &pygent.ToolResult{End: pygent.StatusStopped}, nil
	}))
	require.NoError(t, err)
	model := pygenttest.NewScriptedModel(pygenttest.Call("stop", nil))
	agent := newAgentOn(t, nowhere{}, model, pygent.WithRegistry(registry), pygent.WithToolSource("big", source))
	_, err = agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.NoError(t, told[0])
	require.NoError(t, told[1])
	require.EqualError(t, told[2], "tool source big: with its 128 tools, the agent has 129, and providers take at most 128 in a request")
	require.NoError(t, told[3], "a tool that cannot work here is not offered")
	require.NoError(t, told[4])
	require.Len(t, model.Requests()[0].Tools, 128)
}

func TestASourceHasRoomForAllToolsThatARequestTakes(t *testing.T) {
	t.Parallel()
	alone := pygenttest.NewScriptedModel(stop)
	_, err := newAgentOn(t, nowhere{}, alone).RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	var many []pygent.Tool
	for i := range 128 - len(alone.Requests()[0].Tools) {
		many = append(many, toolSaying(fmt.Sprintf("a%d", i), ""))
	}
	model := pygenttest.NewScriptedModel(stop)
	source := func(_ context.Context, _ pygent.Runtime, set func(...pygent.Tool) error) (io.Closer, error) {
		return nil, set(many...)
	}
	_, err = newAgentOn(t, nowhere{}, model, pygent.WithToolSource("big", source)).RunUntilStop(t.Context(), "go")
	require.NoError(t, err, "what delegates is not offered in this runtime")
	require.Len(t, model.Requests()[0].Tools, 128)
}

func TestToolsAreAskedAboutTheRuntimeOfTheirAgentOnly(t *testing.T) {
	t.Parallel()
	asked := map[pygent.Runtime]bool{}
	picky := toolSaying("picky", "")
	picky.Needs = func(rt pygent.Runtime) bool {
		asked[rt] = true
		return true
	}
	agent := newAgentOn(t, nowhere{}, pygenttest.NewScriptedModel(stop), pygent.WithTools(picky),
		pygent.WithToolSource("server", func(_ context.Context, _ pygent.Runtime, set func(...pygent.Tool) error) (io.Closer, error) {
			return nil, set(toolSaying("a", ""))
		}))
	_, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.NoError(t, agent.Close())
	require.Equal(t, map[pygent.Runtime]bool{nowhere{}: true}, asked)
}

// mortal is a ToolServer that ends.
type mortal struct {
	closed
	ended atomic.Bool
}

func (s *mortal) Alive() bool { return !s.ended.Load() }

func TestASourceWhoseServerEndedIsOpenedAgain(t *testing.T) {
	t.Parallel()
	var servers []*mortal
	source := func(_ context.Context, _ pygent.Runtime, set func(...pygent.Tool) error) (io.Closer, error) {
		s := &mortal{}
		servers = append(servers, s)
		return s, set(toolSaying(fmt.Sprintf("of_%d", len(servers)), ""))
	}
	model := pygenttest.NewScriptedModel(stop, stop, stop)
	agent := newAgentOn(t, nowhere{}, model, pygent.WithToolSource("server", source))
	for run := range 3 {
		_, err := agent.RunUntilStop(t.Context(), "go")
		require.NoError(t, err)
		if run == 1 {
			servers[0].ended.Store(true)
		}
	}
	require.Len(t, servers, 2)
	require.Equal(t, []string{"of_1"}, offered(model.Requests()[1]))
	require.Equal(t, []string{"of_2"}, offered(model.Requests()[2]))
	require.EqualValues(t, 1, servers[0].times.Load(), "it was closed")
	require.NoError(t, agent.Close())
	require.EqualValues(t, 1, servers[0].times.Load())
	require.EqualValues(t, 1, servers[1].times.Load())
}

func TestEveryChangeOfTheToolsIsTold(t *testing.T) {
	t.Parallel()
	var set func(...pygent.Tool) error
	source := func(_ context.Context, _ pygent.Runtime, s func(...pygent.Tool) error) (io.Closer, error) {
		set = s
		return nil, set(toolSaying("a", ""))
	}
	registry, err := pygent.NewRegistry(toolSaying("own", ""))
	require.NoError(t, err)
	agent := newAgentOn(t, nowhere{}, pygenttest.NewScriptedModel(pygenttest.Text("hi")), pygent.WithRegistry(registry), pygent.WithToolSource("mine", source))
	_, err = agent.RunUntilStop(t.Context(), "go", pygent.WithEndOnReply())
	require.NoError(t, err)
	require.NoError(t, set(toolSaying("b", ""), toolSaying("c", "")))
	require.Error(t, set(toolSaying("own", "")))
	agent.Tools().Disable("c")
	require.NoError(t, agent.Tools().Add(toolSaying("d", "")))
	require.NoError(t, agent.Tools().Remove("own"))
	agent.Tools().Clear()
	require.NoError(t, agent.Close())
	var told [][]string
	for e, err := range agent.Subscribe(t.Context(), 0) {
		require.NoError(t, err)
		if e.Type == pygent.EventSettings {
			told = append(told, e.Settings.Tools)
		}
	}
	require.Equal(t, [][]string{{"a", "own"}, {"b", "c", "own"}, {"b", "own"}, {"b", "d", "own"}, {"b", "d"}, nil}, told)
}

func TestResetKeepsWhatTheAgentWasMadeWithout(t *testing.T) {
	t.Parallel()
	agent := newAgentOn(t, nowhere{}, pygenttest.NewScriptedModel(), pygent.WithDisabledTools("bash"))
	agent.Tools().Disable("stop")
	agent.Tools().Reset()
	require.NotContains(t, toolNames(agent.Tools()), "bash")
	require.Contains(t, toolNames(agent.Tools()), "stop")
	require.ErrorContains(t, agent.Tools().Enable("bash"), "the agent was made with this tool disabled")
	agent.Tools().Disable("stop")
	require.ErrorContains(t, agent.Tools().Enable("bash"), "the agent was made with this tool disabled")
	agent.Tools().Reset()
	require.Equal(t, []string{"bash"}, agent.State().Settings.Disabled, "what is disabled for good is a list of its own")
}

func TestAToolOfASourceMaySetToolsWhenItIsAsked(t *testing.T) {
	t.Parallel()
	var set func(...pygent.Tool) error
	asked := toolSaying("asked", "x")
	var again bool
	asked.Needs = func(pygent.Runtime) bool {
		if !again {
			again = true
			require.NoError(t, set(toolSaying("other", "x")))
		}
		return true
	}
	agent := newAgentOn(t, nowhere{}, pygenttest.NewScriptedModel(stop), pygent.WithToolSource("s",
		func(_ context.Context, _ pygent.Runtime, f func(...pygent.Tool) error) (io.Closer, error) {
			set = f
			return nil, set(asked)
		}))
	_, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
}

func TestASourceThatFailsEndsTheRunAndIsOpenedAgain(t *testing.T) {
	t.Parallel()
	var c closed
	times := 0
	source := func(_ context.Context, _ pygent.Runtime, set func(...pygent.Tool) error) (io.Closer, error) {
		switch times++; times {
		case 1:
			return &c, errors.Join(set(toolSaying("early", "")), errors.New("no server"))
		case 2:
			panic("oh no")
		}
		return &c, set(toolSaying("a", ""))
	}
	fine := func(_ context.Context, _ pygent.Runtime, set func(...pygent.Tool) error) (io.Closer, error) {
		return &c, set(toolSaying("fine", ""))
	}
	model := pygenttest.NewScriptedModel(stop)
	agent := newAgentOn(t, nowhere{}, model, pygent.WithToolSource("server", source), pygent.WithToolSource("fine", fine))
	for _, want := range []string{"tool source server: no server", "tool source server: panic: oh no"} {
		result, err := agent.RunUntilStop(t.Context(), "go")
		require.EqualError(t, err, want)
		require.Equal(t, pygent.StatusFailed, result.Status)
		require.NotContains(t, toolNames(agent.Tools()), "early")
	}
	require.EqualValues(t, 1, c.times.Load(), "what failed was closed")
	_, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.Equal(t, []string{"a", "fine"}, offered(model.Requests()[0]))
	require.NoError(t, agent.Close())
	require.EqualValues(t, 3, c.times.Load())

	for _, opts := range [][]pygent.Option{
		{pygent.WithToolSource("x", fine), pygent.WithToolSource("x", fine)},
		{pygent.WithToolSource("", fine)},
	} {
		_, err := pygent.New(append(opts, pygent.WithRuntime(nowhere{}), pygent.WithModel(model))...)
		require.ErrorContains(t, err, "option WithToolSource: want another name than")
	}
}

func TestASourceThatDoesNotListenIsLeftBehind(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var c closed
		goOn := make(chan struct{})
		deaf := func(_ context.Context, _ pygent.Runtime, set func(...pygent.Tool) error) (io.Closer, error) {
			<-goOn
			return &c, set(toolSaying("late", ""))
		}
		agent := newAgentOn(t, nowhere{}, pygenttest.NewScriptedModel(stop), pygent.WithToolSource("deaf", deaf))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		result, err := agent.RunUntilStop(ctx, "go")
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, pygent.StatusCancelled, result.Status)
		require.ErrorContains(t, agent.Close(), "the tool source deaf")
		close(goOn)
		synctest.Wait()
		require.EqualValues(t, 1, c.times.Load())
		require.NotContains(t, toolNames(agent.Tools()), "late")
	})
}

func TestClosingASourceIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hang := make(chan struct{})
		source := func(close func() error) pygent.ToolSource {
			return func(context.Context, pygent.Runtime, func(...pygent.Tool) error) (io.Closer, error) {
				return closeFunc(close), nil
			}
		}
		agent := newAgentOn(t, nowhere{}, pygenttest.NewScriptedModel(stop),
			pygent.WithToolSource("hangs", source(func() error { <-hang; return nil })),
			pygent.WithToolSource("fails", source(func() error { return errors.New("broken pipe") })),
			pygent.WithToolSource("panics", source(func() error { panic("oh no") })))
		_, err := agent.RunUntilStop(t.Context(), "go")
		require.NoError(t, err)
		err = agent.Close()
		require.ErrorContains(t, err, "close the tool source fails: broken pipe")
		require.ErrorContains(t, err, "close the tool source panics: panic: oh no")
		require.ErrorContains(t, err, "the tool source hangs did not end in time and is left behind")
		close(hang)
	})
}

type closeFunc func() error

func (f closeFunc) Close() error { return f() }

type noServer struct{ name string }

func (s *noServer) Close() error { s.name = "closed"; return nil }

func TestASourceMayReturnANilPointerBesideItsError(t *testing.T) {
	t.Parallel()
	source := func(context.Context, pygent.Runtime, func(...pygent.Tool) error) (io.Closer, error) {
		var s *noServer
		return s, io.ErrNoProgress
	}
	agent := newAgentOn(t, nowhere{}, pygenttest.NewScriptedModel(stop), pygent.WithToolSource("s", source))
	_, err := agent.RunUntilStop(t.Context(), "go")
	require.ErrorIs(t, err, io.ErrNoProgress)
}

// The source's process is ended when the task rests, and nobody opens it again.
func TestATaskThatGoesOnOpensItsSourcesAgain(t *testing.T) {
	t.Parallel()
	opened := 0
	source := func(ctx context.Context, rt pygent.Runtime, set func(...pygent.Tool) error) (io.Closer, error) {
		opened++
		starter, _ := pygent.RuntimeAs[pygent.ProcessStarter](rt)
		p, err := starter.StartProcess(ctx, "exec cat")
		if err != nil {
			return nil, err
		}
		return p, set(pygent.NewTool("echo", "", func(context.Context, pygent.Runtime, struct{}) (string, error) {
			if _, err := p.Write([]byte("hi\n")); err != nil {
				return "", err
			}
			b := make([]byte, 3)
			_, err := io.ReadFull(p, b)
			return string(b), err
		}))
	}
	model := pygenttest.NewScriptedModel().On("one", pygenttest.Call("echo", nil), stop, pygenttest.Call("echo", nil), stop)
	rt, err := pygent.NewRuntime(t.Context(), pygent.WithDocker(pygent.DockerNever))
	require.NoError(t, err)
	defer rt.Cleanup()
	tasks, err := pygent.NewTaskManager(pygent.TaskAgents(pygent.WithModel(model), pygent.WithToolSource("s", source)))
	require.NoError(t, err)
	defer tasks.Close()
	id, err := tasks.StartTask(t.Context(), "one", rt)
	require.NoError(t, err)
	_, err = tasks.Wait(t.Context(), id)
	require.NoError(t, err)
	_, err = tasks.Send(t.Context(), id, "again")
	require.NoError(t, err)
	_, err = tasks.Wait(t.Context(), id)
	require.NoError(t, err)
	history, err := tasks.TaskHistory(t.Context(), id)
	require.NoError(t, err)
	var got []string
	for _, m := range history {
		if m.Role == chat.RoleTool && m.Content != "stopped" {
			got = append(got, m.Content)
		}
	}
	require.Equal(t, []string{"hi\n", "hi\n"}, got)
	require.Equal(t, 2, opened, "a container ends with what runs in it when a task rests")
}
