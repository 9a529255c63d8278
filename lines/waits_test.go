package lines_test

import (
	"context"
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

// follows shows events in a bubble, and pauses between them.
type follows struct {
	show func(pygent.Event)
	end  func()

	mu  sync.Mutex // guards what follows
	out strings.Builder
}

func newFollows() *follows {
	f := &follows{}
	f.show, f.end = lines.ProgressPrinter(f)
	return f
}

func (f *follows) Write(b []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.out.Write(b)
}

// written returns what was written since the last call.
func (f *follows) written() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	defer f.out.Reset()
	return f.out.String()
}

// after shows events and returns what was written, also in the time d after them.
func (f *follows) after(d time.Duration, events ...pygent.Event) string {
	for _, e := range events {
		f.show(e)
	}
	time.Sleep(d)
	synctest.Wait()
	return f.written()
}

func askedModel(model string, attempt int) pygent.Event {
	return pygent.Event{Type: pygent.EventModelStart, Model: model, Attempt: attempt}
}

func startEvent(c *pygent.ToolCall) pygent.Event {
	return pygent.Event{Type: pygent.EventToolStart, Call: c}
}

func outputEvent(c *pygent.ToolCall, text string) pygent.Event {
	return pygent.Event{Type: pygent.EventOutput, Call: c, Chunk: &pygent.OutputChunk{Text: text}}
}

var runEnd = pygent.Event{Type: pygent.EventRunEnd, Result: &pygent.Result{}}

func TestProgressPrinterTellsThatAModelIsWaitedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFollows()
		require.Empty(t, f.after(10*time.Second-1, stepEvent, askedModel("m", 1)))
		require.Equal(t, "· still waiting for m · 10 s\n", f.after(1))
		require.Equal(t, "· still waiting for m · 30 s\n· still waiting for m · 1 min\n· still waiting for m · 2 min\n· still waiting for m · 3 min\n",
			f.after(3*time.Minute))
		require.Equal(t, "! busy; retrying in 15.0 s\n· still waiting to retry · 10 s\n", f.after(15*time.Second,
			pygent.Event{Type: pygent.EventRetry, Retry: &pygent.RetryInfo{Attempt: 1, Wait: 15 * time.Second, Error: "busy"}}))
		require.Equal(t, "· still waiting for m (attempt 2) · 10 s\n", f.after(12*time.Second, askedModel("m", 2)))
		require.Empty(t, f.after(9*time.Second, pygent.Event{Type: pygent.EventReasoning, Text: "hm"}))
		require.Equal(t, "· still thinking: m · 10 s\n", f.after(9*time.Second, pygent.Event{Type: pygent.EventReasoning, Text: "hm"}))
		require.Equal(t, "Hello", f.after(9*time.Second, textEvent("Hello")))
		require.Equal(t, ", you\n· still waiting for m · 10 s\n", f.after(11*time.Second, textEvent(", you")))
		writes := func(bytes int) pygent.Event {
			return pygent.Event{Type: pygent.EventCallDelta, CallDelta: &chat.CallDelta{Tool: "write_file", Path: "a.txt", Bytes: bytes}}
		}
		require.Empty(t, f.after(8*time.Second, writes(10)))
		require.Equal(t, "· still writing a.txt (12.0 kB so far) · 10 s\n", f.after(8*time.Second, writes(12000)))
		require.Empty(t, f.after(time.Hour, messageEvent("Hello, you")))
		require.Equal(t, "! the model is summarising the conversation\n· still summarising the conversation · 10 s\n",
			f.after(15*time.Second, pygent.Event{Type: pygent.EventCompacting}))
		require.Empty(t, f.after(time.Hour, runEnd))
	})
}

