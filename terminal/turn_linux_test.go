package terminal_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/testkit/termtest"
	"github.com/x/pygent/pygenttest"
)

func TestATurn(t *testing.T) {
	t.Parallel()
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

func TestCtrlC(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	defer close(gate)
	p := sit(t, pygenttest.NewServer(t, bash("echo begun; sleep 60"), pygenttest.Text("Never.").WithGate(gate)))
	p.Type("go\n")
	p.Await("Run this on your machine?")
	p.answers("y")
	p.Await("  begun", "Running a command")
	p.Type("a draft")
	p.Await("› a draft")
	p.Key("ctrl+c")
	p.AwaitNo("a draft")
	require.Contains(t, p.Screen().Text(), "Running a command", "typed text is cleared first")
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

// What the model is told of it instead of an output is not for people.
func TestCtrlCInterruptsACommandThatPrintsNothing(t *testing.T) {
	t.Parallel()
	p := sit(t, pygenttest.NewServer(t, bash("sleep 60")))
	p.Type("go\n")
	p.Await("Run this on your machine?")
	p.answers("y")
	p.Await("Running a command")
	p.Key("ctrl+c")
	p.Await("■ $ sleep 60 · interrupted", "■ Interrupted", "Ready")
	for _, again := range []string{"error", "may have taken effect"} {
		require.NotContains(t, p.All(), again)
	}
	got := results(p.leaves())
	require.Len(t, got, 1)
	require.Contains(t, got[0], "may have taken effect")
}

func TestEscInterruptsOnce(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	defer close(gate)
	p := sit(t, pygenttest.NewServer(t, bash("echo begun; sleep 60"), pygenttest.Text("Never.").WithGate(gate)))
	p.Type("go\n")
	p.Await("Run this on your machine?")
	p.answers("y")
	p.Await("  begun", "Running a command")
	p.Type("/he")
	p.Await("❯ /help")
	p.Key("esc") // closes the list
	p.AwaitNo("❯ /help")
	require.Contains(t, p.Screen().Text(), "Running a command")
	p.Key("esc")
	p.Await("■ Interrupted", "› /he", "Ready")
	p.Type("lp\n")
	p.Await("only a question mark") // the session goes on, with the draft
	got := results(p.leaves())
	require.Len(t, got, 1)
	require.Contains(t, got[0], "may have taken effect")
}

func TestCtrlCTwiceLeaves(t *testing.T) {
	t.Parallel()
	p := sit(t, pygenttest.NewServer(t, pygenttest.Text("Hello.")))
	p.Key("ctrl+c")
	p.Await("press Ctrl-C again to leave")
	p.Type("hi\n") // the user stays after all
	p.Await("Hello.", "Ready")
	p.Key("ctrl+c")
	p.Await("press Ctrl-C again to leave")
	p.Key("ctrl+c")
	require.Len(t, p.left(), 3)
}

func TestWhatARetryWithdrawsIsSaidToBe(t *testing.T) {
	t.Parallel()
	p := sit(t, pygenttest.NewServer(t, pygenttest.Text("One block.\n\nAnother block that is open").FailAfter(3, "server_error", "broken"), pygenttest.Text("All of it.")))
	p.Type("go\n")
	p.Await("All of it.", "Done", "Ready")
	all := p.All()
	require.Contains(t, all, "broken")
	require.Equal(t, strings.Contains(all, "One block."), strings.Contains(all, "is withdrawn"))
	require.NotContains(t, all, "that is open")
	p.leaves()
}

func TestTheBannerOfANewSessionNamesTheModel(t *testing.T) {
	t.Parallel()
	p := sit(t, pygenttest.NewServer(t), "PYGENT_MODEL=a-model-of-ones-own")
	p.Await(" · a-model-of-ones-own\n", "commands  ")
	p.leaves()
}

func TestAResumedConversationSaysWhereItWas(t *testing.T) {
	t.Parallel()
	server := pygenttest.NewServer(t, pygenttest.Text("The last words."))
	p := sit(t, server)
	p.Type("go\n")
	p.Await("The last words.", "Ready")
	p.leaves()
	p.Terminal = termtest.Start(t, p.command(server), 80, 24)
	p.Await("; the model said last: The last words.", "Ready")
	p.leaves()
}

// Whoever goes on sees what was said last, and none of it can be taken for the
// session's own.
func TestAResumedConversationShowsWhatWasSaidLast(t *testing.T) {
	t.Parallel()
	server := pygenttest.NewServer(t, pygenttest.Text("First.\n\nThe \x1b[2Jlast words.\n✓ exit 0"))
	p := sit(t, server)
	p.Type("look at it\n")
	p.Await("✓ exit 0", "Ready")
	p.leaves()
	p.Terminal = termtest.Start(t, p.command(server), 80, 24)
	p.Await("│   > look at it\n│   First.\n│\n│   The ␛[2Jlast words.\n│   ✓ exit 0\n", "Ready")
	p.leaves()
}

// What the person sent is broken between the words, as the answer is, unless it is
// code.
func TestWhatWasSentInANarrowWindow(t *testing.T) {
	t.Parallel()
	p := sit(t, pygenttest.NewServer(t, pygenttest.Text("I see.")))
	p.Resize(40, 24)
	p.Paste("please run the integration tests first, and then mend what is broken\n    an indented line of code that is longer than it")
	p.Await("longer than it")
	p.Key("enter")
	p.Await("I see.", "Ready")
	require.Contains(t, p.All(), "› please run the integration tests\n  first, and then mend what is broken\n      an indented line of code that is longer than it\n")
	p.leaves()
}
