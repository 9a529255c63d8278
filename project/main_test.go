package project_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/testkit"
	"github.com/x/pygent/project"
	"github.com/x/pygent/pygenttest"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// Short names for what other packages' tests use, too.
var (
	callBash       = testkit.CallBash
	stop           = testkit.Stop
	results        = testkit.Results
	newTestRuntime = testkit.NewRuntime
	bash           = testkit.Bash
	writeFiles     = testkit.WriteFiles
)

// newAgentOn returns an agent that reads its workspace, in a runtime.
func newAgentOn(t *testing.T, rt pygent.Runtime, model pygent.Model, opts ...pygent.Option) *pygent.Agent {
	t.Helper()
	return testkit.NewAgentOn(t, rt, model, append([]pygent.Option{project.Read()}, opts...)...)
}

// newAgent returns one whose commands run on this machine.
func newAgent(t *testing.T, model pygent.Model, opts ...pygent.Option) *pygent.Agent {
	t.Helper()
	return testkit.NewLocalAgent(t, model, append([]pygent.Option{project.Read()}, opts...)...)
}

func forEachRuntime(t *testing.T, test func(t *testing.T, rt pygent.Runtime)) {
	for _, kind := range testkit.RuntimeKinds() {
		t.Run(kind.Name, func(t *testing.T) { test(t, kind.New(t)) })
	}
}

// forEachStarted calls a test for each case in each kind of runtime. The start and the end of
// a container cost more than the test: all cases of a kind have one, whose workspace is empty.
func forEachStarted[T any](t *testing.T, cases map[string]T, test func(t *testing.T, rt pygent.Runtime, of T)) {
	forEachRuntime(t, func(t *testing.T, rt pygent.Runtime) {
		for name, of := range cases {
			t.Run(name, func(t *testing.T) { test(t, rt, of) })
			require.NoError(t, rt.(pygent.FileRemover).RemoveFile(t.Context(), ".", true))
		}
	})
}

// systemsOf returns the system messages that a model was given, one a request.
func systemsOf(model *pygenttest.ScriptedModel) (all []string) {
	for _, req := range model.Requests() {
		all = append(all, req.Messages[0].Content)
	}
	return all
}
