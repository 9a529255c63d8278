package testkit

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
)

// FilesOfTurn is how many files each turn of [TurnWriter] writes. They have its number in
// them, and the conversation has it, too.
const FilesOfTurn = 40

// TurnWriter is a model that has the tool write_turn write the number that the user says,
// as "turn" and the number. [WriteTurn] is such a tool.
func TurnWriter() pygent.Model {
	return pygent.ModelFunc(func(_ context.Context, req *pygent.ChatRequest) (*pygent.ChatResponse, error) {
		last := req.Messages[len(req.Messages)-1]
		if last.Role != chat.RoleUser {
			return &pygent.ChatResponse{Message: chat.AssistantMessage("done")}, nil
		}
		n := strings.TrimPrefix(last.Text(), "turn ")
		call := pygent.ToolCall{ID: "c" + n, Name: "write_turn", Arguments: fmt.Sprintf(`{"n":%q}`, n)}
		return &pygent.ChatResponse{Message: chat.AssistantMessage("", call)}, nil
	})
}

// WriteTurn is a tool that writes all files of the workspace anew, each at once.
func WriteTurn() pygent.Tool {
	return pygent.NewTool("write_turn", "", func(ctx context.Context, rt pygent.Runtime, in struct {
		N string `json:"n"`
	}) (string, error) {
		for i := range FilesOfTurn {
			if err := rt.WriteFile(ctx, fmt.Sprintf("d%d/f%d", i%5, i), []byte(in.N)); err != nil {
				return "", err
			}
		}
		return "written " + in.N, nil
	})
}

// Kills is how often a test kills a process: as often as a variable says, or else as usual.
func Kills(variable string, usual int) int {
	if n, err := strconv.Atoi(os.Getenv(variable)); err == nil {
		return n
	}
	return usual
}

// KillWithin is within how long most tests kill a child: on an idle machine, some turns.
const KillWithin = 300 * time.Millisecond

// KillChild runs a test of this binary in a process of its own, with a variable more in its
// environment, and kills it at a random moment within some time after it has said that it is
// open.
func KillChild(t testing.TB, test, env string, within time.Duration) {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	child := exec.Command(self, "-test.run=^"+test+"$", "-test.v")
	child.Env = append(os.Environ(), env)
	child.Stderr = os.Stderr
	out, err := child.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	lines := bufio.NewScanner(out)
	for lines.Scan() && lines.Text() != "open" {
	}
	kill := time.AfterFunc(time.Duration(rand.Int64N(int64(within))), func() { _ = child.Process.Kill() })
	defer kill.Stop()
	var rest strings.Builder
	for lines.Scan() {
		rest.WriteString(lines.Text() + "\n")
	}
	require.Error(t, child.Wait())
	require.Equal(t, -1, child.ProcessState.ExitCode(), "it ended by itself: %s", rest.String())
}

// KillAfter starts a test of this program with a variable in its environment, and kills
// it after it has accepted n messages. It returns the last message that it reported.
func KillAfter(t testing.TB, test, env string, n int) (accepted int) {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	child := exec.Command(self, "-test.run=^"+test+"$", "-test.v")
	child.Env = append(os.Environ(), env)
	out, err := child.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	lines := bufio.NewScanner(out)
	for seen := 0; lines.Scan(); {
		if _, err := fmt.Sscanf(lines.Text(), "accepted %d", &accepted); err != nil {
			continue
		}
		if seen++; seen == n {
			require.NoError(t, child.Process.Kill())
		}
	}
	require.Error(t, child.Wait(), "killed")
	return accepted
}
