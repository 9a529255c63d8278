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
	code := m.Run()
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
