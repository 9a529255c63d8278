package pygent_test

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"github.com/x/pygent"
)

// forEachCommander is forEachRuntime, and also runs the test against a container
// without a guest.
func forEachCommander(t *testing.T, test func(t *testing.T, r pygent.Runtime), opts ...pygent.RuntimeOption) {
	forEachRuntime(t, test, opts...)
	t.Run("exec", func(t *testing.T) {
		requireDocker(t)
		test(t, newTestRuntime(t, pygent.NewDockerRuntime, append([]pygent.RuntimeOption{pygent.WithImage(testImage()), pygent.WithTestPlainExec()}, opts...)...))
	})
}

// listener collects the output of a command.
type listener struct {
	mu     sync.Mutex // guards chunks
	chunks []pygent.OutputChunk
}

func (l *listener) option() pygent.BashOption {
	return pygent.BashOutput(func(c pygent.OutputChunk) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.chunks = append(l.chunks, c)
	})
}

func (l *listener) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var b strings.Builder
	for _, c := range l.chunks {
		b.WriteString(c.Text)
	}
	return b.String()
}

// require checks what holds for every output, and returns how many bytes were
// passed on or skipped.
func (l *listener) require(t *testing.T, ascii bool) (end int64) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range l.chunks {
		require.True(t, utf8.ValidString(c.Text))
		require.NotEmpty(t, c.Text)
		require.LessOrEqual(t, len(c.Text), 4<<10)
		require.GreaterOrEqual(t, c.Offset, end)
		if ascii {
			require.Equal(t, end+c.Skipped, c.Offset)
			end = c.Offset + int64(len(c.Text))
		}
	}
	return end
}

func TestBashPassesItsOutputOnWhileItRuns(t *testing.T) {
	forEachCommander(t, func(t *testing.T, r pygent.Runtime) {
		var heard listener
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		both := pygent.BashOutput(func(c pygent.OutputChunk) {
			heard.mu.Lock()
			heard.chunks = append(heard.chunks, c)
			heard.mu.Unlock()
			if strings.Contains(heard.text(), "err ü") {
				stop() // proves that this came before the command ended
			}
		})
		res, err := r.Bash(ctx, "echo out; echo err ü >&2; sleep 60; echo end", both)
		require.ErrorIs(t, err, context.Canceled)
		require.NotContains(t, res.Output, "end")
		require.Equal(t, "out\nerr ü\n", heard.text())
		require.Zero(t, heard.chunks[0].Offset)
	})
}

func TestBashPassesTheEndOfItsOutputOn(t *testing.T) {
	forEachCommander(t, func(t *testing.T, r pygent.Runtime) {
		for name, cmd := range map[string]string{
			"short":           "echo a; echo b",
			"long":            "seq 1 3000",
			"closed output":   "echo a; exec >&- 2>&-; sleep 0.2",
			"nothing":         "true",
			"the time passes": "echo a; sleep 0.2; echo b; sleep 60",
		} {
			t.Run(name, func(t *testing.T) {
				var heard listener
				res := bash(t, r, cmd, heard.option(), pygent.BashTimeout(time.Second))
				require.EqualValues(t, int64(len(res.Output)), heard.require(t, true))
				require.True(t, strings.HasSuffix(res.Output, heard.text()))
				if len(res.Output) < 4<<10 {
					require.Equal(t, res.Output, heard.text())
				}
			})
		}
	})
}

func TestAFloodOfOutputIsPassedOnInPart(t *testing.T) {
	const size = 64 << 20
	forEachCommander(t, func(t *testing.T, r pygent.Runtime) {
		var heard listener
		begun := time.Now()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		res := bash(t, r, fmt.Sprintf("head -c %d /dev/zero | tr '\\0' x", size), heard.option(), pygent.BashTimeout(time.Minute))
		runtime.ReadMemStats(&after)
		require.True(t, res.Truncated)
		require.EqualValues(t, size, heard.require(t, true), "what is skipped is counted")
		require.LessOrEqual(t, len(heard.chunks), int(time.Since(begun)/(100*time.Millisecond))+1)
		require.Less(t, int64(after.HeapInuse)-int64(before.HeapInuse), int64(16<<20))
	})
}

