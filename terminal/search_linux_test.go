package terminal_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/testkit/persontest"
	"github.com/x/pygent/pygenttest"
)

func TestEarlierMessagesAreSearched(t *testing.T) {
	t.Parallel()
	p := sit(t, pygenttest.NewServer(t, pygenttest.Text("One."), pygenttest.Text("Two."), pygenttest.Text("Three."), pygenttest.Text("Four.")))
	for _, said := range [][2]string{{"fix the old tests", "One."}, {"first line\\\nsecond line", "Two."}, {"fix the new tests", "Three."}} {
		p.Type(said[0])
		p.Key("enter")
		p.Await(said[1], "Ready")
	}
	p.Type("a draft")
	p.Await("› a draft")
	p.Key("ctrl+r")
	p.Await("search: ", "Ctrl-R earlier")
	p.Type("fix")
	p.Await("search: fix", "  fix the new tests")
	p.Key("ctrl+r")
	p.Await("search: fix", "\n  fix the old tests")
	p.Key("ctrl+r")
	p.Await("no earlier match: fix")
	p.Key("esc")
	p.Await("› a draft")
	for _, key := range []string{"ctrl+g", "ctrl+c"} {
		p.Key("ctrl+r")
		p.Await("search: ")
		p.Type("SECOND")
		p.Await("search: SECOND", "  first line", "  second line")
		p.Key(key)
		p.Await("› a draft")
	}
	p.Key("ctrl+r")
	p.Await("search: ")
	p.Type("secondx")
	p.Await("no earlier match: secondx")
	p.Key("backspace")
	p.Await("search: second", "  second line")
	p.Key("enter")
	p.Await("› first line", "  second line")
	p.AwaitNo("search: ")
	require.Contains(t, p.Screen().Text(), "Ready", "nothing was sent")
	p.Type("!")
	p.Key("enter")
	p.Await("Four.", "Ready")
	msgs := p.leaves()
	require.Equal(t, "first line\nsecond line!", msgs[len(msgs)-2].Text())
	require.Len(t, msgs, 9)
}

func TestAQuestionComesBeforeTheSearch(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	p := sit(t, pygenttest.NewServer(t, bash("echo $((6*7))").WithGate(gate), pygenttest.Text("I see.")))
	p.Type("go\n")
	p.Await("Waiting for")
	p.Key("ctrl+r")
	p.Await("search: ")
	persontest.Give(t, gate)
	p.Await("Run this on your machine?")
	p.answers("n")
	p.Await("I see.", "Ready", "search: ")
	p.Key("esc")
	p.AwaitNo("search: ")
	p.leaves()
}
