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

// childVariable makes the test's program a process under the filter.
const childVariable = "PYGENT_TEST_SETID"

// actAsChild does what a test asks of its child.
func actAsChild() {
	if what := os.Getenv(childVariable); what != "" {
		children[what]()
		os.Exit(0)
	}
}
