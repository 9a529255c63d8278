package cli

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/testkit/persontest"
	"github.com/x/pygent/internal/testkit/termtest"
	"github.com/x/pygent/pygenttest"
)

// person is somebody at a terminal with the command.
type person struct {
	*termtest.Terminal
	t       *testing.T
	cmd     *exec.Cmd
	history string // the file of the conversation
}

// sit starts a local session with the server's model.
func sit(t *testing.T, server *pygenttest.Server, args ...string) *person {
	t.Helper()
	p := atTerminal(t, command(t, server.Env(), append([]string{"--no-docker"}, args...)...))
	p.Await("› ")
	return p
}

// atTerminal starts a command at a terminal.
func atTerminal(t *testing.T, cmd *exec.Cmd) *person {
	t.Helper()
	p := &person{t: t, cmd: cmd, history: filepath.Join(cmd.Dir, "history.json")}
	cmd.Env = append(cmd.Env, "PYGENT_HISTORY_FILE="+p.history, "TERM=xterm-256color", "TERM_PROGRAM=vscode")
	p.Terminal = termtest.Start(t, cmd, 80, 24)
	return p
}

// reads waits until keys answer the question that is shown.
func (p *person) reads() {
	p.t.Helper()
	persontest.AwaitQuestion(p.Terminal)
}

// answers presses a key to answer the question that is shown.
func (p *person) answers(key string) {
	p.t.Helper()
	p.reads()
	p.Type(key)
}

// printed waits until a text has been printed, even if it has scrolled away.
func (p *person) printed(text string) {
	p.t.Helper()
	p.Until(fmt.Sprintf("%q", text), func(s termtest.Screen) bool {
		return strings.Contains(s.Text(), text) || strings.Contains(p.All(), text)
	})
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
	return p.conversation()
}

func (p *person) conversation() []pygent.Message {
	p.t.Helper()
	return persontest.Conversation(p.t, p.history)
}

func TestASessionShowsWhereItIs(t *testing.T) {
	for name, tt := range map[string]struct {
		env, args, want []string
	}{
		"a temporary workspace": {nil, nil, []string{"Pygent · gpt-x", "commands  on this machine", "temporary; you can keep its files"}},
		"not sandboxed":         {[]string{"PYGENT_LOCAL_PROTECTION=off"}, nil, []string{"commands  on this machine, not sandboxed"}},
		"here":                  {[]string{"PYGENT_PERSONA_NAME=Ada"}, []string{"--cwd"}, []string{"Ada · gpt-x", "files     /", "/001\n"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := append(pygenttest.NewServer(t).Env(), "PYGENT_MODEL=gpt-x")
			p := atTerminal(t, command(t, append(env, tt.env...), append([]string{"--no-docker"}, tt.args...)...))
			p.Await(append(tt.want, "Type a message. /help lists the commands, ? lists the keys, Ctrl-D leaves.", "› ", "Ready")...)
			p.leaves()
		})
	}
}

func TestASessionNamesTheContainer(t *testing.T) {
	t.Parallel()
	image := dockerImage(t)
	p := atTerminal(t, command(t, append(pygenttest.NewServer(t).Env(), "PYGENT_PERSONA_NAME=Ada"), "--docker", "--image", image))
	p.Await("Ada", "commands  in a container of "+image, "network   none", "Ready")
	p.leaves()
}

func TestASessionBeginsWithItsMessageAtATerminal(t *testing.T) {
	t.Parallel()
	p := sit(t, pygenttest.NewServer(t, pygenttest.Text("Mended.")), "fix", "the tests")
	p.Await("› fix the tests", "Mended.", "Done", "Ready")
	require.Equal(t, "fix the tests", p.leaves()[1].Text())
}

