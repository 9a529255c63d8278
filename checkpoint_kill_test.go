package pygent_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/pygenttest"
)

const checkpointChildEnv = "PYGENT_TEST_CHECKPOINT_CHILD"

// filesOfTurn is how many files each turn writes. They have its number in them, and
// the conversation has it, too.
const filesOfTurn = 40

// TestCheckpointChild is the process that TestAKilledUndoIsOldOrNew kills: it makes
// turns, takes them back and brings them back until it dies. Without its environment
// variable it does nothing.
func TestCheckpointChild(t *testing.T) {
	t.Parallel()
	base := os.Getenv(checkpointChildEnv)
	if base == "" {
		return
	}
	k := openKeeper(t, base, pygent.WithModel(writer()), pygent.WithTools(writeTurn(base)))
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

// writer is a model that has the tool write what the user says.
func writer() pygent.Model {
	return pygent.ModelFunc(func(_ context.Context, req *pygent.ChatRequest) (*pygent.ChatResponse, error) {
		last := req.Messages[len(req.Messages)-1]
		if last.Role != pygent.RoleUser {
			return &pygent.ChatResponse{Message: pygent.AssistantMessage("done")}, nil
		}
		n := strings.TrimPrefix(last.Text(), "turn ")
		call := pygent.ToolCall{ID: "c" + n, Name: "write_turn", Arguments: fmt.Sprintf(`{"n":%q}`, n)}
		return &pygent.ChatResponse{Message: pygent.AssistantMessage("", call)}, nil
	})
}

// writeTurn is a tool that writes all files anew, each of them at once.
func writeTurn(base string) pygent.Tool {
	return pygent.NewTool("write_turn", "", func(_ context.Context, _ pygent.Runtime, in struct {
		N string `json:"n"`
	}) (string, error) {
		for i := range filesOfTurn {
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
	kills := 10
	if n, err := strconv.Atoi(os.Getenv("PYGENT_CHECKPOINT_KILLS")); err == nil {
		kills = n
	}
	self, err := os.Executable()
	require.NoError(t, err)
	finished, working := 0, 0
	for round := range kills {
		killChild(t, self, "TestCheckpointChild", checkpointChildEnv+"="+base)
		k := openKeeper(t, base, pygent.WithModel(writer()), pygent.WithTools(writeTurn(base)))
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

// killChild runs a test of this binary in a process of its own, and kills it at a
// random moment after it has said that it is open.
func killChild(t *testing.T, self, test, env string) {
	child := exec.Command(self, "-test.run=^"+test+"$", "-test.v")
	child.Env = append(os.Environ(), env)
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	lines := bufio.NewScanner(out)
	for lines.Scan() && lines.Text() != "open" {
	}
	kill := time.AfterFunc(time.Duration(rand.Int64N(int64(300*time.Millisecond))), func() { _ = child.Process.Kill() })
	defer kill.Stop()
	var rest strings.Builder
	for lines.Scan() {
		rest.WriteString(lines.Text() + "\n")
	}
	require.Error(t, child.Wait())
	require.Equal(t, -1, child.ProcessState.ExitCode(), "it ended by itself: %s", rest.String())
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
