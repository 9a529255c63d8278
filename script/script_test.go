package script_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
	"github.com/x/pygent/openai"
	"github.com/x/pygent/pygenttest"
	"github.com/x/pygent/script"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// box is a runtime in memory. It says that its commands run apart from this machine
// if isolated is set.
type box struct {
	isolated bool
	mu       sync.Mutex
	ran      []string
	files    map[string]string
	began    func() // called by the command "began"
}

func (b *box) Bash(ctx context.Context, cmd string, _ ...pygent.BashOption) (pygent.BashResult, error) {
	switch {
	case cmd == "panic":
		panic("the engine is gone")
	case strings.HasPrefix(cmd, "began"):
		b.began()
	}
	if strings.HasSuffix(cmd, "wait") {
		<-ctx.Done()
		return pygent.BashResult{}, ctx.Err()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ran = append(b.ran, cmd)
	r := pygent.BashResult{Command: cmd, Output: "ran " + cmd + "\n"}
	if strings.HasPrefix(cmd, "false") {
		r.ExitCode = 1
	}
	return r, nil
}

func (b *box) ReadFile(_ context.Context, path string) ([]byte, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	text, ok := b.files[path]
	if !ok {
		return nil, fmt.Errorf("%s: %w", path, fs.ErrNotExist)
	}
	return []byte(text), nil
}

func (b *box) WriteFile(_ context.Context, path string, data []byte) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.files == nil {
		b.files = map[string]string{}
	}
	b.files[path] = string(data)
	return nil
}
func (b *box) UploadFile(context.Context, string, string) error { return nil }
func (b *box) ExportFile(context.Context, string, string) error { return nil }
func (b *box) Cleanup() error                                   { return nil }
func (b *box) Isolated() bool                                   { return b.isolated }

// write makes files in a new directory, and returns the path of the first name.
func write(t *testing.T, names ...string) string {
	t.Helper()
	dir := t.TempDir()
	for i := 0; i < len(names); i += 2 {
		path := filepath.Join(dir, names[i])
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(names[i+1]), 0o644))
	}
	return filepath.Join(dir, names[0])
}

func load(t *testing.T, source string, opts ...script.Option) *script.Script {
	t.Helper()
	s, err := script.Load(t.Context(), write(t, "config.star", source), opts...)
	require.NoError(t, err)
	return s
}

// fault loads a script that is wrong, and returns its error without the directory.
func fault(t *testing.T, source string, opts ...script.Option) string {
	t.Helper()
	path := write(t, "config.star", source)
	_, err := script.Load(t.Context(), path, opts...)
	require.Error(t, err)
	return strings.ReplaceAll(err.Error(), filepath.Dir(path)+string(filepath.Separator), "")
}

// agent makes an agent with a script.
func agent(t *testing.T, s *script.Script, rt pygent.Runtime, model pygent.Model, opts ...pygent.Option) *pygent.Agent {
	t.Helper()
	a, err := pygent.New(append(append([]pygent.Option{pygent.WithModel(model), pygent.WithRuntime(rt)}, s.Options()...), opts...)...)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, a.Close()) })
	return a
}

// result runs an agent that makes one call, and returns its result as the model
// sees it.
func result(t *testing.T, s *script.Script, rt pygent.Runtime, tool string, args any, opts ...pygent.Option) string {
	t.Helper()
	a := agent(t, s, rt, pygenttest.NewScriptedModel(pygenttest.Call(tool, args), pygenttest.Text("done")), opts...)
	_, err := a.RunUntilStop(t.Context(), "go", pygent.WithEndOnReply())
	require.NoError(t, err)
	require.NoError(t, pygenttest.CheckConversation(a.History().Messages()))
	for _, m := range a.History().Messages() {
		if m.Role == chat.RoleTool {
			return m.Text()
		}
	}
	t.Fatal("no result")
	return ""
}

const counter = `
def count_lines(ctx, path, pattern = param.string("what to look for", default = ""), limit = 10, exact = False, of = ["a"]):
    """Counts the lines of a file.

    Lines are those with the pattern.

    Args:
      path: the file, as the
        commands see it
      limit: how many at most
    Returns:
      a number
    """
    return min(limit, len([l for l in ctx.read(path).splitlines() if pattern in l]))

tool(count_lines, read_only = True)
`

