package pygent_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/testkit/enginetest"
	"github.com/x/pygent/pygenttest"
)

func testImage() string { return enginetest.Image() }

func testBusyboxImage() string { return enginetest.Busybox() }

// forEachRuntime runs a test against a new runtime of each kind.
func forEachRuntime(t *testing.T, test func(t *testing.T, r pygent.Runtime), opts ...pygent.RuntimeOption) {
	for _, c := range runtimeCases() {
		t.Run(c.Name, func(t *testing.T) { test(t, c.New(t, opts...)) })
	}
}

func workspaceOf(t *testing.T, r pygent.Runtime) string {
	return r.(pygent.Describer).Describe(t.Context()).Workspace
}

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

func entries(t *testing.T, dir string) []os.DirEntry {
	list, err := os.ReadDir(dir)
	require.NoError(t, err)
	return list
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