func TestASessionAsksBeforeCommandsRun(t *testing.T) {
	for answer, want := range map[string]string{"y": "$ echo $((6*7)) is it\n42 is it\n", "a": "42 is it\n", "\n": "error: denied by the user", "n": "error: denied by the user", "vn": "error: denied by the user", "xn": "error: denied by the user"} {
		t.Run(fmt.Sprintf("%q", answer), func(t *testing.T) {
			t.Parallel()
			p := sit(t, pygenttest.NewServer(t, bash("echo $((6*7)) is it"), pygenttest.Text("I see.")))
			p.Type("go\n")
			p.Await("Run this on your machine?", "echo $((6*7)) is it", "1. Yes, once (y)", "2. Allow this exact command for this session (a)", "3. No (n)", "4. No, and say why (r)")
			for _, key := range answer {
				p.answers(string(key))
				switch key {
				case 'v':
					p.Await("page 1 of 1")
				case 'x':
					p.Await("that key does not answer")
				}
			}
			p.Await("I see.", "Done", "Ready")
			got := toolResults(p.leaves())
			require.Len(t, got, 1)
			require.Contains(t, got[0], want)
		})
	}
}

func TestCtrlDAtAQuestionLeaves(t *testing.T) {
	t.Parallel()
	p := sit(t, pygenttest.NewServer(t, bash("echo $((6*7)) is it")))
	p.Type("go\n")
	p.Await("Run this on your machine?")
	require.Equal(t, []string{"not run: interrupted by the user"}, toolResults(p.leaves()))
}

func TestASessionDoesNotAskWhereThatWasDecided(t *testing.T) {
	t.Parallel()
	p := sit(t, pygenttest.NewServer(t, bash("echo $((6*7)) is it"), pygenttest.Text("I see.")), "-e", "PYGENT_CONFIRM_BASH=0")
	p.Type("go\n")
	p.Await("✓ $ echo $((6*7)) is it · exit 0", "  42 is it\n", "I see.", "Ready")
	p.leaves()
}

func TestASessionShowsWhatACommandHides(t *testing.T) {
	t.Parallel()
	p := sit(t, pygenttest.NewServer(t, bash("rm -rf x\r\x1b[2Kecho harmless"), pygenttest.Text("I see.")))
	p.Type("go\n")
	p.Await("Run this on your machine?", "rm -rf x␍␛[2Kecho harmless")
	p.answers("n")
	p.Await("I see.", "■ $ rm -rf x␍␛[2Kecho harmless", "Ready")
	p.leaves()
}

func TestCtrlCInterruptsTheTurn(t *testing.T) {
	t.Parallel()
	server := pygenttest.NewServer(t, bash("echo begun; touch begun; sleep 600"), pygenttest.Text("x").WithGate(nil), pygenttest.Text("Still here."))
	p := sit(t, server, "-e", "PYGENT_CONFIRM_BASH=0", "--cwd")
	p.Type("go\n")
	p.Await("  begun", "Running a command", "Ctrl-C interrupts")
	p.Key("ctrl+c") // in a command
	p.Await("■ Interrupted", "Ready")
	p.Type("again\n")
	require.NoError(t, server.WaitRequests(persontest.Soon(t), 2))
	p.Await("› again", "Waiting for")
	p.Key("ctrl+c") // in a model call
	p.AwaitNo("Waiting for")
	p.Until("both interruptions", func(termtest.Screen) bool { return strings.Count(p.All(), "■ Interrupted") == 2 })
	p.Type("hello?\n")
	p.Await("Still here.", "Ready")
	got := toolResults(p.leaves())
	require.Len(t, got, 1)
	require.Contains(t, got[0], "begun\n")
	require.Contains(t, got[0], "may have taken effect")
}

func TestASessionTakesLinesOfAnyLength(t *testing.T) {
	for _, length := range []int{4095, 4096, 100_000} {
		t.Run(fmt.Sprint(length), func(t *testing.T) {
			t.Parallel()
			p := sit(t, pygenttest.NewServer(t, pygenttest.Text("Hello.")))
			long := strings.Repeat("0123456789", length/10+1)[:length]
			p.Type(long)
			p.Until("all of it", func(s termtest.Screen) bool { return strings.Contains(s.Text(), long[len(long)-20:]) })
			p.Type("\n")
			p.Await("Hello.", "Ready")
			require.Equal(t, long, p.leaves()[1].Text())
		})
	}
}

