package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/pygenttest"
	"github.com/x/pygent/script"
)

// startup is a script with one of everything that a project's may have.
const startup = `
def greet(ctx, name, times = 1):
    """Greets somebody.

    Args:
      name: who
    """
    return ctx.bash("echo hello " + quote(name)).output * times

tool(greet)
command("who", lambda ctx, args: "it is " + ctx.agent, help = "tell who it is")
persona("Reviewer", "strict")
before_tool(lambda ctx, call: deny("not that") if "forbidden" in call.args["cmd"] else None, tools = ["bash"])
settings(limits = {"max_steps": 7}, persona_name = "Scripted")
print("loaded")
`

// withFile puts a file into the working directory of a command.
func withFile(t *testing.T, cmd *exec.Cmd, name, content string) *exec.Cmd {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(cmd.Dir, name), []byte(content), 0o600))
	return cmd
}

func TestRunBeginsWithTheProjectsScript(t *testing.T) {
	t.Parallel()
	server := pygenttest.NewServer(t,
		pygenttest.Calls(pygenttest.Call("greet", map[string]any{"name": "Ada"}), bash("echo forbidden"), pygenttest.Call("list_personas", nil)),
		pygenttest.Call("stop", map[string]any{"summary": "done"}))
	got := finish(t, withFile(t, command(t, server.Env(), "run", "--no-docker", "go"), "config.star", startup))
	require.Equal(t, 0, got.code, got.stderr)
	require.Equal(t, "done\n", got.stdout, "what a script prints never goes to standard output")
	require.Contains(t, got.stderr, "· config.star: loaded\n")
	require.Contains(t, got.stderr, "· script config.star: 1 tool, 1 command, 1 persona, 1 handler, 2 settings; untrusted, because it was found in this directory (--script trusts it, --no-script skips it)\n")
	request := server.Requests()[1].Chat
	results := toolResults(request.Messages)
	require.Equal(t, "hello Ada\n", results[0])
	require.Equal(t, "error: denied: not that", results[1])
	require.Contains(t, results[2], "Reviewer: strict")
	require.Contains(t, request.Messages[0].Text(), "Scripted")
}

func TestScriptsHaveTheRightsOfWhoNamesThem(t *testing.T) {
	t.Parallel()
	const source = "settings(model = 'from-script')\nsystem_prompt('Be brief.')\n"
	t.Run("found", func(t *testing.T) {
		got := finish(t, withFile(t, command(t, nil, "run", "go"), "config.star", source))
		require.Equal(t, exitUsage, got.code)
		require.Empty(t, got.stdout)
		require.Contains(t, got.stderr, "pygent: config.star:2:14: system_prompt: a file found in the working directory may not set the system prompt; if you trust the file, load it with --script config.star\n"+
			"config.star was found in this directory; use --no-script")
	})
	t.Run("a setting", func(t *testing.T) {
		got := finish(t, withFile(t, command(t, nil, "run", "go"), "config.star", "settings(model = 'from-script')\n"))
		require.Equal(t, exitUsage, got.code)
		require.Contains(t, got.stderr, "config.star:1:1: a file found in the working directory may not set model (line 1)")
		require.Contains(t, got.stderr, "load it with --script config.star")
	})
	for name, tt := range map[string]struct {
		file string
		env  []string
		args []string
	}{
		"named":       {"config.star", nil, []string{"--script", "config.star"}},
		"as before":   {"own.star", nil, []string{"--pyconfig", "own.star"}},
		"environment": {"own.star", []string{"PYGENT_SCRIPT=own.star"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			server := pygenttest.NewServer(t, pygenttest.Call("stop", nil))
			got := finish(t, withFile(t, command(t, append(server.Env(), tt.env...), append([]string{"run", "--no-docker", "go"}, tt.args...)...), tt.file, source))
			require.Equal(t, 0, got.code, got.stderr)
			request := server.Requests()[0].Chat
			require.Equal(t, "from-script", request.Model)
			require.Equal(t, "Be brief.", request.Messages[0].Text())
		})
	}
	t.Run("left out", func(t *testing.T) {
		server := pygenttest.NewServer(t, pygenttest.Call("stop", nil))
		got := finish(t, withFile(t, command(t, server.Env(), "run", "--no-docker", "--no-script", "go"), "config.star", "fail('it ran')"))
		require.Equal(t, 0, got.code, got.stderr)
		require.NotContains(t, got.stderr, "script")
	})
	t.Run("both", func(t *testing.T) {
		got := finish(t, command(t, nil, "run", "--no-script", "--script", "a.star", "go"))
		require.Equal(t, exitUsage, got.code)
		require.Contains(t, got.stderr, "--script and --no-script can't be used together")
	})
}

func TestTheUsersOwnScriptGoesBeforeTheProjects(t *testing.T) {
	t.Parallel()
	home := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(home, ".pygent.star"), []byte("settings(persona_name = 'Mine')\ncommand('mine', lambda ctx, args: 'x', help = 'h')\n"), 0o600))
	cmd := withFile(t, command(t, []string{"HOME=" + home, "USERPROFILE=" + home}, "config"), "config.star", startup)
	got := finish(t, cmd)
	require.Equal(t, 0, got.code, got.stderr)
	require.Regexp(t, `(?m)^persona_name +"Mine" +~[/\\]\.pygent\.star:1$`, got.stdout)
	require.Contains(t, got.stdout, "Script: ~"+string(filepath.Separator)+".pygent.star: 1 command, 1 setting\nScript: config.star: 1 tool")
	require.NoError(t, os.WriteFile(filepath.Join(home, ".pygent.star"), []byte(startup), 0o600))
	got = finish(t, withFile(t, command(t, []string{"HOME=" + home, "USERPROFILE=" + home}, "run", "go"), "config.star", startup))
	require.Equal(t, exitUsage, got.code)
	require.Contains(t, got.stderr, "tool greet: both ")
}

