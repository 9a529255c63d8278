package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
	"github.com/x/pygent/internal/testkit/cmdtest"
	"github.com/x/pygent/internal/testkit/enginetest"
	"github.com/x/pygent/internal/testkit/persontest"
	"github.com/x/pygent/pygenttest"
)

func TestMain(m *testing.M) { cmdtest.Main(m, nil) }

// command prepares a run of the command that ends with the test.
func command(t *testing.T, env []string, args ...string) *exec.Cmd {
	t.Helper()
	return cmdtest.Command(t.Context(), t, env, args...)
}

type outcome struct {
	stdout, stderr string
	code           int
}

func finish(t *testing.T, cmd *exec.Cmd) outcome {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if err != nil {
		var exit *exec.ExitError
		require.ErrorAs(t, err, &exit)
	}
	return outcome{stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()}
}

// dockerImage returns the image for a test that needs an engine, and skips the
// test if none answers.
func dockerImage(t *testing.T) string {
	t.Helper()
	enginetest.Need(t, enginetest.Image())
	return enginetest.Image()
}

// toolResults returns the results of the calls in a conversation.
func toolResults(messages []pygent.Message) []string {
	return persontest.Results(messages)
}

func bash(cmd string) pygenttest.Reply {
	return pygenttest.Call("bash", map[string]any{"cmd": cmd})
}

// program makes the model write a program, run it, and stop with its output.
func program(t *testing.T) *pygenttest.Server {
	return pygenttest.NewServer(t,
		pygenttest.Call("write_file", map[string]any{"path": "sum.sh", "content": "echo $((20 + 22)) from $0\n"}),
		pygenttest.TextAndCalls("Running it.", pygenttest.Call("bash", map[string]any{"cmd": "sh sum.sh"})),
		pygenttest.Decide(func(req *pygent.ChatRequest) pygenttest.Reply {
			last := req.Messages[len(req.Messages)-1].Text()
			_, output, _ := strings.Cut(last, "\n")
			output, _, _ = strings.Cut(output, "\n\n[") // what the agent tells besides
			return pygenttest.Call("stop", map[string]any{"summary": "It printed: " + strings.TrimSpace(output)})
		}))
}

func TestRunWritesAndRunsAProgram(t *testing.T) {
	t.Parallel()
	for _, where := range []string{"docker", "local"} {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			args := []string{"run", "--no-docker", "Add the numbers."}
			if where == "docker" {
				args = []string{"run", "--docker", "--image", dockerImage(t), "Add the numbers."}
			}
			server := program(t)
			got := finish(t, command(t, server.Env(), args...))
			require.Equal(t, 0, got.code, got.stderr)
			require.Equal(t, "It printed: 42 from sum.sh\n", got.stdout)
			require.Contains(t, got.stderr, "Running it.\n» $ sh sum.sh\n")
			require.Contains(t, got.stderr, "  42 from sum.sh\n")
			system := server.Requests()[0].Chat.Messages[0].Text()
			require.Equal(t, where == "docker", strings.Contains(system, "in a Docker container"))
			require.Equal(t, where == "local", strings.Contains(got.stderr, "commands run on this machine; protection: "))
		})
	}
}

func TestRunPrintsEventsAsJSON(t *testing.T) {
	t.Parallel()
	got := finish(t, command(t, program(t).Env(), "run", "--no-docker", "--json", "Add the numbers."))
	require.Equal(t, 0, got.code, got.stderr)
	dec := json.NewDecoder(strings.NewReader(got.stdout))
	var last pygent.Event
	for {
		var e pygent.Event
		err := dec.Decode(&e)
		if err == io.EOF {
			break
		}
		require.NoError(t, err)
		require.Greater(t, e.Seq, last.Seq)
		last = e
	}
	require.Equal(t, pygent.EventRunEnd, last.Type)
	require.Equal(t, pygent.StatusStopped, last.Result.Status)
}