// A paste is one message, whether the terminal marks it or not.
func TestASessionTakesAPasteOfManyLongLines(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("0123456789", 1000)
	text := "1" + long + "\n2" + long + "\n3" + long
	p := sit(t, pygenttest.NewServer(t, pygenttest.Text("One."), pygenttest.Text("Two.")))
	p.Paste(text + "\n")
	p.Await("› [pasted 3 lines]")
	p.Type("!\n")
	p.Await("One.", "Ready")
	p.Type(text + "\n") // without marks
	p.Await("Two.", "Ready")
	messages := p.leaves()
	require.Equal(t, text+"\n!", messages[1].Text())
	require.Equal(t, text, messages[3].Text())
}

func TestASessionEditsTheLine(t *testing.T) {
	t.Parallel()
	p := sit(t, pygenttest.NewServer(t, pygenttest.Text("Hello.")))
	p.Send("forget this\x15helo\x7flo wörld now\x17\x7f!")
	p.Await("› hello wörld!")
	require.Equal(t, 2+len("hello world!"), p.Screen().X)
	p.Key("enter")
	p.Await("Hello.", "Ready")
	p.Type("and this")
	p.Await("› and this")
	p.Key("ctrl+c")
	p.AwaitNo("and this")
	messages := p.leaves()
	require.Len(t, messages, 3)
	require.Equal(t, "hello wörld!", messages[1].Text())
}

// requireGivenBack checks that the terminal is as it was before the session.
func (p *person) requireGivenBack() {
	p.t.Helper()
	require.EqualValues(p.t, unix.ICANON|unix.ECHO|unix.ISIG, p.Modes().Lflag&(unix.ICANON|unix.ECHO|unix.ISIG))
	s := p.Screen()
	require.False(p.t, s.Paste)
	require.False(p.t, s.Hidden)
	require.False(p.t, s.Alternate)
	require.Zero(p.t, s.X, "the shell's prompt gets a line of its own")
	require.NotContains(p.t, s.Text(), "Ready", "the live area is gone")
	require.NotContains(p.t, s.Text(), "Ctrl-C interrupts", "the live area is gone")
}

func TestTheTerminalIsGivenBack(t *testing.T) {
	gate := pygenttest.Text("Never.").WithGate(nil)
	work := func(p *person) {
		p.Type("go\n")
		p.Await("Waiting for")
	}
	ask := func(p *person) {
		p.Type("go\n")
		p.Await("Run this on your machine?")
	}
	files := func(p *person) {
		p.Type("!echo made >a\n")
		p.Await("✓ exit 0")
		p.Key("ctrl+d")
		p.Await("1 file of this temporary workspace", "a · 5 B")
	}
	for name, tt := range map[string]struct {
		reply pygenttest.Reply
		do    func(p *person)
		code  int
	}{
		"by a command":       {gate, func(p *person) { p.Type("/exit\n") }, 0},
		"by a key":           {gate, func(p *person) { p.Key("ctrl+d") }, 0},
		"by two keys":        {gate, func(p *person) { p.Key("ctrl+c"); p.Await("press Ctrl-C again to leave"); p.Key("ctrl+c") }, 0},
		"at work, by a key":  {gate, func(p *person) { work(p); p.Key("ctrl+d") }, 0},
		"TERM":               {gate, func(p *person) { p.Signal(syscall.SIGTERM) }, 128 + int(syscall.SIGTERM)},
		"HUP":                {gate, func(p *person) { p.Signal(syscall.SIGHUP) }, 128 + int(syscall.SIGHUP)},
		"TERM at work":       {gate, func(p *person) { work(p); p.Signal(syscall.SIGTERM) }, 128 + int(syscall.SIGTERM)},
		"TERM at a question": {bash("echo 1"), func(p *person) { ask(p); p.Signal(syscall.SIGTERM) }, 128 + int(syscall.SIGTERM)},
		"HUP at work":        {gate, func(p *person) { work(p); p.Signal(syscall.SIGHUP) }, 128 + int(syscall.SIGHUP)},
		"TERM at the files":  {gate, func(p *person) { files(p); p.Signal(syscall.SIGTERM) }, 128 + int(syscall.SIGTERM)},
		"HUP at the files":   {gate, func(p *person) { files(p); p.Signal(syscall.SIGHUP) }, 128 + int(syscall.SIGHUP)},
		"INT": {gate, func(p *person) {
			p.Signal(os.Interrupt)
			p.Await("press Ctrl-C again to leave")
			p.Signal(os.Interrupt)
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := sit(t, pygenttest.NewServer(t, tt.reply))
			require.Zero(t, p.Modes().Lflag&(unix.ICANON|unix.ECHO))
			require.True(t, p.Screen().Paste)
			tt.do(p)
			_ = p.Wait()
			require.Equal(t, tt.code, p.cmd.ProcessState.ExitCode(), p.All())
			p.requireGivenBack()
			p.conversation()
		})
	}
}

