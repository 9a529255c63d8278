package guest_test

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if workspace := os.Getenv(hostProcess); workspace != "" {
		actAsHost(workspace)
	}
	code := runWithOwnTemp(m)
	_ = os.RemoveAll(guestDir)
	if c, err := engine(); err == nil {
		_ = c.Close()
	}
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// runWithOwnTemp runs the tests with a temporary directory of their own,
// because guests that the tests kill cannot clean up.
func runWithOwnTemp(m *testing.M) int {
	dir, err := os.MkdirTemp("", "guest")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	if err := os.Setenv("TMPDIR", dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}
