//go:build unix

package tempname_test

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/x/pygent/internal/filelock"
	"github.com/x/pygent/internal/tempname"
)

// filesBelow lists what is in a directory.
func filesBelow(t *testing.T, dir string) (names []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if !d.IsDir() {
			rel, _ := filepath.Rel(dir, path)
			names = append(names, rel)
		}
		return err
	}))
	return names
}

// TestSweepRemovesWhatAKilledProcessLeft lets a process die while it writes files.
func TestSweepRemovesWhatAKilledProcessLeft(t *testing.T) {
	if dir := os.Getenv("PYGENT_TEST_TRANSIENT"); dir != "" {
		root, err := os.OpenRoot(dir)
		require.NoError(t, err)
		for _, at := range []string{".", "sub/dir"} {
			f, err := tempname.Create(root, at, 0o600)
			require.NoError(t, err)
			_, err = f.WriteString("half")
			require.NoError(t, err)
		}
		me, err := os.FindProcess(os.Getpid())
		require.NoError(t, err)
		require.NoError(t, me.Kill())
		select {}
	}
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "sub/dir"), 0o700))
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	defer root.Close()
	mine, err := tempname.Create(root, "sub", 0o600)
	require.NoError(t, err)

	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestSweepRemovesWhatAKilledProcessLeft$")
	cmd.Env = append(os.Environ(), "PYGENT_TEST_TRANSIENT="+dir)
	out, err := cmd.CombinedOutput()
	require.Error(t, err)
	require.NotContains(t, string(out), "FAIL")
	require.Len(t, filesBelow(t, dir), 5)
	require.Len(t, tempname.Left(root), 2, "the marker of a process that lives is not left")

	tempname.Sweep(root)
	require.Len(t, filesBelow(t, dir), 2)
	_, err = mine.WriteString("whole")
	require.NoError(t, err)
	require.NoError(t, mine.Become("sub/file"))
	require.Equal(t, []string{"sub/file"}, filesBelow(t, dir))
	other, err := tempname.Create(root, ".", 0o600)
	require.NoError(t, err)
	require.NoError(t, other.Remove())
	require.Equal(t, []string{"sub/file"}, filesBelow(t, dir))
}

// TestSweepLeavesWhatIsBeingMade sweeps all the time while files are written.
func TestSweepLeavesWhatIsBeingMade(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "sub"), 0o700))
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	defer root.Close()
	var sweeps sync.WaitGroup
	defer sweeps.Wait()
	written := make(chan struct{})
	defer close(written)
	for range 2 {
		sweeps.Go(func() {
			for {
				select {
				case <-written:
					return
				default:
					tempname.Sweep(root)
				}
			}
		})
	}
	for range 500 {
		for _, at := range []string{".", "sub"} {
			f, err := tempname.Create(root, at, 0o600)
			require.NoError(t, err)
			require.NoError(t, f.Become(filepath.Join(at, "file")))
		}
	}
}

func TestSweepLeavesWhatIsNotOurs(t *testing.T) {
	dir := t.TempDir()
	kept := []string{
		".git/config", ".pygent-0123456789abcdef01234567", ".pygent-CBCDEFGHIJKLMNOPQRSTUVWXYZ", ".pygent-NOTES",
		".pygent-abcdefghijklmnopqrstuvwxyz", ".pygent-notes", "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "notes",
	}
	require.NoError(t, os.Mkdir(filepath.Join(dir, ".git"), 0o700))
	require.NoError(t, os.Symlink("notes", filepath.Join(dir, ".pygent-CBCDEFGHIJKLMNOPQRSTUVWXYZ")))
	for _, name := range kept {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o600))
	}
	pipe, sub := filepath.Join(dir, ".pygent-DBCDEFGHIJKLMNOPQRSTUVWXYZ"), filepath.Join(dir, ".pygent-EBCDEFGHIJKLMNOPQRSTUVWXYZ")
	require.NoError(t, unix.Mkfifo(pipe, 0o600))
	require.NoError(t, os.Mkdir(sub, 0o700))
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	defer root.Close()
	tempname.Sweep(root)
	require.Equal(t, slices.Insert(slices.Clone(kept), 3, filepath.Base(pipe)), filesBelow(t, dir))
	require.DirExists(t, sub)
	require.Error(t, tempname.RemoveLeft(root, "notes"))
}

