package script_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/pygenttest"
	"github.com/x/pygent/script"
)

func TestHandlersHaveASayInCalls(t *testing.T) {
	for name, tt := range map[string]struct{ source, want string }{
		"none":              {"before_tool(lambda ctx, call: None)", "ran ls\n"},
		"deny":              {"before_tool(lambda ctx, call: deny('no ' + call.args['cmd'] + ' by ' + call.name))", "error: denied: no ls by bash"},
		"deny overrides":    {"before_tool(lambda ctx, call: note('fine'))\nbefore_tool(lambda ctx, call: deny('no'))\nbefore_tool(lambda ctx, call: None)", "error: denied: no"},
		"change":            {"before_tool(lambda ctx, call: change({'cmd': call.args['cmd'] + ' -l'}, note = 'with -l'))", "ran ls -l\n"},
		"change a change":   {"f = lambda ctx, call: change({'cmd': call.args['cmd'] + ' -l'})\nbefore_tool(f)\nbefore_tool(f)", "ran ls -l -l\n"},
		"change to nothing": {"before_tool(lambda ctx, call: change({'cmd': None}))", "error: denied: the arguments that a hook gave cannot be used: "},
		"change to a ban":   {"before_tool(lambda ctx, call: change({'cmd': 'rm x'}))", `error: denied: the command "rm" is banned here`},
		"other tools":       {"before_tool(lambda ctx, call: deny('no'), tools = ['write_file'])\nbefore_tool(lambda ctx, call: deny('no'), tools = 'stop')", "ran ls\n"},
		"this tool":         {"before_tool(lambda ctx, call: deny('yes'), tools = ['write_file', 'bash'])", "error: denied: yes"},
		"note":              {"before_tool(lambda ctx, call: note('be quick'))", "\nbe quick"},
		"fails":             {"def f(ctx, call):\n    return call.nope\nbefore_tool(f)", "error: denied: the hook that decides about calls failed: before_tool f: "},
		"where it fails":    {"def f(ctx, call):\n    return call.nope\nbefore_tool(f)", "config.star:2:16: struct has no .nope attribute"},
		"loops":             {"def f(ctx, call):\n    for i in range(1000000):\n        for j in range(1000000):\n            pass\nbefore_tool(f)", "it took more than 1000000 steps"},
		"allows":            {"before_tool(lambda ctx, call: True)", "before_tool lambda: it returned a bool; want None, deny(…) or change(…) or note(…)"},
		"after":             {"after_tool(lambda ctx, call, result: note(result.text.strip() + ', %s, %s' % (result.error, result.exit_code)))", "ran ls, False, 0"},
		"after denies":      {"after_tool(lambda ctx, call, result: deny('x'))", "[the call was made, but a script failed after it: after_tool lambda: it returned a deny; want None, note(…)]"},
		"after others":      {"after_tool(lambda ctx, call, result: note('x'), tools = ['stop'])", "ran ls\n"},
		"runs":              {"def f(ctx, call):\n    return note(ctx.bash('date').output)\nbefore_tool(f)", "\nran date"},
		"quotes":            {"before_tool(lambda ctx, call: note('got ' + quote(\"a'b; c\")))", `got 'a'\''b; c'`},
		"runs a ban":        {"def f(ctx, call):\n    return note(ctx.bash('x; rm a').output)\nbefore_tool(f)", `ctx.bash: the command "rm" is banned here`},
	} {
		t.Run(name, func(t *testing.T) {
			got := result(t, load(t, tt.source), &box{isolated: true}, "bash", map[string]string{"cmd": "ls"}, pygent.WithBannedCommands("rm"))
			require.Contains(t, got, tt.want)
		})
	}
}

