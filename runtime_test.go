package pygent_test

import (
	"bufio"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math"
	"math/rand"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/pygenttest"
)

func TestBashReportsOutputAndStatus(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name, cmd, output string
		exit              int
	}{
		{"output", "echo hello", "hello\n", 0},
		{"no newline", "printf hello", "hello", 0},
		{"nothing", "true", "", 0},
		{"exit status", "echo bye; exit 7", "bye\n", 7},
		{"order of both streams", "for i in 1 2 3 4 5 6 7 8; do echo o$i; echo e$i >&2; done",
			"o1\ne1\no2\ne2\no3\ne3\no4\ne4\no5\ne5\no6\ne6\no7\ne7\no8\ne8\n", 0},
		{"empty standard input", "cat; echo end", "end\n", 0},
		{"leading dash", "-x 2>/dev/null; echo $?", "127\n", 0},
		{"quotes", `echo "a  b" 'c$d'`, "a  b c$d\n", 0},
		{"here document", "cat <<EOF\nx\nEOF", "x\n", 0},
		{"invalid UTF-8", `printf 'a\377b'`, "a\uFFFDb", 0},
		{"exit trap", "trap 'echo trapped' EXIT; exit 3", "trapped\n", 3},
		{"no state is kept", "echo ${X-unset}; export X=1; cd /", "unset\n", 0},
		{"own signal", "kill -9 $$", "", 137},
	}
	forEachStarted(t, func(t *testing.T, r pygent.Runtime) {
		for _, tc := range cases {
			t.Run(tc.name, func(t *testing.T) {
				res := bash(t, r, tc.cmd)
				require.Equal(t, tc.output, res.Output)
				require.Equal(t, tc.exit, res.ExitCode)
				require.False(t, res.TimedOut)
				require.False(t, res.Truncated)
			})
		}
	})
}

func TestBashStopsAtItsTimeLimit(t *testing.T) {
	t.Parallel()
	forEachStarted(t, func(t *testing.T, r pygent.Runtime) {
		res := bash(t, r, "echo begin; (while :; do echo x >>alive; sleep 0.05; done) & sleep 60; echo never", pygent.BashTimeout(soon))
		require.True(t, res.TimedOut)
		// A shell that lives a moment longer than its child prints
		// "Terminated".
		require.True(t, strings.HasPrefix(res.Output, "begin\n"), res.Output)
		require.NotContains(t, res.Output, "never")
		before := bash(t, r, "cat alive").Output
		require.Equal(t, before, bash(t, r, "sleep 0.3; cat alive").Output, "the child was killed too")
	})
}

func TestBashKillsWhatIgnoresTerm(t *testing.T) {
	t.Parallel()
	forEachStarted(t, func(t *testing.T, r pygent.Runtime) {
		res := bash(t, r, "trap '' TERM; echo begin; while :; do echo x >>alive; sleep 0.05; done", pygent.BashTimeout(soon))
		require.True(t, res.TimedOut)
		before := bash(t, r, "cat alive").Output
		require.Equal(t, before, bash(t, r, "sleep 0.3; cat alive").Output)
	})
}

func TestBashCancelReturnsWhatIsKnown(t *testing.T) {
	t.Parallel()
	forEachStarted(t, func(t *testing.T, r pygent.Runtime) {
		bash(t, r, "true") // start the container
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() {
			awaitFile(t, r, "begun")
			cancel()
		}()
		res, err := r.Bash(ctx, "echo known; echo >begun; sleep 60")
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, "known\n", res.Output)
	})
}

// awaitFile waits until a command has made a file.
func awaitFile(t *testing.T, r pygent.Runtime, path string) {
	assert.Eventually(t, func() bool { return exists(r, path) }, 30*time.Second, 5*time.Millisecond)
}

func exists(r pygent.Runtime, path string) bool {
	_, err := r.ReadFile(context.Background(), path)
	return err == nil
}

func TestBashReturnsAlthoughAChildHoldsThePipe(t *testing.T) {
	t.Parallel()
	forEachRuntime(t, func(t *testing.T, r pygent.Runtime) {
		res := bash(t, r, "sleep 120 & echo done", pygent.BashTimeout(60*time.Second))
		require.Equal(t, "done\n", res.Output)
		require.False(t, res.TimedOut)
	})
}

