package pygent_test

import (
	"testing"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/testkit"
	"github.com/x/pygent/internal/testkit/enginetest"
)

// TestMain also ends the runtimes that tests used one after the other.
func TestMain(m *testing.M) {
	for name, face := range faceOfTests {
		pygent.RegisterFace(name, face)
	}
	testkit.Main(endingStarted{m})
}

// Short names for what other packages' tests use, too.
var (
	newAgent   = testkit.NewLocalAgent
	newAgentOf = testkit.NewAgent
	newAgentOn = testkit.NewAgentOn
	quick      = testkit.Quick

	callBash = testkit.CallBash
	stop     = testkit.Stop
	results  = testkit.Results
	jsonOf   = testkit.JSON

	writeFiles = testkit.WriteFiles

	runtimeCases   = testkit.RuntimeKinds
	newTestRuntime = testkit.NewRuntime
	bash           = testkit.Bash
	collect        = testkit.Collect

	requireDocker = testkit.RequireDocker
	onRemote      = testkit.OnRemote
	testEngine    = enginetest.Client
	imageOf       = enginetest.ImageOf
)

type (
	runtimeCase = testkit.RuntimeKind
	nowhere     = testkit.Nowhere
	noRuntime   = testkit.NoRuntime
)
