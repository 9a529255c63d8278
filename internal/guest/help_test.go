package guest_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/guest"
)

// testTime is the time limit of every request of a test.
const testTime = 30 * time.Second

// local returns the client of a guest beside the test, in a workspace of its
// own.
func local(t testing.TB) *guest.Client {
	t.Helper()
	return localIn(t, t.TempDir(), guest.Config{})
}

func localIn(t testing.TB, workspace string, config guest.Config) *guest.Client {
	t.Helper()
	config.Workspace = workspace
	c, err := guest.StartLocal(context.Background(), os.Environ(), config)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

// run runs a script that must succeed.
func run(t testing.TB, c *guest.Client, script string) guest.Result {
	t.Helper()
	r := runCommand(t, c, guest.Command{Script: script})
	require.Equal(t, 0, r.ExitCode, "%s%s", r.Head, r.Tail)
	return r
}

func runCommand(t testing.TB, c *guest.Client, cmd guest.Command) guest.Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testTime)
	defer cancel()
	r, err := c.Run(ctx, cmd)
	require.NoError(t, err)
	return r
}

// output returns the part of the output that a result has kept.
func output(r guest.Result) string { return string(r.Head) + string(r.Tail) }
