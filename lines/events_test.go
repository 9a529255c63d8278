package lines_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
	"github.com/x/pygent/internal/testkit"
	"github.com/x/pygent/lines"
	"github.com/x/pygent/pygenttest"
)

func bashCall(cmd string) *pygent.ToolCall {
	args, _ := json.Marshal(map[string]string{"cmd": cmd})
	return &pygent.ToolCall{ID: "c1", Name: "bash", Arguments: string(args)}
}

func textEvent(s string) pygent.Event { return pygent.Event{Type: pygent.EventText, Text: s} }

func messageEvent(s string) pygent.Event {
	m := chat.AssistantMessage(s)
	return pygent.Event{Type: pygent.EventMessage, Message: &m}
}

func callEvent(c *pygent.ToolCall) pygent.Event {
	return pygent.Event{Type: pygent.EventToolCall, Call: c}
}

func doneEvent(c *pygent.ToolCall, out pygent.ToolResult) pygent.Event {
	return pygent.Event{Type: pygent.EventToolDone, Call: c, Output: &out}
}

func retryEvent(wait time.Duration) pygent.Event {
	return pygent.Event{Type: pygent.EventRetry, Retry: &pygent.RetryInfo{Attempt: 1, Wait: wait, Error: "status 503"}}
}

func runtimeEvent(e pygent.RuntimeEvent) pygent.Event {
	return pygent.Event{Type: pygent.EventRuntime, Text: e.Text, Runtime: &e}
}

var stepEvent = pygent.Event{Type: pygent.EventStep, Step: 1}

func printed(events ...pygent.Event) string {
	var b strings.Builder
	show := lines.EventPrinter(&b)
	for _, e := range events {
		show(e)
	}
	return b.String()
}

