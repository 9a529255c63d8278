// These tests hold that files go in and out of workspaces whole, and nowhere else, whichever
// runtime has them and whatever ends the copy.

package pygent_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
	"github.com/x/pygent/internal/progress"
	"github.com/x/pygent/internal/testkit"
	"github.com/x/pygent/project"
	"github.com/x/pygent/pygenttest"
)

// canary is a directory of the host that nothing in a workspace may reach.
type canary struct{ dir, secret string }

func newCanary(t testing.TB) canary {
	t.Helper()
	c := canary{dir: t.TempDir(), secret: "the user's own key"}
	require.NoError(t, os.WriteFile(filepath.Join(c.dir, "authorized_keys"), []byte(c.secret), 0o600))
	return c
}

// requireIntact fails if anything in the canary was changed, added or removed.
func (c canary) requireIntact(t testing.TB) {
	t.Helper()
	entries, err := os.ReadDir(c.dir)
	require.NoError(t, err)
	require.Len(t, entries, 1)
	data, err := os.ReadFile(filepath.Join(c.dir, "authorized_keys"))
	require.NoError(t, err)
	require.Equal(t, c.secret, string(data))
}

// delegateAs makes an agent whose model runs a script, delegates files to a
// task, and waits for it. The task runs another script. delegateAs returns the
// results of all calls of the agent and of the task.
func delegateAs(t *testing.T, rt pygent.Runtime, script string, files []string, inTask string) (agent, task []string) {
	t.Helper()
	model := pygenttest.NewScriptedModel(follow(
		always(callBash(script)),
		always(delegate("Look around", files...)),
		func(id string) pygenttest.Reply { return wait(id) },
		always(stop),
	)).RepeatLast().On("Look around", callBash(inTask), pygenttest.Call("stop", map[string]any{"summary": "done"}))
	a := newAgentOn(t, rt, model)
	_, err := a.RunUntilStop(t.Context(), "delegate it")
	require.NoError(t, err)
	for _, req := range model.Requests() {
		for _, m := range req.Messages {
			if m.Role == chat.RoleTool && strings.HasPrefix(m.Content, "$ "+inTask) {
				task = append(task, m.Content)
			}
		}
	}
	return results(a), task
}

func TestDelegatedFilesDoNotReplaceFilesOfTheHost(t *testing.T) {
	t.Parallel()
	for _, kind := range runtimeCases() {
		t.Run(kind.Name, func(t *testing.T) {
			rt, home := kind.New(t), newCanary(t)
			// In the workspace p/d leads to a directory of the workspace. If up
			// were staged as a directory instead of a link, p/d would lead to
			// the canary.
			deep, back := strings.Repeat("a/", 12), strings.Repeat("../", 12)
			here := strings.TrimPrefix(home.dir, "/")
			_, task := delegateAs(t, rt,
				"mkdir -p "+deep+" "+here+" p && echo evil >"+deep+"x && echo evil >"+here+"/authorized_keys && ln -s "+deep+" up && ln -s ../up/"+back+here+" p/d",
				[]string{"up/x", "p", "p/d/authorized_keys"}, "cat up/x p/d/authorized_keys")
			home.requireIntact(t)
			require.Len(t, task, 1)
			require.Contains(t, task[0], "evil\nevil\n", "the task gets what the paths lead to in the workspace")
		})
	}
}

func TestDelegatedPathsThroughLinksStayOnTheirSide(t *testing.T) {
	t.Parallel()
	for _, kind := range runtimeCases() {
		t.Run(kind.Name, func(t *testing.T) {
			rt, home := kind.New(t), newCanary(t)
			// In the workspace real/d is a directory. The path p/d, which is
			// staged first, is a link to the canary.
			got, seen := delegateAs(t, rt,
				"mkdir -p real/d p && echo evil >real/d/authorized_keys && ln -s "+home.dir+" p/d && ln -s real q",
				[]string{"p", "q/d/authorized_keys", "q", "p/d/authorized_keys"}, "find . | sort; cat q/d/authorized_keys")
			require.NotContains(t, strings.Join(append(got, seen...), "\n"), home.secret)
			home.requireIntact(t)
		})
	}
}