func TestBashBoundsOutput(t *testing.T) {
	if testing.Short() {
		t.Skip("needs much data")
	}
	t.Parallel()
	forEachStarted(t, func(t *testing.T, r pygent.Runtime) {
		res := bash(t, r, "echo FIRST; i=0; while [ $i -lt 3000 ]; do echo line-$i; i=$((i+1)); done; echo LAST", pygent.BashMaxOutput(1000))
		require.True(t, res.Truncated)
		require.Less(t, len(res.Output), 1100)
		require.True(t, strings.HasPrefix(res.Output, "FIRST\n"))
		require.True(t, strings.HasSuffix(res.Output, "LAST\n"))
		require.Contains(t, res.Output, fmt.Sprintf("[... %d bytes left out ...]", res.Omitted))

		res = bash(t, r, "i=0; while [ $i -lt 9000 ]; do echo line-$i; i=$((i+1)); done", pygent.BashMaxOutput(pygent.NoLimit))
		require.False(t, res.Truncated)
		require.Greater(t, len(res.Output), pygent.DefaultMaxOutput)
	})
}

func TestBashRunsScriptsOfAnySize(t *testing.T) {
	if testing.Short() {
		t.Skip("needs much data")
	}
	t.Parallel()
	script := "true\n" + strings.Repeat("# a comment that makes the script longer\n", 50_000) + "echo end\n"
	forEachStarted(t, func(t *testing.T, r pygent.Runtime) {
		res := bash(t, r, script)
		require.Equal(t, "end\n", res.Output)
	})
}

func TestBashDirectory(t *testing.T) {
	t.Parallel()
	forEachRuntime(t, func(t *testing.T, r pygent.Runtime) {
		require.NoError(t, r.WriteFile(t.Context(), "a/b/f", []byte("x")))
		ws := workspaceOf(t, r)
		require.Equal(t, ws+"\n", bash(t, r, "pwd").Output)
		require.Equal(t, ws+"/a/b\n", bash(t, r, "pwd", pygent.BashDir("a/b")).Output)
		require.Equal(t, ws+"/a\n", bash(t, r, "pwd", pygent.BashDir(ws+"/a")).Output)

		for dir, want := range map[string]error{"missing": fs.ErrNotExist, "..": pygent.ErrOutsideWorkspace, "/etc": pygent.ErrOutsideWorkspace} {
			_, err := r.Bash(t.Context(), "pwd", pygent.BashDir(dir))
			require.ErrorIs(t, err, want)
		}
		_, err := r.Bash(t.Context(), "pwd", pygent.BashDir("a/b/f"))
		require.ErrorContains(t, err, "not a directory")
	})
}

func TestBashEnvironment(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", "sk-secret")
	t.Setenv("PYGENT_MODEL", "m")
	t.Setenv("SOME_SERVICE_TOKEN", "secret")
	t.Setenv("GIVEN_TOKEN", "given")
	forEachRuntime(t, func(t *testing.T, r pygent.Runtime) {
		show := func(name string) string {
			return bash(t, r, "echo ${"+name+"-unset}", pygent.BashEnv("CALL=c", "BOTH=call")).Output
		}
		for name, want := range map[string]string{
			"OPENAI_API_KEY": "unset", "PYGENT_MODEL": "unset", "SOME_SERVICE_TOKEN": "unset",
			"GIVEN_TOKEN": "given", "CALL": "c", "BOTH": "call", "MINE": "a b",
			"GIT_TERMINAL_PROMPT": "0", "PAGER": "cat", "EDITOR": "false", "DEBIAN_FRONTEND": "noninteractive",
			"GIT_CONFIG_COUNT": "3", "GIT_CONFIG_KEY_1": "safe.directory",
		} {
			require.Equal(t, want+"\n", show(name), name)
		}
	}, pygent.WithEnv("GIVEN_TOKEN", "MINE=a b", "BOTH=runtime", "GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=a.b", "GIT_CONFIG_VALUE_0=c"))
}

func TestBashAtOnce(t *testing.T) {
	t.Parallel()
	forEachRuntime(t, func(t *testing.T, r pygent.Runtime) {
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() {
				res, err := r.Bash(t.Context(), fmt.Sprintf("echo begin %d; sleep 0.1; echo end %d", i, i))
				if err != nil || res.Output != fmt.Sprintf("begin %d\nend %d\n", i, i) {
					t.Errorf("command %d: %q, %v", i, res.Output, err)
				}
			})
		}
		wg.Wait()
	})
}

