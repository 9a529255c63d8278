package pygent_test

import (
	"context"
	"encoding/json"
	"io/fs"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/pygenttest"
)

func writing(path, content string) pygenttest.Reply {
	return pygenttest.Call("write_file", map[string]any{"path": path, "content": content})
}

func editing(path, old, new string) pygenttest.Reply {
	return pygenttest.Call("edit_file", map[string]any{"path": path, "old_text": old, "new_text": new})
}

// TestFileChangesAreToldBeforeAndAfter compares what an approval is shown with
// what the call then does.
func TestFileChangesAreToldBeforeAndAfter(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a line of some length\n", 3000)
	for _, tt := range []struct {
		name string
		call pygenttest.Reply
		want pygent.FileChange
	}{
		{"a new file", writing("./sub/new.txt", "hello\n"), pygent.FileChange{Path: "sub/new.txt", After: "hello\n", Line: 1, Created: true}},
		{"another content", writing("old.txt", "two\n"), pygent.FileChange{Path: "old.txt", Before: "one\n", After: "two\n", Line: 1}},
		{"an edit", editing("old.txt", "one", "two"), pygent.FileChange{Path: "old.txt", Before: "one\n", After: "two\n", Line: 1}},
		{"several edits", pygenttest.Call("edit_file", map[string]any{"path": "old.txt", "edits": []any{map[string]any{"old_text": "one", "new_text": "two\nthree"}, map[string]any{"old_text": "three", "new_text": "four"}}}),
			pygent.FileChange{Path: "old.txt", Before: "one\n", After: "two\nfour\n", Line: 1}},
		{"an addition", pygenttest.Call("write_file", map[string]any{"path": "old.txt", "content": "two\n", "append": true}), pygent.FileChange{Path: "old.txt", Before: "one\n", After: "one\ntwo\n", Line: 1}},
		{"an addition to nothing", pygenttest.Call("write_file", map[string]any{"path": "new.txt", "content": "two\n", "append": true}), pygent.FileChange{Path: "new.txt", After: "two\n", Line: 1, Created: true}},
		{"an empty file", writing("old.txt", ""), pygent.FileChange{Path: "old.txt", Before: "one\n", Line: 1}},
		{"no text", writing("data", "text"), pygent.FileChange{Path: "data", Binary: true}},
		{"an edit of a long file", editing("long.txt", "X\n", "Y\n"), pygent.FileChange{Path: "long.txt", Line: 2998, Truncated: true,
			Before: strings.Repeat("a line of some length\n", 3) + "X\n" + strings.Repeat("a line of some length\n", 3),
			After:  strings.Repeat("a line of some length\n", 3) + "Y\n" + strings.Repeat("a line of some length\n", 3)}},
		{"a huge file", writing("huge", "x"), pygent.FileChange{Path: "huge", Note: "it held 1048577 bytes, too many to compare"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var asked pygent.ApprovalRequest
			agent := newAgent(t, pygenttest.NewScriptedModel(tt.call, stop), pygent.WithApproval(func(_ context.Context, r pygent.ApprovalRequest) (pygent.Decision, error) {
				asked = r
				return pygent.Decision{Allow: true}, nil
			}))
			for name, content := range map[string]string{
				"old.txt": "one\n", "data": "\x00\xff", "long.txt": long + "X\n" + long, "huge": strings.Repeat("x", 1<<20+1),
			} {
				require.NoError(t, agent.Runtime().WriteFile(t.Context(), name, []byte(content)))
			}
			_, outputs := told(t, agent)
			require.Equal(t, []pygent.FileChange{tt.want}, asked.Changes)
			require.Equal(t, asked.Changes, outputs[0].Changes)
		})
	}
}

// readCounter counts how often a.txt is read.
type readCounter struct {
	pygent.Runtime
	reads atomic.Int32
}

func (r *readCounter) ReadFile(ctx context.Context, path string) ([]byte, error) {
	if path == "a.txt" {
		r.reads.Add(1)
	}
	return r.Runtime.ReadFile(ctx, path)
}

