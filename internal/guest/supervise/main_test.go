package supervise_test

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	actAsWorker()
	goleak.VerifyTestMain(m)
}