func TestDelegatedLinksAreNotReadOnTheHost(t *testing.T) {
	t.Setenv("PYGENT_TEST_CANARY", "the-key-of-the-host")
	for _, kind := range runtimeCases()[1:] { // without the local runtime, whose commands may read what the user may
		t.Run(kind.Name, func(t *testing.T) {
			home := newCanary(t)
			for _, files := range [][]string{{"."}, {"env", "keys"}, {"dir"}} {
				rt := kind.New(t)
				got, seen := delegateAs(t, rt,
					"mkdir dir && ln -s /proc/self/environ env && ln -s "+home.dir+" keys && cp -P env keys dir/", files,
					"find . -type f -exec cat {} + ; cat env dir/env keys/* dir/keys/* 2>&1")
				text := strings.Join(append(got, seen...), "\n")
				require.NotContains(t, text, "the-key-of-the-host")
				require.NotContains(t, text, home.secret)
				home.requireIntact(t)
			}
		})
	}
}

// switching is a runtime that changes a path after each export, as a hostile
// container can between two exports.
type switching struct {
	pygent.Runtime
	after func(path string)
}

func (s switching) ExportFile(ctx context.Context, path, dest string) error {
	defer s.after(path)
	return s.Runtime.ExportFile(ctx, path, dest)
}

func TestWhatChangesBetweenDelegatedFilesLeadsNowhere(t *testing.T) {
	t.Parallel()
	rt, home := localRuntime(t), newCanary(t)
	bash(t, rt, "mkdir p; ln -s "+home.dir+" p/d; ln -s p/d top")
	changing := switching{rt, func(path string) {
		if path == "p" {
			bash(t, rt, "rm p/d; mkdir p/d; echo evil >p/d/authorized_keys; echo evil >p/d/new")
		}
	}}
	m := newTasks(t, pygenttest.NewScriptedModel(stop).RepeatLast())
	id, err := m.StartTask(t.Context(), "go", changing, pygent.WithTaskFiles("p", "p/d/authorized_keys", "p/d"))
	if err == nil {
		waitTask(t, m, id)
	}
	home.requireIntact(t)
}

func TestAnOddInstructionsFileEndsNothing(t *testing.T) {
	t.Parallel()
	for _, kind := range runtimeCases() {
		t.Run(kind.Name, func(t *testing.T) {
			rt, home := kind.New(t), newCanary(t)
			for script, want := range map[string]string{
				"ln -s " + home.dir + "/authorized_keys AGENTS.md": "outside the workspace",
				"ln -s /etc/passwd AGENTS.md":                      "outside the workspace",
				"ln -s AGENTS.md AGENTS.md":                        "AGENTS.md",
				"mkfifo AGENTS.md":                                 "not a regular file",
				"mkdir AGENTS.md":                                  "the model does not get",
				"truncate -s 1G AGENTS.md":                         "it is binary data",
				"yes | head -c 40000 >AGENTS.md":                   "the first 32768 of the 40000 bytes of AGENTS.md",
				`printf 'use \377tabs' >AGENTS.md`:                 "AGENTS.md: some of it is not UTF-8",
			} {
				require.Zero(t, bash(t, rt, "rm -rf AGENTS.md; "+script).ExitCode)
				model := pygenttest.NewScriptedModel(stop)
				agent, err := pygent.New(pygent.WithModel(model), pygent.WithRuntime(keptRuntime{rt.(runtimeWithRanges)}), project.Read())
				require.NoError(t, err)
				var warnings []string
				result, err := agent.RunUntilStop(t.Context(), "hi", pygent.OnEvent(func(e pygent.Event) {
					if e.Type == pygent.EventWarning {
						warnings = append(warnings, e.Text)
					}
				}))
				require.NoError(t, err, script)
				require.Equal(t, pygent.StatusStopped, result.Status, script)
				require.Len(t, warnings, 1, script)
				require.Contains(t, warnings[0], want, script)
				require.NotContains(t, model.Requests()[0].Messages[0].Content, home.secret)
				require.NoError(t, agent.Close())
			}
		})
	}
}

// keptRuntime is a runtime that its agent does not close.
type keptRuntime struct{ runtimeWithRanges }

type runtimeWithRanges interface {
	pygent.Runtime
	pygent.RangeReader
}