// A signal while the model is summarising the conversation leaves the conversation as it was.
func TestSignalsWhileTheModelSumsUp(t *testing.T) {
	for name, tt := range map[string]struct {
		do   func(p *person)
		code int
	}{
		"TERM": {func(p *person) { p.Signal(syscall.SIGTERM) }, 128 + int(syscall.SIGTERM)},
		"HUP":  {func(p *person) { p.Signal(syscall.SIGHUP) }, 128 + int(syscall.SIGHUP)},
		"INT":  {func(p *person) { p.Signal(os.Interrupt); p.Await("■ Interrupted", "Ready"); p.Key("ctrl+d") }, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			long := strings.Repeat("word ", 2000)
			p := sit(t, pygenttest.NewServer(t, pygenttest.Text(long+"One."), pygenttest.Text(long+"Two."), pygenttest.Text("Never.").WithGate(nil)))
			for _, answer := range []string{"One.", "Two."} {
				p.Type("go\n")
				p.Await(answer, "Done", "Ready")
			}
			p.Type("/compact\n")
			p.Await("· the model is summarising the conversation")
			tt.do(p)
			_ = p.Wait()
			require.Equal(t, tt.code, p.cmd.ProcessState.ExitCode(), p.All())
			p.requireGivenBack()
			require.Len(t, p.conversation(), 5)
		})
	}
}

// A server that sends more than it announced would have net/http log that.
func TestNothingIsShownOfWhatAServerSendsUnasked(t *testing.T) {
	t.Parallel()
	unasked := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		const answer = `{"id":"1","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"Hello."},"finish_reason":"stop"}]}`
		fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(answer), answer)
		<-unasked
		fmt.Fprint(conn, "HTTP/1.1 200 OK\r\nX: \x1b[2Jevil\r\n\r\n")
		_, _ = conn.Read(make([]byte, 1)) // until the client has closed it
		unasked <- struct{}{}
	}))
	defer server.Close()
	p := atTerminal(t, command(t, []string{"OPENAI_BASE_URL=" + server.URL + "/v1", "OPENAI_API_KEY=k"}, "--no-docker"))
	p.Await("› ", "Ready")
	p.Type("go\n")
	p.Await("Hello.", "Done", "Ready")
	persontest.Give(t, unasked)
	persontest.Next(t, unasked)
	p.Type("a draft")
	require.NotContains(t, p.Await("› a draft").Text(), "evil")
	p.Key("ctrl+c")
	p.leaves()
	require.NotContains(t, p.All(), "Unsolicited response")
	require.NotContains(t, p.All(), "evil")
	require.Contains(t, p.All(), "commands", "nothing has cleared the screen")
}