func TestRunTellsTheStatusByItsExitCode(t *testing.T) {
	t.Parallel()
	call := func(tool string, args map[string]any) pygenttest.Reply { return pygenttest.Call(tool, args) }
	tests := []struct {
		name    string
		replies []pygenttest.Reply
		args    []string
		code    int
		stdout  string
		stderr  string
	}{
		{"stopped", []pygenttest.Reply{call("stop", map[string]any{"summary": "done"})}, nil, 0, "done\n", ""},
		{"a question", []pygenttest.Reply{call("continue", map[string]any{"prompt": "Which?", "options": []string{"a"}})}, nil, 3, "Which?\n- a\n", ""},
		{"an answer that is the end", []pygenttest.Reply{pygenttest.Text("It is 42.")}, nil, 0, "It is 42.\n", ""},
		{"an answer that the stop repeats", []pygenttest.Reply{bash("true"), pygenttest.TextAndCalls("It is 42.\n", call("stop", map[string]any{"summary": "It is 42."}))}, []string{"--quiet"}, 0, "It is 42.\n", ""},
		{"a question in text", []pygenttest.Reply{bash("true"), pygenttest.Text("Both are there. Which is it?")}, nil, 3, "Both are there. Which is it?\n", ""},
		{"words beside a call", []pygenttest.Reply{pygenttest.TextAndCalls("I look.", bash("true")), call("continue", map[string]any{"prompt": "Which?"})}, nil, 3, "Which?\n", "I look."},
		{"words beside a question", []pygenttest.Reply{pygenttest.TextAndCalls("It is 42.", call("continue", map[string]any{"prompt": "More?"}))}, nil, 3, "It is 42.\nMore?\n", ""},
		{"steps", []pygenttest.Reply{call("bash", map[string]any{"cmd": "true"})}, []string{"--max-steps", "1"}, 4, "", "limit of 1 step is reached (MaxSteps); to continue: pygent run --resume "},
		{"time", []pygenttest.Reply{pygenttest.Text("late").WithGate(nil)}, []string{"--timeout", "300ms", "--no-session"}, 4, "", "took longer than 300ms (MaxTime); --timeout TIME sets another limit"},
		{"a step", []pygenttest.Reply{pygenttest.Text("late").WithGate(nil)}, []string{"-e", "PYGENT_STEP_TIMEOUT=300ms"}, 4, "", "--resume "},
		{"calls", []pygenttest.Reply{bash("true"), bash("echo"), pygenttest.Text("Half.")}, []string{"-e", "PYGENT_MAX_TOOL_CALLS=1", "--no-session"}, 4, "Half.\n", "(MaxToolCalls); -e PYGENT_MAX_TOOL_CALLS=N sets another limit"},
		{"tokens", []pygenttest.Reply{bash("true").WithUsage(pygent.Usage{PromptTokens: 9})}, []string{"-e", "PYGENT_MAX_TOKENS=5", "--no-session"}, 4, "", "9 of 5 tokens are used (MaxTokens); -e PYGENT_MAX_TOKENS=N sets another limit"},
		{"empty", []pygenttest.Reply{pygenttest.Text(""), pygenttest.Text("")}, nil, 5, "", "two empty answers"},
		{"failed", []pygenttest.Reply{pygenttest.QuotaExceeded()}, nil, 1, "", "insufficient_quota"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			server := pygenttest.NewServer(t, tt.replies...)
			got := finish(t, command(t, server.Env(), append([]string{"run", "--no-docker", "go"}, tt.args...)...))
			require.Equal(t, tt.code, got.code, got.stderr)
			require.Equal(t, tt.stdout, got.stdout)
			require.Contains(t, got.stderr, tt.stderr)
		})
	}
}