func (keptRuntime) Cleanup() error { return nil }

func TestHolesAreCopiedAsHoles(t *testing.T) {
	if testing.Short() {
		t.Skip("needs much data")
	}
	t.Parallel()
	for _, kind := range runtimeCases() {
		t.Run(kind.Name, func(t *testing.T) {
			rt := kind.New(t, pygent.MaxCopyBytes(1<<20))
			require.Zero(t, bash(t, rt, "mkdir d; truncate -s 8G d/sparse; printf end | dd of=d/sparse bs=1 seek=4294967296 conv=notrunc 2>/dev/null").ExitCode)
			for _, what := range []string{"d", "d/sparse"} {
				dest := filepath.Join(t.TempDir(), "out")
				require.NoError(t, rt.ExportFile(t.Context(), what, dest))
				if what == "d" {
					dest = filepath.Join(dest, "sparse")
				}
				info, err := os.Stat(dest)
				require.NoError(t, err)
				require.EqualValues(t, 8<<30, info.Size())
				requireOnDisk(t, dest, 1<<20)
				require.NoError(t, rt.UploadFile(t.Context(), dest, "again"))
				require.Contains(t, bash(t, rt, "stat -c '%s' again; du -k again | cut -f1; dd if=again bs=1M skip=4096 count=1 2>/dev/null | head -c 3").Output, "end")
			}

			m := newTasks(t, pygenttest.NewScriptedModel(callBash("stat -c %s d/sparse; dd if=d/sparse bs=1M skip=4096 count=1 2>/dev/null | head -c 3"), stop))
			id := startTask(t, m, "go", rt, pygent.WithTaskFiles("d"))
			waitTask(t, m, id)
			messages, err := m.TaskHistory(t.Context(), id)
			require.NoError(t, err)
			require.Contains(t, messages[3].Content, "8589934592\nend")
			require.NoError(t, errOf(m.CollectFile(t.Context(), rt, id, "d", "collected")))
			require.Contains(t, bash(t, rt, "stat -c %s collected/sparse").Output, "8589934592")
		})
	}
}

func TestCopiesBeyondALimitLeaveNothing(t *testing.T) {
	t.Parallel()
	hundred := strings.Repeat("d/", 100) // by one mkdir: programs start slowly in a container
	for _, kind := range runtimeCases() {
		t.Run(kind.Name, func(t *testing.T) {
			rt := kind.New(t, pygent.MaxCopyBytes(1<<20))
			bash(t, rt, "mkdir small big; echo x >small/f; head -c 900000 /dev/urandom >big/a; cp big/a big/b; "+
				"mkdir deep && cd deep && for i in 1 2 3; do mkdir -p "+hundred+" && cd "+hundred+"; done")
			parent := t.TempDir()
			for _, what := range []string{"big", "deep"} {
				err := rt.ExportFile(t.Context(), what, filepath.Join(parent, "new", "out"))
				require.ErrorIs(t, err, pygent.ErrCopyTooLarge, what)
				require.Empty(t, entries(t, filepath.Join(parent, "new")))
			}
			err := rt.ExportFile(t.Context(), "big", parent+"/out")
			require.ErrorContains(t, err, `"b" has 878.9 KiB of data, which is more than is left of the limit of 1 MiB`)

			old := filepath.Join(parent, "old")
			write(t, parent, map[string]string{"old/a": "old"})
			require.ErrorIs(t, rt.ExportFile(t.Context(), "big", old), pygent.ErrCopyTooLarge)
			require.Equal(t, map[string]string{"a": "644 old"}, read(t, old), "nothing is replaced by half of a copy")
			require.NoError(t, rt.ExportFile(t.Context(), "small", old))
		})
	}
}

