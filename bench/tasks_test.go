package bench

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/client"
	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
	"github.com/x/pygent/internal/testkit/enginetest"
)

// fleet is a task manager that counts the steps of its agents.
type fleet struct {
	*pygent.TaskManager
	steps atomic.Int64
}

// newFleet makes a fleet of which at most n agents work at once. Each of them
// makes the calls in order.
func newFleet(b *testing.B, n int, calls ...pygent.ToolCall) *fleet {
	f := &fleet{}
	m, err := pygent.NewTaskManager(pygent.MaxTasks(n),
		pygent.OnTaskEvent(func(e pygent.Event) {
			if e.Type == pygent.EventStep {
				f.steps.Add(1)
			}
		}),
		pygent.TaskAgents(pygent.WithModel(script(calls))))
	require.NoError(b, err)
	f.TaskManager = m
	return f
}

// script returns a model that makes the same calls in each conversation. It finds
// the next one by the number of its answers so far. Unlike a
// [pygenttest.ScriptedModel] it keeps nothing, so that only the memory of the
// agents is measured.
func script(calls []pygent.ToolCall) pygent.Model {
	return pygent.ModelFunc(func(_ context.Context, req *pygent.ChatRequest) (*pygent.ChatResponse, error) {
		had := 0
		for _, m := range req.Messages {
			if m.Role == chat.RoleAssistant {
				had++
			}
		}
		call := calls[had]
		call.ID = fmt.Sprint("call_", had)
		return &pygent.ChatResponse{Message: chat.AssistantMessage("", call), FinishReason: chat.FinishToolCalls}, nil
	})
}

// run makes n agents work on one task each, and waits for all.
func (f *fleet) run(b *testing.B, parent pygent.Runtime, n int) {
	ids := make([]string, n)
	for i := range ids {
		var err error
		ids[i], err = f.StartTask(b.Context(), fmt.Sprint("task ", i), parent, pygent.WithTaskQueue())
		require.NoError(b, err)
	}
	for _, id := range ids {
		status, err := f.Wait(b.Context(), id)
		require.NoError(b, err)
		require.Equal(b, pygent.TaskFinished, status.State, status.Reason)
	}
}

// BenchmarkTasksLocal makes agents on the local runtime work on tasks. The cost
// of a step should not grow with their number. The memory is that of an agent at
// rest whose task is finished, with its conversation and events.
func BenchmarkTasksLocal(b *testing.B) {
	for _, n := range []int{10, 100, 1000} {
		b.Run(fmt.Sprintf("agents=%d", n), func(b *testing.B) {
			tmp := b.TempDir()
			b.Setenv("TMPDIR", tmp)
			parent, err := pygent.NewLocalRuntime(b.Context())
			require.NoError(b, err)
			var elapsed time.Duration
			var steps, memory int64
			for b.Loop() {
				before := heap()
				f := newFleet(b, n,
					pygent.ToolCall{Name: "write_file", Arguments: `{"path":"f","content":"one"}`},
					pygent.ToolCall{Name: "edit_file", Arguments: `{"path":"f","old_text":"one","new_text":"two"}`},
					pygent.ToolCall{Name: "download_file", Arguments: `{"path":"f"}`},
					pygent.ToolCall{Name: "stop", Arguments: `{"summary":"done"}`})
				start := time.Now()
				f.run(b, parent, n)
				elapsed += time.Since(start)
				steps += f.steps.Load()
				memory = (heap() - before) / int64(n)
				require.NoError(b, f.Close())
			}
			b.ReportMetric(float64(steps)/elapsed.Seconds(), "steps/s")
			b.ReportMetric(float64(memory)/1024, "KiB/agent")
			require.NoError(b, parent.Cleanup())
			left, err := filepath.Glob(filepath.Join(tmp, "*"))
			require.NoError(b, err)
			require.Empty(b, left, "nothing is left behind")
		})
	}
}

// BenchmarkTasksAtRest has 1,000 tasks run a command on this machine, and measures what
// they keep when they have ended, their processes included, and how long it takes to
// close them all.
func BenchmarkTasksAtRest(b *testing.B) {
	const n = 1000
	tmp := b.TempDir()
	b.Setenv("TMPDIR", tmp)
	parent, err := pygent.NewLocalRuntime(b.Context())
	require.NoError(b, err)
	var closing time.Duration
	var memory int64
	for b.Loop() {
		before := heap()
		f := newFleet(b, 8,
			pygent.ToolCall{Name: "bash", Arguments: `{"cmd":"true"}`},
			pygent.ToolCall{Name: "stop", Arguments: `{"summary":"done"}`})
		f.run(b, parent, n)
		memory = (heap() - before) / n
		children, err := filepath.Glob("/proc/self/task/*/children")
		require.NoError(b, err)
		for _, name := range children {
			data, _ := os.ReadFile(name) // an error means that the thread has ended
			require.Empty(b, string(data), "processes count as memory")
		}
		start := time.Now()
		require.NoError(b, f.Close())
		closing += time.Since(start)
	}
	b.ReportMetric(float64(memory)/1024, "KiB/task")
	b.ReportMetric(closing.Seconds()/float64(b.N), "s/close")
	require.NoError(b, parent.Cleanup())
	left, err := filepath.Glob(filepath.Join(tmp, "*"))
	require.NoError(b, err)
	require.Empty(b, left, "nothing is left behind")
}

// BenchmarkTasksDocker runs 50 agents at once, each in a container of its own.
func BenchmarkTasksDocker(b *testing.B) {
	const n = 50
	enginetest.Need(b, enginetest.Busybox())
	parent, err := pygent.NewDockerRuntime(b.Context(), pygent.WithImage(enginetest.Busybox()), pygent.WithMemory(32<<20))
	require.NoError(b, err)
	var elapsed time.Duration
	var steps int64
	for b.Loop() {
		f := newFleet(b, n,
			pygent.ToolCall{Name: "bash", Arguments: `{"cmd":"echo one > f","timeout":300}`},
			pygent.ToolCall{Name: "bash", Arguments: `{"cmd":"cat f"}`},
			pygent.ToolCall{Name: "stop", Arguments: `{"summary":"done"}`})
		start := time.Now()
		f.run(b, parent, n)
		elapsed += time.Since(start)
		steps += f.steps.Load()
		require.NoError(b, f.Close())
	}
	b.ReportMetric(float64(steps)/elapsed.Seconds(), "steps/s")
	b.ReportMetric(float64(n)*float64(b.N)/elapsed.Seconds(), "containers/s")
	require.NoError(b, parent.Cleanup())
	require.Empty(b, containers(b), "nothing is left behind")
}

// heap returns the bytes of live objects.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC() // frees what the finalizers of the first one released
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// containers returns those that this process has made and that still exist.
func containers(b *testing.B) []container.Summary {
	engine, err := client.NewClientWithOpts(client.FromEnv, client.WithAPIVersionNegotiation())
	require.NoError(b, err)
	defer engine.Close()
	left, err := engine.ContainerList(b.Context(), container.ListOptions{
		All:     true,
		Filters: filters.NewArgs(filters.Arg("label", fmt.Sprintf("pygent.pid=%d", os.Getpid()))),
	})
	require.NoError(b, err)
	return left
}
