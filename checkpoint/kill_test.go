package checkpoint_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/testkit"
	"github.com/x/pygent/pygenttest"
)

const checkpointChildEnv = "PYGENT_TEST_CHECKPOINT_CHILD"

// TestCheckpointChild is the process that TestAKilledUndoIsOldOrNew kills: it makes
// turns, takes them back and brings them back until it dies. Without its environment
// variable it does nothing.
func TestCheckpointChild(t *testing.T) {
	t.Parallel()
	base := os.Getenv(checkpointChildEnv)
	if base == "" {
		return
	}
	k := openKeeper(t, base, pygent.WithModel(testkit.TurnWriter()), pygent.WithTools(writeTurn(base)))
	fmt.Println("open")
	for n := 0; ; n++ {
		k.turn(fmt.Sprint("turn ", time.Now().UnixNano()))
		switch rand.IntN(4) {
		case 0:
			_, _ = k.Undo(t.Context(), 1+rand.IntN(2))
		case 1:
			_, _ = k.Undo(t.Context(), 1)
			_, _ = k.Redo(t.Context())
		}
	}
}

// writeTurn is a tool that writes all files anew, each of them at once.
func writeTurn(base string) pygent.Tool {
	return pygent.NewTool("write_turn", "", func(_ context.Context, _ pygent.Runtime, in struct {
		N string `json:"n"`
	}) (string, error) {
		for i := range testkit.FilesOfTurn {
			dir, temp := filepath.Join(base, "work", fmt.Sprint("d", i%5)), filepath.Join(base, "temp")
			err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(temp, []byte(in.N), 0o644))
			if err == nil {
				err = os.Rename(temp, filepath.Join(dir, fmt.Sprint("f", i)))
			}
			if err != nil {
				return "", err
			}
		}
		return "written " + in.N, nil
	})
}

// TestAKilledUndoIsOldOrNew kills a process that works, undoes and redoes, at random
// moments. The next one must find files and conversation of one moment.
// PYGENT_CHECKPOINT_KILLS sets how often.
func TestAKilledUndoIsOldOrNew(t *testing.T) {
	if testing.Short() {
		t.Skip("kills many processes")
	}
	t.Parallel()
	base := t.TempDir()
	kills := testkit.Kills("PYGENT_CHECKPOINT_KILLS", 10)
	finished, working := 0, 0
	for round := range kills {
		testkit.KillChild(t, "TestCheckpointChild", checkpointChildEnv+"="+base, testkit.KillWithin)
		k := openKeeper(t, base, pygent.WithModel(testkit.TurnWriter()), pygent.WithTools(writeTurn(base)))
		words := map[string]bool{}
		for _, text := range k.files() {
			words[text] = true
		}
		said := k.said()
		var last string
		if len(said) > 0 {
			last = strings.TrimPrefix(said[len(said)-1], "turn ")
		}
		conversation := k.History().Conversation()
		if len(conversation) > 0 { // else it was killed before the first message
			require.NoError(t, pygenttest.CheckConversation(conversation))
		}
		require.Empty(t, leftovers(k.dir), "round %d", round)
		if n := len(conversation); n > 0 && conversation[n-1].Text() == "done" {
			require.Equal(t, map[string]bool{last: true}, words, "round %d: %v", round, said)
		} else if n > 0 {
			working++ // the turn that was killed may have written some
			delete(words, last)
			require.LessOrEqual(t, len(words), 1, "round %d", round)
		}
		for _, e := range k.History().Entries() {
			if e.Rewind != nil {
				finished++
			}
		}
		if len(said) > 0 { // and it can be undone
			done := k.undo(1)
			require.Len(t, k.said(), len(said)-1, "round %d: %s", round, done)
			if at := len(k.said()) - 1; at >= 0 {
				for _, text := range k.files() {
					require.Equal(t, strings.TrimPrefix(k.said()[at], "turn "), text, "round %d", round)
				}
			}
		}
		require.NoError(t, k.Close())
	}
	t.Logf("%d restores are in the history; %d of %d kills were in the middle of a turn", finished, working, kills)
}

// leftovers returns the temporary files in a directory.
func leftovers(dir string) (names []string) {
	_ = filepath.WalkDir(dir, func(name string, _ os.DirEntry, _ error) error {
		if strings.HasPrefix(filepath.Base(name), ".pygent-") {
			names = append(names, name)
		}
		return nil
	})
	return names
}
