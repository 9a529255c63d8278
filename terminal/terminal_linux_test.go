package terminal_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/termtest"
	"github.com/x/pygent/pygenttest"
	_ "github.com/x/pygent/terminal"
)

// asProgram makes the test binary a program with a session.
const asProgram = "PYGENT_TERMINAL_TEST"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) == "" {
		os.Exit(m.Run())
	}
	cfg, err := pygent.LoadConfig()
	if err == nil {
		err = session(append(append(cfg.Options(), pygent.WithDocker(pygent.DockerNever), pygent.WithCommands(testCommands...)), setups[os.Getenv(asSetup)]...))
	}
	if err != nil {
		fmt.Println("the session failed:", err)
		os.Exit(1)
	}
}

func session(opts []pygent.Option) error {
	agent, err := pygent.New(opts...)
	if err != nil {
		return err
	}
	defer agent.Close()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGUSR1)
	defer stop()
	return agent.RunInteractive(ctx)
}

// person is somebody at a terminal with a session.
type person struct {
	*termtest.Terminal
	t       *testing.T
	history string
	state   string
}

// sit starts a session with the model of a server.
func sit(t *testing.T, server *pygenttest.Server, env ...string) *person {
	t.Helper()
	p := &person{t: t, history: filepath.Join(t.TempDir(), "history.json"), state: t.TempDir()}
	p.Terminal = termtest.Start(t, p.command(server, env...), 80, 24)
	p.Await("› ")
	return p
}

// command makes the program of a session.
func (p *person) command(server *pygenttest.Server, env ...string) *exec.Cmd {
	cmd := exec.CommandContext(p.t.Context(), os.Args[0])
	cmd.Dir = p.t.TempDir()
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "PYGENT_") && !strings.HasPrefix(v, "OPENAI_") && !strings.HasPrefix(v, "TMUX") {
			cmd.Env = append(cmd.Env, v)
		}
	}
	cmd.Env = append(cmd.Env, asProgram+"=1", "TERM=xterm-256color", "TERM_PROGRAM=vscode", "HOME="+p.t.TempDir(), "XDG_STATE_HOME="+p.state, "PYGENT_HISTORY_FILE="+p.history, "PYGENT_WORKSPACE="+p.t.TempDir())
	cmd.Env = append(append(cmd.Env, server.Env()...), env...)
	return cmd
}

// temporary is for a session with a temporary workspace.
const temporary = "PYGENT_WORKSPACE="

// reads waits until keys answer the question that is shown.
func (p *person) reads() {
	p.t.Helper()
	p.Until("question that listens", func(s termtest.Screen) bool {
		text := s.Text()
		return strings.Contains(text, "arrows and Enter") || strings.Contains(text, "Enter answers") || strings.Contains(text, "type an answer")
	})
}

// answers presses a key to answer a question that is shown.
func (p *person) answers(key string) {
	p.t.Helper()
	p.reads()
	p.Type(key)
}

// leaves ends the session, and returns the conversation.
func (p *person) leaves() []pygent.Message {
	p.t.Helper()
	p.Key("ctrl+d")
	return p.left()
}

// left waits for the end of the session, and returns the conversation, which every
// provider must accept.
func (p *person) left() []pygent.Message {
	p.t.Helper()
	require.NoError(p.t, p.Wait(), p.All())
	h, err := pygent.OpenHistory(p.history)
	require.NoError(p.t, err)
	defer h.Close()
	require.Empty(p.t, h.Repairs())
	if h.Len() > 0 {
		require.NoError(p.t, pygenttest.CheckConversation(h.Messages()))
	}
	return h.Messages()
}

func bash(cmd string) pygenttest.Reply { return pygenttest.Call("bash", map[string]any{"cmd": cmd}) }

// results returns the results of tool calls.
func results(msgs []pygent.Message) (texts []string) {
	for _, m := range msgs {
		if m.Role == pygent.RoleTool {
			texts = append(texts, m.Text())
		}
	}
	return texts
}

func TestATurn(t *testing.T) {
	p := sit(t, pygenttest.NewServer(t, pygenttest.TextAndCalls("I look.\n\nOnce.", bash("echo 4$((1+1)); exit 3")), pygenttest.Text("It is **42**.")), temporary)
	p.Await("on this machine", "temporary", "Ready")
	p.Type("what is it?\n")
	p.Await("› what is it?", "I look.", "Run this on your machine?", "echo 4$((1+1)); exit 3", "Yes, once", "Waiting for you")
	p.answers("y")
	p.Await("✗ $ echo 4$((1+1)); exit 3 · exit 3", "  42\n", "It is 42.", "Done · 2 steps", "Ready")
	msgs := p.leaves()
	require.Equal(t, "what is it?", msgs[1].Text())
	require.Len(t, results(msgs), 1)
	require.Equal(t, 1, strings.Count(p.All(), "It is 42."))
	require.Equal(t, 1, strings.Count(p.All(), "I look."))
}

