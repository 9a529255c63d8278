//go:build linux

package pygent_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/x/pygent"
)

func TestLocalBashTellsWhatItLeftBehind(t *testing.T) {
	r := newTestRuntime(t, pygent.NewLocalRuntime)
	require.Empty(t, bash(t, r, "true & echo hi; wait").Note)
	res := bash(t, r, "sleep 600 >/dev/null 2>&1 & echo $!")
	require.Contains(t, res.Note, "still running in the background")
	require.NoError(t, r.Cleanup())

	// The process has gone, or is a zombie that this machine's init has yet to reap.
	look := newTestRuntime(t, pygent.NewLocalRuntime)
	state := bash(t, look, "cut -d' ' -f3 /proc/"+res.Output[:len(res.Output)-1]+"/stat 2>/dev/null").Output
	require.Contains(t, []string{"", "Z\n", "X\n"}, state)
}
