package pygent_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/checkpoint"
	"github.com/x/pygent/sessions"
)

// The checkpoints of a session are found again, and a fork of it is a session of its own.
func TestASessionHasItsCheckpointsAgain(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	trees, work := filepath.Join(base, "trees"), filepath.Join(base, "work")
	agent := keptAgent(t, base, "1abc", checkpoint.Keep(trees), pygent.WithWorkspace(work))
	hears(t, agent, "hi")
	kept := agent.Checkpoints()
	require.NotEmpty(t, kept)
	fork, err := agent.Fork(t.Context(), kept[0].ID)
	require.NoError(t, err)
	require.NoError(t, fork.Close())
	require.NoError(t, agent.Close())
	agent = keptAgent(t, base, "1abc", checkpoint.Keep(trees), pygent.WithWorkspace(work))
	require.GreaterOrEqual(t, len(agent.Checkpoints()), len(kept))
	require.NoError(t, agent.Close())
	require.NoError(t, sessions.Remove(base, "1abc"))
	require.NoError(t, checkpoint.RemoveOrphans(t.Context(), trees, base))
	agent = keptAgent(t, base, "1abc", checkpoint.Keep(trees), pygent.WithWorkspace(work))
	require.Empty(t, agent.Checkpoints())
}

func TestASessionIsForked(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	home, trees, work := filepath.Join(base, "sessions"), filepath.Join(base, "trees"), filepath.Join(base, "work")
	agent := keptAgent(t, home, "1abc", checkpoint.Keep(trees), pygent.WithWorkspace(work))
	require.NoError(t, os.WriteFile(filepath.Join(work, "mine"), []byte("x"), 0o600))
	_, err := sessions.Fork(t.Context(), agent, 1, "")
	require.ErrorIs(t, err, pygent.ErrUnknownCheckpoint)
	hears(t, agent, "plant a tree")
	kept := agent.Checkpoints()
	last := kept[len(kept)-1].ID

	fork, err := sessions.Fork(t.Context(), agent, last, "")
	require.NoError(t, err)
	require.Equal(t, []any{work + "-" + fork.ID, "fork: plant a tree", 2, false}, []any{fork.Workspace, fork.Title, fork.Messages, fork.Open})
	require.FileExists(t, filepath.Join(fork.Workspace, "mine"))
	own, ok := sessions.Of(agent)
	require.True(t, ok)
	require.Equal(t, []any{"1abc", "plant a tree", true}, []any{own.ID, own.Title, own.Open})
	require.Contains(t, sessions.Recap(agent), "goes on after 2 messages")

	before, err := os.ReadDir(base)
	require.NoError(t, err)
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	file := filepath.Join(work, "mine")
	var noContext context.Context
	for name, fails := range map[string]func() error{
		"nothing was said": func() error { _, err := sessions.Fork(t.Context(), agent, kept[0].ID, ""); return err },
		"a used directory": func() error { _, err := sessions.Fork(t.Context(), agent, last, work); return err },
		"in the workspace": func() error {
			_, err := sessions.Fork(t.Context(), agent, last, filepath.Join(work, "new"))
			return err
		},
		"a file":         func() error { _, err := sessions.Fork(t.Context(), agent, last, file); return err },
		"below a file":   func() error { _, err := sessions.Fork(t.Context(), agent, last, filepath.Join(file, "x")); return err },
		"the end of ctx": func() error { _, err := sessions.Fork(canceled, agent, last, ""); return err },
		"no ctx":         func() error { _, err := sessions.Fork(noContext, agent, last, ""); return err },
		"another directory": func() error {
			_, err := sessions.Fork(t.Context(), agent, 99, filepath.Join(base, "other"))
			return err
		},
	} {
		require.Error(t, fails(), name)
		after, err := os.ReadDir(base)
		require.NoError(t, err)
		require.Len(t, after, len(before), name)
		list, err := os.ReadDir(home)
		require.NoError(t, err)
		require.Len(t, list, 2, name)
	}

	other := keptAgent(t, home, fork.ID, checkpoint.Keep(trees), pygent.WithWorkspace(fork.Workspace))
	require.Contains(t, sessions.Recap(other), `goes on after 2 messages of "fork: plant a tree"`)
	hears(t, other, "and another")
	require.Equal(t, 2, agent.State().Messages)
	_, err = other.Undo(t.Context(), 1)
	require.NoError(t, err)
}

func TestWhatIsNoSessionIsNotForked(t *testing.T) {
	t.Parallel()
	agent := openKeeper(t, t.TempDir())
	agent.turn("true")
	_, err := sessions.Fork(t.Context(), agent.Agent, 1, "")
	require.ErrorIs(t, err, sessions.ErrNone)
	_, kept := sessions.Of(agent.Agent)
	require.False(t, kept)
}

func TestNotesOfARestore(t *testing.T) {
	t.Parallel()
	var many []pygent.KeptFile
	for range 30 {
		many = append(many, pygent.KeptFile{Path: "f"})
	}
	for name, tt := range map[string]struct {
		done pygent.Restored
		want []string
	}{
		"nothing":  {pygent.Restored{}, nil},
		"the user": {pygent.Restored{Kept: []pygent.KeptFile{{Path: "a\x1b[2J\nb"}}}, []string{"kept a␛[2J b: you have changed it since"}},
		"a reason": {pygent.Restored{Kept: []pygent.KeptFile{{Path: "a", Why: "it is a directory", Aside: "a.1"}}}, []string{"kept a: it is a directory; what was there is in a.1"}},
		"left out": {pygent.Restored{To: pygent.Checkpoint{LeftOut: []string{"a: ignored", "b: ignored"}, MoreLeftOut: 5}}, []string{"left as it is, since checkpoints leave it out: a: ignored, b: ignored and 5 others"}},
		"more":     {pygent.Restored{To: pygent.Checkpoint{LeftOut: []string{"a", "b", "c", "d"}}}, []string{"left as it is, since checkpoints leave it out: a, b, c and 1 other"}},
		"no files": {pygent.Restored{NoFiles: "why", To: pygent.Checkpoint{LeftOut: []string{"a"}}}, nil},
		"attached": {pygent.Restored{Message: &pygent.Message{Parts: []pygent.Part{
			{Text: "look at @b.png"}, {ImageURL: "data:image/png;base64,AAAA", FileName: "a\x1b.png"}, {ImageURL: "data:image/png;base64,AAAA", FileName: "b.png"}, {AudioURL: "x"},
		}}}, []string{"the message had with it what it does not name, to be attached again: a␛.png, an attachment"}},
		"mentioned": {pygent.Restored{Message: &pygent.Message{Parts: []pygent.Part{
			{Text: "look at @main.go"}, {Text: "package main", FileName: "main.go"},
		}}}, nil},
		"jobs": {pygent.Restored{Jobs: 2}, []string{"2 commands in the background, which a restore does not end: /jobs"}},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, tt.want, tt.done.Notes()) })
	}
	notes := pygent.Restored{Kept: many}.Notes()
	require.Len(t, notes, 21)
	require.Equal(t, "10 more files kept", notes[20])
}