func TestPrinterRendersEveryEvent(t *testing.T) {
	t.Parallel()
	write := &pygent.ToolCall{Name: "write_file", Arguments: `{"path":"a.txt","content":"x"}`}
	other := &pygent.ToolCall{Name: "weather", Arguments: `{"city":"Paris"}`}
	stopping := &pygent.ToolCall{Name: "stop", Arguments: `{}`}
	inSub := &pygent.ToolCall{Name: "bash", Arguments: `{"cmd":"ls","cwd":"sub"}`}
	end := pygent.Event{Type: pygent.EventRunEnd, Result: &pygent.Result{}}
	tests := []struct {
		name   string
		events []pygent.Event
		want   string
	}{
		{"streamed text, once", []pygent.Event{stepEvent, textEvent("Hel"), textEvent("lo"), messageEvent("Hello"), end}, "Hello\n"},
		{"text that was not streamed", []pygent.Event{stepEvent, messageEvent("Hello"), end}, "Hello\n"},
		{"no line end too many", []pygent.Event{stepEvent, textEvent("Hello\n"), messageEvent("Hello\n"), end}, "Hello\n"},
		{"the next step's text", []pygent.Event{stepEvent, textEvent("a"), messageEvent("a"), stepEvent, messageEvent("b")}, "a\nb\n"},
		{"reasoning is not shown", []pygent.Event{stepEvent, {Type: pygent.EventReasoning, Text: "hm"}, messageEvent("a")}, "a\n"},
		{"a command", []pygent.Event{callEvent(bashCall(" ls\n")), doneEvent(bashCall(" ls\n"), pygent.ToolResult{Content: "$  ls\n\na\nb\n"})}, "» $ ls\n  a\n  b\n"},
		{"a command of several lines, once", []pygent.Event{callEvent(bashCall("echo a\necho b")), doneEvent(bashCall("echo a\necho b"), pygent.ToolResult{Content: "$ echo…", Display: "$ echo a\necho b\na\nb\n[exit code 1]"})},
			"» $ echo a\necho b\n  a\n  b\n  [exit code 1]\n"},
		{"a command without output", []pygent.Event{callEvent(bashCall("true")), doneEvent(bashCall("true"), pygent.ToolResult{Content: "$ true\n"})}, "» $ true\n"},
		{"a command elsewhere", []pygent.Event{callEvent(inSub)}, "» (in sub) $ ls\n"},
		{"a refused command", []pygent.Event{callEvent(bashCall("ls")), doneEvent(bashCall("ls"), pygent.ToolResult{Content: "error: denied", IsError: true})}, "» $ ls\n  error: denied\n"},
		{"an interrupted command", []pygent.Event{callEvent(bashCall("ls")), doneEvent(bashCall("ls"), pygent.ToolResult{Content: "$ ls\na\n[for the model]", IsError: true, Outcome: pygent.OutcomeInterrupted, Bash: &pygent.BashResult{Output: "a\n"}})},
			"» $ ls\n  a\n  [interrupted]\n"},
		{"an interrupted command without output", []pygent.Event{callEvent(bashCall("ls")), doneEvent(bashCall("ls"), pygent.ToolResult{Content: "error: for the model", IsError: true, Outcome: pygent.OutcomeInterrupted})},
			"» $ ls\n  [interrupted]\n"},
		{"a command interrupted before it ran", []pygent.Event{callEvent(bashCall("ls")), doneEvent(bashCall("ls"), pygent.ToolResult{Content: "not run: nobody answered", IsError: true, Outcome: pygent.OutcomeInterrupted})},
			"» $ ls\n  not run: nobody answered\n"},
		{"a call that names a file", []pygent.Event{callEvent(write), doneEvent(write, pygent.ToolResult{Content: "wrote 1 bytes"})}, "» write a.txt\n  wrote 1 bytes\n"},
		{"display goes before content", []pygent.Event{doneEvent(write, pygent.ToolResult{Content: "long", Display: "short"})}, "  short\n"},
		{"another call", []pygent.Event{callEvent(other)}, "» weather city=Paris\n"},
		{"the end is no news", []pygent.Event{callEvent(stopping), doneEvent(stopping, pygent.ToolResult{Content: "stopped", End: pygent.StatusStopped})}, ""},
		{"a call after text", []pygent.Event{stepEvent, textEvent("Look:"), callEvent(bashCall("ls"))}, "Look:\n» $ ls\n"},
		{"retries that are counted", []pygent.Event{stepEvent, {Type: pygent.EventRetry, Retry: &pygent.RetryInfo{Attempt: 1, Wait: time.Second, Tries: 4, Error: "status 500"}}, textEvent("a"), messageEvent("a")}, "! status 500; retrying in 1.0 s, 4 times at most\na\n"},
		{"a wait for a server", []pygent.Event{stepEvent, {Type: pygent.EventRetry, Retry: &pygent.RetryInfo{Attempt: 1, Wait: time.Second, Left: 5 * time.Minute, Error: "status 529"}}, textEvent("a"), messageEvent("a")}, "! status 529; retrying in 1.0 s, for another 5:00\na\n"},
		{"retry", []pygent.Event{stepEvent, retryEvent(1234 * time.Millisecond), textEvent("a"), messageEvent("a")}, "! status 503; retrying in 1.2 s\na\n"},
		{"retry withdraws text, once", []pygent.Event{stepEvent, textEvent("Half"), retryEvent(time.Second), retryEvent(time.Second), textEvent("Whole"), messageEvent("Whole")},
			"Half\n! status 503; retrying in 1.0 s\n! what was written so far is withdrawn\n! status 503; retrying in 1.0 s\nWhole\n"},
		{"retry, then no stream", []pygent.Event{stepEvent, textEvent("Half"), retryEvent(time.Second), messageEvent("Whole")},
			"Half\n! status 503; retrying in 1.0 s\n! what was written so far is withdrawn\nWhole\n"},
		{"notice", []pygent.Event{stepEvent, textEvent("a"), {Type: pygent.EventNotice, Text: "mind"}, textEvent("b"), messageEvent("ab")}, "ab\n! mind\n"},
		{"warning", []pygent.Event{{Type: pygent.EventWarning, Text: "mind"}}, "! mind\n"},
		{"runtime", []pygent.Event{runtimeEvent(pygent.RuntimeEvent{Kind: pygent.RuntimeStarted, Text: "started"})}, "· started\n"},
		{"progress is left out", []pygent.Event{
			runtimeEvent(pygent.RuntimeEvent{Kind: pygent.RuntimePull, Text: "pulling"}),
			runtimeEvent(pygent.RuntimeEvent{Kind: pygent.RuntimePull, Text: "half", Current: 1, Total: 2}),
			runtimeEvent(pygent.RuntimeEvent{Kind: pygent.RuntimePull, Text: "pulled", Current: 2, Total: 2}),
		}, "· pulling\n· pulled\n"},
		{"CRLF", []pygent.Event{doneEvent(bashCall("x"), pygent.ToolResult{Content: "a\r\nb\r\n"})}, "  a\n  b\n"},
		{"a lone CR cannot overwrite", []pygent.Event{callEvent(bashCall("rm -rf /\rls"))}, "» $ rm -rf /␍ls\n"},
		{"escapes", []pygent.Event{stepEvent, messageEvent("\x1b[31mred\x1b[0m \a \x7f \u009b31m \x9b\tx")}, "␛[31mred␛[0m ␇ ␡ <U+009B>31m \ufffd\tx\n"},
		{"bidi", []pygent.Event{callEvent(bashCall("ls \u202egnp\u2066 \u200f \u061c"))}, "» $ ls <U+202E>gnp<U+2066> <U+200F> <U+061C>\n"},
		{"other languages", []pygent.Event{stepEvent, messageEvent("日本 🙂 שלום")}, "日本 🙂 שלום\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { require.Equal(t, tt.want, printed(tt.events...)) })
	}
}

func TestPrinterCutsLongOutput(t *testing.T) {
	t.Parallel()
	var lines []string
	for i := range 50 {
		lines = append(lines, fmt.Sprint("line ", i))
	}
	got := printed(doneEvent(bashCall("x"), pygent.ToolResult{Content: strings.Join(lines, "\n") + "\n"}))
	require.Equal(t, "  line 0\n", got[:9])
	require.Contains(t, got, "  line 9\n  … 30 lines …\n  line 40\n")
	require.True(t, strings.HasSuffix(got, "  line 49\n"))
	require.Equal(t, 20, strings.Count(printed(doneEvent(bashCall("x"), pygent.ToolResult{Content: strings.Join(lines[:20], "\n")})), "\n"))
	require.Contains(t, printed(doneEvent(bashCall("x"), pygent.ToolResult{Content: strings.Join(lines[:21], "\n")})), "\n  … 1 line …\n")

	got = printed(doneEvent(bashCall("x"), pygent.ToolResult{Content: strings.Repeat("ä", 5000) + "\nend"}))
	require.Less(t, len(got), 600)
	require.Contains(t, got, "ä …\n  end\n")
}

func TestPrinterCutsLongCalls(t *testing.T) {
	t.Parallel()
	got := printed(callEvent(bashCall("echo ok" + strings.Repeat("\n", 400) + "rm -rf x")))
	require.True(t, strings.HasPrefix(got, "» $ echo ok\n"), got)
	require.Contains(t, got, "… 381 lines …\n")
	require.True(t, strings.HasSuffix(got, "\nrm -rf x\n"), got)
}

func TestPrinterShowsARunOnce(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	agent := testkit.NewLocalAgent(t, pygenttest.NewScriptedModel(
		pygenttest.TextAndCalls("I look.", testkit.CallBash("echo one\necho two")),
		pygenttest.Text("Half an answer").CutAfter(1),
		pygenttest.TextAndCalls("Done.", testkit.Stop)))
	_, err := agent.RunUntilStop(t.Context(), "go", pygent.OnEvent(lines.EventPrinter(&b)))
	require.NoError(t, err)
	got := b.String()
	require.True(t, strings.HasPrefix(got, "I look.\n» $ echo one\necho two\n  one\n  two\nHalf a"), got)
	require.Contains(t, got, "\n! what was written so far is withdrawn\nDone.\n")
	require.True(t, strings.HasSuffix(got, "\nDone.\n"), got)
}

func TestPrinterIsSafeForConcurrentUse(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	show := lines.EventPrinter(&b)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 100 {
				show(pygent.Event{Type: pygent.EventNotice, Text: "x"})
			}
		})
	}
	all.Wait()
	require.Equal(t, strings.Repeat("! x\n", 400), b.String())
}

