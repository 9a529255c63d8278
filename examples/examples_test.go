// Package examples_test runs every example and compares what it prints. Those
// that need a model's key run against a scripted server.
package examples_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/testkit/enginetest"
	"github.com/x/pygent/pygenttest"
)

// wants is what each example prints.
var wants = map[string]string{
	"attach": "I see: \"What are these?\". \"The file go.mod\". an image.\n" +
		"error: program.exe: neither text in UTF-8 nor an image, a PDF file or a recording (application/octet-stream)\n",
	"commands": "> /help\n/compact      summarise the conversation to free context\n/count        tell how long the conversation is\n/exit         end the session\n" +
		"/help [NAME]  list the commands, or describe one\n" +
		"/new          start a new conversation; the history keeps this one\n/resume       continue an interrupted run\n" +
		"/review FILE  have a file reviewed\n> /review\nerror: /review: name a file\n" +
		"> /review main.go\nThe loop never ends.\n> /count\n3 messages\n> /exit\n",
	"approval": "plan.txt would become \"first\\n\", was \"\"\nwrite_file: allowed by Ada\nwrite_file: allowed by rule\n" +
		"bash: allowed by Ada\nit ran \"cat plan.txt\": \"second\\n\"\ncount: allowed by Ada\nprogress at the end: 1000 of 1000\n",
	"basic":                  "stopped\nIt printed: hello, world\n",
	"custom_model":           "You said: Is anybody there?\n",
	"custom_model_with_tool": "stopped\nThe workspace holds: answer.txt\n",
	"custom_tool": "Hello Ada!\ncreated notes.txt with 12 bytes (1 line)\nnotes.txt has 12 bytes\n" +
		"error: path is missing; you gave file; expected {path: string}\nstopped\n",
	"skills":                "- greeting: Greets people in the style of the house. Use when somebody is to be greeted.\nHello Ada, and welcome!\nAda is greeted.\n",
	"runtime":               "$ sh greet.sh world | tee greeting.txt\nHello world\nexit code: 3\ntimed out: true\nexported: Hello world\n",
	"events":                "the model says: Let me look.\nit calls: bash {\"cmd\":\"echo data > input.txt; cat input.txt\"}\nthe result is: $ echo data > input.txt; cat input.txt\ndata\n\nthat is enough\n",
	"delegate":              "finished after 2 steps: The names are in sorted.txt.\nAda\nBarbara\nGrace\n",
	"delegate_config":       "TestBot: finished. I wrote two tests, and both pass.\nall tests pass\n",
	"delegate_custom_model": "There are 4 words.\ntools run by the agent itself: 3\ntools run by its task: 2\n",
	"delegate_personas": "add.sh is tested and documented.\npassed\nadd.sh prints the sum of two numbers.\n" +
		"Tester: finished, 2 steps\nWriter: finished, 2 steps\n",
	"steer":       "user: Build the program.\nmodel: I build it.\nnow: tool build\nuser: Leave the tests alone.\nmodel: Built, and the tests are as they were.\n",
	"process":     "at 0: \"building\\n\"\nat 9: \"done\\n\"\nhello, Ada\n",
	"middleware":  "model: 2 messages in, 1 calls out\ntool: bash\nmodel: 4 messages in, 1 calls out\ntool: stop\nThe second model took over.\n",
	"ask":         "release asks: Where shall 1.0 go?\nreleased 1.0 as beta, announced: false\nstopped\n",
	"tool_server": "created poem.txt with 14 bytes (3 lines)\npoem.txt has 3 lines\nerror: nowhere is not a file\nstopped\n",
	"typed":       "1.0.0 [the first release]\nstatus: stopped\n2200 tokens, $0.0011\n",
	"tasks": "count wants to run {\"cmd\":\"echo one two > words; wc -w < words\"}: true\nclean wants to run {\"cmd\":\"rm -rf cache\"}: false\n" +
		"There are 2 words.\nI was not allowed to remove it.\nIn German: Es sind 2 Wörter.\n",
	"script": "Lead's limits: 50 steps, 3 tasks\n2 things to do\nto the model: Read main.py and tell what is wrong with it.\n" +
		"to the model: The team: Planner, Tester, Reviewer\nlint: lint --level=errors --fix main.py\nbash: error: denied: this project has a tool for that: lint\n" +
		"list_personas: - Planner: A colleague who splits work into small steps, and writes them down before anybody begins.\n" +
		"- Tester: A colleague who writes tests that can fail, and runs them.\n- Reviewer: A colleague who reviews changes, strictly but kindly.\n",
	"fork": "cp numbers.txt lines: 292 bytes\ntr -d '\\n' < numbers.txt > digits: 192 bytes\nsed 's/$/,/' numbers.txt > commas: 392 bytes\nthe best way made digits\n",
	"snapshot": "from 6 messages, and 1 file of 10 bytes:\n$ paste -sd+ numbers.txt | tee sum.txt\n1+2+3+4+5\n\nstopped\n" +
		"from 6 messages, and 1 file of 10 bytes:\n$ wc -l < numbers.txt; ls\n5\nnumbers.txt\n\nstopped\n",
	"config_file": "Reviewer, a strict but friendly reviewer\nerror: denied: the command \"curl\" is banned here\nstopped\n",
}

