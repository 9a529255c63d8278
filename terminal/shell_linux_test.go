package terminal_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/testkit/persontest"
	"github.com/x/pygent/pygenttest"
)

// What is printed while the model's question waits comes before it: nothing is between
// the question and its answers.
func TestNothingIsBetweenAQuestionAndItsAnswers(t *testing.T) {
	t.Parallel()
	ask := pygenttest.Call("continue", map[string]any{"prompt": "Which one?", "options": []string{"red", "blue"}})
	p := sit(t, pygenttest.NewServer(t, ask, pygenttest.Text("Red it is.")))
	p.Type("go\n")
	p.Await("? Which one?\n\n❯ 1. red\n  2. blue")
	p.says("!echo mean''while")
	p.Await("$ echo mean''while\n\nmeanwhile\n✓ exit 0", "? Which one?\n❯ 1. red\n  2. blue")
	p.reads()
	p.Key("enter")
	p.Await("Red it is.", "Ready")
	p.AwaitNo("1. red")
	p.leaves()
}

func TestCommandLinesOfOnesOwn(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	gate := make(chan struct{})
	p := sit(t, pygenttest.NewServer(t, pygenttest.Text("Hello.").WithGate(gate)), "PYGENT_WORKSPACE="+dir)
	p.Type("!printf '\\033[35mout\\n'; touch made; exit 3")
	p.Await("$ !printf")
	p.Key("enter")
	p.Await("$ printf", "␛[35mout", "✗ exit 3", "Ready")
	_, err := os.Stat(filepath.Join(dir, "made"))
	require.NoError(t, err)
	p.Type("! echo begun; sleep 60\n")
	p.Await("  begun", "Ctrl-C interrupts")
	p.Type("!ls\n")
	p.Await("a command is still running")
	p.Key("ctrl+c") // the draft
	p.AwaitNo("!ls")
	p.Key("ctrl+c")
	p.Await("■ Interrupted", "Ready")
	p.AwaitNo("Ctrl-C interrupts")
	p.Type("go\n")
	p.Await("Waiting for")
	p.Type("!echo mean''while\n") // during a turn
	p.Await("\nmeanwhile\n", "✓ exit 0", "Waiting for")
	p.Type("!\n")
	p.Await("type a command after \"!\"")
	p.Key("ctrl+c")
	persontest.Give(t, gate)
	p.Await("Hello.", "Ready")
	msgs := p.leaves()
	require.Len(t, msgs, 3, "the agent does not hear of it")
	require.NotContains(t, string(p.Raw()), "\x1b[35m")
}
