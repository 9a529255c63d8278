package lines_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
	"github.com/x/pygent/internal/testkit"
	"github.com/x/pygent/lines"
	"github.com/x/pygent/pygenttest"
)

func TestMain(m *testing.M) {
	pygent.RegisterFace(pygent.FaceTerminal, lines.Run)
	testkit.Main(m)
}

// converse runs a session with the given input. It returns what the session
// shows after the banner.
func converse(t *testing.T, input string, model pygent.Model, opts ...pygent.Option) (shown string, agent *pygent.Agent) {
	t.Helper()
	var out strings.Builder
	agent = testkit.NewLocalAgent(t, model, append(opts, pygent.WithIO(strings.NewReader(input), &out))...)
	require.NoError(t, agent.RunInteractive(t.Context()))
	banner, shown, _ := strings.Cut(out.String(), "\n")
	require.Contains(t, banner, "commands run locally, on this machine, in ")
	return shown, agent
}

// userMessages returns what the user said, as the model received it.
func userMessages(a *pygent.Agent) []string {
	var all []string
	for _, m := range a.History().Messages() {
		if m.Role == chat.RoleUser {
			all = append(all, m.Text())
		}
	}
	return all
}

func TestSessionShowsTurns(t *testing.T) {
	t.Parallel()
	ask := pygenttest.Call("continue", map[string]any{"prompt": "Which color?", "options": []string{"red", "blue"}})
	tests := []struct {
		name    string
		input   string
		replies []pygenttest.Reply
		want    string
		said    []string
	}{
		{"a reply", "hi\n", []pygenttest.Reply{pygenttest.Text("Hello there, you.")}, "Hello there, you.\n", []string{"hi"}},
		{"two turns", "a\nb\n", []pygenttest.Reply{pygenttest.Text("A"), pygenttest.Text("B")}, "A\nB\n", []string{"a", "b"}},
		{"tool calls", "go\n", []pygenttest.Reply{pygenttest.TextAndCalls("I look.", testkit.CallBash("echo one")), pygenttest.Text("It is one.")}, "I look.\n» $ echo one\n  one\nIt is one.\n", []string{"go"}},
		{"stop with a summary", "go\n", []pygenttest.Reply{testkit.Stop}, "all done\n", []string{"go"}},
		{"stop says it twice", "go\n", []pygenttest.Reply{pygenttest.TextAndCalls("all done", testkit.Stop)}, "all done\n", []string{"go"}},
		{"stop says it twice, with the ends of lines", "go\n", []pygenttest.Reply{pygenttest.TextAndCalls("all done\n", pygenttest.Call("stop", map[string]any{"summary": "\nall done\n"}))}, "all done\n", []string{"go"}},
		{"a question and its answer", "go\nred\n", []pygenttest.Reply{ask, pygenttest.Text("Red it is.")}, "? Which color?\n  1. red\n  2. blue\nRed it is.\n", []string{"go", "red"}},
		{"a question answered by number", "go\n2\n1\n", []pygenttest.Reply{ask, pygenttest.Text("A"), pygenttest.Text("B")}, "? Which color?\n  1. red\n  2. blue\nA\nB\n", []string{"go", "blue", "1"}},
		{"an error, then on", "a\nb\n", []pygenttest.Reply{pygenttest.QuotaExceeded(), pygenttest.Text("B")}, "error: the model's server is limiting requests (429", []string{"a", "b"}},
		{"a limit", "go\n", []pygenttest.Reply{pygenttest.Text(""), pygenttest.Text("")}, "(the model gave two empty answers; to continue, send \"continue\")\n", nil},
		{"empty lines", "\n  \n\t\nhi\n\n", []pygenttest.Reply{pygenttest.Text("Hello.")}, "Hello.\n", []string{"hi"}},
		{"CRLF and no last line end", " hi \r\nyou", []pygenttest.Reply{pygenttest.Text("A"), pygenttest.Text("B")}, "A\nB\n", []string{"hi", "you"}},
		{"the end", "", nil, "", nil},
		{"unicode", "grüße 日本\n", []pygenttest.Reply{pygenttest.Text("🙂")}, "🙂\n", []string{"grüße 日本"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			shown, agent := converse(t, tt.input, pygenttest.NewScriptedModel(tt.replies...))
			if strings.HasPrefix(tt.want, "error") {
				require.Contains(t, shown, tt.want)
				require.True(t, strings.HasSuffix(shown, "\nB\n"), shown)
			} else {
				require.Equal(t, tt.want, shown)
			}
			if tt.said != nil {
				require.Equal(t, tt.said, userMessages(agent))
			}
		})
	}
}

