package cli

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/testkit/persontest"
	"github.com/x/pygent/pygenttest"
)

// A background task asks the user in the session of the agent that delegated it.
func TestPlainAsksForTasks(t *testing.T) {
	delegate := pygenttest.Call("delegate_task", map[string]any{"prompt": "Count"})
	stop := pygenttest.Call("stop", map[string]any{"summary": "done"})
	for answer, want := range map[string]string{"y\n": "counted", "n\n": "error: denied by the user"} {
		t.Run(answer, func(t *testing.T) {
			t.Parallel()
			heard := make(chan string, 1)
			work := pygenttest.Decide(func(req *pygent.ChatRequest) pygenttest.Reply {
				heard <- req.Messages[len(req.Messages)-1].Text()
				return stop
			})
			waits := pygenttest.Decide(func(req *pygent.ChatRequest) pygenttest.Reply {
				return pygenttest.Call("task_status", map[string]any{"wait": 60})
			})
			term := openTerminal(t, pygenttest.NewServer(t, delegate, waits, pygenttest.Text("I see.")).On("Count", bash("echo counted"), work))
			term.expect("/exit leaves.\n> ")
			term.send("go\n")
			term.expect(" (Count) asks: Run this on your machine? $ echo counted\n[y]es, [a]lways allow this exact command, or say why not: ")
			term.answers(answer)
			require.Contains(t, persontest.Next(t, heard), want)
			term.expect("I see.\n> ")
			term.send("/exit\n")
			require.Contains(t, strings.Join(toolResults(term.leaves()), "\n"), "finished")
		})
	}
}

// What a task asks between turns is told, and asked once the user has sent a
// message.
func TestPlainAsksForTasksBetweenTurns(t *testing.T) {
	t.Parallel()
	gate, answer, end, heard := make(chan struct{}), make(chan struct{}), make(chan struct{}), make(chan string, 1)
	work := pygenttest.Decide(func(req *pygent.ChatRequest) pygenttest.Reply {
		heard <- req.Messages[len(req.Messages)-1].Text()
		return pygenttest.Call("stop", map[string]any{"summary": "done"}).WithGate(end)
	})
	term := openTerminal(t, pygenttest.NewServer(t, pygenttest.Call("delegate_task", map[string]any{"prompt": "Count"}), pygenttest.Text("Begun."), pygenttest.Text("I see.").WithGate(answer)).
		On("Count", bash("echo counted").WithGate(gate), work))
	term.expect("/exit leaves.\n> ")
	term.send("go\n")
	term.expect("Begun.\n> ")
	persontest.Give(t, gate)
	term.expect(" (Count) needs your approval: $ echo counted (you will be asked after your next message)\n")
	term.send("hello\n")
	term.expect(" (Count) asks: Run this on your machine? $ echo counted\n[y]es, [a]lways allow this exact command, or say why not: ")
	term.answers("y\n")
	require.Contains(t, persontest.Next(t, heard), "counted")
	persontest.Give(t, answer) // not before the question, which comes in its own time
	term.expect("I see.\n> ")
	persontest.Give(t, end) // not before the prompt, for the same reason
	term.expect(": finished\n")
	term.send("/exit\n")
	term.leaves()
}