// TestAMarkerNamesNothingElse gives markers that somebody else has written to a sweep.
func TestAMarkerNamesNothingElse(t *testing.T) {
	const marker, made = ".pygent-ABCDEFGHIJKLMNOPQRSTUVWXYZ", ".pygent-BBCDEFGHIJKLMNOPQRSTUVWXYZ"
	dots := strings.Repeat("./", (4096-len("d/"+made))/2)
	for name, tt := range map[string]struct {
		says    string
		removed bool
	}{
		"a file that was made":     {"d/" + made, true},
		"the longest name":         {dots + "d/" + made, true},
		"a longer one":             {dots + "/d/" + made, false},
		"another file":             {"d/notes", false},
		"a file above":             {"../outside/" + made, false},
		"a file anywhere":          {"ROOT/outside/" + made, false},
		"a file beyond a link":     {"link/" + made, false},
		"a link":                   {"links/" + made, false},
		"a directory":              {"dirs/" + made, false},
		"no file that is there":    {"none/" + made, false},
		"itself":                   {marker, false},
		"itself, by a longer path": {"d/../" + marker, false},
		"nothing":                  {"", false},
	} {
		t.Run(name, func(t *testing.T) {
			top := t.TempDir()
			dir := filepath.Join(top, "workspace")
			for _, d := range []string{"d", "dirs/" + made, "links", "../outside"} {
				require.NoError(t, os.MkdirAll(filepath.Join(dir, d), 0o700))
			}
			for _, f := range []string{"d/" + made, "d/notes", "../outside/" + made} {
				require.NoError(t, os.WriteFile(filepath.Join(dir, f), []byte("x"), 0o600))
			}
			require.NoError(t, os.Symlink("../../outside/"+made, filepath.Join(dir, "links", made)))
			require.NoError(t, os.Symlink("../outside", filepath.Join(dir, "link")))
			want := filesBelow(t, top)
			if tt.removed {
				want = slices.DeleteFunc(want, func(f string) bool { return f == "workspace/d/"+made })
			}
			says := strings.Replace(tt.says, "ROOT", top, 1)
			require.NoError(t, os.WriteFile(filepath.Join(dir, marker), []byte(says), 0o600))
			root, err := os.OpenRoot(dir)
			require.NoError(t, err)
			defer root.Close()
			require.Equal(t, []string{marker}, tempname.Left(root))
			require.NoError(t, tempname.RemoveLeft(root, marker))
			require.Equal(t, want, filesBelow(t, top))
			require.DirExists(t, filepath.Join(dir, "dirs", made))
		})
	}
}

// TestWhatIsSweptByOthersIsNoError removes a file more than once at the same moment.
func TestWhatIsSweptByOthersIsNoError(t *testing.T) {
	const left = ".pygent-ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	defer root.Close()
	for range 500 {
		require.NoError(t, os.WriteFile(filepath.Join(dir, left), nil, 0o600))
		errs := make([]error, 4)
		var sweeps sync.WaitGroup
		for i := range errs {
			sweeps.Go(func() { errs[i] = tempname.RemoveLeft(root, left) })
		}
		sweeps.Wait()
		require.NoError(t, errors.Join(errs...))
	}
}

func TestAFileThatCannotBecomeAnotherLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "sub"), 0o700))
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	defer root.Close()
	_, err = tempname.Create(root, "none", 0o600)
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.Empty(t, filesBelow(t, dir), "not even a marker")

	f, err := tempname.Create(root, "sub", 0o600)
	require.NoError(t, err)
	require.ErrorIs(t, f.Become("none/file"), fs.ErrNotExist)
	require.Empty(t, filesBelow(t, dir))

	f, err = tempname.Create(root, "sub", 0o600)
	require.NoError(t, err)
	require.NoError(t, f.Become("file"))
	now, err := root.Open("file")
	require.NoError(t, err)
	defer now.Close()
	require.NoError(t, filelock.Lock(now), "nobody holds it any longer")
}

func TestWhatSomebodyElseRemovedIsAnError(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(dir, "sub"), 0o700))
	root, err := os.OpenRoot(dir)
	require.NoError(t, err)
	defer root.Close()
	for _, part := range []string{"sub", "."} { // the file, and its marker
		f, err := tempname.Create(root, "sub", 0o600)
		require.NoError(t, err)
		names, err := filepath.Glob(filepath.Join(dir, part, tempname.Prefix+"*"))
		require.NoError(t, err)
		require.Len(t, names, 1)
		require.NoError(t, os.Remove(names[0]))
		require.ErrorIs(t, f.Remove(), fs.ErrNotExist, part)
		require.Empty(t, filesBelow(t, dir))
	}
}