func TestCommandsAndFilesSeeTheSameWorkspace(t *testing.T) {
	t.Parallel()
	forEachRuntime(t, func(t *testing.T, r pygent.Runtime) {
		ctx := t.Context()
		require.NoError(t, r.WriteFile(ctx, "dir/in.txt", []byte("from the host")))
		require.Equal(t, "from the host", bash(t, r, "cat dir/in.txt").Output)
		bash(t, r, "echo from the command >out.txt")
		data, err := r.ReadFile(ctx, "out.txt")
		require.NoError(t, err)
		require.Equal(t, "from the command\n", string(data))
		data, err = r.ReadFile(ctx, workspaceOf(t, r)+"/out.txt")
		require.NoError(t, err)
		require.Equal(t, "from the command\n", string(data))

		part, size, err := r.(pygent.RangeReader).ReadFileRange(ctx, "out.txt", 5, 3)
		require.NoError(t, err)
		require.Equal(t, "the", string(part))
		require.EqualValues(t, 17, size)

		_, err = r.ReadFile(ctx, "missing")
		require.ErrorIs(t, err, fs.ErrNotExist)
		require.EqualError(t, err, "read missing: no such file or directory")
	})
}

func TestFilesStayInTheWorkspace(t *testing.T) {
	t.Parallel()
	r := newTestRuntime(t, pygent.NewLocalRuntime)
	bash(t, r, "ln -s /etc dirlink; ln -s /etc/passwd filelink; ln -s ../.. uplink")
	ctx := t.Context()
	for _, path := range []string{"..", "../x", "a/../../x", "/etc/passwd", "/", "dirlink/passwd", "filelink", "uplink/x", workspaceOf(t, r) + "x"} {
		t.Run(path, func(t *testing.T) {
			_, err := r.ReadFile(ctx, path)
			require.ErrorIs(t, err, pygent.ErrOutsideWorkspace)
			require.ErrorContains(t, err, path)
			require.ErrorIs(t, r.ExportFile(ctx, path, filepath.Join(t.TempDir(), "out")), pygent.ErrOutsideWorkspace)
			if path != "filelink" { // an upload replaces a link
				require.ErrorIs(t, r.UploadFile(ctx, "go.mod", path), pygent.ErrOutsideWorkspace)
			}
			require.ErrorIs(t, r.WriteFile(ctx, path, []byte("x")), pygent.ErrOutsideWorkspace)
		})
	}
	require.NoFileExists(t, "/etc/go.mod")
}

func TestUploadAndExportKeepTheTree(t *testing.T) {
	t.Parallel()
	src := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(src, "sub", "readonly"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(src, "run.sh"), []byte("#!/bin/sh\necho ran\n"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(src, "sub", "readonly", "f"), []byte("f"), 0o640))
	require.NoError(t, os.Symlink("run.sh", filepath.Join(src, "link")))
	require.NoError(t, os.Symlink("/etc/passwd", filepath.Join(src, "away")))
	require.NoError(t, os.Chmod(filepath.Join(src, "sub", "readonly"), 0o555))
	t.Cleanup(func() { os.Chmod(filepath.Join(src, "sub", "readonly"), 0o755) })

	forEachRuntime(t, func(t *testing.T, r pygent.Runtime) {
		ctx := t.Context()
		require.NoError(t, r.UploadFile(ctx, src, "tree"))
		require.Equal(t, "ran\nran\n", bash(t, r, "./run.sh; ./link", pygent.BashDir("tree")).Output)
		require.NoError(t, r.UploadFile(ctx, filepath.Join(src, "run.sh"), ""))
		require.NoError(t, r.UploadFile(ctx, filepath.Join(src, "run.sh"), "new/"))
		require.Equal(t, "ran\nran\n", bash(t, r, "./run.sh; new/run.sh").Output)

		out := filepath.Join(t.TempDir(), "deep", "out")
		require.NoError(t, r.ExportFile(ctx, "tree", out))
		t.Cleanup(func() { os.Chmod(filepath.Join(out, "sub", "readonly"), 0o755) })
		for name, mode := range map[string]fs.FileMode{"run.sh": 0o755, "sub/readonly/f": 0o640, "sub/readonly": fs.ModeDir | 0o555} {
			info, err := os.Lstat(filepath.Join(out, name))
			require.NoError(t, err)
			require.Equal(t, mode, info.Mode(), name)
		}
		target, err := os.Readlink(filepath.Join(out, "away"))
		require.NoError(t, err)
		require.Equal(t, "/etc/passwd", target)

		dir := t.TempDir()
		require.NoError(t, r.ExportFile(ctx, "tree/run.sh", dir))
		require.FileExists(t, filepath.Join(dir, "run.sh"))
		require.ErrorIs(t, r.ExportFile(ctx, "missing", dir), fs.ErrNotExist)
	})
}