func TestSetUpErrorsSayWhatToDo(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		env  []string
		args []string
		want []string
	}{
		{"no model", nil, []string{"run", "--no-docker", "go"}, []string{"OPENAI_API_KEY", "OPENAI_BASE_URL", "Ollama", "pygent demo"}},
		{"no engine, auto", []string{"OPENAI_API_KEY=k", "DOCKER_HOST=unix:///nonexistent.sock"}, []string{"run", "go"}, []string{"--no-docker"}},
		{"no engine, required", []string{"OPENAI_API_KEY=k", "DOCKER_HOST=unix:///nonexistent.sock"}, []string{"run", "--docker", "go"}, []string{"no Docker engine answers", "/nonexistent.sock"}},
		{"no prompt", []string{"OPENAI_API_KEY=k"}, []string{"run", "--no-docker"}, []string{"the prompt is empty"}},
		{"unknown flag", nil, []string{"run", "--imagine", "go"}, []string{"--imagine"}},
		{"both", nil, []string{"--docker", "--no-docker"}, []string{"--docker", "--no-docker"}},
		{"bad config", nil, []string{"--config", "nope.toml", "run", "go"}, []string{"nope.toml"}},
		{"bad variable", nil, []string{"-e", "PYGENT_MAX_STEPS=many", "run", "go"}, []string{"PYGENT_MAX_STEPS", "many"}},
		{"snapshot", []string{"OPENAI_API_KEY=k", "PYGENT_SNAPSHOT=dir"}, []string{"run", "go"}, []string{"load the snapshot dir", "no such file"}},
		{"log file", []string{"PYGENT_LOG_FILE=/nonexistent/log"}, []string{"run", "go"}, []string{"log file", "/nonexistent/log"}},
		{"no steps", nil, []string{"run", "--max-steps", "0", "go"}, []string{"--max-steps: want a whole number of at least 1, or \"none\", not \"0\""}},
		{"no time", nil, []string{"run", "--timeout", "0", "go"}, []string{"--timeout: want a duration longer than nothing"}},
		{"no CPUs", nil, []string{"run", "--cpus", "0", "go"}, []string{"--cpus: want a number of CPUs"}},
		{"no processes", nil, []string{"run", "--pids", "0", "go"}, []string{"--pids: want"}},
		{"few processes", nil, []string{"run", "--pids", "3", "go"}, []string{`--pids: want at least 32, which pygent's own processes and a command need, or "none", not "3"`}},
		{"a negative number", nil, []string{"run", "--cpus", "-1", "go"}, []string{`--cpus: the value "-1" starts with a dash; write --cpus=-1`}},
		{"no model name", nil, []string{"run", "--model", "", "go"}, []string{"--model: the value is empty"}},
		{"no image", nil, []string{"run", "--image", " ", "go"}, []string{"--image: the value is empty"}},
		{"no tool", nil, []string{"run", "--omit-tool", "", "go"}, []string{"--omit-tool: the value is empty"}},
		{"unknown tool", []string{"OPENAI_API_KEY=k"}, []string{"run", "--no-docker", "--omit-tool", "bsh", "go"}, []string{`pygent: --omit-tool: unknown tool "bsh", did you mean bash?`}},
		{"unknown tools of a variable", []string{"OPENAI_API_KEY=k", "PYGENT_DISABLED_TOOLS=bash,foo"}, []string{"run", "--no-docker", "go"}, []string{`pygent: PYGENT_DISABLED_TOOLS: unknown tool "foo"; the tools are: `}},
		{"an unknown tool of a file", []string{"OPENAI_API_KEY=k"}, []string{"run", "--no-docker", "--config", inFile(t, "c.toml", "disabled_tools = ['bsh']"), "go"}, []string{`pygent: disabled_tools (`, `c.toml:1): unknown tool "bsh"`}},
		{"little memory", nil, []string{"run", "--memory", "1m", "go"}, []string{`pygent: --memory: want at least 6m, which engines ask for, or "none", not "1m"`}},
		{"little memory of a file", nil, []string{"run", "--config", inFile(t, "c.toml", "container.memory = 1024"), "go"}, []string{`c.toml:1:11: container.memory: want at least 6m`}},
		{"no GPUs", nil, []string{"run", "--gpus", "some", "go"}, []string{`pygent: --gpus: want "all", a number, or ids such as "device=0,1", not "some"`}},
		{"no port to publish", nil, []string{"run", "--publish", "foo", "go"}, []string{`pygent: --publish: port "foo": "foo" is no port; write it as 8080`}},
		{"a network and hosts", nil, []string{"run", "--network", "bridge", "--allow-host", "pypi.org", "go"}, []string{"pygent: --network: the network bridge reaches every host, so --allow-host would not limit anything; leave one of them out"}},
		{"a network and hosts of the environment", []string{"PYGENT_ALLOW_HOSTS=pypi.org"}, []string{"run", "-e", "PYGENT_NETWORK=bridge", "go"}, []string{"pygent: -e PYGENT_NETWORK: the network bridge reaches every host, so PYGENT_ALLOW_HOSTS would not limit anything"}},
		{"all of the machine", []string{"PYGENT_LOCAL_READABLE=/"}, []string{"run", "--no-docker", "go"}, []string{`PYGENT_LOCAL_READABLE: "/" is a whole file system: name directories in it`}},
		{"no port", nil, []string{"run", "--publish", "", "go"}, []string{"--publish: the value is empty"}},
		{"no host", nil, []string{"run", "--allow-host", "", "go"}, []string{"--allow-host: the value is empty"}},
		{"a page for a host", nil, []string{"run", "--allow-host", "pypi.org,https://pypi.org/simple", "go"}, []string{"--allow-host: ", "https://pypi.org/simple"}},
		{"a host without a container", nil, []string{"run", "--no-docker", "--allow-host", "pypi.org", "go"}, []string{"--allow-host has no effect without a container"}},
		{"several faults", nil, []string{"run", "--max-steps", "x", "--memory", "y", "-e", "PYGENT_PIDS=z", "go"}, []string{"--max-steps: want", "--memory: want", "-e: PYGENT_PIDS: want"}},
		{"a comma in a mount", nil, []string{"run", "--mount", "/a,b:/c", "go"}, []string{"--mount /a,b:/c", "[[container.mounts]]"}},
		{"misspelt override", nil, []string{"run", "-e", "PYGENT_MODLE=m", "go"}, []string{"-e: PYGENT_MODLE", "did you mean PYGENT_MODEL?"}},
		{"an empty prompt", []string{"OPENAI_API_KEY=k"}, []string{"run", "--no-docker", ""}, []string{"the prompt is empty"}},
		{"nothing to resume from", []string{"OPENAI_API_KEY=k"}, []string{"run", "--no-docker", "--resume"}, []string{"there are no sessions; \"pygent\" starts one"}},
		{"no history to resume", []string{"OPENAI_API_KEY=k"}, []string{"run", "--no-docker", "--resume", "--history", "none.json"}, []string{"there is no run to resume", "none.json"}},
		{"a session without one", []string{"OPENAI_API_KEY=k"}, []string{"--no-docker", "--resume"}, []string{"there are no sessions; \"pygent\" starts one"}},
		{"an unknown session", []string{"OPENAI_API_KEY=k"}, []string{"--resume", "12"}, []string{"there are no sessions; \"pygent\" starts one"}},
		{"a session and a history", []string{"OPENAI_API_KEY=k"}, []string{"--resume=12", "--history", "h.json"}, []string{"stored in h.json and continues from there"}},
		{"two sessions", nil, []string{"--continue", "--resume", "12"}, []string{"--continue", "--resume"}},
		{"a misspelt command", []string{"OPENAI_API_KEY=k"}, []string{"runn", "go"}, []string{"unknown command runn.", "Did you mean `pygent run go`?", "pygent session runn go\n"}},
		{"a command with two letters swapped", []string{"OPENAI_API_KEY=k"}, []string{"rnu", "go"}, []string{"unknown command rnu.", "Did you mean `pygent run go`?", "pygent session rnu go\n"}},
		{"words of a misspelt command", nil, []string{"rnu", "it's", "a b", "-", "hello"}, []string{"Did you mean `pygent run 'it'\\''s' 'a b' - hello`? To", `pygent session rnu 'it'\''s' 'a b' - hello`}},
		{"many words of a misspelt command", nil, []string{"rnu", strings.Repeat("x", 200)}, []string{"Did you mean `pygent run ...`? To"}},
		{"the usual short flag for the version", nil, []string{"-v"}, []string{"pygent: unknown flag -v. Did you mean --version?\n"}},
		{"a command of two letters, swapped", []string{"OPENAI_API_KEY=k"}, []string{"iu"}, []string{"unknown command iu.", "Did you mean `pygent ui`?"}},
		{"an argument too many", nil, []string{"version", "go"}, []string{"unexpected argument go", "pygent help"}},
		{"a misspelt flag", nil, []string{"run", "--modle", "m", "go"}, []string{"--modle", `. Did you mean "--model"? "pygent help flags"`, "pygent help flags"}},
		{"a flag without its value", nil, []string{"run", "--image"}, []string{"pygent: --image needs a value; \"pygent help flags\""}},
		{"a flag without one of its values", nil, []string{"--attach"}, []string{"pygent: --attach needs a value; \"pygent help"}},
		{"a greeting", nil, []string{"--no-docker", "hello"}, []string{"set one of these"}},
		{"a short greeting", nil, []string{"--no-docker", "hi"}, []string{"set one of these"}},
		{"completion for no shell", nil, []string{"completion"}, []string{"which shell? Run \"pygent completion bash\""}},
		{"an unknown topic", nil, []string{"help", "cofig"}, []string{"no help topic cofig", "Did you mean config?"}},
		{"an unknown topic below one", nil, []string{"help", "sessions", "shw"}, []string{"no help topic sessions shw. Did you mean show? pygent sessions has help on: list, show, rm, export"}},
		{"a topic below none", nil, []string{"help", "version", "rm"}, []string{"no help topic version rm. pygent version has no commands of its own"}},
		{"a misspelt command below one", nil, []string{"sessions", "shw"}, []string{"pygent sessions has no command shw. Did you mean show? Choose one of: list, show, rm, export\n"}},
		{"missing arguments", nil, []string{"sessions", "export"}, []string{"something is missing: pygent sessions export ID FILE; see \"pygent help sessions export\""}},
		{"no command below one", nil, []string{"script"}, []string{"something is missing: pygent script check; see \"pygent help script\""}},
		{"a misspelt command of a script", nil, []string{"script", "chekc", "x"}, []string{"pygent script has no command chekc. Did you mean check? Choose one of: check\n"}},
		{"a word for a session where none is kept", []string{"OPENAI_API_KEY=k"}, []string{"--resume", "zzzz", "hello"}, []string{"there are no sessions; \"pygent\" starts one"}},
		{"a message to a session from the list", []string{"OPENAI_API_KEY=k"}, []string{"--resume", "go on", "there"}, []string{"there are no sessions; \"pygent\" starts one"}},
		{"a word as such a message", []string{"OPENAI_API_KEY=k"}, []string{"--resume", "--", "go"}, []string{"there are no sessions; \"pygent\" starts one"}},
		{"an unknown shell", nil, []string{"completion", "fihs"}, []string{"there is no shell fihs. Did you mean fish? Choose one of: bash, zsh, fish\n"}},
		{"a message to what is resumed", []string{"OPENAI_API_KEY=k"}, []string{"--no-docker", "--resume", "--history", inFile(t, "h.json", "[]"), "go"}, []string{"--resume", "leave one of them out"}},
		{"a limit without a container", nil, []string{"run", "--no-docker", "--memory", "1g", "go"}, []string{"--memory has no effect without a container"}},
		{"a port without a container", []string{"PYGENT_USE_DOCKER=0"}, []string{"--publish", "8080"}, []string{"--publish has no effect without a container"}},
		{"bad memory", nil, []string{"--memory", "lots", "run", "go"}, []string{"--memory: want a size", "lots"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := finish(t, command(t, tt.env, tt.args...))
			require.Equal(t, exitUsage, got.code, got.stderr)
			for _, want := range tt.want {
				require.Contains(t, got.stderr, want)
			}
			require.NotContains(t, got.stderr, "goroutine")
		})
	}
}