func TestAFunctionBecomesATool(t *testing.T) {
	tool := load(t, counter).Tools()[0]
	require.Equal(t, "count_lines", tool.Name)
	require.Equal(t, "Counts the lines of a file.\n\nLines are those with the pattern.", tool.Description)
	require.True(t, tool.ReadOnly)
	require.JSONEq(t, `{"type": "object", "additionalProperties": false, "required": ["path"], "properties": {
		"path": {"type": "string", "description": "the file, as the commands see it"},
		"pattern": {"type": "string", "description": "what to look for"},
		"limit": {"type": "integer", "description": "how many at most"},
		"exact": {"type": "boolean"},
		"of": {"type": "array", "items": {"type": "string"}}}}`, string(tool.Parameters))
}

func TestToolsAreCalled(t *testing.T) {
	rt := &box{files: map[string]string{"a.txt": "one\ntwo\nthree\n"}}
	for name, tt := range map[string]struct {
		source, args, want string
	}{
		"counter":          {counter, `{"path": "a.txt"}`, "3"},
		"with a pattern":   {counter, `{"path": "a.txt", "pattern": "t", "limit": 1}`, "1"},
		"null is left out": {counter, `{"path": "a.txt", "pattern": null}`, "3"},
		"no such file":     {counter, `{"path": "b.txt"}`, "config.star:14:47: ctx.read: b.txt: file does not exist"},
		"wrong arguments":  {counter, `{"path": 1}`, "error: "},
		"bash":             {"def count_lines(ctx):\n    'd'\n    r = ctx.bash('ls')\n    return r.output, r.exit_code, r.ok\ntool(count_lines)", `{}`, `["ran ls\n",0,true]`},
		"bash that fails":  {"def count_lines(ctx):\n    'd'\n    ctx.bash('false', check = True)\ntool(count_lines)", `{}`, "config.star:3:13: ctx.bash: $ false"},
		"write":            {"def count_lines(ctx):\n    'd'\n    ctx.write('b', 'x')\ntool(count_lines)", `{}`, "done"},
		"a dict":           {"def count_lines(ctx):\n    'd'\n    return {'a': [1, 2.5, None, struct(b = True)]}\ntool(count_lines)", `{}`, `{"a":[1,2.5,null,{"b":true}]}`},
		"fail":             {"def count_lines(ctx):\n    'd'\n    fail('not today')\ntool(count_lines)", `{}`, "config.star:3:9: fail: not today"},
		"a function":       {"def count_lines(ctx):\n    'd'\n    return count_lines\ntool(count_lines)", `{}`, "error: the result: a function has no form outside of the script"},
		"a loop":           {"def count_lines(ctx):\n    'd'\n    for i in range(1000000):\n        for j in range(1000000):\n            pass\ntool(count_lines)", `{}`, "it took more than 1000000 steps"},
		"too much":         {"def count_lines(ctx):\n    'd'\n    return 'a' * 1000000000\ntool(count_lines)", `{}`, "it makes values of more than 256 MiB"},
		"a list of ints":   {"def count_lines(ctx, n = param.list(of = param.int(min = 1)), o = param.object({'a': param.float()}, default = {})):\n    'd'\n    return [sum2(n), o]\ndef sum2(n):\n    t = 0\n    for i in n:\n        t += i\n    return t\ntool(count_lines)", `{"n": [1, 2]}`, `[3,{}]`},
		"registered later": {"def count_lines(ctx):\n    'd'\n    persona('a', 'b')\ntool(count_lines)", `{}`, "persona works only while the script is loaded"},
		"frozen":           {"l = []\ndef count_lines(ctx):\n    'd'\n    l.append(1)\ntool(count_lines)", `{}`, "append: cannot append to frozen list"},
		"frozen default":   {"def count_lines(ctx, a = param.list(default = ['x'])):\n    'd'\n    a.append(1)\ntool(count_lines)", `{}`, "append: cannot append to frozen list"},
		"who":              {"def count_lines(ctx):\n    'd'\n    return [ctx.agent, ctx.task]\ntool(count_lines)", `{}`, `["me",null]`},
	} {
		t.Run(name, func(t *testing.T) {
			got := result(t, load(t, tt.source), rt, "count_lines", json.RawMessage(tt.args), pygent.WithID("me"))
			require.Contains(t, got, tt.want)
		})
	}
	require.Equal(t, "x", rt.files["b"])
}

