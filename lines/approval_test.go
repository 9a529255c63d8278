package lines_test

import (
	"context"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/pygenttest"
)

func TestSetApprovalDuringASessionStays(t *testing.T) {
	t.Parallel()
	var agent *pygent.Agent
	in, w := io.Pipe()
	model := pygenttest.NewScriptedModel(pygenttest.Text("hello"))
	agent = quick(t, model, pygent.WithIO(in, io.Discard))
	go func() {
		fmt.Fprintln(w, "hi")
		for agent.State().Seq == 0 {
			time.Sleep(time.Millisecond)
		}
		agent.SetApproval(func(context.Context, pygent.ApprovalRequest) (pygent.Decision, error) { return pygent.Decision{}, nil })
		w.Close()
	}()
	require.NoError(t, agent.RunInteractive(t.Context()))
	require.True(t, agent.State().Settings.Approval)
}