func TestRuntimeListsFiles(t *testing.T) {
	t.Parallel()
	forEachStarted(t, func(t *testing.T, r pygent.Runtime) {
		lister := r.(pygent.FileLister)
		bash(t, r, `mkdir -p a/b/c d; echo hello >a/f; echo x >a/b/c/deep; ln -s /etc out; ln -s a link; mkfifo pipe; printf x >"$(printf 'odd\nname')"`)
		paths := func(dir string, depth, limit int) (list []string, more bool) {
			files, more, err := lister.ListFiles(t.Context(), dir, depth, limit)
			require.NoError(t, err)
			for _, f := range files {
				list = append(list, f.Path)
			}
			return list, more
		}
		top, more := paths(".", 1, 0)
		require.False(t, more)
		require.Equal(t, []string{"a", "d", "link", "odd\nname", "out", "pipe"}, top)
		alone, _ := paths(".", 0, 0)
		require.Equal(t, top, alone)
		all, more := paths("", pygent.NoLimit, 0)
		require.False(t, more)
		require.Equal(t, []string{"a", "a/b", "a/b/c", "a/b/c/deep", "a/f", "d", "link", "odd\nname", "out", "pipe"}, all)
		inside, _ := paths(workspaceOf(t, r)+"/a", 2, 0)
		require.Equal(t, []string{"a/b", "a/b/c", "a/f"}, inside)
		some, more := paths(".", pygent.NoLimit, 3)
		require.True(t, more)
		require.Equal(t, []string{"a", "d", "link"}, some)

		f, err := lister.StatFile(t.Context(), "a/f")
		require.NoError(t, err)
		require.Equal(t, "a/f", f.Path)
		require.EqualValues(t, 6, f.Size)
		require.True(t, f.Mode.IsRegular())
		require.False(t, f.ModTime.IsZero())
		link, err := lister.StatFile(t.Context(), "out")
		require.NoError(t, err)
		require.Equal(t, "/etc", link.Target)
		require.NotZero(t, link.Mode&fs.ModeSymlink)

		for path, want := range map[string]error{
			"none": fs.ErrNotExist, "out": pygent.ErrOutsideWorkspace, "../..": pygent.ErrOutsideWorkspace,
			"/etc": pygent.ErrOutsideWorkspace, "out/passwd": pygent.ErrOutsideWorkspace,
		} {
			_, _, err := lister.ListFiles(t.Context(), path, 1, 0)
			require.ErrorIs(t, err, want, path)
		}
		_, _, err = lister.ListFiles(t.Context(), "a/f", 1, 0)
		require.Error(t, err)
		_, _, err = lister.ListFiles(t.Context(), "pipe", 1, 0)
		require.Error(t, err)
		_, err = lister.StatFile(t.Context(), "out/passwd")
		require.ErrorIs(t, err, pygent.ErrOutsideWorkspace)
	})
}

func TestRuntimeRemovesFiles(t *testing.T) {
	t.Parallel()
	forEachStarted(t, func(t *testing.T, r pygent.Runtime) {
		remove := r.(pygent.FileRemover).RemoveFile
		bash(t, r, `mkdir -p a/b empty; echo x >a/b/f; echo x >g; ln -s /etc out; ln -s a link`)
		require.NoError(t, remove(t.Context(), "g", false))
		require.NoError(t, remove(t.Context(), "empty", false))
		require.Error(t, remove(t.Context(), "a", false), "it is not empty")
		require.NoError(t, remove(t.Context(), "link", true))
		require.NoError(t, remove(t.Context(), "out", true), "the link goes, not what it names")
		require.Equal(t, "x\n", bash(t, r, "cat a/b/f").Output)
		require.NoError(t, remove(t.Context(), "a", true))
		require.ErrorIs(t, remove(t.Context(), "none", false), fs.ErrNotExist)
		bash(t, r, "ln -s /etc out; mkdir x; touch y")
		require.ErrorIs(t, remove(t.Context(), "out/passwd", true), pygent.ErrOutsideWorkspace)
		require.ErrorIs(t, remove(t.Context(), "/etc", true), pygent.ErrOutsideWorkspace)
		require.Error(t, remove(t.Context(), ".", false))
		require.NoError(t, remove(t.Context(), ".", true))
		require.Equal(t, "", bash(t, r, "ls -A").Output)
	})
}

