package terminal_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/testkit/persontest"
	"github.com/x/pygent/pygenttest"
)

func TestTheQueue(t *testing.T) {
	t.Parallel()
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
	persontest.Give(t, gate)
	p.Await("One.", "› second", "Two.", "Ready")
	msgs := p.leaves()
	require.Equal(t, "second", msgs[3].Text())
	require.Len(t, msgs, 5)
}

func TestTheQueueIsHeldWhenTheModelAsks(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	ask := pygenttest.Call("continue", map[string]any{"prompt": "Which one?", "options": []string{"red", "blue"}})
	p := sit(t, pygenttest.NewServer(t, ask.WithGate(gate), pygenttest.Text("Blue it is."), pygenttest.Text("That, too.")))
	p.Type("first\n")
	p.Await("Waiting for")
	p.Type("also do this\n")
	p.Await("Next: also do this")
	p.Type("half a dra")
	p.Await("› half a dra")
	persontest.Give(t, gate)
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
	t.Parallel()
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

func TestWhatWasHeldBackIsShownWhenTheSessionEnds(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	defer close(gate)
	p := sit(t, pygenttest.NewServer(t, pygenttest.Text("One.").WithGate(gate)))
	p.Type("first\n")
	p.Await("Waiting for")
	p.Type("second\n")
	p.Await("Next: second")
	p.Type("third\n")
	p.Await("Next: third")
	p.Key("ctrl+c")
	p.Await("■ Interrupted", "Held: third", "Ready")
	p.leaves()
	require.Contains(t, p.All(), "! Not sent: second\n! Not sent: third")
}

func TestTheQueueIsHeldWhenTheTurnFails(t *testing.T) {
	t.Parallel()
	for name, takesBack := range map[string]bool{"sent": false, "taken back": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			gate := make(chan struct{})
			p := sit(t, pygenttest.NewServer(t, pygenttest.Status(400, "invalid_request", "that is wrong").WithGate(gate), pygenttest.Text("Two.")))
			p.Type("first\n")
			p.Await("Waiting for")
			p.Type("second\n")
			p.Await("Next: second")
			persontest.Give(t, gate)
			p.Await("✗ ", "that is wrong", "Held: second (Enter: send, Up: edit)", "Ready")
			if takesBack {
				p.Key("up")
				p.AwaitNo("Held:")
				p.Await("› second")
				p.Type(" thoughts")
			}
			p.Key("enter")
			p.Await("› second", "Two.", "Ready")
			p.AwaitNo("Held:")
			msgs := p.leaves()
			require.Equal(t, map[bool]string{false: "second", true: "second thoughts"}[takesBack], msgs[len(msgs)-2].Text())
		})
	}
}
