package pygent_test

import (
	"bufio"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"github.com/x/pygent"
)

// forEachCommander is forEachStarted, and also runs the test against a container
// without a guest.
func forEachCommander(t *testing.T, test func(t *testing.T, r pygent.Runtime)) {
	forEachStarted(t, test)
	t.Run("exec", func(t *testing.T) {
		requireDocker(t)
		test(t, newTestRuntime(t, pygent.NewDockerRuntime, pygent.WithImage(testImage()), pygent.WithTestPlainExec()))
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
	t.Parallel()
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
	t.Parallel()
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
	if testing.Short() {
		t.Skip("needs much data")
	}
	const size = 64 << 20
	defer debug.SetGCPercent(debug.SetGCPercent(100)) // the heap is measured as programs have it
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
	t.Parallel()
	random := 20_000_000
	if testing.Short() {
		random /= 10
	}
	forEachCommander(t, func(t *testing.T, r pygent.Runtime) {
		for name, cmd := range map[string]string{
			"random bytes":     fmt.Sprintf("head -c %d /dev/urandom", random),
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
	t.Parallel()
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
	t.Parallel()
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
	t.Parallel()
	r := newTestRuntime(t, pygent.NewLocalRuntime)
	job, err := r.(pygent.JobRunner).StartJob(t.Context(), "echo a", pygent.BashOutput(func(pygent.OutputChunk) { panic("called") }))
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		out, err := r.(pygent.JobRunner).JobOutput(t.Context(), job.ID, 0, time.Second)
		return err == nil && out.Text == "a\n"
	}, 10*time.Second, time.Millisecond)
}

func TestOutputEndsWithTheGuest(t *testing.T) {
	t.Parallel()
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

// startProcess starts a process that the test closes.
func startProcess(t *testing.T, r pygent.Runtime, cmd string, opts ...pygent.BashOption) pygent.Process {
	t.Helper()
	p, err := r.(pygent.ProcessStarter).StartProcess(t.Context(), cmd, opts...)
	require.NoError(t, err)
	t.Cleanup(func() { _ = p.Close() })
	return p
}

func inBackground(f func() error) <-chan error {
	result := make(chan error, 1)
	go func() { result <- f() }()
	return result
}

func TestProcessHasStreams(t *testing.T) {
	t.Parallel()
	forEachStarted(t, func(t *testing.T, r pygent.Runtime) {
		p := startProcess(t, r, `while read -r line; do echo "<$line>"; echo "heard $line" >&2; done; exit 7`)
		lines := bufio.NewScanner(p)
		for i := range 100 {
			_, err := fmt.Fprintf(p, "line %d\n", i)
			require.NoError(t, err)
			require.True(t, lines.Scan())
			require.Equal(t, fmt.Sprintf("<line %d>", i), lines.Text())
		}
		jobs, err := r.(pygent.JobRunner).Jobs(t.Context())
		require.NoError(t, err)
		require.Empty(t, jobs, "it is no job")
		require.NoError(t, p.CloseWrite())
		require.False(t, lines.Scan())
		require.NoError(t, lines.Err())
		code, err := p.Wait()
		require.NoError(t, err)
		require.Equal(t, 7, code)
		require.True(t, strings.HasSuffix(p.Stderr(), "heard line 98\nheard line 99\n"), p.Stderr())
		_, err = p.Write([]byte("x"))
		require.Error(t, err)
		require.NoError(t, p.Close())
		code, err = p.Wait()
		require.NoError(t, err)
		require.Equal(t, 7, code)
	})
}

func TestProcessHasTheOptionsOfACommand(t *testing.T) {
	t.Parallel()
	forEachRuntime(t, func(t *testing.T, r pygent.Runtime) {
		require.NoError(t, r.WriteFile(t.Context(), "d/f", nil))
		p := startProcess(t, r, `ls; echo "$A"; cat`, pygent.BashDir("d"), pygent.BashEnv("A=b"), pygent.BashTimeout(soon))
		out, err := io.ReadAll(p)
		require.NoError(t, err)
		require.Equal(t, "f\nb\n", string(out))
		code, err := p.Wait()
		require.NoError(t, err)
		require.Equal(t, 143, code, "the time limit has ended it")
		for name, cmd := range map[string]string{"a NUL byte": "echo \x00"} {
			_, err = r.(pygent.ProcessStarter).StartProcess(t.Context(), cmd)
			require.Error(t, err, name)
		}
		_, err = r.(pygent.ProcessStarter).StartProcess(t.Context(), "true", pygent.BashDir("../.."))
		require.Error(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = r.(pygent.ProcessStarter).StartProcess(ctx, "true")
		require.ErrorIs(t, err, context.Canceled)
	})
}

func TestProcessPassesMuchBothWays(t *testing.T) {
	if testing.Short() {
		t.Skip("needs much data")
	}
	t.Parallel()
	const size = 12 << 20
	forEachStarted(t, func(t *testing.T, r pygent.Runtime) {
		p := startProcess(t, r, "cat")
		sum := sha256.New()
		sent := inBackground(func() error {
			_, err := io.Copy(io.MultiWriter(p, sum), io.LimitReader(rand.New(rand.NewSource(1)), size))
			return errors.Join(err, p.CloseWrite())
		})
		got := sha256.New()
		n, err := io.Copy(got, p)
		require.NoError(t, err)
		require.EqualValues(t, size, n)
		require.NoError(t, <-sent)
		require.Equal(t, sum.Sum(nil), got.Sum(nil))
	})
}

func TestProcessWaitsForItsReaderAndItsWriter(t *testing.T) {
	t.Parallel()
	forEachStarted(t, func(t *testing.T, r pygent.Runtime) {
		p := startProcess(t, r, "head -c 4000000 /dev/zero; echo done >done; sleep 60")
		silent := startProcess(t, r, "sleep 60")
		blocked := inBackground(func() error {
			_, err := io.Copy(silent, io.LimitReader(rand.New(rand.NewSource(1)), 64<<20))
			return err
		})
		require.Equal(t, 1, bash(t, r, "sleep 0.3; test -e done").ExitCode, "nobody has read its output")
		n, err := io.CopyN(io.Discard, p, 4000000)
		require.NoError(t, err)
		require.EqualValues(t, 4000000, n)
		require.Zero(t, bash(t, r, "until test -e done; do sleep 0.05; done").ExitCode)
		require.NoError(t, silent.Close())
		require.Error(t, <-blocked, "it was waiting for the process")
		require.NoError(t, p.Close())
	})
}

func TestCloseEndsTheWholeTreeOfAProcess(t *testing.T) {
	t.Parallel()
	forEachStarted(t, func(t *testing.T, r pygent.Runtime) {
		p := startProcess(t, r, `trap '' TERM; (trap '' TERM; while :; do echo >>ticks; sleep 0.05; done) & echo up; wait`)
		line, err := bufio.NewReader(p).ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, "up\n", line)
		require.NoError(t, p.Close())
		require.Equal(t, "still\n", bash(t, r, "a=$(cat ticks | wc -l); sleep 0.3; b=$(cat ticks | wc -l); test $a = $b && echo still").Output)
		code, err := p.Wait()
		require.NoError(t, err)
		require.Equal(t, 137, code)
		_, err = p.Read(make([]byte, 1))
		require.Error(t, err)
		require.NoError(t, p.Close(), "once more")

		left := startProcess(t, r, `(while :; do echo >>ticks; sleep 0.05; done) >/dev/null & exit 3`)
		code, err = left.Wait()
		require.NoError(t, err)
		require.Equal(t, 3, code)
		require.NoError(t, left.Close())
		require.Equal(t, "still\n", bash(t, r, "a=$(cat ticks | wc -l); sleep 0.3; b=$(cat ticks | wc -l); test $a = $b && echo still").Output)
	})
}

func TestCleanupEndsProcesses(t *testing.T) {
	t.Parallel()
	forEachRuntime(t, func(t *testing.T, r pygent.Runtime) {
		var all []pygent.Process
		for range 5 {
			all = append(all, startProcess(t, r, "cat; sleep 60"))
		}
		reading := make(chan error, 1)
		go func() {
			_, err := all[0].Read(make([]byte, 1))
			reading <- err
		}()
		require.NoError(t, r.Cleanup())
		require.Error(t, <-reading)
		for _, p := range all {
			_, _ = p.Wait()
			_, err := p.Write([]byte("x"))
			require.Error(t, err)
			require.NoError(t, p.Close())
		}
		_, err := r.(pygent.ProcessStarter).StartProcess(t.Context(), "true")
		require.ErrorIs(t, err, pygent.ErrRuntimeClosed)
	})
}

func TestProcessOfAContainerThatDiesOrStops(t *testing.T) {
	t.Parallel()
	engine := testEngine(t)
	for name, harm := range map[string]func(id string) error{
		"killed": func(id string) error { return engine.ContainerKill(t.Context(), id, "KILL") },
		"paused": func(id string) error { pause(t, engine, id); return nil },
	} {
		t.Run(name, func(t *testing.T) {
			dir := realTempDir(t)
			r := newTestRuntime(t, pygent.NewDockerRuntime, pygent.WithImage(testImage()), pygent.WithWorkspace(dir), calling())
			p := startProcess(t, r, "cat")
			_, err := p.Write([]byte("x"))
			require.NoError(t, err)
			_, err = io.ReadFull(p, make([]byte, 1))
			require.NoError(t, err)
			require.NoError(t, harm(containersOf(t, engine, dir)[0].ID))
			_, err = p.Read(make([]byte, 1))
			require.Error(t, err)
			require.NotErrorIs(t, err, io.EOF)
			code, err := p.Wait()
			require.Error(t, err)
			require.Equal(t, -1, code)
			_ = p.Close()
			require.Equal(t, "again\n", bash(t, r, "echo again").Output)
		})
	}
}

func TestProcessOfAGuestThatDies(t *testing.T) {
	t.Parallel()
	r := newTestRuntime(t, pygent.NewLocalRuntime, pygent.WithLocalProtection(pygent.ProtectionOff))
	p := startProcess(t, r, "cut -d' ' -f4 /proc/$PPID/stat; cat")
	line, err := bufio.NewReader(p).ReadString('\n')
	require.NoError(t, err)
	bash(t, r, "kill -9 "+strings.TrimSpace(line))
	_, err = p.Wait()
	require.Error(t, err)
	_ = p.Close()
	require.Equal(t, "again\n", bash(t, r, "echo again").Output)
}

func TestProcessWithoutAGuestIsUnsupported(t *testing.T) {
	t.Parallel()
	requireDocker(t)
	r := newTestRuntime(t, pygent.NewDockerRuntime, pygent.WithImage(testImage()), pygent.WithTestPlainExec())
	_, err := r.(pygent.ProcessStarter).StartProcess(t.Context(), "cat")
	require.ErrorIs(t, err, errors.ErrUnsupported)
}