func TestHandlersHoldForTasks(t *testing.T) {
	s := load(t, "before_tool(lambda ctx, call: deny('not even ' + (ctx.task or 'nobody')), tools = ['bash'])")
	model := pygenttest.NewScriptedModel(pygenttest.Call("bash", map[string]string{"cmd": "ls"}), pygenttest.Call("stop", map[string]string{"summary": "tried"}))
	rt, err := pygent.NewLocalRuntime(t.Context())
	require.NoError(t, err)
	a := agent(t, s, rt, model)
	id, err := a.Tasks().StartTask(t.Context(), "list", rt, pygent.WithTaskID("t1"))
	require.NoError(t, err)
	status, err := a.Tasks().Wait(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, pygent.TaskFinished, status.State)
	history, err := a.Tasks().TaskHistory(t.Context(), id)
	require.NoError(t, err)
	require.Contains(t, fmt.Sprint(history), "error: denied: not even t1")
}

func TestHandlersAtTheStartAndTheEndOfARun(t *testing.T) {
	rt := &box{isolated: true}
	s := load(t, `
on_start(lambda ctx, run: note("the branch is " + ctx.bash("git branch").output + run.message))
on_start(lambda ctx, run: None)
def log(ctx, run):
    ctx.write("log", " ".join([run.status, str(run.steps), str(run.tool_calls), ctx.agent, str(run.task)]))
on_end(lambda ctx, run: fail("broken"))
on_end(log)
`)
	var warnings []string
	model := pygenttest.NewScriptedModel(pygenttest.Text("done"))
	a := agent(t, s, rt, model, pygent.WithID("me"), pygent.OnEvent(func(e pygent.Event) {
		if e.Type == pygent.EventWarning {
			warnings = append(warnings, e.Text)
		}
	}))
	_, err := a.RunUntilStop(t.Context(), "go", pygent.WithEndOnReply())
	require.NoError(t, err)
	require.Equal(t, "replied 1 0 me None", rt.files["log"])
	require.Len(t, warnings, 1)
	require.Contains(t, warnings[0], "on_end lambda: ")
	messages := model.Requests()[0].Messages
	require.Equal(t, "the branch is ran git branch\ngo", messages[len(messages)-1].Text())

	a = agent(t, load(t, "on_start(lambda ctx, run: deny('closed'))"), &box{}, pygenttest.NewScriptedModel())
	_, err = a.RunUntilStop(t.Context(), "go")
	require.ErrorContains(t, err, "on_start lambda: denied: closed")
}

func TestHandlersAndToolsRunAtOnce(t *testing.T) {
	s := load(t, `
seen = {"a": [1, 2, 3]}
def look(ctx, n = 1):
    "Looks."
    return sum3([seen["a"][i] for i in range(3)]) + n
def sum3(l):
    t = 0
    for x in l:
        t += x
    return t
tool(look)
before_tool(lambda ctx, call: note(str(seen)))
`)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			call := pygenttest.Call("look", nil)
			a, err := pygent.New(append([]pygent.Option{pygent.WithModel(pygenttest.NewScriptedModel(pygenttest.Calls(call, call, call), pygenttest.Text("done"))), pygent.WithRuntime(&box{})}, s.Options()...)...)
			if err != nil {
				t.Error(err)
				return
			}
			defer a.Close()
			if _, err := a.RunUntilStop(t.Context(), "go", pygent.WithEndOnReply()); err != nil {
				t.Error(err)
			}
			if text := fmt.Sprint(a.History().Messages()); strings.Count(text, `{"a": [1, 2, 3]}`) != 3 {
				t.Error(text)
			}
		})
	}
	all.Wait()
}