func TestProgressPrinterTellsThatACommandRuns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFollows()
		call := bashCall("make test\n\x1b[2Jmore")
		require.Equal(t, "» $ make test\n␛[2Jmore\n", f.after(time.Hour, stepEvent, callEvent(call)), "who approves it is asked")
		require.Empty(t, f.after(9*time.Second, startEvent(call)))
		require.Equal(t, "· still running: $ make test ␛[2Jmore · 10 s · last line: ok b\n",
			f.after(2*time.Second, outputEvent(call, "ok a\nok"), outputEvent(call, " b\n\n")))
		got := f.after(20*time.Second, outputEvent(call, strings.Repeat("x", 5000)+"\r\x1b]0;title\a"+strings.Repeat("y", 5000)))
		require.True(t, strings.HasPrefix(got, "· still running: $ make test ␛[2Jmore · 30 s · last line: ␛]0;title␇yyy"), got)
		require.Less(t, len(got), 250)
		require.Equal(t, 1, strings.Count(got, "\n"))
		require.Equal(t, "  done\n", f.after(time.Hour, doneEvent(call, pygent.ToolResult{Content: "done"})))

		first, second := &pygent.ToolCall{ID: "a", Name: "weather", Arguments: `{"city":"Paris"}`}, &pygent.ToolCall{ID: "b", Name: "weather", Arguments: `{"city":"Rome"}`}
		f.after(4*time.Second, callEvent(first), startEvent(first))
		require.Equal(t, "» weather city=Rome\n· still running: weather city=Paris · 10 s\n", f.after(7*time.Second, callEvent(second), startEvent(second)))
		require.Contains(t, f.after(10*time.Second, doneEvent(first, pygent.ToolResult{})), "· still running: weather city=Rome · 10 s\n")
		require.Empty(t, f.after(time.Hour, pygent.Event{Type: pygent.EventQuestion, Call: second, Question: &pygent.Question{}}))
		require.Equal(t, "· still running: weather city=Rome · 10 s\n", f.after(20*time.Second, pygent.Event{Type: pygent.EventAnswer, Call: second}))
		require.Empty(t, f.after(time.Hour, runEnd))
	})
}

func TestProgressPrinterTellsThatAnImageIsPulled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFollows()
		call := bashCall("ls")
		pull := pygent.RuntimeEvent{Kind: pygent.RuntimePull, Text: "pulling x"}
		require.Equal(t, "· pulling x\n", f.after(time.Hour, runtimeEvent(pull)), "no run waits for it")
		pull.Current, pull.Total = 30_000_000, 120_000_000
		require.Equal(t, "» $ ls\n· still pulling x (30.0 MB of 120.0 MB) · 10 s\n", f.after(15*time.Second, stepEvent, callEvent(call), startEvent(call), runtimeEvent(pull)))
		require.Equal(t, "· runs\n· still running: $ ls · 30 s\n",
			f.after(20*time.Second, runtimeEvent(pygent.RuntimeEvent{Kind: pygent.RuntimeStarted, Text: "runs"})))
		require.Equal(t, "· still starting the container · 10 s\n",
			f.after(15*time.Second, runtimeEvent(pygent.RuntimeEvent{Kind: pygent.RuntimeStarting, Text: "starts"})))
		require.Empty(t, f.after(time.Minute, doneEvent(call, pygent.ToolResult{}), runEnd))
		require.Equal(t, "» $ ls\n· still starting the container · 10 s\n",
			f.after(15*time.Second, stepEvent, callEvent(call), startEvent(call)), "a start outlasts a call that was interrupted")
		f.show(runEnd)
	})
}

// Of a large file nothing is told until it is kept.
func TestProgressPrinterTellsThatACheckpointIsMade(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFollows()
		keeping := func(text string) pygent.Event {
			return pygent.Event{Type: pygent.EventKeeping, Time: time.Now(), Text: text, Progress: &pygent.ProgressInfo{}}
		}
		call := bashCall("ls")
		require.Equal(t, "· keeping: 0 of 9\n", f.after(9*time.Second, stepEvent, keeping("keeping: 0 of 9")))
		require.Equal(t, "· still keeping: 8 of 9 · 19 s\n", f.after(12*time.Second, keeping("keeping: 8 of 9")), "what has changed is no silence")
		require.Equal(t, "» $ ls\n· still running: $ ls · 10 s\n", f.after(11*time.Second, callEvent(call), startEvent(call)))
		f.show(runEnd)
	})
}