func TestWriteFileKeepsTheMode(t *testing.T) {
	t.Parallel()
	forEachRuntime(t, func(t *testing.T, r pygent.Runtime) {
		ctx := t.Context()
		require.NoError(t, r.UploadFile(ctx, "/bin/true", "tool"))
		require.NoError(t, r.WriteFile(ctx, "tool", []byte("#!/bin/sh\necho new\n")))
		require.Equal(t, "new\n", bash(t, r, "./tool").Output)
	})
}

func TestWorkspaceIsKeptOrRemoved(t *testing.T) {
	for _, c := range runtimeCases() {
		t.Run(c.Name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "new", "ws")
			for i := range 2 {
				r := c.New(t, pygent.WithWorkspace(dir))
				bash(t, r, "echo run >>log")
				data, err := r.ReadFile(t.Context(), "log")
				require.NoError(t, err)
				require.Equal(t, strings.Repeat("run\n", i+1), string(data))
				require.NoError(t, r.Cleanup())
			}
			require.FileExists(t, filepath.Join(dir, "log"))

			temp := t.TempDir()
			t.Setenv("TMPDIR", temp)
			r := c.New(t)
			bash(t, r, "mkdir d 2>/dev/null; echo x >d/f; chmod 555 d 2>/dev/null; true")
			require.NotEmpty(t, entries(t, temp))
			require.NoError(t, r.Cleanup())
			require.Empty(t, entries(t, temp))
		})
	}
}

func TestInitialFiles(t *testing.T) {
	src := filepath.Join(t.TempDir(), "notes.txt")
	require.NoError(t, os.WriteFile(src, []byte("notes"), 0o644))
	forEachRuntime(t, func(t *testing.T, r pygent.Runtime) {
		require.Equal(t, "notesnotes", bash(t, r, "cat notes.txt in/other.txt").Output)
	}, pygent.WithInitialFiles(src, src+":in/other.txt"))

	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	_, err := pygent.NewLocalRuntime(t.Context(), pygent.WithInitialFiles("missing.txt"))
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.Empty(t, entries(t, temp), "a failed constructor leaves nothing")
}

func TestCleanupEndsRunningCommands(t *testing.T) {
	t.Parallel()
	forEachRuntime(t, func(t *testing.T, r pygent.Runtime) {
		bash(t, r, "true")
		ended := make(chan error, 1)
		go func() {
			_, err := r.Bash(context.Background(), "echo >begun; sleep 60", pygent.BashTimeout(-1))
			ended <- err
		}()
		awaitFile(t, r, "begun")
		require.NoError(t, r.Cleanup())
		require.ErrorIs(t, <-ended, pygent.ErrRuntimeClosed)
		require.NoError(t, r.Cleanup())
		_, err := r.Bash(context.Background(), "true")
		require.ErrorIs(t, err, pygent.ErrRuntimeClosed)
		_, err = r.ReadFile(context.Background(), "x")
		require.ErrorIs(t, err, pygent.ErrRuntimeClosed)
	})
}

func TestDescribeKnowsTheShell(t *testing.T) {
	t.Parallel()
	for _, c := range runtimeCases() {
		t.Run(c.Name, func(t *testing.T) {
			r := c.New(t)
			info := r.(pygent.Describer).Describe(t.Context())
			require.Equal(t, map[string]string{"local": "bash", "docker": "bash", "busybox": "sh", "remote": "bash"}[c.Name], info.Shell)
			require.Equal(t, c.Name != "local", r.(pygent.Isolator).Isolated())
			require.Equal(t, c.Name == "local", info.Network)
			require.Empty(t, info.Fallback)
		})
	}
}