func TestSessionReadsLongLines(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("word ", 200_000)
	shown, agent := converse(t, long+"\n"+long+"more than a MiB, with this"+long+"\nhi\n", pygenttest.NewScriptedModel(pygenttest.Text("A"), pygenttest.Text("B")))
	require.Equal(t, "A\nerror: the line is longer than 1048576 bytes; put the text in a file\nB\n", shown)
	require.Equal(t, []string{strings.TrimSpace(long), "hi"}, userMessages(agent))
}

func TestSessionTellsAReadError(t *testing.T) {
	t.Parallel()
	broken := errors.New("the line is cut")
	var out strings.Builder
	agent := testkit.NewLocalAgent(t, pygenttest.NewScriptedModel(), pygent.WithIO(io.MultiReader(strings.NewReader("/help\n"), errReader{broken}), &out))
	err := agent.RunInteractive(t.Context())
	require.ErrorIs(t, err, broken)
	require.ErrorContains(t, err, "read the input")
}

type errReader struct{ err error }

func (r errReader) Read([]byte) (int, error) { return 0, r.err }

func TestSessionEndsWithItsContext(t *testing.T) {
	t.Parallel()
	begun := make(chan struct{})
	tests := []struct {
		name  string
		input string
		model func() pygent.Model
	}{
		{"while it waits for input", "", func() pygent.Model { close(begun); return pygenttest.NewScriptedModel() }},
		{"during a turn", "go\n", func() pygent.Model {
			return pygent.ModelFunc(func(ctx context.Context, _ *pygent.ChatRequest) (*pygent.ChatResponse, error) {
				close(begun)
				<-ctx.Done()
				return nil, ctx.Err()
			})
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			begun = make(chan struct{})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			in, typing := io.Pipe()
			defer typing.Close()
			var out strings.Builder
			agent := testkit.NewLocalAgent(t, tt.model(), pygent.WithIO(in, &out))
			ended := make(chan error, 1)
			go func() { ended <- agent.RunInteractive(ctx) }()
			if tt.input != "" {
				_, err := io.WriteString(typing, tt.input)
				require.NoError(t, err)
			}
			<-begun
			cancel()
			require.NoError(t, <-ended)
		})
	}
}

func TestSessionDoesNotWaitForARunThatGoesOn(t *testing.T) {
	t.Parallel()
	asked, answer := make(chan struct{}), make(chan struct{})
	model := pygent.ModelFunc(func(context.Context, *pygent.ChatRequest) (*pygent.ChatResponse, error) {
		close(asked)
		<-answer
		return &pygent.ChatResponse{Message: chat.AssistantMessage("Done.")}, nil
	})
	var out strings.Builder
	agent := testkit.NewAgentOn(t, testkit.Nowhere{}, model, pygent.WithIO(strings.NewReader("hi\n"), &out))
	ended := make(chan error)
	go func() {
		_, err := agent.RunUntilStop(t.Context(), "go", pygent.WithEndOnReply())
		ended <- err
	}()
	<-asked
	require.NoError(t, agent.RunInteractive(t.Context()))
	require.Contains(t, out.String(), "error: the agent is busy with another run")
	close(answer)
	require.NoError(t, <-ended)
}