// What a schema can have, every provider takes.
func TestSchemasOfToolsAreAccepted(t *testing.T) {
	s := load(t, counter+`
def all_of_them(ctx, a = param.string(choices = ["x", "y"], min_length = 1, max_length = 9, pattern = "^[xy]$"), b = param.int(min = 1, max = 5, default = 2),
        c = param.float("how much", min = 0.5), d = param.bool(), e = param.list(of = param.object({"n": param.int(), "m": param.string(default = "")}), min_items = 1, max_items = 3)):
    "Takes all."
    return "ok"
tool(all_of_them)`)
	args := map[string]any{"a": "x", "c": 1.5, "d": true, "e": []any{map[string]any{"n": 1}}}
	for _, provider := range []pygenttest.Provider{"", pygenttest.Gemini, pygenttest.Mistral, pygenttest.Ollama} {
		server := pygenttest.NewServer(t, pygenttest.Call("all_of_them", args), pygenttest.Text("done"))
		if provider != "" { // else OpenAI, which it always is strict as
			server.Strict(provider)
		}
		a, err := pygent.New(append([]pygent.Option{pygent.WithOpenAI(openai.BaseURL(server.URL())), pygent.WithOpenAI(openai.Key("k")), pygent.WithModelName("m"), pygent.WithRuntime(&box{})}, s.Options()...)...)
		require.NoError(t, err)
		_, err = a.RunUntilStop(t.Context(), "go", pygent.WithEndOnReply())
		require.NoError(t, err)
		require.NoError(t, a.Close())
		require.Contains(t, fmt.Sprint(a.History().Messages()), "ok")
	}
}

func TestMistakesSayWhereTheyAre(t *testing.T) {
	for name, tt := range map[string]struct{ source, want string }{
		"syntax":           {"x = (1", "config.star:1:7: got end of file, want ')'"},
		"a name":           {"x = 1\ntool(nope)", "config.star:2:6: undefined: nope"},
		"a call":           {"def f():\n    g()\ndef g():\n    fail('no')\nf()", "config.star:4:9: fail: no\n  called by:\n    config.star:5:2: in <toplevel>\n    config.star:2:6: in f"},
		"no description":   {"def f(ctx):\n    pass\ntool(f)", "config.star:3:5: tool f: no description: give the function a doc string"},
		"no context":       {"def f():\n    'd'\ntool(f)", "config.star:3:5: tool: f: the first parameter of a tool is the context: def f(ctx)"},
		"args":             {"def f(ctx, *a):\n    'd'\ntool(f)", "f: a tool cannot have *args or **kwargs"},
		"a lambda":         {"tool(lambda ctx: 1)", "config.star:1:5: tool: a lambda has no name: give name"},
		"no type":          {"def f(ctx, a = {}):\n    'd'\ntool(f)", "f: parameter a: a default of the type dict says no type of a parameter"},
		"a doc":            {"def f(ctx):\n    '''d\n\n    Args:\n      x: what\n    '''\ntool(f)", "f: the doc string describes the parameter x, which there is not"},
		"a name of ours":   {"def bash(ctx):\n    'd'\ntool(bash)", "tool bash: a built-in tool has this name"},
		"twice":            {"def f(ctx):\n    'd'\ntool(f)\ntool(f)", "config.star:4:5: tool f: there is another one of that name"},
		"a tool's name":    {"def f(ctx):\n    'd'\ntool(f, name = 'a b')", "a name has 1 to 64 letters, digits, _ or -"},
		"a kind":           {"def f(ctx):\n    'd'\ntool(f, kind = 'odd')", `tool f: kind "odd": want one of [read edit run search other]`},
		"an approval":      {"def f(ctx):\n    'd'\ntool(f, approval = 1)", "approval: want True, False or None, got int"},
		"an argument":      {"tool(print, nme = 2)", `config.star:1:5: tool: unexpected keyword argument "nme"`},
		"a built-in":       {"on_start(print)", "config.star:1:9: on_start: want a function of the script, got builtin_function_or_method"},
		"arguments":        {"def f(ctx):\n    pass\nbefore_tool(f)", "config.star:3:12: before_tool: f takes 1 argument, but is called with 2: def f(ctx, call)"},
		"more arguments":   {"def f(ctx, a, b):\n    pass\non_end(f)", "f takes 3 arguments, but is called with 2: def f(ctx, run)"},
		"a command":        {"command('a b', lambda ctx, args: '')", `command "a b": a name has 1 to 64 letters, digits, _ or -`},
		"a command twice":  {"command('a', lambda ctx, args: '')\ncommand('/a', lambda ctx, args: '')", "config.star:2:8: command a: there is another one of that name"},
		"a persona":        {"persona('A', 'b')\npersona('a', 'b')", "config.star:2:8: persona: there is another persona a"},
		"a setting":        {"setting('model', None)", "config.star:1:8: setting: model: None is no value of a setting"},
		"a prompt":         {"system_prompt(1)", "config.star:1:14: system_prompt: want a text or a function, got int"},
		"a prompt's error": {"system_prompt(lambda info: info.nope)", "struct has no .nope attribute"},
		"a choice":         {"param.string(choices = 'ab')", "param.string: for parameter \"choices\": want a list of values"},
		"a loop":           {"for i in range(1000000):\n    for j in range(1000000):\n        pass", "config.star:2:5: it took more than 1000000 steps"},
		"memory":           {"x = [0] * (1 << 29)", "config.star:1:9: it makes values of more than 256 MiB"},
		"recursion":        {"def f():\n    f()\nf()", "config.star:2:5: function f called recursively"},
		"no file":          {"load('lib.star', 'f')", "config.star:1:1: cannot load lib.star: lib.star: no such file or directory"},
		"another place":    {"load('../lib.star', 'f')", "config.star:1:1: cannot load ../lib.star: load takes files of the script's own directory, such as \"lib.star\""},
		"a path":           {"load('/etc/passwd', 'f')", "config.star:1:1: cannot load /etc/passwd: load takes files of the script's own directory"},
		"itself":           {"load('config.star', 'f')", "config.star:1:1: cannot load config.star: files load each other: config.star loads config.star"},
		"open":             {"open('/etc/passwd')", "config.star:1:1: undefined: open"},
		"a change":         {"change(1)", "change: for parameter args: got int, want dict"},
		"a reason":         {"deny('')", "config.star:1:5: deny: say why: the model reads it"},
		"hidden names":     {"x = $op", "config.star:1:5: unexpected input character '$'"},
	} {
		t.Run(name, func(t *testing.T) { require.Contains(t, fault(t, tt.source), tt.want) })
	}
}

