//go:build unix

package owner

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// claims is the state of a user and a workspace. The tests simulate a directory
// that was given away by writing another owner into its record, because only
// root could change the owner of the directory itself.
type claims struct {
	t    *testing.T
	self *Self
	dir  string
}

func newClaims(t *testing.T) claims {
	t.Helper()
	self := Open(filepath.Join(t.TempDir(), "state"), place())
	require.NoError(t, self.Err())
	return claims{t, self, filepath.Join(t.TempDir(), "ws")}.make()
}

// make makes the workspace's directory.
func (c claims) make() claims {
	c.t.Helper()
	require.NoError(c.t, os.Mkdir(c.dir, 0o700))
	return c
}

func (c claims) claim() *Claim {
	c.t.Helper()
	claim, err := c.self.Claim(c.dir)
	require.NoError(c.t, err)
	return claim
}

func (c claims) records() []string {
	c.t.Helper()
	names, err := filepath.Glob(filepath.Join(c.self.state.root.Name(), claimsDir, "*"))
	require.NoError(c.t, err)
	return names
}

// crashed is when the claim of that process began.
var crashed = time.Unix(1, 2)

// crash leaves the record of a process that was killed while the directory
// belonged to somebody else.
func (c claims) crash(uid, gid int) {
	c.t.Helper()
	require.NoError(c.t, c.claim().Release(false))
	require.Len(c.t, c.records(), 1)
	require.NoError(c.t, os.WriteFile(c.records()[0], fmt.Appendf(nil, "%d %d %q %d\n", uid, gid, c.dir, crashed.UnixNano()), 0o600))
}

func TestClaimCountsUntilItEndedInGoodOrder(t *testing.T) {
	c := newClaims(t)
	first := c.claim()
	require.Equal(t, []int{os.Geteuid(), os.Getegid()}, []int{first.UID, first.GID})
	require.True(t, first.Fresh())
	require.False(t, first.Lost())
	require.NoError(t, first.Release(true))
	require.Empty(t, c.records())

	c.crash(4242, 4243)
	next := c.claim()
	require.Equal(t, []int{4242, 4243}, []int{next.UID, next.GID})
	require.True(t, next.Lost())
	require.False(t, next.Fresh())
	require.Equal(t, crashed, next.Since, "its containers had the files since then")
	require.NoError(t, next.Release(false))
	next = c.claim()
	require.True(t, next.Lost(), "the files were not given back")
	require.NoError(t, next.Release(true))
	require.NoError(t, next.Release(true), "a second time")
	require.Empty(t, c.records())
	require.False(t, c.claim().Lost())
}

func TestClaimsOfOneWorkspaceAgree(t *testing.T) {
	c := newClaims(t)
	c.crash(4242, 4243)
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(c.dir, link))
	first, second := c.claim(), claims{t, c.self, link}.claim()
	require.Equal(t, first.Path, second.Path)
	require.Equal(t, 4242, second.UID)
	require.NoError(t, first.Release(true))
	require.Len(t, c.records(), 1, "the other one goes on")
	third := c.claim()
	require.Equal(t, 4242, third.UID)
	require.NoError(t, second.Release(true))
	require.NoError(t, third.Release(true))
	require.Empty(t, c.records())
}

func TestAnotherDirectoryInThePlaceIsAnotherWorkspace(t *testing.T) {
	c := newClaims(t)
	c.crash(4242, 4243)
	require.NoError(t, os.Rename(c.dir, c.dir+"-old"))
	require.False(t, c.make().claim().Lost())
	require.True(t, claims{t, c.self, c.dir + "-old"}.claim().Lost())
}

func TestAbandonedWorkspacesAreFound(t *testing.T) {
	c := newClaims(t)
	require.Empty(t, c.self.Abandoned())
	c.crash(4242, 4243)
	held := c.claim()
	require.Empty(t, c.self.Abandoned(), "somebody uses it")
	require.NoError(t, held.Release(false))
	found := c.self.Abandoned()
	require.Len(t, found, 1)
	require.Equal(t, c.dir, found[0].Path)
	require.Equal(t, []int{4242, 4243}, []int{found[0].UID, found[0].GID})
	require.Empty(t, c.self.Abandoned(), "it is being given back")
	require.NoError(t, found[0].Release(true))
	require.Empty(t, c.records())
}

func TestRecordsOfNothingAreRemoved(t *testing.T) {
	for name, change := range map[string]func(c claims){
		"the directory is gone":   func(c claims) { require.NoError(t, os.Remove(c.dir)) },
		"another is in its place": func(c claims) { require.NoError(t, os.Rename(c.dir, c.dir+"-old")); c.make() },
		"the record is broken":    func(c claims) { require.NoError(t, os.Truncate(c.records()[0], 3)) },
		"the record is not there": func(c claims) { require.NoError(t, os.Remove(c.records()[0])) },
		"the record never was whole": func(c claims) {
			require.NoError(t, os.Rename(c.records()[0], filepath.Join(filepath.Dir(c.records()[0]), newClaim+"X")))
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newClaims(t)
			c.crash(4242, 4243)
			long := time.Now().Add(-2 * awayTime)
			require.NoError(t, os.Chtimes(c.records()[0], long, long))
			change(c)
			require.Empty(t, c.self.Abandoned())
			require.Empty(t, c.records())
		})
	}
}

func TestBrokenRecordIsMadeAnew(t *testing.T) {
	c := newClaims(t)
	c.crash(4242, 4243)
	require.NoError(t, os.Truncate(c.records()[0], 3))
	require.False(t, c.claim().Lost())
}

