package commands_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/checkpoint"
	"github.com/x/pygent/commands"
	"github.com/x/pygent/pygenttest"
)

func TestTurnsAreUndone(t *testing.T) {
	bash := func(cmd string) pygenttest.Reply { return pygenttest.Call("bash", map[string]any{"cmd": cmd}) }
	var told pygent.Event
	agent, err := pygent.New(
		pygent.OnEvent(func(e pygent.Event) {
			if e.Type == pygent.EventRestored {
				told = e
			}
		}),
		pygent.WithDocker(pygent.DockerNever),
		checkpoint.Keep(filepath.Join(t.TempDir(), "trees")),
		pygent.WithModel(pygenttest.NewScriptedModel(
			bash("echo 1 > a"), pygenttest.Call("stop", nil), bash("echo 2 > a; mkdir d; echo b > d/b"), pygenttest.Call("stop", nil))),
		pygent.WithCommands(commands.All()...))
	require.NoError(t, err)
	defer func() { require.NoError(t, agent.Close()) }()
	fails(t, agent, "/undo", "there is no turn to undo")
	fails(t, agent, "/diff 1", "no turn has a checkpoint yet")
	fails(t, agent, "/diff -1", "-1: give a number of turns such as 1; for a file of that name, write ./-1")
	for _, msg := range []string{"first", "second\nline"} {
		_, err := agent.RunUntilStop(t.Context(), msg)
		require.NoError(t, err)
	}
	require.Equal(t, "changed a\n@@ line 1 @@\n- 1\n+ 2\ncreated d/b\n@@ line 1 @@\n+ b\n", says(t, agent, "/diff 1"))
	all := says(t, agent, "/diff")
	require.Contains(t, all, "created a\n@@ line 1 @@\n+ 2\n", "since the session began")
	require.Contains(t, all, "created d/b")
	require.Contains(t, says(t, agent, "/diff nowhere"), "no file has changed since the session began at nowhere")
	require.Contains(t, says(t, agent, "/diff 2 d"), "created d/b")
	require.NotContains(t, says(t, agent, "/diff 2 d"), "created a")
	require.Contains(t, says(t, agent, "/diff 1 nowhere"), "no file has changed at nowhere")
	fails(t, agent, "/diff 3", "there are checkpoints of the last 2 turns only, and not of 3")
	require.NoError(t, agent.Runtime().WriteFile(t.Context(), "d/b", []byte("mine")))
	choices := func(line string) (shown []string) {
		list, err := agent.CompleteCommand(t.Context(), line)
		require.NoError(t, err)
		for _, c := range list {
			shown = append(shown, c.Word+": "+c.Summary)
		}
		return shown
	}
	require.Equal(t, []string{"1: now · second line", "2: now · first"}, choices("/undo "))
	require.Equal(t, []string{"2: now · first"}, choices("/undo 2"))
	require.Equal(t, []string{"1: now · second line", "2: now · first"}, choices("/fork "))
	require.Equal(t, []string{"1: now · second line", "2: now · first", "a: ", "d/b: "}, choices("/diff "))
	require.Equal(t, []string{"d/b: "}, choices("/diff 1 d"))
	require.Empty(t, choices("/diff 9 "))
	fails(t, agent, "/fork", "the conversation is not kept as a session")
	require.Empty(t, says(t, agent, "/undo"), "the event tells")
	require.Contains(t, told.Text, "1 file changed, 1 file left as you changed them")
	notes := told.Restored.Notes()
	require.Contains(t, notes[0], "kept d/b: ")
	require.Equal(t, len(told.Restored.Unsure), len(notes)-1, "where nobody can tell who changed a file while a command ran, it is named")
	for _, unsure := range notes[1:] {
		require.Contains(t, unsure, "while a command ran, so undone too: a (")
	}
	require.Equal(t, "second\nline", told.Restored.Message.Text())
	require.Equal(t, "1\nmine\n", says(t, agent, "/cmd cat a d/b"))
	require.Empty(t, says(t, agent, "/redo"))
	require.Contains(t, told.Text, "brought back, 1 file changed")
	fails(t, agent, "/redo", "nothing was undone since the last turn")
	fails(t, agent, "/undo 3", "checkpoints of the last 2")
	for _, line := range []string{"/undo x", "/undo 0", "/undo 1 2"} {
		fails(t, agent, line, "give a number of turns")
	}
	says(t, agent, "/undo 2")
	fails(t, agent, "/retry", "you have not sent a message yet")
}

func TestUndoNeedsCheckpoints(t *testing.T) {
	fails(t, session(t), "/undo", "checkpoints are off")
	fails(t, session(t), "/fork", "checkpoints are off")
}

func TestAForkNeedsAConversation(t *testing.T) {
	agent, err := pygent.New(pygent.WithDocker(pygent.DockerNever), pygent.WithModel(pygenttest.NewScriptedModel()),
		pygent.WithCommands(commands.All()...), checkpoint.Keep(t.TempDir()))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, agent.Close()) })
	fails(t, agent, "/fork", "there is nothing to fork yet: send a message first")
}