func TestErrorsAreForPrograms(t *testing.T) {
	_, err := script.Load(t.Context(), write(t, "config.star", "x = 1\ny = x + 'a'"))
	var e *script.Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, 2, e.Line)
	require.Equal(t, 7, e.Column)
	require.Equal(t, "unknown binary op: int + string", e.Msg)
	_, err = script.Load(t.Context(), filepath.Join(t.TempDir(), "none.star"))
	require.ErrorIs(t, err, fs.ErrNotExist)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("enough"))
	_, err = script.Load(ctx, write(t, "config.star", "for i in range(1000000):\n    for j in range(1000):\n        pass"))
	require.ErrorContains(t, err, "enough")
}

func TestLoadTakesFilesOfTheDirectory(t *testing.T) {
	path := write(t, "config.star", "load('lib/a.star', 'f', g = 'h')\npersona(f(), g)\nload('b.star', 'b')\nload('lib/a.star', again = 'f')",
		"lib/a.star", "load('b.star', 'b')\nprint('once')\nh = 'x' + b\ndef f():\n    return 'A'\n", "b.star", "b = 'B'\n")
	var printed []string
	s, err := script.Load(t.Context(), path, script.WithPrint(func(text string) { printed = append(printed, text) }))
	require.NoError(t, err)
	require.Equal(t, []pygent.Persona{{Name: "A", Description: "xB"}}, s.Personas())
	require.Equal(t, []string{"once"}, printed)
	dir := filepath.Dir(path)
	require.Equal(t, []string{path, filepath.Join(dir, "lib/a.star"), filepath.Join(dir, "b.star")}, s.Files())
}

func TestLoadLeavesTheDirectoryByNoLink(t *testing.T) {
	outside := write(t, "secret.star", "x = 1")
	for name, make := range map[string]func(dir string) error{
		"a link":           func(dir string) error { return os.Symlink(outside, filepath.Join(dir, "lib.star")) },
		"a directory link": func(dir string) error { return os.Symlink(filepath.Dir(outside), filepath.Join(dir, "lib.star")) },
		"a directory":      func(dir string) error { return os.Mkdir(filepath.Join(dir, "lib.star"), 0o755) },
		"large": func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "lib.star"), []byte(strings.Repeat("#\n", 1<<19)), 0o644)
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := write(t, "config.star", "load('lib.star', 'x')")
			require.NoError(t, make(filepath.Dir(path)))
			_, err := script.Load(t.Context(), path)
			require.ErrorContains(t, err, "lib.star")
			require.ErrorContains(t, err, "config.star:1:1: ")
		})
	}
	t.Run("the script itself", func(t *testing.T) {
		link := filepath.Join(t.TempDir(), "config.star")
		require.NoError(t, os.Symlink(outside, link))
		_, err := script.Load(t.Context(), link, script.Project())
		require.Error(t, err)
		_, err = script.Load(t.Context(), link)
		require.NoError(t, err, "the user may keep it elsewhere")
	})
	t.Run("a cycle", func(t *testing.T) {
		path := write(t, "config.star", "load('a.star', 'x')", "a.star", "load('b.star', 'x')", "b.star", "load('a.star', 'x')")
		_, err := script.Load(t.Context(), path)
		require.ErrorContains(t, err, "files load each other: a.star loads b.star loads a.star")
	})
}