func TestAnswersToTheQuestionAboutACall(t *testing.T) {
	for name, tt := range map[string]struct {
		answer func(p *person)
		want   string // of the call's result
	}{
		"once":         {func(p *person) { p.answers("y") }, "42"},
		"the number":   {func(p *person) { p.answers("1") }, "42"},
		"always":       {func(p *person) { p.answers("a") }, "42"},
		"the selected": {func(p *person) { p.answers("\n") }, "error: denied by the user"},
		"by arrows":    {func(p *person) { p.reads(); p.Key("up", "up"); p.Await("❯ 1. Yes"); p.Key("enter") }, "42"},
		"no":           {func(p *person) { p.answers("n") }, "error: denied by the user"},
		"a reason": {func(p *person) {
			p.answers("r")
			p.Await("why not: ")
			p.Type("too dangerous\n")
		}, "error: denied: the user says: too dangerous"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := sit(t, pygenttest.NewServer(t, bash("echo $((6*7))"), pygenttest.Text("I see.")))
			p.Type("go\n")
			p.Await("Run this on your machine?")
			tt.answer(p)
			p.Await("I see.", "Ready")
			require.Contains(t, results(p.leaves())[0], tt.want)
		})
	}
}

func TestWhatWasTypedAheadAnswersNothing(t *testing.T) {
	gate := make(chan struct{})
	p := sit(t, pygenttest.NewServer(t, bash("echo $((6*7))").WithGate(gate), pygenttest.Text("I see."), pygenttest.Text("And that.")))
	p.Type("go\n")
	p.Await("Waiting for")
	p.Type("y")
	p.Await("› y")
	gate <- struct{}{}
	p.Await("Run this on your machine?")
	p.Type("y\n1")
	p.Await("that was typed too early to answer")
	p.reads()
	p.Paste("y")
	p.Await("a paste does not answer")
	p.reads()
	p.Send("y\r")
	p.Await("keys that come together do not answer")
	p.reads()
	p.Type("go\n")
	p.Await("that was typed too early to answer")
	p.reads()
	require.Contains(t, p.Screen().Text(), "Run this on your machine?", "nothing has answered")
	p.Type("n")
	p.Await("I see.", "Ready", "› yy1o")
	p.Type("\n")
	p.Await("And that.", "Ready")
	msgs := p.leaves()
	require.Equal(t, []string{"error: denied by the user"}, results(msgs))
	require.Equal(t, "yy1o", msgs[len(msgs)-2].Text(), "what continued the draft is in it")
	drawn := string(p.Raw())
	require.Less(t, strings.Index(drawn, "Waiting for you"), strings.Index(drawn, "arrows and Enter"), "keys are not offered before they answer")
}

func TestCtrlC(t *testing.T) {
	gate := make(chan struct{})
	defer close(gate)
	p := sit(t, pygenttest.NewServer(t, bash("echo begun; sleep 60"), pygenttest.Text("Never.").WithGate(gate)))
	p.Type("go\n")
	p.Await("Run this on your machine?")
	p.answers("y")
	p.Await("  begun", "Running bash")
	p.Type("a draft")
	p.Await("› a draft")
	p.Key("ctrl+c")
	p.AwaitNo("a draft")
	require.Contains(t, p.Screen().Text(), "Running bash", "typed text is cleared first")
	p.Key("ctrl+c")
	p.Await("■ Interrupted", "Ready")
	require.Contains(t, p.All(), " · interrupted · ")
	for _, again := range []string{"did not finish", "may have taken effect", "exit 143"} { // the model is told so
		require.NotContains(t, p.All(), again)
	}
	p.Key("ctrl+c")
	got := results(p.left())
	require.Len(t, got, 1)
	require.Contains(t, got[0], "begun\n")
	require.Contains(t, got[0], "may have taken effect")
}

func TestCtrlCInterruptsTheQuestionAboutACall(t *testing.T) {
	p := sit(t, pygenttest.NewServer(t, bash("echo $((6*7))"), pygenttest.Text("As you like.")))
	p.Type("go\n")
	p.Await("Run this on your machine?")
	p.Key("ctrl+c")
	p.Await("not run: interrupted by the user", "■ Interrupted", "Ready")
	p.Type("say something\n")
	p.Await("As you like.", "Ready")
	require.Equal(t, []string{"not run: interrupted by the user"}, results(p.leaves()), "nobody denied it")
}

