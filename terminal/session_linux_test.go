package terminal_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
	"github.com/x/pygent/internal/testkit/persontest"
	"github.com/x/pygent/internal/testkit/termtest"
	"github.com/x/pygent/pygenttest"
)

// asSetup names the setup of the program that the test binary is.
const asSetup = "PYGENT_TERMINAL_SETUP"

// noQuestions has commands run without a question about each.
const noQuestions = "PYGENT_CONFIRM_BASH=0"

// setups are what a program with a session has besides its configuration.
var setups = map[string][]pygent.Option{
	"commands": {pygent.WithCommands(userCommands()...)},
	"panics":   panicking(),
	"handler":  {pygent.OnEvent(func(pygent.Event) { panic("a handler") })},
	"first":    {pygent.WithFirstMessage(chat.UserMessage("hello"))},
	"resume":   {pygent.WithFirstMessage(chat.UserMessage("and this")), pygent.WithResume(true)},
	"docker":   {pygent.WithDocker(pygent.DockerRequired)},
	"tools": {pygent.WithTools(
		pygent.NewTool("look", "Wait for a file", look, func(t *pygent.Tool) { t.ReadOnly = true }),
		pygent.NewTool("leave_running", "Run a command for a moment", leaveRunning),
	)},
}

type lookIn struct {
	File string `json:"file"`
}

// look waits until a file exists, and tells how far it is.
func look(ctx context.Context, rt pygent.Runtime, in lookIn) (string, error) {
	pygent.Progress(ctx, pygent.ProgressInfo{Text: "looking for " + in.File, Current: 3, Total: 4})
	_, err := rt.Bash(ctx, "while [ ! -e "+in.File+" ]; do sleep 0.02; done")
	return "found " + in.File, err
}

type runIn struct {
	Cmd string `json:"cmd"`
}

// leaveRunning is the tool bash with a time limit that a test can wait for.
func leaveRunning(ctx context.Context, rt pygent.Runtime, in runIn) (pygent.ToolResult, error) {
	r, err := rt.Bash(ctx, in.Cmd, pygent.BashTimeout(2*time.Second), pygent.BashGoesOn())
	return pygent.ToolResult{Content: r.String(), Bash: &r}, err
}

// makes creates a file that commands in dir wait for.
func makes(t *testing.T, dir, name string) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o644))
}

// once requires that each text was printed exactly once.
func (p *person) once(texts ...string) {
	p.t.Helper()
	all := p.All()
	for _, text := range texts {
		require.Equal(p.t, 1, strings.Count(all, text), "%q in\n%s", text, all)
	}
}

// pullingEngine is an engine that has no image, and pulls one until fail is closed. It
// returns how the program of a session gets it.
func pullingEngine(t *testing.T, fail <-chan struct{}) (env string) {
	t.Helper()
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Api-Version", "1.47")
		w.Header().Set("Ostype", "linux")
		switch {
		case strings.HasSuffix(r.URL.Path, "/_ping"):
		case strings.HasSuffix(r.URL.Path, "/images/create"):
			pulls(w, r, fail)
		case strings.HasSuffix(r.URL.Path, "/containers/json"), strings.HasSuffix(r.URL.Path, "/images/json"):
			fmt.Fprintln(w, `[]`)
		case strings.HasSuffix(r.URL.Path, "/volumes"), strings.HasSuffix(r.URL.Path, "/info"), strings.HasSuffix(r.URL.Path, "/version"):
			fmt.Fprintln(w, `{}`)
		default:
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprintln(w, `{"message":"there is no such thing"}`)
		}
	}))
	t.Cleanup(engine.Close)
	return "DOCKER_HOST=tcp://" + engine.Listener.Addr().String()
}

