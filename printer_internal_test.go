package pygent

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPrinterAsksAgainOnlyAfterNews(t *testing.T) {
	var out strings.Builder
	p := newPrinter(&out)
	p.prompt("Really? > ")
	for range 3 {
		p.event(Event{Type: EventRuntime, Runtime: &RuntimeEvent{Kind: RuntimePull, Current: 1, Total: 10}})
		p.event(Event{Type: EventText, Task: "a", Text: "of a task"})
		p.event(Event{Type: EventStep, Task: "a"})
	}
	require.Equal(t, "Really? > ", out.String())
	p.event(Event{Type: EventTask, Task: "a", Text: "finished"})
	require.Equal(t, "Really? > \n· task a: finished\nReally? > ", out.String())
}

func TestPrinterHoldsBackWhatHappensWhileTheUserIsAsked(t *testing.T) {
	var out strings.Builder
	p := newPrinter(&out)
	release := p.hold()
	p.prompt("Really? > ")
	for range maxHeld + 2 {
		p.event(Event{Type: EventTask, Task: "a", Text: "finished"})
	}
	require.Equal(t, "Really? > ", out.String())
	p.unask()
	release()
	require.Equal(t, "Really? > \n"+strings.Repeat("· task a: finished\n", maxHeld)+"… 2 more events not shown …\n", out.String())
}