func TestCtrlCTwiceLeaves(t *testing.T) {
	p := sit(t, pygenttest.NewServer(t, pygenttest.Text("Hello.")))
	p.Key("ctrl+c")
	p.Await("Ctrl-C again leaves")
	p.Type("hi\n") // the user stays after all
	p.Await("Hello.", "Ready")
	p.Key("ctrl+c")
	p.Await("Ctrl-C again leaves")
	p.Key("ctrl+c")
	require.Len(t, p.left(), 3)
}

func TestTheQueue(t *testing.T) {
	gate := make(chan struct{})
	p := sit(t, pygenttest.NewServer(t, pygenttest.Text("One.").WithGate(gate), pygenttest.Text("Two.")))
	p.Type("first\n")
	p.Await("Waiting for")
	p.Type("second\n")
	p.Await("Next: second")
	p.Type("third\n")
	p.Await("Next: third")
	p.Key("up")
	p.Await("› third")
	p.Key("ctrl+c")
	p.AwaitNo("third")
	gate <- struct{}{}
	p.Await("One.", "› second", "Two.", "Ready")
	msgs := p.leaves()
	require.Equal(t, "second", msgs[3].Text())
	require.Len(t, msgs, 5)
}

func TestTheQueueIsHeldWhenTheModelAsks(t *testing.T) {
	gate := make(chan struct{})
	ask := pygenttest.Call("continue", map[string]any{"prompt": "Which one?", "options": []string{"red", "blue"}})
	p := sit(t, pygenttest.NewServer(t, ask.WithGate(gate), pygenttest.Text("Blue it is."), pygenttest.Text("That, too.")))
	p.Type("first\n")
	p.Await("Waiting for")
	p.Type("also do this\n")
	p.Await("Next: also do this")
	p.Type("half a dra")
	p.Await("› half a dra")
	gate <- struct{}{}
	p.Await("? Which one?", "1. red", "2. blue", "Ready", "Held: also do this")
	p.AwaitNo("half a dra")
	p.reads()
	p.Key("down")
	p.Await("❯ 2. blue")
	p.Key("enter")
	p.Await("› blue", "› also do this", "That, too.", "Ready", "› half a dra")
	p.Key("ctrl+c")
	msgs := p.leaves()
	require.Equal(t, "blue", msgs[len(msgs)-4].Text())
	require.Equal(t, "also do this", msgs[len(msgs)-2].Text())
}

func TestTheQueueIsHeldWhenTheTurnIsInterrupted(t *testing.T) {
	gate := make(chan struct{})
	defer close(gate)
	p := sit(t, pygenttest.NewServer(t, pygenttest.Text("One.").WithGate(gate), pygenttest.Text("Two.")))
	p.Type("first\n")
	p.Await("Waiting for")
	p.Type("second\n")
	p.Await("Next: second")
	p.Key("ctrl+c")
	p.Await("■ Interrupted", "Held: second", "Ready")
	p.Key("enter")
	p.Await("› second", "Two.", "Ready")
	p.leaves()
}