// The end of a bubble finds timers that are left.
func TestProgressPrinterEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFollows()
		f.after(time.Second, stepEvent, askedModel("m", 1))
		f.end()
		require.Empty(t, f.after(time.Hour))
		require.Empty(t, f.after(time.Hour, pygent.Event{Type: pygent.EventStep, Task: "a"}, pygent.Event{Type: pygent.EventModelStart, Task: "a"}))
		require.Empty(t, f.after(time.Hour, stepEvent, askedModel("m", 1)), "it stays ended")
	})
}

func TestProgressPrinterFollowsARun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFollows()
		slow := pygent.NewTool("slow", "", func(context.Context, pygent.Runtime, struct{}) (*pygent.ToolResult, error) {
			time.Sleep(12 * time.Second)
			return &pygent.ToolResult{Content: "late"}, nil
		})
		agent := testkit.NewAgentOn(t, testkit.Nowhere{}, pygenttest.NewScriptedModel(pygenttest.Call("slow", nil), pygenttest.Text("Hello.").WithDelay(45*time.Second)), pygent.WithTools(slow))
		_, err := agent.RunUntilStop(t.Context(), "go", pygent.WithEndOnReply(), pygent.OnEvent(f.show))
		require.NoError(t, err)
		require.Regexp(t, `^» slow\n· still running: slow · 10 s\n  late\n· still waiting for .* · 10 s\n· still waiting for .* · 30 s\nHello\.\n$`, f.written())
		require.Empty(t, f.after(time.Hour))
	})
}

func TestAPlainSessionTellsThatAModelIsWaitedFor(t *testing.T) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt) // outside of the bubble, so that its goroutine does not belong to the bubble
	defer signal.Stop(signals)
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		agent := testkit.NewAgentOn(t, testkit.Nowhere{}, pygenttest.NewScriptedModel(pygenttest.Text("Hello.").WithDelay(15*time.Second)), pygent.WithIO(strings.NewReader("hi\n"), &out))
		require.NoError(t, agent.RunInteractive(t.Context()))
		require.Regexp(t, `· still waiting for .* · 10 s\nHello\.\n`, out.String())
	})
}

func TestAPlainSessionTellsThatACommandOfTheUserRuns(t *testing.T) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt) // as above
	defer signal.Stop(signals)
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		slow := func(_ context.Context, _ *pygent.Agent, _ string, to io.Writer) error {
			time.Sleep(15 * time.Second)
			_, err := io.WriteString(to, "half\n")
			time.Sleep(12 * time.Second)
			return err
		}
		agent := testkit.NewAgentOn(t, testkit.Nowhere{}, pygenttest.NewScriptedModel(pygenttest.Text("Hello.").WithDelay(5*time.Second)),
			pygent.WithCommands(pygent.Command{Name: "cmd", Summary: "x", Run: slow}, pygent.Command{Name: "slow", Summary: "x", Run: slow}),
			pygent.WithIO(strings.NewReader("!make test\n/slow now\nhi\n"), &out))
		require.NoError(t, agent.RunInteractive(t.Context()))
		require.Contains(t, out.String(), "· still running: $ make test · 10 s\nhalf\n· still running: $ make test · 25 s\n")
		require.Contains(t, out.String(), "· still running: /slow now · 10 s\nhalf\n· still running: /slow now · 25 s\n")
		require.Equal(t, 4, strings.Count(out.String(), "still"), out.String())
	})
}

func TestAPlainSessionTellsThatACompactionTakesItsTime(t *testing.T) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt) // as above
	defer signal.Stop(signals)
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		model := pygenttest.NewScriptedModel(pygenttest.Text(strings.Repeat("A long answer. ", 2000)), pygenttest.Text("short"), pygenttest.Text("Task: talk. Nothing is open.").WithDelay(15*time.Second))
		agent := testkit.NewAgentOn(t, testkit.Nowhere{}, model, pygent.WithIO(strings.NewReader("one\ntwo\n/compact\n"), &out))
		require.NoError(t, agent.RunInteractive(t.Context()))
		require.Regexp(t, `! the model is summarising the conversation\n· still running: /compact · 10 s\n! the conversation was compacted`, out.String())
		require.Equal(t, 1, strings.Count(out.String(), "still"), out.String())
	})
}