func TestInvalidRuntimeOptions(t *testing.T) {
	t.Parallel()
	for name, opt := range map[string]pygent.RuntimeOption{
		"memory":       pygent.WithMemory(-2),
		"tiny memory":  pygent.WithMemory(1024),
		"cpus":         pygent.WithCPUs(-2),
		"less than no": pygent.WithCPUs(-0.5),
		"no number":    pygent.WithCPUs(math.NaN()),
		"endless":      pygent.WithCPUs(math.Inf(1)),
		"pids":         pygent.MaxPids(-2),
		"few pids":     pygent.MaxPids(31),
		"mode":         pygent.WithDocker(99),
		"mount":        pygent.WithMounts(pygent.Mount{Source: "/x", Target: "relative"}),
		"mount there":  pygent.WithMounts(pygent.Mount{Source: "/x", Target: "/workspace/"}),
		"gpus":         pygent.WithGPUs("some"),
		"env":          pygent.WithEnv("=x"),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := pygent.NewRuntime(t.Context(), opt)
			require.ErrorContains(t, err, "runtime options: ")
		})
	}
}

func TestDockerModeFromText(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]pygent.DockerMode{
		"": pygent.DockerAuto, "auto": pygent.DockerAuto, "1": pygent.DockerRequired, "True": pygent.DockerRequired,
		"required": pygent.DockerRequired, "0": pygent.DockerNever, "false": pygent.DockerNever, "never": pygent.DockerNever,
	} {
		var m pygent.DockerMode
		require.NoError(t, m.UnmarshalText([]byte(text)))
		require.Equal(t, want, m)
	}
	var m pygent.DockerMode
	require.Error(t, m.UnmarshalText([]byte("maybe")))
}

func TestNewRuntimeWithoutAnEngine(t *testing.T) {
	t.Parallel()
	host := pygent.WithDockerHost("unix://" + filepath.Join(t.TempDir(), "no.sock"))

	var events []pygent.RuntimeEvent
	r := newTestRuntime(t, pygent.NewRuntime, host, pygent.OnRuntimeEvent(func(e pygent.RuntimeEvent) { events = append(events, e) }))
	require.False(t, r.(pygent.Isolator).Isolated())
	require.NotEmpty(t, r.(pygent.Describer).Describe(t.Context()).Fallback)
	require.Len(t, events, 1)
	require.Equal(t, pygent.RuntimeFallback, events[0].Kind)

	_, err := pygent.NewRuntime(t.Context(), host, pygent.WithDocker(pygent.DockerRequired))
	require.ErrorIs(t, err, pygent.ErrDockerUnavailable)
	require.ErrorContains(t, err, "no.sock")
	require.NotContains(t, err.Error(), "--", "the library has no flags")

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = pygent.NewRuntime(ctx, host)
	require.True(t, errors.Is(err, context.Canceled), "%v", err)
}

func TestRuntimeTellsWhereItsFilesAre(t *testing.T) {
	t.Parallel()
	forEachStarted(t, func(t *testing.T, r pygent.Runtime) {
		bash(t, r, "echo x >f")
		dir := r.(pygent.Describer).Describe(t.Context()).HostDir
		if strings.HasSuffix(t.Name(), "/remote") {
			require.Empty(t, dir)
			return
		}
		require.FileExists(t, filepath.Join(dir, "f"))
	})
	t.Run("volume", func(t *testing.T) {
		requireDocker(t)
		r := newTestRuntime(t, pygent.NewDockerRuntime, pygent.WithImage(testImage()), pygent.WithSharedFiles(false))
		bash(t, r, "echo x >f")
		require.Empty(t, r.(pygent.Describer).Describe(t.Context()).HostDir)
	})
}

// plainRuntime has no more than the methods of a runtime.
type plainRuntime struct{ pygent.Runtime }

// apartRuntime says where its commands run.
type apartRuntime struct {
	plainRuntime
	apart bool
}

func (r apartRuntime) Isolated() bool { return r.apart }

