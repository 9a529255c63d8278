package sandbox_test

import (
	"context"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/sandbox"
	"github.com/x/pygent/internal/stash"
	"github.com/x/pygent/internal/tree"
)

// fuzzed is a sandbox of which only the file operations are used. root leads into its
// workspace without going through the sandbox.
type fuzzed struct {
	*sandbox.Sandbox
	root *os.Root
}

// noCommands replaces the part of a sandbox that runs commands.
type noCommands struct{ sandbox.Commander }

func (noCommands) Close() error { return nil }

func newFuzzed(t *testing.T, dir string) fuzzed {
	logger := slog.New(slog.DiscardHandler)
	config := sandbox.Config{Workspace: dir, ReadLimit: 64 << 20, Logger: logger, Events: sandbox.NewEvents(nil, logger)}
	w, err := sandbox.OpenWorkspace(t.Context(), config, false)
	require.NoError(t, err)
	box, err := sandbox.New(sandbox.Parts{Workspace: w, Files: sandbox.HostFiles{Tree: w.Tree}, Commands: noCommands{}}, config)
	require.NoError(t, err)
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, box.Cleanup()); require.NoError(t, root.Close()) })
	return fuzzed{box, root}
}

// place returns the workspace as the root gives it to the copies of tasks.
func (f fuzzed) place() stash.Place {
	workspace := func(context.Context) string { return f.root.Name() }
	return stash.Place{Workspace: workspace, Pack: f.PackTree, Unpack: f.UnpackTree}
}

const fuzzSecret = "what is outside"

// treeFuzz has two workspaces, a directory that receives copies, and beside
// them a directory that nothing may read or change.
type treeFuzz struct {
	t             *testing.T
	parent, child fuzzed
	out, outside  string
}

func newTreeFuzz(t *testing.T) *treeFuzz {
	top := t.TempDir()
	f := &treeFuzz{t: t, out: filepath.Join(top, "out"), outside: filepath.Join(top, "outside")}
	for _, dir := range []string{"parent", "child", "out", "outside/d"} {
		require.NoError(t, os.MkdirAll(filepath.Join(top, dir), 0o755))
	}
	for _, name := range []string{"a", "b", "d/a"} {
		require.NoError(t, os.WriteFile(filepath.Join(f.outside, name), []byte(fuzzSecret), 0o600))
	}
	f.parent, f.child = newFuzzed(t, filepath.Join(top, "parent")), newFuzzed(t, filepath.Join(top, "child"))
	return f
}

// name returns one of a few paths, so that links, directories and files often
// get the same name.
func (f *treeFuzz) name(b byte) string {
	names := []string{
		"a", "b", "d", "a/b", "a/d", "b/a", "d/a", "d/b", "a/b/d", "d/a/b", ".", "a/..", "a/../b", "..", "../outside", "../outside/a",
		"a/../../outside/a", f.outside, "d/d/d", "a\xff", "a\x00", "",
	}
	return names[int(b)%len(names)]
}

// target returns a path for a link to point to.
func (f *treeFuzz) target(b byte) string {
	targets := []string{
		f.outside, f.outside + "/a", "../outside", "../../outside", "../../../outside", "../outside/d", "../../outside/a",
		"a", "b", "d", ".", "..", "../a", "../d", "/proc/self/root" + f.outside, "/", "b/../../outside", "d/../../../outside",
	}
	return targets[int(b)%len(targets)]
}

// step does one thing that a container, a model or an embedder could do. It may
// fail.
func (f *treeFuzz) step(op, x, y byte) {
	ctx, name, other := f.t.Context(), f.name(x), f.name(y)
	rt := f.parent
	if op&0x80 != 0 {
		rt = f.child
	}
	switch op & 0x7f % 12 {
	case 0:
		_ = rt.root.MkdirAll(name, 0o755)
	case 1, 2:
		_ = rt.root.Symlink(f.target(y), name)
	case 3:
		_ = rt.root.WriteFile(name, []byte("evil"), 0o644)
	case 4:
		_ = rt.root.RemoveAll(name)
	case 5:
		_ = rt.WriteFile(ctx, name, []byte("evil"))
	case 6:
		_ = rt.ExportFile(ctx, name, f.out)
	case 7:
		_ = rt.UploadFile(ctx, f.out, other)
	case 8:
		f.delegate(ctx, name, other)
	case 9:
		_ = f.child.place().Pack(ctx, name, func(r io.Reader) error {
			_, err := f.parent.place().CopyFrom(ctx, r, other)
			return err
		})
	case 10:
		_ = tree.Remove(rt.root, name)
	case 11:
		f.begin(ctx, rt.root.Name(), sandbox.InitialFile{Text: name + ":" + other, Project: f.out})
	}
}

// begin opens a directory as a workspace with an initial file.
func (f *treeFuzz) begin(ctx context.Context, dir string, file sandbox.InitialFile) {
	config := sandbox.Config{Workspace: dir, InitialFiles: []sandbox.InitialFile{file}, Logger: slog.New(slog.DiscardHandler)}
	w, err := sandbox.OpenWorkspace(ctx, config, false)
	if err == nil {
		require.NoError(f.t, w.Discard())
	}
}

// delegate copies files from one workspace to the other, as when a task gets
// them.
func (f *treeFuzz) delegate(ctx context.Context, names ...string) {
	var store stash.Store
	defer store.Close()
	ref, err := store.Collect(ctx, f.parent.place(), names)
	if err == nil {
		_ = store.Unpack(ctx, f.child.place(), ref)
	}
}