func TestRunThatMayNotBeLocalDoesNotSayThatItIs(t *testing.T) {
	t.Parallel()
	got := finish(t, command(t, []string{"OPENAI_API_KEY=k", "DOCKER_HOST=unix:///nonexistent.sock"}, "run", "go"))
	require.Equal(t, exitUsage, got.code)
	require.NotContains(t, got.stderr, "commands run on this machine")
	require.Equal(t, 1, strings.Count(got.stderr, "--no-docker"), got.stderr)
}

func TestRunReadsItsPromptFromStandardInput(t *testing.T) {
	t.Parallel()
	server := program(t)
	cmd := command(t, server.Env(), "run", "--no-docker", "--quiet", "-")
	cmd.Stdin = strings.NewReader("Add the numbers.\nAll of them.\n")
	got := finish(t, cmd)
	require.Equal(t, 0, got.code, got.stderr)
	require.Empty(t, got.stderr)
	require.Equal(t, "Add the numbers.\nAll of them.\n", server.Requests()[0].Chat.Messages[1].Text())
}

func TestInterruptEndsARun(t *testing.T) {
	t.Parallel()
	server := pygenttest.NewServer(t, pygenttest.Text("x").WithGate(nil))
	cmd := command(t, server.Env(), "run", "--no-docker", "go")
	require.NoError(t, cmd.Start())
	require.NoError(t, server.WaitRequests(persontest.Soon(t), 1))
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	require.Error(t, cmd.Wait())
	require.Equal(t, exitCancel, cmd.ProcessState.ExitCode())
}