func TestExamplesPrintWhatTheyPromise(t *testing.T) {
	needsPrograms(t)
	t.Parallel()
	for _, name := range exampleNames() {
		if name == "page" || slices.Contains(faces, name) { // which have tests of their own
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			want, ok := wants[name]
			require.True(t, ok, "the example has no expected output in this test")
			require.Equal(t, want, runExample(t, example(t.Context(), t, name)))
		})
	}
}

func TestTelemetryPrintsItsSpans(t *testing.T) {
	needsPrograms(t)
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"go.mod", "go.sum"} { // copies, which may follow what pygent's module requires
		data, err := os.ReadFile(filepath.Join("telemetry", name))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), data, 0o600))
	}
	bin := filepath.Join(dir, "telemetry")
	build := buildProgram("-mod=mod", "-modfile="+filepath.Join(dir, "go.mod"), "-o", bin, ".")
	build.Dir = "telemetry"
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	printed := runExample(t, exec.CommandContext(t.Context(), bin))
	for _, span := range []string{"invoke_agent Pygent", "chat", "execute_tool bash", "execute_tool stop"} {
		require.Contains(t, printed, `"Name": "`+span+`"`)
	}
	require.Contains(t, printed, "gen_ai.usage.input_tokens")
	require.NotContains(t, printed, "echo hello", "what was said is left out")
}

// Without a terminal, the session is plain text by lines.
func TestTheExampleOfATerminalTakesLines(t *testing.T) {
	needsPrograms(t)
	t.Parallel()
	cmd := example(t.Context(), t, "terminal")
	cmd.Env = append(os.Environ(), "PYGENT_USE_DOCKER=0")
	cmd.Stdin = strings.NewReader("/help price\n/price te\n/price tea\nGood morning.\nTwo teas, please.\n/exit\n")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	banner, rest, _ := strings.Cut(string(out), "\n")
	require.Contains(t, banner, "Waiter: commands run locally, on this machine, in ")
	require.Equal(t, "/price WHAT: tell what something costs\nerror: /price: it is none of coffee, tea, toast\ntea is 2\n"+
		"What would you like? There is tea.\n» bill what=tea many=2\n  2 × tea: 4\nThat makes **2 × tea: 4**.\n", rest)
}

// runExample runs an example in the root of the repository, as its comment says, and
// returns what it prints. It uses Docker if the engine has the image of the tests.
func runExample(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	server := pygenttest.NewServer(t,
		pygenttest.Call("bash", map[string]any{"cmd": "echo hello, world"}),
		pygenttest.Call("stop", map[string]any{"summary": "It printed: hello, world"}))
	cmd.Dir = ".."
	cmd.Env = append(os.Environ(), server.Env()...)
	if err := enginetest.Has("", enginetest.Image()); err == nil {
		cmd.Env = append(cmd.Env, "PYGENT_IMAGE="+enginetest.Image())
	} else {
		require.False(t, enginetest.Required(), "%v", err)
		cmd.Env = append(cmd.Env, "PYGENT_USE_DOCKER=0")
	}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	require.NoError(t, cmd.Run(), "%s", stderr.String())
	return stdout.String()
}
