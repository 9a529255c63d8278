package pygent_test

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/progress"
)

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