func TestClaimWithoutAStateIsGood(t *testing.T) {
	self := alone(place(), os.ErrPermission)
	claim, err := self.Claim(t.TempDir())
	require.ErrorIs(t, err, os.ErrPermission)
	require.Equal(t, os.Geteuid(), claim.UID)
	require.NoError(t, claim.Release(true))
	require.Empty(t, self.Abandoned())
	_, err = self.Claim(filepath.Join(t.TempDir(), "none"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

// TestClaimOfAKilledProcess lets a process claim a workspace and die.
func TestClaimOfAKilledProcess(t *testing.T) {
	if dir := os.Getenv("PYGENT_TEST_CLAIM"); dir != "" {
		_, err := Open(os.Getenv("PYGENT_TEST_STATE"), place()).Claim(dir)
		require.NoError(t, err)
		me, err := os.FindProcess(os.Getpid())
		require.NoError(t, err)
		require.NoError(t, me.Kill())
		select {}
	}
	c := newClaims(t)
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestClaimOfAKilledProcess$")
	cmd.Env = append(os.Environ(), "PYGENT_TEST_CLAIM="+c.dir, "PYGENT_TEST_STATE="+c.self.state.root.Name())
	out, err := cmd.CombinedOutput()
	require.Equal(t, -1, cmd.ProcessState.ExitCode(), "%v %s", err, out)
	require.Len(t, c.records(), 1)
	require.Len(t, c.self.Abandoned(), 1)
}

func TestClaimsAtOnce(t *testing.T) {
	c := newClaims(t)
	done := make(chan error)
	for range 8 {
		go func() {
			var failed error
			for range 200 {
				claim, err := c.self.Claim(c.dir)
				if err == nil {
					err = claim.Release(true)
				}
				for _, a := range c.self.Abandoned() {
					_ = a.Release(true)
				}
				if err != nil {
					failed = err
				}
			}
			done <- failed
		}()
	}
	for range 8 {
		require.NoError(t, <-done)
	}
	require.LessOrEqual(t, len(c.records()), 1)
}

// TestOnlyTheClaimedDirectoryIsGivenBack puts another directory, or a link to
// one, in the place of the claimed directory before it is given back.
func TestOnlyTheClaimedDirectoryIsGivenBack(t *testing.T) {
	mine := [2]int{os.Geteuid(), os.Getegid()}
	for name, replace := range map[string]func(c claims, other string) error{
		"a directory": func(c claims, other string) error { return os.Rename(other, c.dir) },
		"a link":      func(c claims, other string) error { return os.Symlink(other, c.dir) },
		"nothing":     func(claims, string) error { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			c := newClaims(t)
			claim := c.claim()
			other := filepath.Join(filepath.Dir(c.dir), "other")
			require.NoError(t, os.Mkdir(other, 0o700))
			require.NoError(t, os.Rename(c.dir, c.dir+"-old"))
			require.NoError(t, replace(c, other))
			claim.UID, claim.GID = mine[0], mine[1] // every user may give a file to themselves
			require.Error(t, claim.GiveBack())
		})
	}
	c := newClaims(t)
	claim := c.claim()
	require.NoError(t, claim.GiveBack())
	if mine[0] == 0 {
		claim.UID, claim.GID = 4242, 4243
		require.NoError(t, claim.GiveBack())
		now, err := lookAt(c.dir)
		require.NoError(t, err)
		require.Equal(t, [2]int{4242, 4243}, now.now)
	}
}

// TestOwnerOutlivesThePlace makes the directory of a workspace disappear for a
// time, as on a disk that is not mounted or under another name, while other
// processes look for abandoned workspaces.
func TestOwnerOutlivesThePlace(t *testing.T) {
	c := newClaims(t)
	c.crash(4242, 4243)
	require.NoError(t, os.Rename(c.dir, c.dir+"-away"))
	require.Empty(t, c.self.Abandoned())
	require.NoError(t, os.Mkdir(c.dir, 0o700))
	require.Empty(t, c.self.Abandoned(), "another directory")
	require.True(t, claims{t, c.self, c.dir + "-away"}.claim().Lost())
}

// TestOwnerOutlivesAProcessThatDidNothing starts two processes: the first runs
// nothing, and the second runs something and is killed.
func TestOwnerOutlivesAProcessThatDidNothing(t *testing.T) {
	c := newClaims(t)
	first := c.claim()
	require.NoError(t, c.claim().Release(false))
	require.NoError(t, first.Release(first.Fresh()))
	require.Len(t, c.records(), 1)
}

// TestWhatIsNoRecordIsRemoved puts something else in the place of a record.
// Opening it must not block.
func TestWhatIsNoRecordIsRemoved(t *testing.T) {
	for name, make := range map[string]func(record string) error{
		"pipe":     func(record string) error { return unix.Mkfifo(record, 0o600) },
		"link out": func(record string) error { return os.Symlink("/etc/passwd", record) },
		"link": func(record string) error {
			return errors.Join(os.WriteFile(record+"-x", []byte("1 2 \"/etc\" 3\n"), 0o600), os.Symlink(filepath.Base(record)+"-x", record))
		},
		"huge": func(record string) error {
			return os.WriteFile(record, bytes.Repeat([]byte("1 2 \""), maxRecord), 0o600)
		},
		"nobody": func(record string) error { return os.WriteFile(record, []byte("-1 -1 \"/\" 3\n"), 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			c := newClaims(t)
			c.crash(4242, 4243)
			record := c.records()[0]
			require.NoError(t, os.Remove(record))
			require.NoError(t, make(record))
			require.False(t, c.claim().Lost())
		})
	}
}