func TestAFileIsReadOnceBeforeItIsReplaced(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		opts  []pygent.Option
		reads int32
	}{
		"nobody":     {nil, 1},
		"events":     {[]pygent.Option{pygent.OnEvent(func(pygent.Event) {})}, 1},
		"middleware": {[]pygent.Option{pygent.WithToolMiddleware(func(next pygent.ToolHandler) pygent.ToolHandler { return next })}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			rt := &readCounter{Runtime: localRuntime(t)}
			agent := newAgentOn(t, rt, pygenttest.NewScriptedModel(writing("a.txt", "hello"), stop), tt.opts...)
			_, err := agent.RunUntilStop(t.Context(), "go")
			require.NoError(t, err)
			require.Equal(t, tt.reads, rt.reads.Load())
		})
	}
}

func TestChangesThatCannotBeToldSayWhy(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, want string
		call       pygenttest.Reply
	}{
		{"no old text", "old_text does not occur in the file", editing("old.txt", "three", "four")},
		{"no file", "there is no such file", editing("none.txt", "three", "four")},
		{"a directory", "what it held cannot be read: ", writing("dir", "x")},
		{"outside", "what it held cannot be read: ", writing("../../../etc/passwd", "x")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var asked pygent.ApprovalRequest
			agent := newAgent(t, pygenttest.NewScriptedModel(tt.call, stop), pygent.WithApproval(func(_ context.Context, r pygent.ApprovalRequest) (pygent.Decision, error) {
				asked = r
				return pygent.Decision{}, nil
			}))
			require.NoError(t, agent.Runtime().WriteFile(t.Context(), "old.txt", []byte("one\n")))
			require.NoError(t, agent.Runtime().WriteFile(t.Context(), "dir/x", nil))
			_, outputs := told(t, agent)
			require.Len(t, asked.Changes, 1)
			require.Contains(t, asked.Changes[0].Note, tt.want)
			require.Empty(t, asked.Changes[0].Before+asked.Changes[0].After)
			require.Empty(t, outputs[0].Changes)
		})
	}
}

// slowFiles is a runtime that cannot read its files in time.
type slowFiles struct{ nowhere }

func (slowFiles) ReadFile(ctx context.Context, _ string) ([]byte, error) {
	<-ctx.Done()
	return nil, fs.ErrInvalid
}

func TestSlowRuntimeHoldsNoApprovalUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		var waited time.Duration
		var note string
		agent := newAgentOn(t, slowFiles{}, pygenttest.NewScriptedModel(writing("a", "b"), stop), pygent.WithApproval(func(_ context.Context, r pygent.ApprovalRequest) (pygent.Decision, error) {
			waited, note = time.Since(begun), r.Changes[0].Note
			return pygent.Decision{}, nil
		}))
		_, err := agent.RunUntilStop(t.Context(), "go")
		require.NoError(t, err)
		require.Equal(t, 5*time.Second, waited)
		require.Contains(t, note, "what it held cannot be read")
	})
}

func TestResultOfACommandIsMoreThanWords(t *testing.T) {
	t.Parallel()
	agent := newAgent(t, pygenttest.NewScriptedModel(
		callBash("echo '[exit code 7]'; exit 3"),
		pygenttest.Call("bash", map[string]any{"cmd": "sleep 60", "timeout": 0.05}), stop))
	_, outputs := told(t, agent)
	require.Equal(t, "[exit code 7]\n", outputs[0].Bash.Output)
	require.Equal(t, 3, outputs[0].Bash.ExitCode)
	require.Equal(t, "echo '[exit code 7]'; exit 3", outputs[0].Bash.Command)
	require.True(t, outputs[1].Bash.TimedOut)
	require.Equal(t, pygent.OutcomeFailed, outputs[1].Outcome)
	require.Nil(t, outputs[2].Bash)
}

func TestOutputOfACommandIsToldWhileItRuns(t *testing.T) {
	t.Parallel()
	agent := newAgent(t, pygenttest.NewScriptedModel(callBash("echo early; while [ ! -e go ]; do sleep 0.01; done; echo late"), stop))
	var text string
	var calls []string
	for e, err := range agent.Events(t.Context(), "go") {
		require.NoError(t, err)
		if e.Type != pygent.EventOutput {
			continue
		}
		require.Equal(t, "bash", e.Call.Name)
		require.Empty(t, e.Call.Arguments)
		require.Equal(t, 1, e.Step)
		require.LessOrEqual(t, len(e.Chunk.Text), 4<<10)
		calls = append(calls, e.Call.ID)
		text += e.Chunk.Text
		if text == "early\n" {
			require.NoError(t, agent.Runtime().WriteFile(t.Context(), "go", nil))
		}
	}
	require.Equal(t, "early\nlate\n", text)
	require.NotEmpty(t, calls[0])
}

