package sessions_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/checkpoint"
	"github.com/x/pygent/internal/testkit"
	"github.com/x/pygent/pygenttest"
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
	require.Contains(t, sessions.Recap(agent), "continues after 2 messages")

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
	require.Contains(t, sessions.Recap(other), `continues after 2 messages of "fork: plant a tree"`)
	hears(t, other, "and another")
	require.Equal(t, 2, agent.State().Messages)
	_, err = other.Undo(t.Context(), 1)
	require.NoError(t, err)
}

func TestWhatIsNoSessionIsNotForked(t *testing.T) {
	t.Parallel()
	agent := testkit.NewAgent(t, checkpoint.Keep(t.TempDir()), pygent.WithDocker(pygent.DockerNever), pygent.WithWorkspace(t.TempDir()),
		pygent.WithModel(pygenttest.NewScriptedModel(pygenttest.Text("done"))), pygent.WithEndOnReply())
	hears(t, agent, "go")
	require.NotEmpty(t, agent.Checkpoints())
	_, err := sessions.Fork(t.Context(), agent, 1, "")
	require.ErrorIs(t, err, sessions.ErrNone)
	_, kept := sessions.Of(agent)
	require.False(t, kept)
}
