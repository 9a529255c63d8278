package chat_test

import (
	"runtime"
	"testing"

	"github.com/x/pygent/internal/testkit"
	"github.com/x/pygent/internal/testkit/enginetest"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// Short names for what other packages' tests use, too.
var (
	newAgent      = testkit.NewLocalAgent
	newAgentOn    = testkit.NewAgentOn
	quick         = testkit.Quick
	jsonOf        = testkit.JSON
	requireDocker = testkit.RequireDocker
	testImage     = enginetest.Image
)

type nowhere = testkit.Nowhere

// allocated returns how many bytes f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}
