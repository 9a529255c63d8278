package terminal_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/testkit/persontest"
	"github.com/x/pygent/internal/testkit/termtest"
	"github.com/x/pygent/pygenttest"
)

func TestTasksAskBetweenTurns(t *testing.T) {
	t.Parallel()
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
	persontest.Give(t, gate)
	p.Await("(Count) asks: Run this on your machine?", "echo counted")
	p.answers("y")
	require.Contains(t, persontest.Next(t, heard), "counted")
	p.Await("› a draft", "Ready")
	p.Until("the end of the task", func(termtest.Screen) bool { return strings.Contains(p.All(), "finished") })
	p.Key("ctrl+c")
	p.leaves()
}

func TestJobsBetweenTurns(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	wait := map[string]any{"cmd": "while [ ! -e go ]; do sleep 0.02; done; exit 3", "background": true}
	p := sit(t, pygenttest.NewServer(t, pygenttest.Call("bash", wait), pygenttest.Text("It runs.")), noQuestions, "PYGENT_WORKSPACE="+dir)
	p.Type("go\n")
	p.Await("· started job 1", "It runs.", "& job 1: while [", "· 1 job", "Ready")
	p.Type("a draft")
	makes(t, dir, "go")
	p.Await("✗ job 1: while [", "· exit 3 ·", "Ready", "› a draft")
	p.AwaitNo("& job 1", "· 1 job")
	p.Key("ctrl+c")
	p.leaves()
	p.once("✗ job 1")
}

func TestTasksBetweenTurns(t *testing.T) {
	t.Parallel()
	begin, end := make(chan struct{}), make(chan struct{})
	stop := pygenttest.Call("stop", map[string]any{"summary": "There are 12."})
	p := sit(t, pygenttest.NewServer(t, pygenttest.Call("delegate_task", map[string]any{"prompt": "Count"}), pygenttest.Text("Begun.")).
		On("Count", bash("sleep 2; echo counted").WithGate(begin), stop.WithGate(end)), noQuestions)
	p.Type("go\n")
	p.Await("Begun.", "(Count)", "· waiting for the model", "· 1 task", "Ready")
	persontest.Give(t, begin)
	p.Await("$ sleep 2; echo counted")
	persontest.Give(t, end)
	p.Await("(Count) · finished · 2 steps", "  There are 12.", "Ready")
	p.AwaitNo("· 1 task")
	p.leaves()
	p.once("finished", "There are 12.")
}