func TestRuntimeStreamsFiles(t *testing.T) {
	t.Parallel()
	const size = pygent.MaxReadFile + 1
	forEachRuntime(t, func(t *testing.T, r pygent.Runtime) {
		s := r.(pygent.FileStreamer)
		require.NoError(t, s.WriteFileFrom(t.Context(), "d/large", io.LimitReader(endlessX{}, size)))
		n, err := s.ReadFileTo(t.Context(), "d/large", 0, io.Discard)
		require.NoError(t, err)
		require.EqualValues(t, size, n)
		var end bytes.Buffer
		n, err = s.ReadFileTo(t.Context(), "d/large", size-3, &end)
		require.NoError(t, err)
		require.EqualValues(t, 3, n)
		require.Equal(t, "xxx", end.String())
		n, err = s.ReadFileTo(t.Context(), "d/large", size+3, io.Discard)
		require.NoError(t, err)
		require.Zero(t, n)

		broken := errors.New("broken")
		require.NoError(t, r.WriteFile(t.Context(), "f", []byte("old")))
		err = s.WriteFileFrom(t.Context(), "f", io.MultiReader(strings.NewReader("new"), iotest.ErrReader(broken)))
		require.ErrorIs(t, err, broken)
		data, err := r.ReadFile(t.Context(), "f")
		require.NoError(t, err)
		require.Equal(t, "old", string(data))
		require.Equal(t, "d\nf\n", bash(t, r, "ls -A").Output, "nothing is left of it")

		ctx, cancel := context.WithCancel(t.Context())
		err = s.WriteFileFrom(ctx, "f", cancelling{cancel})
		require.ErrorIs(t, err, context.Canceled)
		_, err = s.ReadFileTo(t.Context(), "f", 0, brokenWriter{broken})
		require.ErrorIs(t, err, broken)

		bash(t, r, "ln -s /etc out; mkfifo pipe")
		for path, want := range map[string]error{"none": fs.ErrNotExist, "out/passwd": pygent.ErrOutsideWorkspace, "../x": pygent.ErrOutsideWorkspace} {
			_, err := s.ReadFileTo(t.Context(), path, 0, io.Discard)
			require.ErrorIs(t, err, want, path)
		}
		for _, path := range []string{"pipe", "d"} {
			_, err := s.ReadFileTo(t.Context(), path, 0, io.Discard)
			require.Error(t, err, path)
		}
		require.ErrorIs(t, s.WriteFileFrom(t.Context(), "out/x", strings.NewReader("x")), pygent.ErrOutsideWorkspace)
		_, err = s.ReadFileTo(t.Context(), "f", -1, io.Discard)
		require.Error(t, err)
	})
}

type endlessX struct{}

func (endlessX) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

// cancelling is an endless reader that cancels its context.
type cancelling struct{ cancel func() }

func (c cancelling) Read(p []byte) (int, error) {
	c.cancel()
	return len(p), nil
}

type brokenWriter struct{ err error }

func (w brokenWriter) Write([]byte) (int, error) { return 0, w.err }

func TestACopySaysWhichDirectoryIsInItsWay(t *testing.T) {
	t.Parallel()
	from := t.TempDir()
	testkit.WriteFiles(t, from, map[string]string{"a": "a", "sub/b": "b"})
	forEachStarted(t, func(t *testing.T, rt pygent.Runtime) {
		bash(t, rt, "mkdir -p got/sub/b")
		err := rt.UploadFile(t.Context(), from, "got")
		require.ErrorIs(t, err, fs.ErrExist)
		require.ErrorContains(t, err, "got: sub/b: there is a directory in its place")
		require.Equal(t, "sub\n", bash(t, rt, "ls -A got").Output, "nothing else was copied")
	})
}

// A mount in the workspace hides what this machine has there.
func TestCopiesGoWhereCommandsSeeThem(t *testing.T) {
	requireDocker(t)
	src, mounted := t.TempDir(), realTempDir(t)
	require.NoError(t, os.Chmod(mounted, 0o777))
	write(t, src, map[string]string{"a": "a", "dir/b": "b"})
	r := newTestRuntime(t, pygent.NewDockerRuntime, pygent.WithImage(testImage()),
		pygent.WithMounts(pygent.Mount{Source: mounted, Target: "/workspace/data"}))
	bash(t, r, "true")
	require.NoError(t, r.UploadFile(t.Context(), src, "data/up"))
	require.Equal(t, "ab", bash(t, r, "cat data/up/a data/up/dir/b").Output)
	to := filepath.Join(t.TempDir(), "back")
	require.NoError(t, r.ExportFile(t.Context(), "data/up", to))
	require.Equal(t, map[string]string{"a": "644 a", "dir/": "755", "dir/b": "644 b"}, read(t, to))
}

