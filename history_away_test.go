package pygent_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
)

const (
	awaySteps  = 90
	awayResult = 30_000
)

func awayText(n int) string {
	return fmt.Sprintf("part %d\n", n) + strings.Repeat(fmt.Sprintf("%08d é\n", n), awayResult/12)
}

// longHistory is the history in a file of a run of so many steps whose results are
// 30 kB each, in a small window. during is called at each step.
func longHistory(t *testing.T, path string, steps int, during func(n int)) *pygent.History {
	h, err := pygent.OpenHistory(path)
	require.NoError(t, err)
	n := 0
	model := pygent.ModelFunc(func(_ context.Context, req *pygent.ChatRequest) (*pygent.ChatResponse, error) {
		if strings.HasPrefix(req.Messages[len(req.Messages)-1].Text(), "<record>") {
			return &pygent.ChatResponse{Message: pygent.AssistantMessage("The work so far is summed up here.")}, nil
		}
		if n++; n > steps {
			return &pygent.ChatResponse{Message: pygent.AssistantMessage("", pygent.ToolCall{ID: "s", Name: "stop", Arguments: "{}"})}, nil
		}
		during(n)
		call := pygent.ToolCall{ID: fmt.Sprint("c", n), Name: "read", Arguments: fmt.Sprintf(`{"n":%d}`, n)}
		return &pygent.ChatResponse{Message: pygent.AssistantMessage("I go on.", call)}, nil
	})
	read := pygent.NewTool("read", "", func(_ context.Context, _ pygent.Runtime, in struct {
		N int `json:"n"`
	}) (string, error) {
		return awayText(in.N), nil
	})
	agent := newAgentOn(t, nowhere{}, model, pygent.WithHistory(h), pygent.WithTools(read), pygent.WithContextWindow(40_000))
	result, err := agent.RunUntilStop(t.Context(), "go on", pygent.MaxSteps(steps+1), pygent.MaxToolCalls(steps+1))
	require.NoError(t, err)
	require.Equal(t, pygent.StatusStopped, result.Status)
	return h
}

// requireWhole checks that every result is in the record as it was said.
func requireWhole(t *testing.T, msgs []pygent.Message, steps int) {
	t.Helper()
	n := 0
	for _, m := range msgs {
		if m.Role == pygent.RoleTool && strings.HasPrefix(m.Content, "part ") {
			n++
			require.True(t, strings.HasPrefix(m.Content, awayText(n)), "result %d is whole", n) // a note on the limits may follow
		}
	}
	require.Equal(t, steps, n)
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	return mem.HeapAlloc
}

func replaceFile(t *testing.T, path string) {
	require.NoError(t, os.WriteFile(path+".other", []byte("[]\n"), 0o600))
	require.NoError(t, os.Rename(path+".other", path))
}

// A history that is closed still answers when its file is gone.
func TestOldTextsOfAClosedHistoryWithoutItsFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "history.json")
	h := longHistory(t, path, awaySteps/3, func(int) {})
	n := h.Len()
	require.NoError(t, h.Close())
	require.NoError(t, os.Remove(path))
	for range 2 {
		require.Len(t, h.Messages(), n)
		require.Len(t, h.Repairs(), 1)
		require.Contains(t, h.Repairs()[0], "old messages are not in the file any more")
	}
}
