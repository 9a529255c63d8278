package guest_test

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/guest"
)

//go:embed testdata/setid.py
var setidScript []byte

// setidErrors are the attempts of the script that must fail. All others must
// succeed, but without the bit.
var setidErrors = map[string]string{
	"a link itself":                     "ENOTSUP",
	"through /proc/self/cwd":            "ELOOP",
	"through /proc/self/root":           "ELOOP",
	"the guest's program":               "ELOOP",
	"what the guest has open":           "ELOOP",
	"no such file":                      "ENOENT",
	"no path":                           "ENOENT",
	"no memory":                         "EFAULT",
	"no directory":                      "ENOTDIR",
	"no descriptor":                     "EBADF",
	"no directory's descriptor":         "EBADF",
	"a long path":                       "ENAMETOOLONG",
	"unknown flags":                     "EINVAL",
	"a loop of links":                   "ELOOP",
	"openat of what exists":             "EPERM",
	"openat exclusively of what exists": "EEXIST",
	"openat of a pipe":                  "EPERM",
	"mknod":                             "EPERM",
	"mknodat":                           "EPERM",
	"openat2":                           "ENOSYS",
	"io_uring":                          "ENOSYS",
	"a listener of its own":             "EBUSY",
	"a call of tomorrow":                "ENOSYS",
	"x32":                               "ENOSYS",
	"int 0x80":                          "ENOSYS",
	"another user, his own":             "EPERM",
	"another user, root's":              "EPERM",
	"root without capabilities":         "EPERM",
	"a creation in another group":       "EPERM",

	"a switched user, root's":                  "EPERM",
	"a switched user, root's by descriptor":    "EPERM",
	"a switched user, root's by a link":        "EPERM",
	"a switched user, his own out of reach":    "EACCES",
	"a switched user, his own out of a group":  "EACCES",
	"a switched user creates where he may not": "EACCES",

	"a process that nobody may look into": "EPERM",
}

func TestNoWayToASetuidFileInAContainer(t *testing.T) {
	for name, user := range map[string]string{"root": "", "a user": "1000:1000"} {
		t.Run(name, func(t *testing.T) {
			r := container(t, debianImage(t), containerOptions{user: user})
			require.Equal(t, "stripped", r.client.Info().Setid, r.client.Info().SetidNote)
			checkSetid(t, trySetid(t, r.client, r.workspace), func(attempt string) []string {
				if user != "" { // it may not even look at files that belong to root
					return map[string][]string{"a directory of the user's": {"EPERM"}}[attempt]
				}
				return nil
			})
			if user != "" {
				info, err := os.Stat(filepath.Join(r.workspace, "untouchable"))
				require.NoError(t, err)
				require.Equal(t, fs.FileMode(0o640), info.Mode())
			}
		})
	}
}

// A local guest of root has the same filter, and may look into every process.
func TestNoWayToASetuidFileBesideUs(t *testing.T) {
	if testing.Short() {
		t.Skip("tries many attacks")
	}
	workspace := t.TempDir()
	c := localIn(t, workspace, guest.Config{})
	if c.Info().Setid == "" {
		require.NotZero(t, os.Getuid())
		require.NotEmpty(t, c.Info().SetidNote)
		return
	}
	checkSetid(t, trySetid(t, c, workspace), func(attempt string) []string {
		return map[string][]string{
			"a process that nobody may look into": {"ok"},
			"a creation in another group":         {"ok"},              // made by a process that has changed its group itself
			"the guest's program":                 {"ELOOP", "EACCES"}, // here it belongs to another process
			"what the guest has open":             {"ELOOP", "EACCES"},
		}[attempt]
	})
}

// A command may stop the guest that runs beside it. Calls of commands then
// wait.
func TestStoppedGuestLetsNoBitThrough(t *testing.T) {
	workspace := t.TempDir()
	c := localIn(t, workspace, guest.Config{})
	if c.Info().Setid == "" {
		return // TestNoWayToASetuidFileBesideUs checks that
	}
	job, err := c.Start(context.Background(), guest.Command{Script: `touch f; read -r _ _ _ guest _ </proc/$PPID/stat
until [ -e go ]; do sleep 0.01; done
echo $guest >pid.new; kill -STOP $guest
for thread in /proc/$guest/task/*/stat; do until grep -q ') T ' $thread; do sleep 0.01; done; done # one that still ran could answer
mv pid.new pid; chmod 4755 f; echo over $? >over; ls -l f >>over`})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(workspace, "go"), nil, 0o644)) // the guest has answered
	pid := 0
	require.Eventually(t, func() bool {
		data, err := os.ReadFile(filepath.Join(workspace, "pid"))
		if err != nil {
			return false
		}
		pid, err = strconv.Atoi(strings.TrimSpace(string(data)))
		require.NoError(t, err)
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		require.NoError(t, err)
		return strings.Contains(string(stat), ") T ")
	}, testTime, time.Millisecond)
	info, err := os.Stat(filepath.Join(workspace, "f"))
	require.NoError(t, err)
	require.Equal(t, fs.FileMode(0o644), info.Mode())
	require.NoFileExists(t, filepath.Join(workspace, "over"))
	require.NoError(t, syscall.Kill(pid, syscall.SIGCONT))
	for out := (guest.Output{Job: job}); out.Job.Running; {
		out, err = c.Output(context.Background(), job.ID, out.Next, 0, testTime)
		require.NoError(t, err)
	}
	over, err := os.ReadFile(filepath.Join(workspace, "over"))
	require.NoError(t, err)
	require.Contains(t, string(over), "over 0\n-rwxr-xr-x")
}

// checkSetid checks the results of the script. If other returns results for an
// attempt, they take the place of the usual ones.
func checkSetid(t *testing.T, results map[string]*string, other func(attempt string) []string) {
	t.Helper()
	require.Greater(t, len(results), 50)
	for attempt, result := range results {
		want := other(attempt)
		if want == nil {
			want = []string{cmp.Or(setidErrors[attempt], "ok")}
		}
		if result != nil {
			require.Contains(t, want, *result, attempt)
		}
	}
}

// trySetid runs the script in a workspace. It then looks from outside for files
// with one of the bits.
func trySetid(t *testing.T, c *guest.Client, workspace string) map[string]*string {
	t.Helper()
	untouchable, shared := filepath.Join(workspace, "untouchable"), filepath.Join(workspace, "shared")
	require.NoError(t, os.WriteFile(untouchable, nil, 0o640))
	require.NoError(t, os.Mkdir(shared, 0o755))
	require.NoError(t, os.Chmod(shared, 0o755|fs.ModeSetgid))
	require.NoError(t, c.WriteFile(context.Background(), "setid.py", bytes.NewReader(setidScript), 0o644))
	res := runCommand(t, c, guest.Command{Script: "python3 -B setid.py", Timeout: testTime, Head: 1 << 20})
	var results map[string]*string
	require.NoError(t, json.Unmarshal(res.Head, &results), "%s%s", res.Head, res.Tail)
	require.NoError(t, filepath.WalkDir(workspace, func(path string, entry fs.DirEntry, err error) error {
		require.NoError(t, err)
		info, err := entry.Info()
		require.NoError(t, err)
		if path != shared {
			require.Zero(t, info.Mode()&(fs.ModeSetuid|fs.ModeSetgid), path)
		}
		return nil
	}))
	info, err := os.Stat(shared)
	require.NoError(t, err)
	require.NotZero(t, info.Mode()&fs.ModeSetgid, "the user's own bit is gone")
	return results
}