// Commands may change what was copied to them, whoever they run as and whatever they
// may do.
func TestCommandsMayChangeWhatWasCopied(t *testing.T) {
	requireDocker(t)
	for name, opts := range map[string][]pygent.RuntimeOption{
		"root":                 nil,
		"without capabilities": {pygent.WithCapabilities()},
		"another user":         {pygent.WithContainerUser("1234:1234")},
	} {
		for _, owner := range []int{os.Geteuid(), 4321} {
			t.Run(fmt.Sprint(name, " ", owner), func(t *testing.T) {
				dir := realTempDir(t)
				require.NoError(t, os.Chmod(dir, 0o777))
				if os.Chown(dir, owner, owner) != nil {
					t.Skip("only root can give a directory away")
				}
				src := t.TempDir()
				write(t, src, map[string]string{"a": "a"})
				r := newTestRuntime(t, pygent.NewDockerRuntime, append(opts, pygent.WithImage(testImage()), pygent.WithWorkspace(dir))...)
				bash(t, r, "true")
				require.NoError(t, r.UploadFile(t.Context(), src, "up"))
				res := bash(t, r, "echo b >>up/a && chmod 600 up/a && cat up/a")
				require.Equal(t, "ab\n", res.Output)
				to := t.TempDir()
				require.NoError(t, r.ExportFile(t.Context(), "up", to))
				require.Equal(t, map[string]string{"a": "600 ab\n"}, read(t, to))
			})
		}
	}
}

const copyCrashEnv = "PYGENT_TEST_COPY_CRASH"

// copyCrash is a copy in the middle of which its process dies. Both trees are in a
// directory, and the workspace is its "ws".
type copyCrash struct {
	kind   string // of the runtime
	in     bool   // else out
	to     string // below the workspace, or below the directory
	atOpen bool   // what is left goes when the workspace is opened, and not only with the next copy
}

func (c copyCrash) runtime(t *testing.T, base string) pygent.Runtime {
	create, opts := pygent.NewLocalRuntime, []pygent.RuntimeOption{pygent.WithWorkspace(filepath.Join(base, "ws"))}
	if c.kind == "docker" {
		create, opts = pygent.NewDockerRuntime, append(opts, pygent.WithImage(testBusyboxImage()))
	}
	r := newTestRuntime(t, create, opts...)
	require.Zero(t, bash(t, r, "true").ExitCode)
	return r
}

// from and dest are where the trees are on this machine.
func (c copyCrash) from(base string) string {
	if c.in {
		return filepath.Join(base, "src")
	}
	return filepath.Join(base, "ws", "src")
}

func (c copyCrash) dest(base string) string {
	if c.in {
		return filepath.Join(base, "ws", c.to)
	}
	return filepath.Join(base, c.to)
}

func (c copyCrash) name() string {
	if c.in {
		return c.kind + " in, to " + c.to
	}
	return c.kind + " out, to " + c.to
}

var copyCrashes = []copyCrash{
	{"local", true, "dest", false}, {"local", true, ".", true}, {"local", false, "dest", false},
	{"docker", true, "dest", false}, {"docker", true, ".", true}, {"docker", false, "dest", false},
}

const crashFiles, crashFile = 16, 1 << 20

// TestCopyingProcess is a process that dies when it has copied half of a tree.
func TestCopyingProcess(t *testing.T) {
	t.Parallel()
	name, base, ok := strings.Cut(os.Getenv(copyCrashEnv), "|")
	if !ok {
		return
	}
	me, err := os.FindProcess(os.Getpid())
	require.NoError(t, err)
	ctx := progress.With(t.Context(), func(done, _ int64) {
		if done >= crashFiles*crashFile/2 {
			_ = me.Kill()
			select {}
		}
	})
	progress.Expect(ctx, math.MaxInt64)
	for _, c := range copyCrashes {
		if c.name() != name {
			continue
		}
		r := c.runtime(t, base)
		if c.in {
			err = r.UploadFile(ctx, c.from(base), c.to)
		} else {
			err = r.ExportFile(ctx, "src", c.dest(base))
		}
	}
	t.Fatalf("it has survived: %v", err)
}