func TestPastesAndLines(t *testing.T) {
	p := sit(t, pygenttest.NewServer(t, pygenttest.Text("One."), pygenttest.Text("Two."), pygenttest.Text("Three.")))
	p.Paste("a\nb")
	p.Key("ctrl+j")
	p.Type(`c\` + "\n" + "d 日本")
	p.Await("› a", "  b", "  c", "  d 日本")
	require.Equal(t, 8, p.Screen().X, "the cursor is behind wide characters")
	p.Type("\n")
	p.Await("One.", "Ready")
	long := strings.Repeat("0123456789 ünï 日本\n", 1<<20/27)
	p.Paste(long)
	p.Await("[pasted ", " lines]")
	p.Type("!\n")
	p.Await("Two.", "Ready")
	p.Send("unmarked\rpaste\r")
	p.Await("Three.", "Ready")
	msgs := p.leaves()
	require.Equal(t, "a\nb\nc\nd 日本", msgs[1].Text())
	require.Equal(t, long+"!", msgs[3].Text())
	require.Equal(t, "unmarked\npaste", msgs[5].Text())
}

func TestTheHistoryOfInput(t *testing.T) {
	server := pygenttest.NewServer(t, pygenttest.Text("One."), pygenttest.Text("Two."), pygenttest.Text("Three."))
	p := sit(t, server)
	p.Type("first\n")
	p.Await("One.", "Ready")
	p.Type("second\n")
	p.Await("Two.", "Ready")
	p.leaves()
	info, err := os.Stat(filepath.Join(p.state, "pygent", "input-history.jsonl"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())

	p.Terminal = termtest.Start(t, p.command(server), 80, 24)
	p.Await("Ready")
	p.Type("draft")
	p.Key("up")
	p.Await("› second")
	p.Key("up")
	p.Await("› first")
	p.Key("down", "down")
	p.Await("› draft")
	p.Key("up", "up", "enter")
	p.Await("Three.", "Ready")
	p.leaves()
}

func TestHostileTextsDriveNothing(t *testing.T) {
	evil := "\x1b[35;45mcolour\x1b[2J\x1b]0;title\x07\u009b2J\r\nnext"
	p := sit(t, pygenttest.NewServer(t,
		pygenttest.TextAndCalls(evil+"\n\n", bash("printf '"+`\033[35;45mout\033]0;title\007`+"'; : '"+evil+"'")),
		pygenttest.Call("continue", map[string]any{"prompt": evil, "options": []string{evil}})))
	p.Type("go\n")
	p.Await("Run this on your machine?", "␛[35;45mcolour␛[2J␛]0;title␇")
	p.answers("y")
	p.Await("? ␛[35;45mcolour", "1. ␛[35;45mcolour", "Ready")
	s := p.Screen()
	require.Empty(t, s.Title)
	require.Zero(t, s.Bells)
	p.leaves()
	require.NotContains(t, string(p.Raw()), "\x1b[35;45m")
	for _, line := range p.Lines() {
		for _, run := range line.Runs {
			require.NotContains(t, run.Style, "bg=5")
		}
	}
}

func TestTheTerminalIsGivenBack(t *testing.T) {
	p := sit(t, pygenttest.NewServer(t))
	require.True(t, p.Screen().Paste)
	p.leaves()
	s := p.Screen()
	require.False(t, s.Paste)
	require.False(t, s.Hidden)
	require.NotContains(t, s.Text(), "Ready", "the live area is gone")
}

func TestWithoutATerminalTheSessionIsPlain(t *testing.T) {
	p := &person{t: t, history: filepath.Join(t.TempDir(), "history.json"), state: t.TempDir()}
	cmd := p.command(pygenttest.NewServer(t, pygenttest.Text("Hello.")))
	cmd.Stdin = strings.NewReader("hi\n")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err)
	require.Contains(t, string(out), "Hello.")
	require.NotContains(t, string(out), "\x1b")

	p.Terminal = termtest.Start(t, p.command(pygenttest.NewServer(t), "TERM=dumb"), 80, 24)
	p.Await("Type a message; /help lists the commands, /exit leaves.")
	p.Type("/exit\n")
	p.left()
}

// What is printed while the window changes its size is there once, whatever the
// sizes were.
func TestAStormOfSizesLosesAndDoublesNothing(t *testing.T) {
	var words []string
	for i := range 60 {
		words = append(words, fmt.Sprintf("Paragraph %d has some words, so that it is wrapped in a narrow window, and ends with mark%d.", i, i))
	}
	p := sit(t, pygenttest.NewServer(t, pygenttest.Text(strings.Join(words, "\n\n")).WithChunkDelay(2*time.Millisecond)))
	p.Type("go\n")
	for i, size := range [][2]int{{60, 20}, {100, 30}, {41, 20}, {80, 24}, {50, 24}, {120, 30}, {45, 24}, {80, 24}} {
		p.Until(fmt.Sprint("size ", i), func(s termtest.Screen) bool { return strings.Contains(p.All(), fmt.Sprintf("mark%d.", 5*i)) })
		p.Resize(size[0], size[1])
	}
	p.Await("mark59.", "Done", "Ready")
	all := strings.Join(strings.Fields(p.All()), " ")
	for i, text := range words {
		require.Equal(t, 1, strings.Count(all, text), "paragraph %d in\n%s", i, p.All())
	}
	require.Equal(t, 1, strings.Count(all, "Ready"), p.All())
	require.Zero(t, strings.Count(all, "Ctrl-C interrupts"), p.All())
	p.leaves()
}

func TestTasksAskBetweenTurns(t *testing.T) {
	gate, heard := make(chan struct{}), make(chan string, 1)
	work := pygenttest.Decide(func(req *pygent.ChatRequest) pygenttest.Reply {
		heard <- req.Messages[len(req.Messages)-1].Text()
		return pygenttest.Call("stop", map[string]any{"summary": "done"})
	})
	delegate := pygenttest.Call("delegate_task", map[string]any{"prompt": "Count"})
	p := sit(t, pygenttest.NewServer(t, delegate, pygenttest.Text("Begun.")).On("Count", bash("echo counted").WithGate(gate), work))
	p.Type("go\n")
	p.Await("Begun.", "Ready", "(Count)")
	p.Type("a draft")
	p.Await("› a draft")
	gate <- struct{}{}
	p.Await("(Count) asks: Run this on your machine?", "echo counted")
	p.answers("y")
	require.Contains(t, <-heard, "counted")
	p.Await("› a draft", "Ready")
	p.Until("the end of the task", func(termtest.Screen) bool { return strings.Contains(p.All(), "finished") })
	p.Key("ctrl+c")
	p.leaves()
}

func TestAResumedConversationSaysWhereItWas(t *testing.T) {
	server := pygenttest.NewServer(t, pygenttest.Text("The last words."))
	p := sit(t, server)
	p.Type("go\n")
	p.Await("The last words.", "Ready")
	p.leaves()
	p.Terminal = termtest.Start(t, p.command(server), 80, 24)
	p.Await("goes on after 2 messages · last, the model said: The last words.", "Ready")
	p.leaves()
}

func TestWhatARetryWithdrawsIsSaidToBe(t *testing.T) {
	p := sit(t, pygenttest.NewServer(t, pygenttest.Text("One block.\n\nAnother block that is open").FailAfter(3, "server_error", "broken"), pygenttest.Text("All of it.")))
	p.Type("go\n")
	p.Await("All of it.", "Done", "Ready")
	all := p.All()
	require.Contains(t, all, "broken")
	require.Equal(t, strings.Contains(all, "One block."), strings.Contains(all, "is withdrawn"))
	require.NotContains(t, all, "that is open")
	p.leaves()
}

func TestAnEditIsShownAsADiff(t *testing.T) {
	write := pygenttest.Call("write_file", map[string]any{"path": "a.txt", "content": "one\ntwo\n"})
	p := sit(t, pygenttest.NewServer(t, write, pygenttest.Text("Done it.")))
	p.Type("go\n")
	p.Await("Change this file on your machine?", "│ a.txt", "│ + one")
	p.answers("y")
	p.Await("✓ write a.txt · +2 −0", "  + one\n  + two", "Done it.", "Ready")
	green := false
	for _, line := range p.Lines() {
		for _, run := range line.Runs {
			green = green || strings.Contains(run.Text, "+ two") && run.Style == "fg=2"
		}
	}
	require.True(t, green, "what is new is green")
	p.leaves()
}

func TestAnApprovalShowsTheLinesOfTheFile(t *testing.T) {
	before := make([]string, 120)
	for i := range before {
		before[i] = fmt.Sprintf("line %d", i+1)
	}
	long := strings.Repeat("x", 300) + "; rm -rf /"
	after := slices.Clone(before)
	after[99], after[110] = long, "other"
	change := map[string]any{"path": "a.txt", "old_text": strings.Join(before[98:112], "\n"), "new_text": strings.Join(after[98:112], "\n")}
	write := pygenttest.Call("write_file", map[string]any{"path": "a.txt", "content": strings.Join(before, "\n")})
	p := sit(t, pygenttest.NewServer(t, write, pygenttest.Call("edit_file", change), pygenttest.Text("Done it.")))
	p.Resize(80, 40)
	p.Type("go\n")
	p.Await("Change this file on your machine?")
	p.answers("y")
	screen := p.Await("Change this file on your machine?", " 99 │   line 99", "100 │ - line 100", "100 │ + xxx", " .. │ 6 lines as before", "111 │ - line 111", "111 │ + other", "v shows it all above").String()
	require.Contains(t, strings.ReplaceAll(screen, "\n│    │ ", ""), long, "no end of a line is hidden")
	p.answers("n")
	p.Await("Done it.", "Ready")
	p.leaves()
}

func TestAnApprovalNamesTheFileThatIsMadeEmpty(t *testing.T) {
	p := sit(t, pygenttest.NewServer(t, pygenttest.Call("write_file", map[string]any{"path": "a.txt", "content": ""}), pygenttest.Text("Done it.")))
	p.Type("go\n")
	p.Await("Change this file on your machine?", "│ a.txt", "│ path: a.txt")
	p.answers("n")
	p.Await("Done it.", "Ready")
	p.leaves()
}

func TestWithoutColours(t *testing.T) {
	p := sit(t, pygenttest.NewServer(t, pygenttest.Text("# Title\n\n`code`")), "NO_COLOR=1")
	p.Type("go\n")
	p.Await("code", "Done", "Ready")
	p.leaves()
	for _, line := range p.Lines() {
		for _, run := range line.Runs {
			require.NotContains(t, run.Style, "fg=")
		}
	}
}