// A script that was found can have no command that every agent has, or that pygent adds.
func TestScriptCheckKnowsAllCommands(t *testing.T) {
	t.Parallel()
	a, err := pygent.New(pygent.WithModel(pygenttest.NewScriptedModel()), pygent.WithDocker(pygent.DockerNever), pygent.WithCommands(sessionCommands()...))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, a.Close()) })
	for _, c := range a.Commands() {
		s, err := script.Load(t.Context(), scriptOf(t, "command('"+c.Name+"', lambda ctx, args: '')"))
		require.NoError(t, err)
		_, err = new(settings).checkScript(s)
		require.ErrorContains(t, err, "command "+c.Name+": pygent has one of that name")
	}
}

func scriptOf(t *testing.T, source string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "own.star")
	require.NoError(t, os.WriteFile(path, []byte(source), 0o600))
	return path
}

func TestScriptCheckShowsWhatAScriptRegisters(t *testing.T) {
	t.Parallel()
	got := finish(t, withFile(t, command(t, nil, "script", "check", "own.star"), "own.star", startup+"system_prompt(lambda info: info.default)\n"))
	require.Equal(t, 0, got.code, got.stderr)
	require.Equal(t, `own.star: 1 tool, 1 command, 1 persona, 1 handler, 2 settings, the system prompt

tool greet (needs approval where bash does)
  Greets somebody.
  {"additionalProperties":false,"properties":{"name":{"description":"who","type":"string"},"times":{"type":"integer"}},"required":["name"],"type":"object"}

commands
  /who  tell who it is

personas
  Reviewer: strict

handlers
  before_tool lambda (line 13), of bash

settings
  limits.max_steps = 7
  persona_name = "Scripted"

system prompt: set
`, got.stdout)
	for name, tt := range map[string]struct{ source, want string }{
		"a mistake":       {"def f():\n    g()\ndef g():\n    fail('no')\nf()", "pygent: own.star:4:9: fail: no\n  called by:\n    own.star:5:2: in <toplevel>\n    own.star:2:6: in f\n"},
		"a setting":       {"settings(modle = 'm')", "pygent: own.star:1:1: modle: unknown key, did you mean model?\n"},
		"a command":       {"command('help', lambda ctx, args: '')", "pygent: own.star: command help: pygent has one of that name\n"},
		"one of pygent's": {"command('diff', lambda ctx, args: '')", "pygent: own.star: command diff: pygent has one of that name\n"},
		"a loop":          {"for i in range(1000000):\n    for j in range(1000000):\n        pass", "it took more than 1000000 steps"},
		"controls":        {"fail('\\033[2J')", `own.star:1:5: fail: ␛[2J`},
	} {
		t.Run(name, func(t *testing.T) {
			got := finish(t, withFile(t, command(t, nil, "script", "check", "own.star"), "own.star", tt.source))
			require.Equal(t, exitUsage, got.code)
			require.Empty(t, got.stdout)
			require.Contains(t, got.stderr, tt.want)
		})
	}
	got = finish(t, withFile(t, command(t, nil, "script", "check", "own.star"), "own.star", "settings(env = {'TOKEN': 'hush'}, openai = {'api_key': 'hush'})\npersona('A\\033[2J', 'b\\033[2J')\n"))
	require.Equal(t, 0, got.code, got.stderr)
	require.NotContains(t, got.stdout, "hush")
	require.Contains(t, got.stdout, "env = [redacted]")
	require.Contains(t, got.stdout, "A␛[2J: b␛[2J")
	got = finish(t, withFile(t, command(t, nil, "script", "check", "--project", "own.star"), "own.star", "settings(model = 'm')"))
	require.Equal(t, exitUsage, got.code)
	require.Contains(t, got.stderr, "may not set model")
	require.Equal(t, ":files\n", finish(t, command(t, nil, "complete-words", "--", "script", "check", "")).stdout)
	require.True(t, strings.HasPrefix(finish(t, command(t, nil, "complete-words", "--", "script", "")).stdout, "check"))
}

// A project's script is checked with the limits that hold at the start: it may lower
// those of the command and of the user.
func TestAProjectsScriptIsCheckedWithTheUsersLimits(t *testing.T) {
	t.Parallel()
	const source = "settings(limits = {'max_steps': 50})"
	got := finish(t, withFile(t, command(t, nil, "script", "check", "--project", "own.star"), "own.star", source))
	require.Equal(t, 0, got.code, got.stderr)
	require.Empty(t, got.stderr)
	require.Contains(t, got.stdout, "limits.max_steps = 50")

	cmd := withFile(t, command(t, nil, "script", "check", "--project", "own.star"), "own.star", source)
	cmd.Env = append(cmd.Env, "HOME="+cmd.Dir)
	got = finish(t, withFile(t, cmd, ".pygent.toml", "limits.max_steps = 10"))
	require.Equal(t, 0, got.code, got.stderr)
	require.Contains(t, got.stderr, "50 has no effect")
	require.NotContains(t, got.stdout, "max_steps")
}