// check requires that the outside directory is unchanged, and that its content
// was copied nowhere.
func (f *treeFuzz) check() {
	var outside []string
	require.NoError(f.t, filepath.WalkDir(filepath.Dir(f.outside), func(path string, entry fs.DirEntry, err error) error {
		require.NoError(f.t, err)
		isOutside := path == f.outside || strings.HasPrefix(path, f.outside+"/")
		if isOutside {
			outside = append(outside, strings.TrimPrefix(path, f.outside))
		}
		if !entry.Type().IsRegular() {
			return nil
		}
		data, err := os.ReadFile(path)
		require.NoError(f.t, err)
		require.Equal(f.t, isOutside, string(data) == fuzzSecret, path)
		return nil
	}))
	require.Equal(f.t, []string{"", "/a", "/b", "/d", "/d/a"}, outside)
}

// FuzzTreesStayInside performs steps on two workspaces in any order. Nothing
// outside of them may be read or changed.
func FuzzTreesStayInside(f *testing.F) {
	// A copied link, and a file that is written through it.
	f.Add([]byte{0, 2, 0, 1, 4, 0, 6, 10, 0, 3, 7, 0, 6, 7, 0})
	f.Add([]byte{0, 0, 0, 1, 3, 0, 8, 0, 3, 4, 3, 0, 0, 3, 0, 3, 8, 0, 8, 0, 8})
	// Files with absolute paths that are delegated to a task.
	f.Add([]byte{8, 17, 17, 9, 17, 17})
	f.Add([]byte{1, 0, 1, 8, 10, 10, 8, 0, 0, 9, 10, 10, 11, 0, 1})
	f.Fuzz(func(t *testing.T, ops []byte) {
		t.Setenv("TMPDIR", t.TempDir())
		fuzz := newTreeFuzz(t)
		ops = ops[:min(len(ops), 3*20)] // more copies of copies would take too long
		for ; len(ops) >= 3; ops = ops[3:] {
			fuzz.step(ops[0], ops[1], ops[2])
		}
		fuzz.check()
	})
}

// TestSwitchedDirectoriesLeadNowhere copies while a directory in the workspace
// and one at the destination keep changing between link and directory.
func TestSwitchedDirectoriesLeadNowhere(t *testing.T) {
	if testing.Short() {
		t.Skip("copies for seconds while directories change")
	}
	t.Parallel()
	fuzz := newTreeFuzz(t)
	for _, dir := range []string{fuzz.out, fuzz.parent.root.Name(), fuzz.child.root.Name()} {
		require.NoError(t, os.MkdirAll(filepath.Join(dir, "d", "a"), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "d", "a", "b"), []byte("evil"), 0o644))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "d", "b"), []byte("evil"), 0o644))
		require.NoError(t, os.Symlink(fuzz.outside, filepath.Join(dir, "link")))
		stop := make(chan struct{})
		stopped := make(chan struct{})
		go func() {
			defer close(stopped)
			switchNames(dir, stop)
		}()
		t.Cleanup(func() { close(stop); <-stopped })
	}
	out, err := os.OpenRoot(fuzz.out)
	require.NoError(t, err)
	defer out.Close()
	for i := range 20 {
		for op := byte(5); op < 12; op++ { // the goroutines do what a container does
			fuzz.step(op|byte(i%2)<<7, []byte{2, 6, 7}[i%3], []byte{2, 6, 8}[i/3%3])
		}
		for _, root := range []*os.Root{out, fuzz.parent.root, fuzz.child.root} {
			for _, name := range []string{"a", "b", "d", "kept"} { // copies of copies would take too long
				_ = tree.Remove(root, name)
			}
			_ = root.Symlink(fuzz.outside, "link") // gone if switchNames had just renamed it to d
			_ = root.MkdirAll("d/a", 0o755)
			_ = root.WriteFile("d/a/b", []byte("evil"), 0o644)
		}
	}
	for name, want := range map[string]int{"": 3, "d": 1} {
		entries, err := os.ReadDir(filepath.Join(fuzz.outside, name))
		require.NoError(t, err)
		require.Len(t, entries, want)
	}
	for _, name := range []string{"a", "b", "d/a"} {
		data, err := os.ReadFile(filepath.Join(fuzz.outside, name))
		require.NoError(t, err)
		require.Equal(t, fuzzSecret, string(data))
	}
	for _, dir := range []fuzzed{fuzz.parent, fuzz.child} {
		require.NoError(t, tree.Walk(dir.root, func(e tree.Entry) error {
			if e.Info.Mode().IsRegular() {
				data, err := e.Dir.ReadFile(e.Base)
				require.True(t, err != nil || string(data) != fuzzSecret, e.Name)
			}
			return nil
		}))
	}
}

// switchNames changes d between a link and a directory until stop is closed.
func switchNames(dir string, stop chan struct{}) {
	at := func(name string) string { return filepath.Join(dir, name) }
	for {
		select {
		case <-stop:
			return
		default:
		}
		_ = os.Rename(at("d"), at("kept"))
		_ = os.Rename(at("link"), at("d"))
		_ = os.Rename(at("d"), at("link"))
		_ = os.Rename(at("kept"), at("d"))
	}
}
