//go:build !race

// The suite for stores runs here once for each wrong one, in a process of its own. That its
// checks race with nothing is seen where it runs for the right ones.

package pygenttest_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/pygenttest"
)

func TestEachWrongStoreIsFound(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the checks of stores many times")
	}
	if os.Getenv(wrongEnv) != "" {
		for wrong := range wrongStores {
			t.Run(wrong, func(t *testing.T) { pygenttest.TestHistoryStore(t, openWrong(wrong)) })
		}
		return
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestEachWrongStoreIsFound$")
	cmd.Env = append(os.Environ(), wrongEnv+"=1")
	out, err := cmd.CombinedOutput()
	require.Error(t, err)
	require.NotContains(t, string(out), "panic:")
	for wrong := range wrongStores {
		name := strings.ReplaceAll(wrong, " ", "_")
		require.Contains(t, string(out), "--- FAIL: TestEachWrongStoreIsFound/"+name+" (")
	}
}