func TestPrinterIsSilentAboutProgressAndWordsOfTasks(t *testing.T) {
	t.Parallel()
	require.Empty(t, printed(
		pygent.Event{Type: pygent.EventRuntime, Runtime: &pygent.RuntimeEvent{Kind: pygent.RuntimePull, Current: 1, Total: 10}},
		pygent.Event{Type: pygent.EventText, Task: "a", Text: "of a task"},
		pygent.Event{Type: pygent.EventStep, Task: "a"}))
	require.Equal(t, "· task a: finished\n", printed(pygent.Event{Type: pygent.EventTask, Task: "a", Text: "finished"}))
}

func TestPrinterPutsNewsBetweenBlocksOfTheAnswer(t *testing.T) {
	t.Parallel()
	container := runtimeEvent(pygent.RuntimeEvent{Kind: pygent.RuntimeStarted, Text: "container x runs"})
	for _, news := range []struct {
		event pygent.Event
		text  string
	}{
		{container, "· container x runs\n"},
		{pygent.Event{Type: pygent.EventTask, Task: "a", Text: "finished"}, "· task a: finished\n"},
		{pygent.Event{Type: pygent.EventNotice, Text: "note"}, "! note\n"},
		{pygent.Event{Type: pygent.EventWarning, Text: "warning"}, "! warning\n"},
	} {
		require.Equal(t, "has to wrap around\n\n"+news.text+"More.\n", printed(
			stepEvent, textEvent("has to wra"), news.event, textEvent("p around\n\nMo"), textEvent("re."), messageEvent("has to wrap around\n\nMore.")))
		require.Equal(t, "half\n"+news.text, printed(
			stepEvent, textEvent("half"), news.event, pygent.Event{Type: pygent.EventRunEnd}), "an interrupted answer")
	}
}

func TestPrinterTellsNowAndThenHowFarACheckpointIs(t *testing.T) {
	t.Parallel()
	start := time.Now()
	keeping := func(after time.Duration, text string) pygent.Event {
		return pygent.Event{Type: pygent.EventKeeping, Time: start.Add(after), Text: text, Progress: &pygent.ProgressInfo{}}
	}
	require.Equal(t, "· keeping\n· keeping: 9 of 9\n· another\n", printed(
		keeping(0, "keeping"), keeping(time.Second, "keeping: 1 of 9"), keeping(9*time.Second, "keeping: 8 of 9"), keeping(10*time.Second, "keeping: 9 of 9"),
		stepEvent, keeping(11*time.Second, "another"), pygent.Event{Type: pygent.EventKeeping, Task: "t1", Text: "of a task"}))
}