func TestSessionOverAPipe(t *testing.T) {
	t.Parallel()
	server := pygenttest.NewServer(t,
		pygenttest.TextAndCalls("Let me see.", pygenttest.Call("bash", map[string]any{"cmd": "echo the answer is $((6*7))"})),
		pygenttest.Text("It is 42."), pygenttest.Text("Bye."))
	cmd := command(t, server.Env(), "--no-docker")
	cmd.Stdin = strings.NewReader("/help\nWhat is the answer?\n/nope\nThanks\n/exit\nnever read\n")
	got := finish(t, cmd)
	require.Equal(t, exitFailed, got.code, "there is no command /nope: %s", got.stderr)
	for _, want := range []string{"Pygent: commands run locally", "/exit", "Let me see.\n» $ echo the answer is $((6*7))\n  the answer is 42\nIt is 42.\n", "error: no command /nope", "Bye.\n"} {
		require.Contains(t, got.stdout, want)
	}
	require.Len(t, server.Requests(), 3)
}

func TestSessionBannerNamesThePersonaAndTheContainer(t *testing.T) {
	t.Parallel()
	image := dockerImage(t)
	server := pygenttest.NewServer(t)
	cmd := command(t, append(server.Env(), "PYGENT_PERSONA_NAME=Ada"), "--docker", "--image", image)
	got := finish(t, cmd)
	require.Equal(t, 0, got.code, got.stderr)
	require.Contains(t, got.stdout, "Ada: commands run in Docker ("+image+")")
}

func TestPipedSessionWithoutAnEngineRunsNothingOnThisMachine(t *testing.T) {
	t.Parallel()
	server := pygenttest.NewServer(t, pygenttest.Call("bash", map[string]any{"cmd": "touch $HOME/never"}), pygenttest.Text("I may not."))
	cmd := command(t, append(server.Env(), "DOCKER_HOST=unix:///nonexistent.sock"))
	cmd.Stdin = strings.NewReader("go\n")
	got := finish(t, cmd)
	require.Equal(t, 0, got.code, got.stderr)
	require.Contains(t, got.stdout, "NOT in a container")
	require.Contains(t, got.stdout, "needs approval")
}

func TestPipedSessionSaysOnceThatNobodyIsAsked(t *testing.T) {
	t.Parallel()
	const unasked = "commands run on this machine without asking"
	for name, tt := range map[string]struct {
		env  string
		want int
		ran  bool
	}{
		"local is chosen":      {"PYGENT_USE_DOCKER=0", 1, true},
		"a question is needed": {"PYGENT_CONFIRM_BASH=1", 0, false},
		"no question is":       {"PYGENT_CONFIRM_BASH=0", 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := pygenttest.NewServer(t, bash("echo $((6*7)) is it"), pygenttest.Text("I see."))
			cmd := command(t, append(server.Env(), "PYGENT_USE_DOCKER=0", tt.env))
			cmd.Stdin = strings.NewReader("go\nthanks\n")
			got := finish(t, cmd)
			require.Equal(t, tt.want, strings.Count(got.stderr, unasked), got.stderr)
			require.Equal(t, tt.ran, strings.Contains(got.stdout, "42 is it"), got.stdout)
		})
	}
}

func TestFlagsGoBeforeVariablesAndFiles(t *testing.T) {
	t.Parallel()
	server := pygenttest.NewServer(t, pygenttest.Call("stop", nil)).RepeatLast()
	cmd := command(t, append(server.Env(), "PYGENT_MODEL=from-env"), "run", "--no-docker", "--config", "own.toml",
		"-e", "PYGENT_MODEL=from-e", "--model", "from-flag", "--omit-tool", "read_image", "-e", "GREETING=hi", "go")
	require.NoError(t, os.WriteFile(filepath.Join(cmd.Dir, "own.toml"), []byte("model = 'from-file'\npersona_name = 'Filed'\n"), 0o600))
	got := finish(t, cmd)
	require.Equal(t, 0, got.code, got.stderr)
	req := server.Requests()[0].Chat
	require.Equal(t, "from-flag", req.Model)
	require.Contains(t, req.Messages[0].Text(), "Filed")
	for _, tool := range req.Tools {
		require.NotEqual(t, "read_image", tool.Name)
	}
}