func TestProgressOfATool(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		work := plainTool("work", func(tool *pygent.Tool) {
			tool.Run = func(ctx context.Context, _ pygent.Runtime, _ json.RawMessage) (*pygent.ToolResult, error) {
				for i := range int64(100) {
					pygent.Progress(ctx, pygent.ProgressInfo{Text: strings.Repeat("ä", 1000), Current: i + 1, Total: 100})
					time.Sleep(10 * time.Millisecond)
				}
				go pygent.Progress(context.WithoutCancel(ctx), pygent.ProgressInfo{Current: 101})
				pygent.Progress(ctx, pygent.ProgressInfo{Text: "done \xff"})
				return nil, nil
			}
		})
		agent := newAgentOn(t, nowhere{}, pygenttest.NewScriptedModel(pygenttest.Call("work", nil), stop), pygent.WithTools(work))
		var got []pygent.ProgressInfo
		over := false
		for e, err := range agent.Events(t.Context(), "go") {
			require.NoError(t, err)
			switch e.Type {
			case pygent.EventProgress:
				require.False(t, over)
				require.Equal(t, "work", e.Call.Name)
				require.LessOrEqual(t, len(e.Progress.Text), 1<<10)
				got = append(got, *e.Progress)
			case pygent.EventToolDone:
				over = true
			}
		}
		require.Greater(t, len(got), 5)
		require.LessOrEqual(t, len(got), 12)
		last := got[len(got)-1]
		require.True(t, last.Text == "done \uFFFD" || last.Current == 101, last)
	})
	pygent.Progress(t.Context(), pygent.ProgressInfo{Text: "nobody's"})
}

func TestProgressOfATaskReachesItsParent(t *testing.T) {
	t.Parallel()
	work := plainTool("work", func(tool *pygent.Tool) {
		tool.Run = func(ctx context.Context, _ pygent.Runtime, _ json.RawMessage) (*pygent.ToolResult, error) {
			pygent.Progress(ctx, pygent.ProgressInfo{Text: "half", Current: 1, Total: 2})
			return nil, nil
		}
	})
	model := pygenttest.NewScriptedModel(follow(always(delegate("Work")), func(id string) pygenttest.Reply { return wait(id) }, always(stop))).RepeatLast().
		On("Work", pygenttest.Call("work", nil), stop)
	agent := newAgentOn(t, hollow{}, model, pygent.WithTools(work))
	var task string
	for e, err := range agent.Events(t.Context(), "go") {
		require.NoError(t, err)
		if e.Type == pygent.EventProgress && e.Progress.Text == "half" {
			task = e.Task
		}
	}
	all, err := agent.Tasks().Tasks(t.Context(), pygent.TaskFilter{})
	require.NoError(t, err)
	require.Equal(t, all[0].ID, task)
}

func TestAnAgentRemembersWhatItsToolsChanged(t *testing.T) {
	t.Parallel()
	write := func(path, content string) pygenttest.Reply {
		return pygenttest.Call("write_file", map[string]any{"path": path, "content": content})
	}
	agent := newAgent(t, pygenttest.NewScriptedModel(write("a", "1\n"), write("b", "1\n"), callBash("echo x >c"),
		pygenttest.Call("edit_file", map[string]any{"path": "a", "old_text": "1", "new_text": "2"}), stop,
		write("b", "3\n"), stop))
	for range 2 {
		_, err := agent.RunUntilStop(t.Context(), "go")
		require.NoError(t, err)
	}
	require.Equal(t, []pygent.FileChange{
		{Path: "a", After: "2\n", Line: 1, Created: true},
		{Path: "b", After: "3\n", Line: 1, Created: true},
	}, agent.Changes())
}