func TestAProjectsScriptLoosensNothing(t *testing.T) {
	const may = "a file found in the working directory may not "
	for name, tt := range map[string]struct{ source, want string }{
		"the prompt":    {"system_prompt('x')", may + "set the system prompt; if you trust the file, load it with --script "},
		"the approvals": {"def f(ctx):\n    'd'\ntool(f, approval = False)", may + "have tools that run without approval"},
	} {
		t.Run(name, func(t *testing.T) { require.Contains(t, fault(t, tt.source, script.Project()), tt.want) })
	}

	const acts = "tool_of = lambda ctx: ctx\ndef f(ctx):\n    'd'\n    return ctx.bash('ls').output\ntool(f)\n"
	s := load(t, acts, script.Project())
	require.True(t, s.Tools()[0].RunsCommands)
	require.Contains(t, result(t, s, &box{}, "f", nil), "ran ls", "as the model's own commands do")
	require.Contains(t, result(t, s, &box{}, "f", nil, pygent.WithConfirmBash(true)), "error: denied: this tool needs approval, and nobody is here to approve it")

	s = load(t, "def f(ctx):\n    'd'\n    return ctx.bash('ls').output\ntool(f, read_only = True)", script.Project())
	require.Contains(t, result(t, s, &box{isolated: true}, "f", nil), "ctx.bash: a tool with read_only = True may not run commands")
	s = load(t, "def f(ctx):\n    'd'\n    return ctx.bash('ls').output\ntool(f, read_only = True, approval = False)")
	require.Contains(t, result(t, s, &box{}, "f", nil, pygent.WithConfirmBash(true)), "ran ls", "the user's own word")

	for name, source := range map[string]string{
		"change": "before_tool(lambda ctx, call: change({'cmd': 'curl'}))",
		"bash":   "before_tool(lambda ctx, call: note(ctx.bash('ls').output))",
		"write":  "before_tool(lambda ctx, call: ctx.write('a', 'b'))",
	} {
		t.Run(name, func(t *testing.T) {
			cmd := map[string]string{"cmd": "ls"}
			here := result(t, load(t, source, script.Project()), &box{}, "bash", cmd)
			require.Contains(t, here, "error: denied: ")
			require.Contains(t, here, " on this machine, outside of a tool's call; if you trust the file, load it with --script ")
			for _, got := range []string{
				result(t, load(t, source, script.Project()), &box{isolated: true}, "bash", cmd),
				result(t, load(t, source), &box{}, "bash", cmd),
			} {
				require.Contains(t, got, "$ ", "where it reaches nothing, or is the user's own")
			}
		})
	}

	rt := &box{}
	a := agent(t, load(t, "command('go', lambda ctx, args: ctx.bash('ls').output)", script.Project()), rt, pygenttest.NewScriptedModel())
	_, err := a.RunCommand(t.Context(), "/go", nil)
	require.ErrorContains(t, err, "may not run commands on this machine")
	require.Empty(t, rt.ran)

	s = load(t, "settings(persona_name = 'P', model = 'm')", script.Project())
	_, err = pygent.ConfigSources{NoFiles: true, Lookup: nothing, Tables: []pygent.ConfigTable{s.Settings()}}.Load()
	require.ErrorContains(t, err, may+"set model (line 1)")
	require.ErrorContains(t, err, "load it with --script ")
}

// Whatever a script says, loading it neither panics nor takes more than its limits.
func FuzzLoad(f *testing.F) {
	for _, source := range []string{
		counter, "tool(lambda ctx, a = param.int(min = 1): 1, name = 'x', description = 'd')", "before_tool(lambda ctx, call: None, tools = ['a'])",
		"settings(limits = {'a': [1, 2.5, None]})\nsetting('a.b.c', 1)\nsetting('a', 2)\nsetting('a.b', 3)", "persona('a', 'b')\ncommand('x', lambda a, b: 1)",
		"system_prompt(lambda info: info.default)", "load('config.star', 'x')", "param.object({'a': param.list(of = param.string())})", "deny('x'); change({}); note('')",
	} {
		f.Add(source)
	}
	f.Fuzz(func(t *testing.T, source string) {
		path := write(t, "config.star", source)
		s, err := script.Load(t.Context(), path, script.WithLimits(script.Limits{Steps: 10_000, Memory: 1 << 20}), script.Project())
		if err != nil {
			return
		}
		if _, err := pygent.NewRegistry(s.Tools()...); err != nil {
			t.Fatal(err)
		}
		s.Handlers()
		_, _ = pygent.ConfigSources{NoFiles: true, Lookup: nothing, Tables: []pygent.ConfigTable{s.Settings()}}.Load()
	})
}