func TestOnlyASessionTakesTheTerminal(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	server := pygenttest.NewServer(t, bash("true").WithGate(gate), pygenttest.Call("stop", map[string]any{"summary": "It is done."}))
	normal := func(p *person) { // as it was, and not even told anything
		require.EqualValues(t, unix.ICANON|unix.ECHO|unix.ISIG, p.Modes().Lflag&(unix.ICANON|unix.ECHO|unix.ISIG))
		require.NotContains(t, string(p.Raw()), "\x1b[?")
		require.NotContains(t, string(p.Raw()), "\x1b[>")
	}
	run := atTerminal(t, command(t, server.Env(), "run", "--no-docker", "go"))
	require.NoError(t, server.WaitRequests(persontest.Soon(t), 1))
	normal(run)
	close(gate)
	run.Await("It is done.")
	require.NoError(t, run.Wait())
	normal(run)
	for _, args := range [][]string{{"demo", "--no-docker"}, {"help"}, {"version"}, {"config"}, {"completion", "bash"}} {
		p := atTerminal(t, command(t, nil, args...))
		require.NoError(t, p.Wait(), p.All())
		normal(p)
	}
}

// The window is closed. Nothing is left to be told, but the conversation is whole.
func TestASessionEndsWhenTheTerminalHangsUp(t *testing.T) {
	for name, at := range map[string]func(*person){
		"between turns": func(*person) {},
		"at work": func(p *person) {
			p.Type("go\n")
			p.Await("  begun", "Running a command")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := sit(t, pygenttest.NewServer(t, bash("echo begun; sleep 600")), "-e", "PYGENT_CONFIRM_BASH=0")
			at(p)
			p.HangUp()
			require.Error(t, p.Wait())
			require.Equal(t, 128+int(syscall.SIGHUP), p.cmd.ProcessState.ExitCode())
			for _, result := range toolResults(p.conversation()) {
				require.Contains(t, result, "may have taken effect")
			}
		})
	}
}

func TestASessionGoesOnWithAnInterruptedRunAtATerminal(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{"by the command": nil, "by the flag": {"--resume"}} {
		t.Run(name, func(t *testing.T) {
			cmd := command(t, pygenttest.NewServer(t, pygenttest.Text("Where was I?")).Env(), append([]string{"--no-docker", "--history", interruptedRun(t)}, args...)...)
			p := atTerminal(t, cmd)
			if args == nil {
				p.Await(wasInterrupted, "continues after 2 messages; you said last: Make it.", "Ready")
				p.Type("/resume\n")
			}
			p.Await("Where was I?", "Done", "Ready")
			require.Equal(t, args == nil, strings.Contains(p.All(), wasInterrupted))
			require.Equal(t, 1, strings.Count(p.All(), "Make it."), "the last words are told once")
			p.leaves()
		})
	}
}

func TestRepairsOfAHistoryAreSaidAtATerminal(t *testing.T) {
	t.Parallel()
	path := damagedHistory(t)
	p := atTerminal(t, command(t, pygenttest.NewServer(t, pygenttest.Call("stop", nil)).Env(), "--no-docker", "--history", path))
	p.Await("Ready")
	p.Type("go\n")
	p.Await("Done", "Ready")
	p.leaves()
	all := strings.Join(strings.Fields(p.All()), " ")
	for _, said := range []string{"history: the file is damaged after message 2", "is saved in " + path} {
		require.Equal(t, 1, strings.Count(all, said), all)
	}
}

func TestASessionWithoutAnEngineSaysSoAndAsks(t *testing.T) {
	t.Parallel()
	server := pygenttest.NewServer(t, bash("echo $((6*7)) is it"), pygenttest.Text("I see."))
	p := atTerminal(t, command(t, append(server.Env(), "DOCKER_HOST=unix:///nonexistent.sock")))
	p.Await("NOT in a container", "Ready")
	p.Type("go\n")
	p.Await("Run this on your machine?")
	p.answers("y")
	p.Await("  42 is it\n", "I see.", "Ready")
	p.leaves()
}