func TestSessionHasApprovalSetForItselfAlone(t *testing.T) {
	t.Parallel()
	asked := 0
	ask := pygent.WithApproval(func(context.Context, pygent.ApprovalRequest) (pygent.Decision, error) {
		asked++
		return pygent.Decision{Allow: true}, nil
	})
	shown, agent := converse(t, "go\n", pygenttest.NewScriptedModel(testkit.CallBash("echo one"), pygenttest.Text("A"), testkit.CallBash("echo two"), testkit.Stop), ask, pygent.WithConfirmBash(true))
	require.Contains(t, shown, "  one\n")
	require.Equal(t, 1, asked)
	_, err := agent.RunUntilStop(t.Context(), "again")
	require.NoError(t, err)
	require.Equal(t, 2, asked)

	_, _ = converse(t, "go\n", pygenttest.NewScriptedModel(testkit.CallBash("echo one"), pygenttest.Text("A")), ask)
	require.Equal(t, 3, asked, "the session leaves the rules to whoever decides")

	shown, _ = converse(t, "go\n", pygenttest.NewScriptedModel(testkit.CallBash("echo one"), pygenttest.Text("A")), pygent.WithConfirmBash(true))
	require.Contains(t, shown, "nobody is here to approve it", "a pipe is nobody")
}

func TestSessionOfAnotherRuntime(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	agent := testkit.NewAgentOn(t, testkit.Nowhere{}, pygenttest.NewScriptedModel(pygenttest.Text("A")), pygent.WithIO(strings.NewReader("hi\n"), &out))
	require.NoError(t, agent.RunInteractive(t.Context()))
	require.True(t, strings.HasSuffix(out.String(), "\nA\n"), out.String())
}

func TestSessionResumesNothingAfterAReply(t *testing.T) {
	t.Parallel()
	shown, _ := converse(t, "hi\n/resume\n", pygenttest.NewScriptedModel(pygenttest.Text("A")))
	require.Equal(t, "A\n(nothing to interrupt: the turn had ended)\n", shown)
}

// panicky is a runtime that panics in Start and Describe.
type panicky struct{ testkit.Nowhere }

func (panicky) Start(context.Context) error                 { panic("in start") }
func (panicky) Describe(context.Context) pygent.RuntimeInfo { panic("in describe") }

// awaited collects what a session shows, and calls a function once that
// contains a text.
type awaited struct {
	mu    sync.Mutex
	shown strings.Builder
	text  string
	then  func()
}

func (a *awaited) await(text string, then func()) { a.text, a.then = text, then }

func (a *awaited) Write(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.shown.Write(p)
	if a.then != nil && strings.Contains(a.shown.String(), a.text) {
		go a.then()
		a.then = nil
	}
	return len(p), nil
}

func (a *awaited) String() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.shown.String()
}

func TestSessionSurvivesItsRuntime(t *testing.T) {
	t.Parallel()
	in, user := io.Pipe()
	var out awaited
	out.await("! commands cannot run: panic: in start", func() { fmt.Fprintln(user, "hi"); user.Close() })
	agent := testkit.NewAgentOn(t, panicky{}, pygenttest.NewScriptedModel(), pygent.WithIO(in, &out))
	require.NoError(t, agent.RunInteractive(t.Context()))
	require.Contains(t, out.String(), "error: system message: panic: in describe")
}

// The word exit alone leaves, unless it answers a question of the model.
func TestTheWordExitLeavesASession(t *testing.T) {
	t.Parallel()
	for _, word := range []string{"exit", "quit"} {
		ask := pygenttest.Call("continue", map[string]any{"prompt": "Which command?"})
		model := pygenttest.NewScriptedModel(ask, pygenttest.Text("It leaves."))
		shown, _ := converse(t, "go\n"+word+"\n"+word+"\nnever said\n", model)
		require.Contains(t, shown, "It leaves.")
		require.Len(t, model.Requests(), 2)
	}
}

// imageless is a runtime that cannot start, as a session finds out at once.
type imageless struct{ broken }

func (imageless) Start(context.Context) error { return errNoImage }

func TestSessionSaysOnceWhyCommandsCannotRun(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	model := pygenttest.NewScriptedModel(pygenttest.Calls(testkit.CallBash("one"), testkit.CallBash("two")), testkit.CallBash("three"))
	agent := testkit.NewAgentOn(t, imageless{broken{}}, model, pygent.WithIO(strings.NewReader("go\nagain\n"), &out))
	require.NoError(t, agent.RunInteractive(t.Context()))
	require.Equal(t, 1, strings.Count(out.String(), "no such image"), out.String())
	require.Contains(t, out.String(), "! commands cannot run: no such image: nope:latest\n")
	require.Equal(t, 2, strings.Count(out.String(), "\nerror: the runtime cannot start\n"), out.String())
}