func TestLogFileTellsOfTheRunAndNoKey(t *testing.T) {
	t.Parallel()
	server := pygenttest.NewServer(t, pygenttest.Overloaded().WithRetryAfter(time.Millisecond), bash("echo one"), pygenttest.Call("stop", nil))
	cmd := command(t, append(server.Env(), "PYGENT_LOG_FILE=log", "PYGENT_MODLE=m"), "run", "--no-docker", "--model", "m", "--config", "own.toml", "go")
	require.NoError(t, os.WriteFile(filepath.Join(cmd.Dir, "own.toml"), []byte("env.PASSWORD = 'sk-hidden'\n"), 0o600))
	got := finish(t, cmd)
	require.Equal(t, 0, got.code, got.stderr)
	data, err := os.ReadFile(filepath.Join(cmd.Dir, "log"))
	require.NoError(t, err)
	for _, want := range []string{
		"pygent starts", "own.toml", `\"max_steps\":100`, "did you mean PYGENT_MODEL?", "agent made", "m of openai.Model", "docker=false",
		"retrying", `msg="tool call" tool=bash call="$ echo one"`, "run ended", "status=stopped", "steps=2",
	} {
		require.Contains(t, string(data), want)
	}
	require.NotContains(t, string(data), "sk-")
}

func TestLogFileThatIsFullIsAWarning(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("this system has no /dev/full")
	}
	server := pygenttest.NewServer(t, pygenttest.Call("stop", map[string]any{"summary": "done"}))
	got := finish(t, command(t, append(server.Env(), "PYGENT_LOG_FILE=/dev/full"), "run", "--no-docker", "--quiet", "go"))
	require.Equal(t, 0, got.code, got.stderr)
	require.Equal(t, 1, strings.Count(got.stderr, "\n"), got.stderr)
	require.Contains(t, got.stderr, "pygent: warning: log file: write /dev/full: no space left on device")
}

// Commands replace the log by a link, in each directory that they can write to.
func TestLogFollowsNoLinkOfCommands(t *testing.T) {
	t.Parallel()
	for _, variable := range []string{"PYGENT_WORKSPACE", "PYGENT_LOCAL_WRITABLE"} {
		t.Run(variable, func(t *testing.T) {
			t.Parallel()
			dir, outside := t.TempDir(), filepath.Join(t.TempDir(), "mine")
			require.NoError(t, os.WriteFile(outside, []byte("mine"), 0o600))
			log := filepath.Join(dir, "log")
			require.NoError(t, os.Symlink(outside, log))
			server := pygenttest.NewServer(t, pygenttest.Call("stop", nil))
			got := finish(t, command(t, append(server.Env(), variable+"="+dir, "PYGENT_LOG_FILE="+log), "run", "--no-docker", "go"))
			require.Equal(t, exitUsage, got.code, got.stderr)
			require.Contains(t, got.stderr, "log file: ")
			data, err := os.ReadFile(outside)
			require.NoError(t, err)
			require.Equal(t, "mine", string(data))
		})
	}
}

func TestMisspeltVariableIsAWarning(t *testing.T) {
	t.Parallel()
	server := pygenttest.NewServer(t, pygenttest.Call("stop", nil))
	got := finish(t, command(t, append(server.Env(), "PYGENT_MODLE=m"), "run", "--no-docker", "--quiet", "go"))
	require.Equal(t, 0, got.code, got.stderr)
	require.Equal(t, "pygent: warning: environment: PYGENT_MODLE has no effect: no such setting, did you mean PYGENT_MODEL?\n", got.stderr)
}

// counting makes the model run a different command in each step, without end.
func counting(t *testing.T) *pygenttest.Server {
	n := 0
	return pygenttest.NewServer(t, pygenttest.Decide(func(*pygent.ChatRequest) pygenttest.Reply {
		n++
		return pygenttest.Call("job_output", map[string]any{"id": fmt.Sprint("job", n)})
	})).RepeatLast()
}

func TestRunHasItsOwnLimits(t *testing.T) {
	t.Parallel()
	got := finish(t, command(t, counting(t).Env(), "run", "--no-docker", "go"))
	require.Equal(t, exitLimit, got.code, got.stderr)
	require.Contains(t, got.stderr, "the limit of 100 steps is reached")
	got = finish(t, command(t, counting(t).Env(), "run", "--no-docker", "--max-steps", "120", "go"))
	require.Equal(t, exitLimit, got.code, got.stderr)
	require.Contains(t, got.stderr, "the limit of 120 steps is reached", "no limit that nobody set")
}

// The command that a run prints at its limit goes on with it.
func TestARunThatReachedALimitGoesOnAsItSays(t *testing.T) {
	t.Parallel()
	server := pygenttest.NewServer(t, bash("touch a.txt"), bash("touch b.txt"), pygenttest.Text("Both are there."))
	first := command(t, server.Env(), "run", "--no-docker", "--quiet", "--max-steps", "1", "Create a.txt and b.txt.")
	got := finish(t, first)
	require.Equal(t, exitLimit, got.code, got.stderr)
	_, said, found := strings.Cut(got.stderr, "the limit of 1 step is reached (MaxSteps); to continue: pygent ")
	require.True(t, found, got.stderr)
	args := append([]string{"--no-docker"}, strings.Fields(strings.Replace(said, "N", "5", 1))...)
	again := command(t, server.Env(), args...)
	again.Env, again.Dir = first.Env, first.Dir
	got = finish(t, again)
	require.Equal(t, 0, got.code, got.stderr)
	require.Equal(t, "Both are there.\n", got.stdout)
}

