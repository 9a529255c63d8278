package pygent_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
	"github.com/x/pygent/project"
	"github.com/x/pygent/pygenttest"
)

// write makes a tree of files. A name that ends in a slash is a directory; a
// content that begins with -> is a link.
func write(t *testing.T, dir string, tree map[string]string) {
	t.Helper()
	for name, content := range tree {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		switch {
		case name[len(name)-1] == '/':
			require.NoError(t, os.MkdirAll(path, 0o755))
		case len(content) > 2 && content[:2] == "->":
			require.NoError(t, os.Symlink(content[2:], path))
		default:
			require.NoError(t, os.WriteFile(path, []byte(content), 0o644))
		}
	}
}

// read is the inverse of write, and adds the modes of files and directories.
func read(t *testing.T, dir string) map[string]string {
	t.Helper()
	tree := map[string]string{}
	require.NoError(t, fs.WalkDir(os.DirFS(dir), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || name == "." {
			return err
		}
		info, err := entry.Info()
		require.NoError(t, err)
		path := filepath.Join(dir, name)
		switch {
		case entry.IsDir():
			tree[name+"/"] = fmt.Sprintf("%o", info.Mode().Perm())
		case info.Mode()&fs.ModeSymlink != 0:
			target, err := os.Readlink(path)
			require.NoError(t, err)
			tree[name] = "->" + target
		case info.Mode().IsRegular():
			data, err := os.ReadFile(path)
			require.NoError(t, err)
			tree[name] = fmt.Sprintf("%o %s", info.Mode().Perm(), data)
		default:
			tree[name] = info.Mode().String()
		}
		return nil
	}))
	return tree
}

// seedAndChange lets a runtime's commands change a workspace in all ways, and
// checks the result after Cleanup.
func seedAndChange(t *testing.T, dir string, start func() pygent.Runtime) {
	write(t, dir, map[string]string{
		"kept": "kept", "changed": "old", "deleted": "x", "tool": "#!/bin/sh\necho tool\n", "empty/": "",
		"gone/deep/f": "f", "readonly/f": "f", "readonly/gone": "x", "link": "->kept", "dangling": "->nowhere", "away": "->/etc/passwd",
		"file-to-dir": "x", "dir-to-file/f": "x", "dir-to-link/f": "x", "link-to-dir": "->/etc", "link-to-file": "->kept",
	})
	require.NoError(t, os.Chmod(filepath.Join(dir, "tool"), 0o755))
	require.NoError(t, os.Chmod(filepath.Join(dir, "readonly"), 0o555))
	t.Cleanup(func() { os.Chmod(filepath.Join(dir, "readonly"), 0o755) })

	r := start()
	require.Equal(t, "tool\n", bash(t, r, "./tool").Output)
	res := bash(t, r, `set -e
		echo new >changed; rm deleted; rm -r gone; chmod 600 kept; chmod u+w readonly; rm readonly/gone; chmod 555 readonly
		rm file-to-dir; mkdir file-to-dir; echo in >file-to-dir/in
		rm -r dir-to-file; echo now >dir-to-file
		rm -r dir-to-link; ln -s /tmp dir-to-link
		rm link-to-dir; mkdir link-to-dir; echo in >link-to-dir/in
		rm link-to-file; echo file >link-to-file
		mkdir -p made/private; chmod 700 made/private; echo '#!/bin/sh' >made/private/run; chmod 750 made/private/run; chmod 500 made/private
		ln kept hard; mkfifo pipe; printf '\0\377' >'odd name
'`)
	require.Zero(t, res.ExitCode, res.Output)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "of somebody else"), []byte("new"), 0o644))
	require.NoError(t, r.Cleanup())
	t.Cleanup(func() { os.Chmod(filepath.Join(dir, "made", "private"), 0o755) })
	require.Equal(t, map[string]string{
		"kept": "600 kept", "hard": "600 kept", "changed": "644 new\n", "tool": "755 #!/bin/sh\necho tool\n", "empty/": "755",
		"readonly/": "555", "readonly/f": "644 f", "link": "->kept", "dangling": "->nowhere", "away": "->/etc/passwd",
		"file-to-dir/": "755", "file-to-dir/in": "644 in\n", "dir-to-file": "644 now\n", "dir-to-link": "->/tmp",
		"link-to-dir/": "755", "link-to-dir/in": "644 in\n", "link-to-file": "644 file\n",
		"made/": "755", "made/private/": "500", "made/private/run": "750 #!/bin/sh\n", "odd name\n": "644 \x00\xff",
		"of somebody else": "644 new",
	}, read(t, dir))
}

// tarOf returns an archive of one file.
func tarOf(t *testing.T, name string) io.Reader {
	t.Helper()
	data, err := os.ReadFile(name)
	require.NoError(t, err)
	b := &bytes.Buffer{}
	w := tar.NewWriter(b)
	require.NoError(t, w.WriteHeader(&tar.Header{Name: filepath.Base(name), Mode: 0o755, Size: int64(len(data)), Typeflag: tar.TypeReg}))
	_, err = w.Write(data)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return b
}

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
				"mkdir AGENTS.md":                                  "the model is not told",
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
	writeFiles(t, from, map[string]string{"a": "a", "sub/b": "b"})
	forEachStarted(t, func(t *testing.T, rt pygent.Runtime) {
		bash(t, rt, "mkdir -p got/sub/b")
		err := rt.UploadFile(t.Context(), from, "got")
		require.ErrorIs(t, err, fs.ErrExist)
		require.ErrorContains(t, err, "got: sub/b: there is a directory in its place")
		require.Equal(t, "sub\n", bash(t, rt, "ls -A got").Output, "nothing else was copied")
	})
}
