package lines_test

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/pygenttest"
)

// panickyRuntime is an embedder's runtime that panics in some methods.
type panickyRuntime struct{ pygent.Runtime }

func (panickyRuntime) Describe(context.Context) pygent.RuntimeInfo { panic("no description") }

func (panickyRuntime) Start(context.Context) error { panic("no start") }

func TestPanicOfARuntimeDoesNotCrossTheSession(t *testing.T) {
	t.Parallel()
	agent, err := pygent.New(pygent.WithModel(pygenttest.NewScriptedModel(stop)),
		pygent.WithRuntime(panickyRuntime{localRuntime(t)}), pygent.WithIO(strings.NewReader("/help\n"), &bytes.Buffer{}))
	require.NoError(t, err)
	require.NoError(t, agent.RunInteractive(t.Context()))
	require.NoError(t, agent.Close())
}