func TestAgentIsCarefulWithARuntimeThatSaysNothing(t *testing.T) {
	t.Parallel()
	local := newTestRuntime(t, pygent.NewLocalRuntime)
	for name, tc := range map[string]struct {
		runtime pygent.Runtime
		want    bool
	}{
		"local":          {local, false},
		"nothing":        {plainRuntime{local}, false},
		"on the machine": {apartRuntime{plainRuntime{local}, false}, false},
		"apart":          {apartRuntime{plainRuntime{local}, true}, true},
	} {
		t.Run(name, func(t *testing.T) {
			agent, err := pygent.New(pygent.WithRuntime(tc.runtime), pygent.WithModel(pygenttest.NewScriptedModel()))
			require.NoError(t, err)
			require.Equal(t, tc.want, agent.UseDocker())
		})
	}
}

func TestCommandsPrintAtOnceAndInUTF8(t *testing.T) {
	t.Parallel()
	forEachStarted(t, func(t *testing.T, r pygent.Runtime) {
		require.NotContains(t, bash(t, r, `echo "<$LANG> <$PYTHONUNBUFFERED>"`).Output, "<>")
		require.Equal(t, "<1> <mine>\n", bash(t, r, `echo "<$PYTHONUNBUFFERED> <$LANG>"`, pygent.BashEnv("LANG=mine")).Output)
	})
}

func TestOutputThatIsNoUTF8(t *testing.T) {
	t.Parallel()
	forEachStarted(t, func(t *testing.T, r pygent.Runtime) {
		const cmd = `printf 'a\377\376b'`
		require.Equal(t, "a\ufffdb", bash(t, r, cmd).Output)
		require.Equal(t, "a\xff\xfeb", bash(t, r, cmd, pygent.BashRaw()).Output)
	})
}

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

func TestRuntimesKeepTheirPromises(t *testing.T) {
	t.Parallel()
	for _, c := range runtimeCases() {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			pygenttest.TestRuntime(t, func(t *testing.T) pygent.Runtime { return c.New(t) })
		})
	}
}

func TestContainerCannotChangeTheGuest(t *testing.T) {
	t.Parallel()
	const attack = `d=$(echo /.pygent-*); [ -x "$d/guest" ] || exit 9; echo '#!/bin/sh' >"$d/guest"; rm -f "$d/guest"; mv "$d/guest" /tmp; mv "$d" /tmp/p; chmod 777 "$d/guest"; chown 1234 "$d/guest"; true`
	requireDocker(t)
	cache, err := os.UserCacheDir()
	require.NoError(t, err)
	for _, c := range runtimeCases() {
		if c.Name != "docker" && c.Name != "remote" {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			before := guestsIn(t, cache)
			r := c.New(t)
			require.Zero(t, bash(t, r, attack).ExitCode)
			require.Equal(t, "alive\n", bash(t, r, "echo alive").Output)
			require.NoError(t, r.Cleanup())
			if len(before) > 0 {
				require.Equal(t, before, guestsIn(t, cache))
			}
			require.Equal(t, "alive\n", bash(t, c.New(t), "echo alive").Output)
		})
	}
}

// TestContainerThatStarvesItsGuestIsReplaced lowers the resource limits of PID
// 1, which the kernel permits to any process of the same user.
func TestContainerThatStarvesItsGuestIsReplaced(t *testing.T) {
	t.Parallel()
	for _, limit := range []string{"nofile", "nproc", "as", "data", "cpu", "fsize", "stack", "memlock"} {
		t.Run(limit, func(t *testing.T) {
			requireDocker(t)
			r := newTestRuntime(t, pygent.NewDockerRuntime, pygent.WithImage(testImage()))
			bash(t, r, "echo kept >f; prlimit --pid 1 --"+limit+"=1:1")
			res, err := r.Bash(t.Context(), "true") // this call may be the one that finds the guest dead
			require.NoError(t, err, res.Note)
			require.Equal(t, "kept\n", bash(t, r, "cat f").Output)
		})
	}
}

// guestsIn returns the names and modes of the guest programs in a cache.
func guestsIn(t *testing.T, cache string) map[string]fs.FileMode {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(cache, "pygent", "guest-*"))
	require.NoError(t, err)
	found := map[string]fs.FileMode{}
	for _, name := range names {
		info, err := os.Stat(name)
		require.NoError(t, err)
		data, err := os.ReadFile(name)
		require.NoError(t, err)
		require.True(t, strings.HasPrefix(string(data), "\x7fELF"), name)
		found[name] = info.Mode()
	}
	return found
}