// With --history no settings are kept, so the command has to be given again.
func TestARunWithAHistoryThatReachedALimitSaysHowItGoesOn(t *testing.T) {
	t.Parallel()
	server := pygenttest.NewServer(t, bash("true"), pygenttest.Text("Done."))
	path := filepath.Join(t.TempDir(), "h.json")
	got := finish(t, command(t, server.Env(), "run", "--no-docker", "--history", path, "--max-steps", "1", "Run true."))
	require.Equal(t, exitLimit, got.code, got.stderr)
	require.Contains(t, got.stderr, "(MaxSteps); to continue: the same command with --resume in place of the prompt, and --max-steps N")
	got = finish(t, command(t, server.Env(), "run", "--no-docker", "--history", path, "--max-steps", "1", "--resume", "--max-steps", "5"))
	require.Equal(t, 0, got.code, got.stderr)
	require.Equal(t, "Done.\n", got.stdout)
}

// interruptedRun makes a history in which a call has no result.
func interruptedRun(t *testing.T) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "history.json")
	h, err := chat.OpenHistory(path)
	require.NoError(t, err)
	require.NoError(t, h.Append(chat.UserMessage("Make it."),
		chat.AssistantMessage("", pygent.ToolCall{ID: "call_1", Name: "bash", Arguments: `{"cmd":"make"}`})))
	require.NoError(t, h.Close())
	return path
}

func TestResumeGoesOnWithAnInterruptedRun(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		prompt []string
		said   []string
	}{
		{"as it was", nil, []string{"Make it."}},
		{"with a word", []string{"Only", "the tests."}, []string{"Make it.", "Only the tests."}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			path := interruptedRun(t)
			server := pygenttest.NewServer(t, pygenttest.Call("stop", map[string]any{"summary": "made"}))
			got := finish(t, command(t, server.Env(), append([]string{"run", "--no-docker", "--resume", "--history", path}, tt.prompt...)...))
			require.Equal(t, 0, got.code, got.stderr)
			require.Equal(t, "made\n", got.stdout)
			var said []string
			messages := server.Requests()[0].Chat.Messages
			require.NoError(t, pygenttest.CheckConversation(messages))
			for _, m := range messages {
				if m.Role == chat.RoleUser {
					said = append(said, m.Text())
				}
			}
			require.Equal(t, tt.said, said)
			require.Contains(t, toolResults(messages)[0], "interrupted")

			// The run has ended now, so resuming it again asks the model nothing.
			got = finish(t, command(t, server.Env(), "run", "--no-docker", "--resume", "--history", path))
			require.Equal(t, 0, got.code, got.stderr)
			require.Equal(t, "made\n", got.stdout)
			require.Len(t, server.Requests(), 1)
		})
	}
}

func TestSessionGoesOnWithAnInterruptedRun(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, input string
		args        []string
	}{
		{"by the command", "/resume\n", nil},
		{"by the flag", "", []string{"--resume"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			server := pygenttest.NewServer(t, pygenttest.Text("Where was I?"))
			cmd := command(t, server.Env(), append([]string{"--no-docker", "--history", interruptedRun(t)}, tt.args...)...)
			cmd.Stdin = strings.NewReader(tt.input)
			got := finish(t, cmd)
			require.Equal(t, 0, got.code, got.stderr)
			require.Contains(t, got.stdout, "Where was I?\n")
			require.Equal(t, 1, strings.Count(got.stdout, "The conversation continues after 2 messages; you said last: Make it.\n"), got.stdout)
			require.Equal(t, tt.args == nil, strings.Contains(got.stdout, wasInterrupted))
		})
	}
}

// damagedHistory makes a history file with one damaged message.
func damagedHistory(t *testing.T) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "history.json")
	h, err := chat.OpenHistory(path)
	require.NoError(t, err)
	for _, text := range []string{"one", "two", "three"} {
		require.NoError(t, h.Append(chat.UserMessage(text), chat.AssistantMessage("answer "+text)))
	}
	require.NoError(t, h.Close())
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	lost := []byte(`"two"`)
	require.Contains(t, string(data), string(lost))
	require.NoError(t, os.WriteFile(path, bytes.Replace(data, lost, make([]byte, len(lost)), 1), 0o600))
	return path
}

