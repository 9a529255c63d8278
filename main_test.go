package pygent_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// TestMain gives the tests, and the processes that they start, their own state
// directory.
func TestMain(m *testing.M) {
	if os.Getenv(stateVariable) != "" {
		goleak.VerifyTestMain(m)
	}
	dir, err := os.MkdirTemp("", "pygent-test-state")
	if err != nil {
		panic(err)
	}
	for name, value := range map[string]string{stateVariable: dir, "XDG_STATE_HOME": dir} {
		if err := os.Setenv(name, value); err != nil {
			panic(err)
		}
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		os.RemoveAll(dir)
		os.Exit(code)
	}))
}

// stateVariable is set in the processes that a test starts.
const stateVariable = "PYGENT_TEST_STATE"
