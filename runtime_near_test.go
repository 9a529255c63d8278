//go:build unix

package pygent_test

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
)

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

// TestAUserExportsWhatOnlyRootMayRead runs this test binary as a user whose workspace
// has files of the container's root.
func TestAUserExportsWhatOnlyRootMayRead(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only as root")
	}
	requireDocker(t)
	asUser(t, 4321, "TestAsUserRootsFilesAreExported", engineGroup())
}

func TestAsUserRootsFilesAreExported(t *testing.T) {
	if os.Getenv(nobodyVariable) == "" {
		return // only TestAUserExportsWhatOnlyRootMayRead runs this
	}
	r := newTestRuntime(t, pygent.NewDockerRuntime, pygent.WithImage(testImage()))
	require.Zero(t, bash(t, r, "umask 077; mkdir -p d/private; echo a >d/a; echo b >d/private/b; mkdir -m 755 closed").ExitCode)
	to := t.TempDir()
	require.NoError(t, r.ExportFile(t.Context(), "d", to))
	require.Equal(t, map[string]string{"a": "600 a\n", "private/": "700", "private/b": "600 b\n"}, read(t, to))
	require.NoError(t, r.UploadFile(t.Context(), to, "closed/up"), "into a directory of root")
	require.NoError(t, r.UploadFile(t.Context(), to, "own"))
	require.Equal(t, "4321 4321\n4321 4321\n", bash(t, r, "stat -c '%u %g' closed/up/a own/a").Output)
}

// An error names the file that it is about, once, and as the caller does.
func TestCopiesOfWhatIsNoFileSaySo(t *testing.T) {
	r := localRuntime(t)
	bash(t, r, "mkfifo pipe")
	to := t.TempDir()
	require.EqualError(t, r.ExportFile(t.Context(), "pipe", to), "export pipe: not a regular file")
	pipe := filepath.Join(to, "pipe")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	require.EqualError(t, r.UploadFile(t.Context(), pipe, "up"), "upload "+pipe+": not a regular file")
}