func TestRepairsOfAHistoryAreSaid(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		args  []string
		where func(outcome) string
	}{
		{"run", []string{"run", "go"}, func(o outcome) string { return o.stderr }},
		{"quiet", []string{"run", "--quiet", "go"}, func(o outcome) string { return o.stderr }},
		{"json", []string{"run", "--json", "go"}, func(o outcome) string { return o.stdout }},
		{"session", nil, func(o outcome) string { return o.stdout }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			server := pygenttest.NewServer(t, pygenttest.Call("stop", nil))
			path := damagedHistory(t)
			cmd := command(t, server.Env(), append(tt.args, "--no-docker", "--history", path)...)
			cmd.Stdin = strings.NewReader("go\n")
			got := finish(t, cmd)
			require.Equal(t, 0, got.code, got.stderr)
			for _, said := range []string{"history: the file is damaged after message 2", "is saved in " + path} {
				require.Equal(t, 1, strings.Count(tt.where(got), said), tt.where(got))
			}
		})
	}
}

func TestSessionThatIsTerminatedDoesNotLookDone(t *testing.T) {
	t.Parallel()
	server := pygenttest.NewServer(t, pygenttest.Text("x").WithGate(nil))
	cmd := command(t, server.Env(), "--no-docker")
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	_, err = io.WriteString(stdin, "go\n")
	require.NoError(t, err)
	require.NoError(t, server.WaitRequests(persontest.Soon(t), 1))
	require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
	require.Error(t, cmd.Wait())
	require.Equal(t, 128+int(syscall.SIGTERM), cmd.ProcessState.ExitCode())
}

func TestWorkspaceIsKept(t *testing.T) {
	t.Parallel()
	for _, flag := range []string{"--workspace", "--cwd"} {
		server := pygenttest.NewServer(t, pygenttest.Call("bash", map[string]any{"cmd": "echo kept > kept.txt"}), pygenttest.Call("stop", nil))
		cmd := command(t, server.Env(), "run", "--no-docker", "go")
		dir := cmd.Dir
		if flag == "--workspace" {
			dir = t.TempDir()
			cmd.Args = append(cmd.Args, flag, dir)
		} else {
			cmd.Args = append(cmd.Args, flag)
		}
		got := finish(t, cmd)
		require.Equal(t, 0, got.code, got.stderr)
		data, err := os.ReadFile(filepath.Join(dir, "kept.txt"))
		require.NoError(t, err)
		require.Equal(t, "kept\n", string(data))
	}
}

func TestANewWorkspaceIsTold(t *testing.T) {
	t.Parallel()
	server := pygenttest.NewServer(t, pygenttest.Call("stop", nil), pygenttest.Call("stop", nil))
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "source"), 0o700))
	run := func(workspace string) string {
		cmd := command(t, server.Env(), "run", "--no-docker", "--workspace", workspace, "go")
		cmd.Dir = dir
		got := finish(t, cmd)
		require.Equal(t, 0, got.code, got.stderr)
		return got.stderr
	}
	require.Contains(t, run("sourec"), "· the workspace sourec did not exist and was created. Did you mean source?\n")
	require.NotContains(t, run("sourec"), "did not exist")
}

func TestDemoNeedsNoKey(t *testing.T) {
	t.Parallel()
	for _, where := range []string{"docker", "local"} {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			args := []string{"demo", "--no-docker"}
			if where == "docker" {
				args = []string{"demo", "--docker", "--image", dockerImage(t)}
			}
			got := finish(t, command(t, nil, args...))
			require.Equal(t, 0, got.code, got.stderr)
			require.Equal(t, where == "docker", strings.Count(got.stdout, "· container ") == 1, got.stdout)
			require.Contains(t, got.stdout, "primes.sh prints the primes below 50: "+demoResult)
		})
	}
}

func TestDemoFetchesNoImage(t *testing.T) {
	t.Parallel()
	dockerImage(t)
	got := finish(t, command(t, nil, "demo", "--image", "localhost:1/pygent-test/none"))
	require.Equal(t, 0, got.code, got.stderr)
	require.Contains(t, got.stdout, "! running on this machine: the engine does not have the image localhost:1/pygent-test/none, and the demo does not fetch it (use --docker to fetch it)\n")
	require.NotContains(t, got.stdout, "pulling")
	require.Contains(t, got.stdout, "primes.sh prints the primes below 50: "+demoResult)
}

func TestTerminationLeavesNothingRunning(t *testing.T) {
	t.Parallel()
	server := pygenttest.NewServer(t, pygenttest.Call("bash", map[string]any{"cmd": "echo $$ > pid; touch ready; sleep 600"}))
	dir := t.TempDir()
	cmd := command(t, server.Env(), "run", "--no-docker", "--json", "--workspace", dir, "go")
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	waitForCall(t, t.Context(), stdout)
	require.NoError(t, cmd.Process.Signal(syscall.SIGHUP))
	_, err = io.Copy(io.Discard, stdout)
	require.NoError(t, err)
	require.Error(t, cmd.Wait())
	require.Equal(t, 128+int(syscall.SIGHUP), cmd.ProcessState.ExitCode(), "died of the signal instead of cleaning up")
}

// waitForCall reads JSON events until a tool is about to run.
func waitForCall(t *testing.T, ctx context.Context, r io.Reader) {
	t.Helper()
	dec := json.NewDecoder(r)
	for ctx.Err() == nil {
		var e pygent.Event
		require.NoError(t, dec.Decode(&e))
		if e.Type == pygent.EventToolCall {
			return
		}
	}
}
