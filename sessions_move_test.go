package pygent_test

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/checkpoint"
	"github.com/x/pygent/pygenttest"
	"github.com/x/pygent/sessions"
)

// The directory of the user's state may be moved, with all sessions and checkpoints.
func TestSessionsHaveTheirCheckpointsWhereTheyAreMovedTo(t *testing.T) {
	t.Parallel()
	base, work := t.TempDir(), t.TempDir()
	open := func(state string, replies ...pygenttest.Reply) *pygent.Agent {
		t.Helper()
		return newAgentOf(t, sessions.Keep(filepath.Join(base, state, "sessions", "1abc")), checkpoint.Keep(filepath.Join(base, state, "trees")),
			pygent.WithDocker(pygent.DockerNever), pygent.WithWorkspace(work), pygent.WithEndOnReply(), pygent.WithModel(pygenttest.NewScriptedModel(replies...)))
	}
	require.NoError(t, os.Mkdir(filepath.Join(base, "real"), 0o700))
	require.NoError(t, os.Symlink("real", filepath.Join(base, "one"))) // neither of the two directories is there yet
	agent := open("one", callBash("echo 1 > a"), pygenttest.Text("written"))
	hears(t, agent, "write")
	require.NoError(t, agent.Close())

	require.NoError(t, os.Rename(filepath.Join(base, "real"), filepath.Join(base, "two")))
	require.NoError(t, checkpoint.RemoveOrphans(t.Context(), filepath.Join(base, "two", "trees"), filepath.Join(base, "two", "sessions")))
	agent = open("two")
	require.Len(t, agent.Checkpoints(), 2)
	done, err := agent.Undo(t.Context(), 1)
	require.NoError(t, err)
	require.Empty(t, done.NoFiles)
	require.NoFileExists(t, filepath.Join(work, "a"))
	require.NoError(t, agent.Close())

	// As they were named before: after where they are.
	logs, err := filepath.Glob(filepath.Join(base, "two", "trees", "*", "session-*-1abc*"))
	require.NoError(t, err)
	require.NotEmpty(t, logs)
	real, err := filepath.EvalSymlinks(filepath.Join(base, "two", "sessions"))
	require.NoError(t, err)
	sum := sha256.Sum256([]byte(real))
	for _, log := range logs {
		_, rest, _ := strings.Cut(filepath.Base(log), "-1abc")
		require.NoError(t, os.Rename(log, filepath.Join(filepath.Dir(log), "session-"+hex.EncodeToString(sum[:5])+"-1abc"+rest)))
	}
	agent = open("two")
	require.NotEmpty(t, agent.Checkpoints())
	_, err = agent.Redo(t.Context())
	require.NoError(t, err)
	require.FileExists(t, filepath.Join(work, "a"))
	require.NoError(t, agent.Close())
	agent = open("two")
	require.NotEmpty(t, agent.Checkpoints(), "and again")
	require.NoError(t, agent.Close())

	require.NoError(t, sessions.Remove(filepath.Join(base, "two", "sessions"), "1abc"))
	require.NoError(t, checkpoint.RemoveOrphans(t.Context(), filepath.Join(base, "two", "trees"), filepath.Join(base, "two", "sessions")))
	agent = open("two")
	require.Empty(t, agent.Checkpoints(), "they go with their session")
}
