package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/testkit/termtest"
	"github.com/x/pygent/pygenttest"
)

func TestASessionHasTheToolsAndCommandsOfItsScript(t *testing.T) {
	t.Parallel()
	server := pygenttest.NewServer(t,
		pygenttest.Call("greet", map[string]any{"name": "Ada"}), pygenttest.Call("stop", map[string]any{"summary": "Greeted."}))
	p := atTerminal(t, withFile(t, command(t, server.Env(), "--no-docker"), "config.star", startup))
	p.Await("script config.star: 1 tool, 1 command")
	p.Await("› ")
	p.Type("/who\r")
	p.Await("it is ")
	p.Type("Greet Ada\r")
	p.Await("Allow this call of greet")
	p.answers("y") // what its tools run is asked about as a command is
	p.Await("Greeted.")
	require.Equal(t, "hello Ada\n", toolResults(server.Requests()[1].Chat.Messages)[0])
	p.Type("/exit\r")
	p.left()
}

// What is asked about is what will run: the call as a handler has changed it, with the
// name of the script that nobody here has named.
func TestApprovalsShowWhatAScriptMadeOfACall(t *testing.T) {
	t.Parallel()
	const changes = startup + `
before_tool(lambda ctx, call: change({"cmd": "echo second"}) if call.args["cmd"] == "echo first" else None, tools = ["bash"])
`
	server := pygenttest.NewServer(t, bash("echo first"), pygenttest.Call("greet", map[string]any{"name": "Ada"}), stop("Done."))
	p := atTerminal(t, withFile(t, command(t, server.Env(), "--no-docker", "--script", "own.star"), "own.star", changes))
	p.Await("› ")
	p.Type("go\r")
	p.reads()
	require.Contains(t, p.Screen().Text(), "│ echo second")
	p.Type("y")
	p.Await("Allow this call of greet")
	p.reads()
	require.NotContains(t, p.Screen().Text(), "found here", "the user has named it")
	p.Type("n")
	p.Await("Done.")
	results := toolResults(server.Requests()[2].Chat.Messages)
	require.Contains(t, results[0], "second\n")
	require.Contains(t, results[0], `the rules here changed the arguments of this call; it ran with {"cmd":"echo second"}`)
	require.Contains(t, results[1], "error: denied")
	p.leaves()
}

func TestApprovalsNameAScriptThatWasFound(t *testing.T) {
	t.Parallel()
	server := pygenttest.NewServer(t, pygenttest.Call("greet", map[string]any{"name": "Ada"}), stop("Done."))
	p := atTerminal(t, withFile(t, command(t, server.Env(), "--no-docker"), "config.star", startup))
	p.Await("› ")
	p.Type("go\r")
	p.reads()
	require.Contains(t, p.Screen().Text(), "greet (of config.star, found here)")
	p.Type("n")
	p.Await("Done.")
	require.Contains(t, toolResults(server.Requests()[1].Chat.Messages)[0], "error: denied")
	p.leaves()
}

// Ctrl-C ends what a script waits for.
func TestAToolOfAScriptIsInterrupted(t *testing.T) {
	t.Parallel()
	const source = `
settings(confirm_bash = False)
def wait(ctx):
    "Waits."
    ctx.bash("echo began > began; sleep 600")
tool(wait)
command("hello", lambda ctx, args: "still here", help = "h")
`
	server := pygenttest.NewServer(t, pygenttest.Call("wait", nil))
	p := atTerminal(t, withFile(t, command(t, server.Env(), "--no-docker", "--cwd", "--script", "own.star"), "own.star", source))
	p.Await("› ")
	p.Type("go\r")
	p.Await("wait")
	p.Until("the tool at work", func(termtest.Screen) bool {
		_, err := os.Stat(filepath.Join(p.cmd.Dir, "began"))
		return err == nil
	})
	p.Key("ctrl+c")
	p.Await("interrupted")
	p.Type("/hello\r")
	p.Await("still here")
	p.leaves()
}

// A session goes on with the script of the directory, and says if one is missing that
// it began with.
func TestASessionGoesOnWithItsScript(t *testing.T) {
	t.Parallel()
	u := newUser(t, stop("One."), stop("Two."), stop("Three."))
	path := filepath.Join(t.TempDir(), "own.star")
	require.NoError(t, os.WriteFile(path, []byte(startup), 0o600))
	u.does("run", "--no-docker", "--cwd", "--script", path, "begin")
	got := u.does("run", "--no-docker", "--cwd", "--continue", "--script", path, "again")
	require.NotContains(t, got.stderr, "missing now")
	got = u.does("run", "--no-docker", "--cwd", "--continue", "again")
	require.Contains(t, got.stderr, "missing now: the tool greet, handlers of tool calls and runs; if you started it with --script FILE")
}

func TestAScriptInTheContainerNeedsNoApproval(t *testing.T) {
	t.Parallel()
	image := dockerImage(t)
	const source = startup + `
def look(ctx, call):
    ctx.write("seen", call.args["cmd"])
    return note("seen by " + ctx.bash("cat seen").output)
before_tool(look, tools = ["bash"])
`
	server := pygenttest.NewServer(t,
		pygenttest.Calls(pygenttest.Call("greet", map[string]any{"name": "Ada"}), bash("echo $PWD")), stop("Done."))
	got := finish(t, withFile(t, command(t, server.Env(), "run", "--docker", "--image", image, "go"), "config.star", source))
	require.Equal(t, 0, got.code, got.stderr)
	results := toolResults(server.Requests()[1].Chat.Messages)
	require.Equal(t, "hello Ada\n", results[0])
	require.Contains(t, results[1], "/workspace\n")
	require.Contains(t, results[1], "seen by echo $PWD")
}

// The interpreter of scripts speaks to the log of the process when it is loaded, where
// there is little address space.
func TestALittleAddressSpaceIsNoMatterOfScripts(t *testing.T) {
	t.Parallel()
	cmd := command(t, nil, "version")
	cmd.Args = append([]string{"sh", "-c", `ulimit -v 3000000 && exec "$0" "$@"`, cmd.Path}, cmd.Args[1:]...)
	shell, err := exec.LookPath("sh")
	require.NoError(t, err)
	cmd.Path = shell
	got := finish(t, cmd)
	require.Equal(t, 0, got.code, got.stderr)
	require.Empty(t, got.stderr)
}