// TestCopyWhoseProcessDies leaves everything under its name as it was, and the next copy,
// or the next start in the workspace, removes what it has left.
func TestCopyWhoseProcessDies(t *testing.T) {
	if testing.Short() {
		t.Skip("kills many processes")
	}
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("nothing tells there what a living process makes from what a dead one has left")
	}
	for _, c := range copyCrashes {
		t.Run(c.name(), func(t *testing.T) {
			t.Parallel()
			if c.kind == "docker" {
				requireDocker(t)
			}
			base := realTempDir(t)
			from, dest := c.from(base), c.dest(base)
			require.NoError(t, os.MkdirAll(filepath.Join(from, "sub"), 0o755))
			require.NoError(t, os.MkdirAll(dest, 0o755))
			old, fresh := []byte("old"), bytes.Repeat([]byte("new!"), crashFile/4)
			names := make([]string, crashFiles)
			for i := range names {
				names[i] = fmt.Sprintf("f%d", i)
				if i%2 == 1 {
					names[i] = "sub/" + names[i] // not there yet
				} else {
					require.NoError(t, os.WriteFile(filepath.Join(dest, names[i]), old, 0o644))
				}
				require.NoError(t, os.WriteFile(filepath.Join(from, names[i]), fresh, 0o644))
			}

			child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestCopyingProcess$")
			child.Env = append(os.Environ(), copyCrashEnv+"="+c.name()+"|"+base)
			out, err := child.CombinedOutput()
			require.Error(t, err, "%s", out)
			require.Equal(t, -1, child.ProcessState.ExitCode(), "%s", out)

			require.NoDirExists(t, filepath.Join(dest, "sub"))
			for i := 0; i < crashFiles; i += 2 {
				got, err := os.ReadFile(filepath.Join(dest, names[i]))
				require.NoError(t, err)
				require.Equal(t, old, got[:min(len(got), 8)], names[i])
			}
			require.Len(t, stagesIn(t, dest), 1)

			r := c.runtime(t, base)
			require.Equal(t, c.atOpen, len(stagesIn(t, dest)) == 0)
			if c.in {
				err = r.UploadFile(t.Context(), from, c.to)
			} else {
				err = r.ExportFile(t.Context(), "src", dest)
			}
			require.NoError(t, err)
			require.Empty(t, stagesIn(t, dest))
			for _, name := range names {
				got, err := os.ReadFile(filepath.Join(dest, name))
				require.NoError(t, err)
				require.True(t, bytes.Equal(fresh, got), name)
			}
		})
	}
}

// stagesIn returns what incomplete copies have in a directory.
func stagesIn(t *testing.T, dir string) []string {
	t.Helper()
	stages, err := filepath.Glob(filepath.Join(dir, ".pygent-stage-*"))
	require.NoError(t, err)
	return stages
}

// namesOf returns the paths of files.
func namesOf(files []pygent.FileInfo) (names []string) {
	for _, f := range files {
		names = append(names, f.Path)
	}
	return names
}

func TestTemporaryFilesAreThoseThatGoWithTheAgent(t *testing.T) {
	t.Parallel()
	open := func(opts ...pygent.Option) *pygent.Agent {
		agent, err := pygent.New(append(opts, pygent.WithModel(pygenttest.NewScriptedModel(stop)))...)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, agent.Close()) })
		return agent
	}
	const script = "mkdir -p d .git .pygent; echo 1 >a; echo 2 >d/b; : >.git/x; : >.pygent/x; : >.pygent-3BYCXW6BPZ2LJQAVN7YDKHM5TE"
	list := func(a *pygent.Agent, besides ...pygent.FileInfo) []pygent.FileInfo {
		files, more, err := a.TemporaryFiles(t.Context(), besides...)
		require.NoError(t, err)
		require.False(t, more)
		return files
	}

	agent := open(pygent.WithDocker(pygent.DockerNever))
	require.Empty(t, list(agent))
	bash(t, agent.Runtime(), script)
	files := list(agent)
	require.Equal(t, []string{"a", "d/b"}, namesOf(files))
	require.Equal(t, int64(2), files[0].Size)
	bash(t, agent.Runtime(), "echo more >>a; : >c")
	require.Equal(t, []string{"a", "c"}, namesOf(list(agent, files...)), "what was changed or made since")

	agent = open(pygent.WithDocker(pygent.DockerNever), pygent.WithWorkspace(t.TempDir()))
	bash(t, agent.Runtime(), script)
	require.Empty(t, list(agent), "a workspace that is kept")

	agent = open(pygent.LendRuntime(localRuntime(t)))
	bash(t, agent.Runtime(), script)
	require.Empty(t, list(agent), "a runtime that outlives the agent")
}