func TestSessionSaysOnceWhyItsFirstMessageCannotRunCommands(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	agent := testkit.NewAgentOn(t, imageless{broken{}}, pygenttest.NewScriptedModel(testkit.CallBash("one")),
		pygent.WithIO(strings.NewReader(""), &out), pygent.WithFirstMessage(chat.UserMessage("go")))
	require.NoError(t, agent.RunInteractive(t.Context()))
	require.Equal(t, 1, strings.Count(out.String(), "no such image"), out.String())
	require.Contains(t, out.String(), "\nerror: the runtime cannot start\n")
}

// lateStart is a runtime whose Start ignores its context and returns when
// started is closed.
type lateStart struct {
	testkit.Nowhere
	started chan struct{}
}

func (e lateStart) Start(context.Context) error {
	<-e.started
	return nil
}

func TestSessionDoesNotWaitForAStartThatIgnoresItsContext(t *testing.T) {
	t.Parallel()
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt) // outside of the bubble, so that its goroutine does not belong to the bubble
	defer signal.Stop(signals)
	synctest.Test(t, func(t *testing.T) {
		rt := lateStart{started: make(chan struct{})}
		agent := testkit.NewAgentOn(t, rt, pygenttest.NewScriptedModel(), pygent.WithIO(strings.NewReader(""), io.Discard))
		require.NoError(t, agent.RunInteractive(t.Context()))
		close(rt.started)
		synctest.Wait()
	})
}

func ExampleRegisterCommand() {
	err := pygent.RegisterCommand(pygent.Command{
		Name:    "count",
		Summary: "tell how long the conversation is",
		Run: func(_ context.Context, a *pygent.Agent, _ string, out io.Writer) error {
			_, err := fmt.Fprintln(out, a.History().Len(), "messages")
			return err
		},
	})
	fmt.Println(err)
	// Output: <nil>
}

// broken is a runtime whose container cannot start.
type broken struct{ testkit.Nowhere }

var errNoImage = fmt.Errorf("%w: no such image: nope:latest", pygent.ErrRuntimeStart)

func (broken) Bash(context.Context, string, ...pygent.BashOption) (pygent.BashResult, error) {
	return pygent.BashResult{ExitCode: -1}, errNoImage
}

func TestSetApprovalDuringASessionStays(t *testing.T) {
	t.Parallel()
	var agent *pygent.Agent
	in, w := io.Pipe()
	model := pygenttest.NewScriptedModel(pygenttest.Text("hello"))
	agent = testkit.Quick(t, model, pygent.WithIO(in, io.Discard))
	go func() {
		fmt.Fprintln(w, "hi")
		for agent.State().Seq == 0 {
			time.Sleep(time.Millisecond)
		}
		agent.SetApproval(func(context.Context, pygent.ApprovalRequest) (pygent.Decision, error) { return pygent.Decision{}, nil })
		w.Close()
	}()
	require.NoError(t, agent.RunInteractive(t.Context()))
	require.True(t, agent.State().Settings.Approval)
}

// panickyRuntime is an embedder's runtime that panics in some methods.
type panickyRuntime struct{ pygent.Runtime }

func (panickyRuntime) Describe(context.Context) pygent.RuntimeInfo { panic("no description") }

func (panickyRuntime) Start(context.Context) error { panic("no start") }

func TestPanicOfARuntimeDoesNotCrossTheSession(t *testing.T) {
	t.Parallel()
	agent, err := pygent.New(pygent.WithModel(pygenttest.NewScriptedModel(testkit.Stop)),
		pygent.WithRuntime(panickyRuntime{testkit.NewRuntime(t, pygent.NewLocalRuntime)}), pygent.WithIO(strings.NewReader("/help\n"), &bytes.Buffer{}))
	require.NoError(t, err)
	require.NoError(t, agent.RunInteractive(t.Context()))
	require.NoError(t, agent.Close())
}