// pulls tells of a quarter of an image until fail is closed, or nobody listens.
func pulls(w http.ResponseWriter, r *http.Request, fail <-chan struct{}) {
	for {
		fmt.Fprintln(w, `{"status":"Downloading","progressDetail":{"current":250,"total":1000},"id":"a"}`)
		_ = http.NewResponseController(w).Flush()
		select {
		case <-fail:
			fmt.Fprintln(w, `{"error":"no space left on device"}`)
			return
		case <-r.Context().Done():
			return
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// The session says how far the pull of an image is, and why commands cannot run, before
// a message is typed.
func TestTheRuntimeIsStartedAtOnce(t *testing.T) {
	t.Parallel()
	fail := make(chan struct{})
	server := pygenttest.NewServer(t, pygenttest.Calls(bash("true"), bash("false")))
	p := sit(t, server, asSetup+"=docker", "PYGENT_IMAGE=example/image", pullingEngine(t, fail))
	p.Await("in a container of example/image", "network   none", "████░░░░░░░░░░░░  25 % pulling example/image", "Ready")
	close(fail)
	p.Await("✗ commands cannot run: ", "no space left on device", "choose another one, or get it with", "Ready")
	p.AwaitNo("25 %")
	p.Type("!ls\n")
	p.Await("✗ the runtime cannot start\n", "Ready")
	p.Type("go\n")
	p.Until("the end of both", func(s termtest.Screen) bool {
		return strings.Count(p.All(), "✗ the runtime cannot start\n") == 2 && strings.Contains(s.Text(), "Ready")
	})
	p.once("› go", "commands cannot run", "no space left")
	p.leaves()
}

// The name of an image may be a stranger's, and as long as that likes. Hosts may be many.
func TestLongFactsTakeLittleRoom(t *testing.T) {
	t.Parallel()
	fail := make(chan struct{})
	hosts := make([]string, 50)
	for i := range hosts {
		hosts[i] = fmt.Sprintf("h%d.example", i)
	}
	p := sit(t, pygenttest.NewServer(t), asSetup+"=docker", "PYGENT_IMAGE=example/"+strings.Repeat("image-", 35)+"x",
		"PYGENT_ALLOW_HOSTS="+strings.Join(hosts, ","), pullingEngine(t, fail))
	p.Await("in a container of\n            example/image-", "-i…\n  network   h0.example, h1.example", "h19.example and\n            30 others", "25 % pulling example/image-", "Ready")
	p.leaves()
}

func TestTheFirstMessage(t *testing.T) {
	t.Parallel()
	p := sit(t, pygenttest.NewServer(t, pygenttest.Text("Hello to you.")), asSetup+"=first")
	p.Await("› hello", "Hello to you.", "Done · 1 step", "Ready")
	p.once("› hello")
	require.Len(t, p.leaves(), 3)
}

func TestTheFirstMessageFollowsWhatIsResumed(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	server := pygenttest.NewServer(t, bash("sleep 60"), pygenttest.Text("Both are done.").WithGate(gate))
	p := sit(t, server, noQuestions)
	p.Type("go\n")
	p.Await("● $ sleep 60")
	p.Signal(os.Kill)
	require.Error(t, p.Wait())

	p.Terminal = termtest.Start(t, p.command(server, noQuestions), 80, 24)
	p.Await("continues after", "The last run was interrupted. Use /resume to continue it.", "Ready")
	p.Key("ctrl+d")
	require.NoError(t, p.Wait())

	p.Terminal = termtest.Start(t, p.command(server, noQuestions, asSetup+"=resume"), 80, 24)
	p.Await("■ $ sleep 60", "› and this", "Waiting for")
	persontest.Give(t, gate)
	p.Await("Both are done.", "Ready")
	msgs := p.leaves()
	require.Equal(t, "and this", msgs[len(msgs)-2].Text())
	require.Len(t, msgs, 6)
	require.NotContains(t, p.All(), "/resume to continue it")
}

func TestNewsWaitForTheEndOfTheBlock(t *testing.T) {
	t.Parallel()
	task, text := make(chan struct{}), make(chan struct{})
	end := pygenttest.Call("stop", map[string]any{"summary": "There are **12**.\nNo more."}).WithGate(task)
	p := sit(t, pygenttest.NewServer(t, pygenttest.Call("delegate_task", map[string]any{"prompt": "Count"}),
		pygenttest.Text("A first block.\n\nThe second one begins and ends.").WithChunkGate(text)).On("Count", end))
	p.Type("go\n")
	p.Await("✓ delegate", "(Count)")
	for range 5 {
		persontest.Give(t, text)
	}
	p.Await("The second")
	persontest.Give(t, task)
	p.AwaitNo("(Count)") // the row of the task is gone; that it has ended is news
	require.NotContains(t, p.All(), "finished")
	close(text)
	p.Await("(Count) · finished · 1 step", "  There are **12**.\n  No more.", "Done", "Ready")
	all := p.All()
	require.Less(t, strings.Index(all, "begins and ends."), strings.Index(all, "finished"))
	p.once("The second one", "finished")
	p.leaves()
}

func TestALongBlockIsLiveUntilItEnds(t *testing.T) {
	t.Parallel()
	var code strings.Builder
	pieces := make(chan struct{})
	for i := range 300 {
		fmt.Fprintf(&code, "line%d := %d\n", i, i)
	}
	p := sit(t, pygenttest.NewServer(t, pygenttest.Text("Before.\n\n```go\n"+code.String()+"```\n\nAfter.").WithChunkGate(pieces)))
	p.Type("go\n")
	for range 60 {
		persontest.Give(t, pieces)
	}
	p.Await("line35 := 35")
	require.NotContains(t, p.All(), "line0 := 0\n", "the block is not printed before it ends")
	close(pieces)
	p.Await("After.", "Done", "Ready")
	all := p.All()
	for i := range 300 {
		require.Equal(t, 1, strings.Count(all, fmt.Sprintf("line%d := %d\n", i, i)), "line %d in\n%s", i, all)
	}
	p.leaves()
}

// What is copied from the terminal is what the model wrote.
func TestWhatIsCopiedIsTheText(t *testing.T) {
	t.Parallel()
	long := "x := \"" + strings.Repeat("0123456789 ", 30) + "\""
	wide := strings.Repeat("日本語", 40)
	p := sit(t, pygenttest.NewServer(t, pygenttest.Text("Some [docs](https://example.com/"+strings.Repeat("path/", 30)+").\n\n```go\nfunc f() {\n\tif true {\n\t\t"+long+"\n\t}\n}\n```\n\n"+
		"- one\n  - nested\n    1. deep\n\n| a | b |\n| --- | ---: |\n| 日本 | 1 |\n| x | 100 |\n\n"+wide)))
	p.Type("go\n")
	p.Await("Done", "Ready")
	var lines []string
	for _, line := range p.Lines() {
		if line.Text == "› " {
			break // the live area
		}
		require.Equal(t, strings.TrimRight(line.Text, " "), line.Text, "no line ends with blanks")
		lines = append(lines, strings.TrimSpace(line.Text))
	}
	for _, want := range []string{"func f() {", "if true {", long, "- one", "- nested", "1. deep"} {
		require.Contains(t, lines, want)
	}
	require.Contains(t, strings.Join(lines, "\n"), "https://example.com/"+strings.Repeat("path/", 30), "a URL is in one piece")
	require.Contains(t, strings.Join(lines, ""), wide)
	require.Contains(t, string(p.Raw()), "\r\n\t", "tabs stay tabs")
	all := p.All()
	require.Contains(t, all, "a    │   b\n─────┼────\n日本 │   1\nx    │ 100\n")
	p.leaves()
}

func TestCallsAtTheSameTime(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	look := func(file string) pygenttest.Reply { return pygenttest.Call("look", map[string]any{"file": file}) }
	p := sit(t, pygenttest.NewServer(t, pygenttest.Calls(look("one"), look("two"), bash("echo three")), pygenttest.Text("All.")), noQuestions, asSetup+"=tools", "PYGENT_WORKSPACE="+dir)
	p.Type("go\n")
	s := p.Await("looking for one", "looking for two")
	require.Equal(t, 2, strings.Count(s.Text(), "████████████░░░░  75 %"), s)
	require.Equal(t, 2, strings.Count(s.Text(), "● look"), s)
	makes(t, dir, "two")
	makes(t, dir, "one")
	p.Await("· found one", "· found two", "✓ $ echo three · exit 0", "  three", "All.", "Ready")
	p.leaves()
	all := p.All()
	require.Less(t, strings.Index(all, "found one"), strings.Index(all, "found two"), "in the order of the calls")
}

func TestHowCallsEnd(t *testing.T) {
	t.Parallel()
	run := func(args map[string]any) pygenttest.Reply { return pygenttest.Call("bash", args) }
	p := sit(t, pygenttest.NewServer(t, run(map[string]any{"cmd": "echo begun; sleep 60", "timeout": 2}),
		pygenttest.Call("leave_running", map[string]any{"cmd": "echo begun; sleep 60"}),
		bash("seq 100000"), bash("echo fine; seq 30 >&2; exit 7"), pygenttest.Text("All.")), noQuestions, asSetup+"=tools")
	p.Type("go\n")
	p.Await("All.", "Done", "Ready")
	all := p.All()
	require.Regexp(t, `✗ \$ echo begun; sleep 60 · timed out · [\d.]+ m?s\n  begun\n`, all)
	require.Regexp(t, `✓ leave_running.* · continues as job 1 · [\d.]+ m?s\n  begun\n`, all)
	require.Regexp(t, `✓ \$ seq 100000 · exit 0.*\n  1\n  2\n  3\n  … at least [\d,]+ more lines\n  99995\n(.*\n){4}  100000\n`, all)
	require.Regexp(t, `✗ \$ echo fine; seq 30 >&2; exit 7 · exit 7.*\n  fine\n  1\n(.*\n)+  … 12 more lines\n(.*\n)+  30\n`, all)
	p.Key("ctrl+d")
	p.Await(wouldStop)
	p.reads()
	p.Type("l")
	p.left()
	require.Less(t, len(p.Raw()), 100_000, "what is shown is bounded, not only what is kept")
}

func TestWhatAModelDoes(t *testing.T) {
	t.Parallel()
	start, pieces := make(chan struct{}), make(chan struct{})
	reply := pygenttest.Text("So it is.").WithReasoning("Hm, let me see.").WithGate(start).WithChunkGate(pieces).WithCost(0.0123).WithUsage(pygent.Usage{PromptTokens: 12000, CompletionTokens: 345})
	p := sit(t, pygenttest.NewServer(t, reply), "PYGENT_CONTEXT_WINDOW=100000", "PYGENT_MODEL=some-model")
	p.Type("go\n")
	p.Until("a clock that moves", func(s termtest.Screen) bool {
		return regexp.MustCompile(`Waiting for some-model · [1-9]\d* s · Ctrl-C interrupts`).MatchString(s.Text())
	})
	persontest.Give(t, start)
	persontest.Give(t, pieces)
	p.Await("Thinking · ")
	close(pieces)
	p.Await("So it is.", "Done · 1 step · ", "12,345 tokens · cost 0.0123 · context 12 %", "· Ready · some-model · context 12 %")
	p.leaves()
}

func TestTheModelSumsUp(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("word ", 2000)
	p := sit(t, pygenttest.NewServer(t, pygenttest.Text(long+"One."), pygenttest.Text(long+"Two."), pygenttest.Text("A summary of what was said.")))
	for _, answer := range []string{"One.", "Two."} {
		p.Type("go\n")
		p.Await(answer, "Ready")
	}
	p.Type("/compact\n")
	p.Await("· the model is summarising the conversation", "· the conversation was compacted", "replaces 2 old messages", "Ready")
	p.leaves()
}

func TestAMessageWaitsForACommandThatKeepsTheAgentBusy(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	long := strings.Repeat("word ", 2000)
	p := sit(t, pygenttest.NewServer(t, pygenttest.Text(long+"One."), pygenttest.Text(long+"Two."), pygenttest.Text("A summary of what was said.").WithGate(gate), pygenttest.Text("Three.")))
	for _, answer := range []string{"One.", "Two."} {
		p.Type("go\n")
		p.Await(answer, "Ready")
	}
	p.Type("/compact\n")
	p.Await("· the model is summarising the conversation")
	p.Type("now this\n")
	p.Await("Next: now this")
	p.Type("and that\n")
	p.Await("Next: and that")
	persontest.Give(t, gate)
	p.Await("· the conversation was compacted", "› now this", "› and that", "Three.", "Ready")
	require.NotContains(t, p.All(), "busy")
	p.leaves()
}

func TestWhatIsPrintedOfAFailedAnswerIsWithdrawn(t *testing.T) {
	t.Parallel()
	pieces := make(chan struct{})
	p := sit(t, pygenttest.NewServer(t, pygenttest.Text("One block.\n\nAnother block that is open").FailAfter(4, "server_error", "broken").WithChunkGate(pieces), pygenttest.Text("All of it.")))
	p.Type("go\n")
	for range 2 {
		persontest.Give(t, pieces)
	}
	p.Await("One block.\n\nAnother")
	close(pieces)
	p.Await("↻ ", "broken", "↻ the text above since the last step is withdrawn", "All of it.", "Ready")
	p.once("One block.", "All of it.")
	require.NotContains(t, p.All(), "Another")
	p.leaves()
}

// A session that waits writes nothing.
func TestAnIdleSessionIsSilent(t *testing.T) {
	t.Parallel()
	p := sit(t, pygenttest.NewServer(t, pygenttest.Text("One.")))
	p.Type("go\n")
	p.Await("One.", "Ready")
	p.Type("a draft")
	p.Await("› a draft")
	written := len(p.Raw())
	time.Sleep(time.Second) // it is what does not happen that matters
	require.Equal(t, written, len(p.Raw()), "%q", p.Raw()[written:])
	p.Key("ctrl+c")
	p.leaves()
}
