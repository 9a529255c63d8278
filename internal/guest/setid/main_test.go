package setid

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	actAsChild()
	goleak.VerifyTestMain(m)
}

// childVariable is the environment variable that makes the test's program run
// as a child under the filter.
const childVariable = "PYGENT_TEST_SETID"

// actAsChild runs the function that a test wants its child to run.
func actAsChild() {
	if what := os.Getenv(childVariable); what != "" {
		children[what]()
		os.Exit(0)
	}
}
