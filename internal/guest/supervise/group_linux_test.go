package supervise_test

import (
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/x/pygent/internal/guest/supervise"
)

// newGroups returns Groups for a process that reaps only the children that it
// starts.
func newGroups(t *testing.T) *supervise.Groups {
	t.Helper()
	g := supervise.NewGroups()
	t.Cleanup(func() { require.NoError(t, g.Close()) })
	return g
}

func TestGroupTellsHowCommandsEnd(t *testing.T) {
	groups := newGroups(t)
	for script, want := range map[string]supervise.Exit{
		"true":       {},
		"exit 9":     {Code: 9},
		"kill -9 $$": {Code: 137, Signal: 9},
	} {
		p, _ := start(t, groups, script)
		<-p.Gone()
		require.Equal(t, want, p.Exit(), script)
	}
}

// A child with a session of its own is found while its parent lives. A
// background job of the shell is found although it has a process group of its
// own.
func TestGroupKillsWhatLeftTheProcessGroup(t *testing.T) {
	for _, script := range []string{
		"setsid sh -c 'echo up; exec sleep 600' & wait",
		"set -m; sh -c 'echo up; exec sleep 600' & wait",
		"sh -c 'echo up; exec sleep 600' & :",
	} {
		p, out := start(t, newGroups(t), script)
		buf := make([]byte, 3)
		_, err := io.ReadFull(out, buf)
		require.NoError(t, err)
		_, count := p.Procs(10)
		require.NotZero(t, count)
		p.Stop(0)
		<-p.Gone()
		_, err = io.ReadAll(out) // this returns, because nobody holds the other end
		require.NoError(t, err)
	}
}

func TestGroupEndsAtTermWithinTheGrace(t *testing.T) {
	p, out := start(t, newGroups(t), "trap 'echo bye; exit 3' TERM; echo up; while :; do sleep 0.01; done")
	buf := make([]byte, 3)
	_, err := io.ReadFull(out, buf)
	require.NoError(t, err)
	p.Stop(time.Minute)
	<-p.Gone()
	require.Equal(t, 3, p.Exit().Code)
	rest, err := io.ReadAll(out)
	require.NoError(t, err)
	require.Contains(t, string(rest), "bye")
}

// If the kernel does not support subreapers, as under user-mode emulators,
// NewPool says so.
func TestGroupsAreThereWhereAPoolIsNot(t *testing.T) {
	if unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0) == nil {
		require.NoError(t, newPool(t).Close())
		return
	}
	_, err := supervise.NewPool()
	require.ErrorIs(t, err, supervise.ErrNoSubreaper)
	require.ErrorContains(t, err, "prctl")
}