// closedFiles is a runtime in which some files cannot be copied.
type closedFiles struct {
	pygent.Runtime
	pygent.FileLister
	closed string // a name that such files have in their paths; empty for everything
	why    error
}

func (c closedFiles) ExportFile(ctx context.Context, path, dest string) error {
	if path == "." || strings.Contains(path, c.closed) {
		return fmt.Errorf("export %s: %w", path, c.why)
	}
	return c.Runtime.ExportFile(ctx, path, dest)
}

func TestWhatIsKeptOfAWorkspace(t *testing.T) {
	t.Parallel()
	rt := localRuntime(t)
	bash(t, rt, "mkdir -p .pygent/user-skills d/.pygent empty; echo 1 >a; echo 2 >d/b; echo 3 >d/secret; echo 4 >d/.pygent/mine; echo 5 >.pygent/user-skills/x; ln -s a link; ln -s /etc d/out; ln -s nowhere d/dangling; chmod 750 empty; chmod 500 d; mkfifo pipe")
	lister, ok := pygent.RuntimeAs[pygent.FileLister](rt)
	require.True(t, ok)
	rest := []string{"a", "d/.pygent/mine", "d/b", "d/dangling", "d/out", "link"}
	for name, tt := range map[string]struct {
		rt   pygent.Runtime
		kept []string
		lost []string
		err  error
	}{
		"all but what is pygent's": {rt, []string{"a", "d/.pygent/mine", "d/b", "d/dangling", "d/out", "d/secret", "link"}, nil, nil},
		"a file cannot be read":    {closedFiles{rt, lister, "secret", fs.ErrPermission}, rest, []string{"d/secret"}, nil},
		"nothing can be read":      {closedFiles{rt, lister, "", fs.ErrPermission}, nil, nil, fs.ErrPermission},
		"the disk is full":         {closedFiles{rt, lister, "secret", errors.ErrUnsupported}, nil, nil, errors.ErrUnsupported},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "kept")
			agent, err := pygent.New(pygent.LendRuntime(tt.rt), pygent.WithModel(pygenttest.NewScriptedModel(stop)))
			require.NoError(t, err)
			defer func() { require.NoError(t, agent.Close()) }()
			lost, err := agent.KeepTemporary(t.Context(), dir)
			require.ErrorIs(t, err, tt.err)
			require.Equal(t, tt.lost, lost)
			if tt.err != nil {
				return
			}
			var kept []string
			require.NoError(t, fs.WalkDir(os.DirFS(dir), ".", func(path string, e fs.DirEntry, err error) error {
				if err == nil && !e.IsDir() {
					kept = append(kept, path)
				}
				return err
			}))
			require.Equal(t, tt.kept, kept)
			for name, want := range map[string]string{"link": "a", "d/out": "/etc", "d/dangling": "nowhere"} {
				target, err := os.Readlink(filepath.Join(dir, name))
				require.NoError(t, err)
				require.Equal(t, want, target)
			}
			for name, want := range map[string]fs.FileMode{"empty": 0o750, "d": 0o500} {
				info, err := os.Stat(filepath.Join(dir, name))
				require.NoError(t, err)
				require.Equal(t, fs.ModeDir|want, info.Mode(), name)
			}
		})
	}
}

// requireOnDisk requires that a file uses at most limit bytes of disk space, where the system
// reports that.
func requireOnDisk(t *testing.T, path string, limit int64) {
	t.Helper()
	info, err := os.Stat(path)
	require.NoError(t, err)
	stat := reflect.Indirect(reflect.ValueOf(info.Sys()))
	if blocks := stat.FieldByName("Blocks"); blocks.IsValid() { // Windows has none
		require.LessOrEqual(t, blocks.Int()*512, limit)
	}
}