func TestCommandsSpeakToThePersonOrToTheModel(t *testing.T) {
	rt := &box{isolated: true, files: map[string]string{"a": "text"}}
	s := load(t, `
def show(ctx, args):
    """Shows a file.

    More of it."""
    return ctx.read(args) + ctx.bash("ls").output

command("show", show, usage = "FILE")
command("review", lambda ctx, args: "Review " + args, help = "have it reviewed", to_model = True)
command("odd", lambda ctx, args: 1, help = "odd")
`)
	a := agent(t, s, rt, pygenttest.NewScriptedModel())
	r, err := a.RunCommand(t.Context(), "/show a", nil)
	require.NoError(t, err)
	require.Equal(t, "textran ls\n", r.Output)
	r, err = a.RunCommand(t.Context(), "/review it", nil)
	require.NoError(t, err)
	require.Equal(t, "Review it", r.Message.Text())
	_, err = a.RunCommand(t.Context(), "/odd", nil)
	require.ErrorContains(t, err, "/odd: lambda returned a int; want a string, or None")
	r, err = a.RunCommand(t.Context(), "/help show", nil)
	require.NoError(t, err)
	require.Contains(t, r.Output, "Shows a file.")
	_, err = pygent.New(append(s.Options(), pygent.WithRuntime(rt), pygent.WithCommands(pygent.Command{Name: "show", Script: func(context.Context, *pygent.Agent, string) (string, error) { return "", nil }}))...)
	require.ErrorContains(t, err, "command show")
}

func TestSettingsAreThoseOfAFile(t *testing.T) {
	s := load(t, "settings(persona_name = 'P', limits = {'max_steps': 5})\nsetting('limits.max_tool_calls', 7)\nsetting('banned_apps', ['curl'])\nsetting('container.cpus', 1.5)\n")
	c, err := pygent.ConfigSources{NoFiles: true, Lookup: nothing, Tables: []pygent.ConfigTable{s.Settings()}}.Load()
	require.NoError(t, err)
	require.Equal(t, "P", c.Persona.Name)
	require.Equal(t, 5, c.Limits.MaxSteps)
	require.Equal(t, 7, c.Limits.MaxToolCalls)
	require.Equal(t, []string{"curl"}, c.BannedApps)
	require.InDelta(t, 1.5, c.Container.CPUs, 0)

	s = load(t, "x = 1\nsettings(limits = {'max_stps': 5})\n")
	_, err = pygent.ConfigSources{NoFiles: true, Lookup: nothing, Tables: []pygent.ConfigTable{s.Settings()}}.Load()
	require.ErrorContains(t, err, "config.star:2:1: limits.max_stps: unknown key, did you mean limits.max_steps?")
}

func nothing(string) (string, bool) { return "", false }

// system returns the system message that a model gets.
func system(t *testing.T, s *script.Script) string {
	t.Helper()
	model := pygenttest.NewScriptedModel(pygenttest.Text("done"))
	_, err := agent(t, s, &box{}, model).RunUntilStop(t.Context(), "go", pygent.WithEndOnReply())
	require.NoError(t, err)
	return model.Requests()[0].Messages[0].Text()
}

func TestTheSystemPromptIsATextOrAFunction(t *testing.T) {
	s := load(t, "system_prompt('Be brief.')")
	require.True(t, s.SetsPrompt())
	require.Equal(t, "Be brief.", system(t, s))
	s = load(t, "system_prompt(lambda info: info.default + '\\nTools: ' + str(len(info.tools)) + ' ' + info.persona_name)")
	require.Regexp(t, `(?s)^You are.*\nTools: \d+ Pygent$`, system(t, s))
}