func TestOutputThatIsNoTextIsPassedOnAsText(t *testing.T) {
	forEachCommander(t, func(t *testing.T, r pygent.Runtime) {
		for name, cmd := range map[string]string{
			"random bytes":     "head -c 20000000 /dev/urandom",
			"split characters": `i=0; while [ $i -lt 5 ]; do printf '\342\202'; sleep 0.15; printf '\254'; i=$((i+1)); done`,
			"half a character": `printf 'a\342\202'`,
			"many characters":  `i=0; while [ $i -lt 20000 ]; do printf '\342\202\254'; i=$((i+1)); done`,
		} {
			t.Run(name, func(t *testing.T) {
				var heard listener
				bash(t, r, cmd, heard.option())
				heard.require(t, false)
				switch name {
				case "split characters":
					require.Equal(t, "€€€€€", heard.text())
				case "half a character":
					require.Equal(t, "a\uFFFD", heard.text())
				case "many characters":
					require.NotContains(t, heard.text(), "\uFFFD")
				}
			})
		}
	})
}

func TestAFunctionForOutputCannotHoldTheCommandUp(t *testing.T) {
	forEachCommander(t, func(t *testing.T, r pygent.Runtime) {
		release, calls := make(chan struct{}), make(chan struct{}, 100)
		defer close(release)
		res := bash(t, r, "i=0; while [ $i -lt 5 ]; do seq 1 2000; sleep 0.1; i=$((i+1)); done", pygent.BashOutput(func(pygent.OutputChunk) {
			calls <- struct{}{}
			<-release
		}))
		require.Zero(t, res.ExitCode)
		require.Len(t, calls, 1)
	})
}

func TestAPanicOfAFunctionForOutputIsContained(t *testing.T) {
	var log strings.Builder
	logger := slog.New(slog.NewTextHandler(&log, nil))
	r := newTestRuntime(t, pygent.NewLocalRuntime, pygent.WithLogger(logger))
	for name, f := range map[string]func(){
		"panic":  func() { panic("no") },
		"goexit": runtime.Goexit,
	} {
		t.Run(name, func(t *testing.T) {
			calls := 0
			res := bash(t, r, "echo a; sleep 0.3; echo b; sleep 0.3; echo c", pygent.BashOutput(func(pygent.OutputChunk) {
				calls++
				f()
			}))
			require.Equal(t, "a\nb\nc\n", res.Output)
			require.Equal(t, 1, calls)
		})
	}
	require.Contains(t, log.String(), "function of BashOutput panicked")
}

func TestJobsIgnoreBashOutput(t *testing.T) {
	r := newTestRuntime(t, pygent.NewLocalRuntime)
	job, err := r.(pygent.JobRunner).StartJob(t.Context(), "echo a", pygent.BashOutput(func(pygent.OutputChunk) { panic("called") }))
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		out, err := r.(pygent.JobRunner).JobOutput(t.Context(), job.ID, 0, time.Second)
		return err == nil && out.Text == "a\n"
	}, 10*time.Second, time.Millisecond)
}

func TestOutputEndsWithTheGuest(t *testing.T) {
	check := func(t *testing.T, r pygent.Runtime, cmd string, kill func()) {
		var heard listener
		killed := pygent.BashOutput(func(c pygent.OutputChunk) {
			heard.mu.Lock()
			heard.chunks = append(heard.chunks, c)
			heard.mu.Unlock()
			kill()
		})
		res := bash(t, r, "echo before; "+cmd+"; sleep 60", killed)
		require.Equal(t, -1, res.ExitCode)
		require.NotEmpty(t, res.Note)
		require.Equal(t, "before\n", heard.text())
		require.Equal(t, "again\n", bash(t, r, "echo again").Output)
	}
	t.Run("local", func(t *testing.T) {
		r := newTestRuntime(t, pygent.NewLocalRuntime, pygent.WithLocalProtection(pygent.ProtectionOff))
		check(t, r, "sleep 0.3; kill -9 $(cut -d' ' -f4 /proc/$PPID/stat)", func() {})
	})
	t.Run("docker", func(t *testing.T) {
		engine, dir := testEngine(t), realTempDir(t)
		r := newTestRuntime(t, pygent.NewDockerRuntime, pygent.WithImage(testImage()), pygent.WithWorkspace(dir))
		check(t, r, "true", func() {
			require.NoError(t, engine.ContainerKill(t.Context(), containersOf(t, engine, dir)[0].ID, "KILL"))
		})
	})
}
