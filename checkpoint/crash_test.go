package checkpoint_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
)

const dieEnv = "PYGENT_TEST_DIE"

// die ends this process as one that is killed.
func die(t *testing.T) {
	t.Helper()
	self, err := os.FindProcess(os.Getpid())
	require.NoError(t, err)
	require.NoError(t, self.Kill())
	select {}
}

// TestDyingChild makes a turn and then one in which its process is killed: when the
// model is asked, or when it has written a file. Without its environment variable it
// does nothing.
func TestDyingChild(t *testing.T) {
	t.Parallel()
	base, when, _ := strings.Cut(os.Getenv(dieEnv), "|")
	if base == "" {
		return
	}
	usual := obedient()
	model := pygent.ModelFunc(func(ctx context.Context, req *pygent.ChatRequest) (*pygent.ChatResponse, error) {
		if last := req.Messages[len(req.Messages)-1]; last.Role == chat.RoleUser && when == "asked" && last.Text() == "echo 2 > a" {
			die(t)
		}
		return usual.Chat(ctx, req)
	})
	hooks := pygent.OnEvent(func(e pygent.Event) {
		if when == "written" && e.Type == pygent.EventToolDone && strings.Contains(e.Call.Arguments, "echo 2") {
			die(t)
		}
	})
	k := openKeeper(t, base, pygent.WithModel(model), hooks)
	k.turn("echo 1 > a")
	// It takes longer to read this than to ask the model.
	require.NoError(t, os.WriteFile(filepath.Join(k.dir, "large"), make([]byte, 48<<20), 0o644))
	k.turn("echo 2 > a")
}

// TestATurnInWhichTheProcessDied has checkpoints at its start and its end, also if it
// had not come to make them. What the user changes from then on is the user's.
func TestATurnInWhichTheProcessDied(t *testing.T) {
	if testing.Short() {
		t.Skip("kills many processes")
	}
	t.Parallel()
	for when, made := range map[string]string{"asked": "1\n", "written": "2\n"} {
		t.Run(when, func(t *testing.T) {
			base := t.TempDir()
			child := exec.Command(os.Args[0], "-test.run=^TestDyingChild$")
			child.Env = append(os.Environ(), dieEnv+"="+base+"|"+when)
			out, err := child.CombinedOutput()
			require.Error(t, err, "%s", out)
			require.Equal(t, -1, child.ProcessState.ExitCode(), "%s", out)

			k := openKeeper(t, base)
			require.Equal(t, []string{"echo 1 > a", "echo 2 > a"}, k.said())
			require.Equal(t, []pygent.CheckpointKind{"start", "end", "start", "end"}, kinds(k))
			k.write("mine", "user")
			k.turn("echo 3 > a")
			k.undo(1)
			require.Equal(t, made, k.files()["a"])
			done := k.undo(1)
			require.Equal(t, "1\n", k.files()["a"])
			require.Equal(t, "user", k.files()["mine"])
			require.Equal(t, []string{"mine"}, kept(done))
			require.Equal(t, []string{"echo 1 > a"}, k.said())
		})
	}
}

func kinds(k *keeper) (all []pygent.CheckpointKind) {
	for _, c := range k.Checkpoints() {
		all = append(all, c.Kind)
	}
	return all
}

// TestWhatTheUserChangesBetweenSteps is the user's, in a loop of a program's own.
func TestWhatTheUserChangesBetweenSteps(t *testing.T) {
	t.Parallel()
	k := openKeeper(t, t.TempDir())
	for i, msg := range []string{"echo 1 > a; echo 1 > b", ""} {
		_, err := k.Step(t.Context(), msg)
		require.NoError(t, err)
		if i == 0 {
			k.write("b", "user")
			k.write("new", "user")
		}
	}
	require.Equal(t, []pygent.CheckpointKind{"start", "end", "resumed", "end"}, kinds(k))
	done := k.undo(1)
	require.Equal(t, contents{"b": "user", "new": "user"}, k.files())
	require.Equal(t, []string{"b", "new"}, kept(done))
	require.NotEmpty(t, done.Kept[0].Why)
	require.Empty(t, k.said())
}

// TestATurnThatSaidNothingIsNone has a start whose message was never recorded.
func TestATurnThatSaidNothingIsNone(t *testing.T) {
	t.Parallel()
	k := openKeeper(t, t.TempDir())
	k.turn("echo 1 > a")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := k.RunUntilStop(ctx, "echo 2 > a")
	require.ErrorIs(t, err, context.Canceled)
	said := len(k.said())
	k.undo(1)
	require.Len(t, k.said(), said-1)
}
