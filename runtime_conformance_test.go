package pygent_test

import (
	"testing"

	"github.com/x/pygent"
	"github.com/x/pygent/pygenttest"
)

func TestRuntimesKeepTheirPromises(t *testing.T) {
	t.Parallel()
	for _, c := range runtimeCases() {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			pygenttest.TestRuntime(t, func(t *testing.T) pygent.Runtime { return c.New(t) })
		})
	}
}
