package lines_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/x/pygent"
	"github.com/x/pygent/lines"
	"github.com/x/pygent/pygenttest"
)

func TestMain(m *testing.M) {
	pygent.RegisterFace(pygent.FaceTerminal, lines.Run)
	goleak.VerifyTestMain(m)
}

var stop = pygenttest.Call("stop", map[string]any{"summary": "all done"})

func callBash(cmd string) pygenttest.Reply {
	return pygenttest.Call("bash", map[string]any{"cmd": cmd})
}

func plainTool(name string, change func(*pygent.Tool)) pygent.Tool {
	t := pygent.Tool{Name: name, Run: func(context.Context, pygent.Runtime, json.RawMessage) (*pygent.ToolResult, error) {
		return &pygent.ToolResult{Content: name}, nil
	}}
	if change != nil {
		change(&t)
	}
	return t
}

func localRuntime(t *testing.T) pygent.Runtime {
	t.Helper()
	rt, err := pygent.NewLocalRuntime(t.Context())
	require.NoError(t, err)
	return rt
}

func newAgent(t *testing.T, model pygent.Model, opts ...pygent.Option) *pygent.Agent {
	t.Helper()
	return newAgentOn(t, localRuntime(t), model, opts...)
}

func newAgentOn(t *testing.T, rt pygent.Runtime, model pygent.Model, opts ...pygent.Option) *pygent.Agent {
	t.Helper()
	agent, err := pygent.New(append([]pygent.Option{
		pygent.WithModel(model),
		pygent.WithRuntime(rt),
		pygent.WithRetry(pygent.RetryPolicy{BaseDelay: time.Millisecond}),
	}, opts...)...)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, agent.Close())
		if agent.History().Len() > 0 {
			require.NoError(t, pygenttest.CheckConversation(agent.History().Messages()))
		}
	})
	return agent
}

// quick returns an agent without files and instructions.
func quick(t *testing.T, model pygent.Model, opts ...pygent.Option) *pygent.Agent {
	t.Helper()
	return newAgentOn(t, noRuntime{}, model, append([]pygent.Option{pygent.WithInstructions(false)}, opts...)...)
}

// noRuntime runs nothing.
type noRuntime struct{ pygent.Runtime }

func (noRuntime) Cleanup() error { return nil }

// nowhere is a runtime in which commands do nothing.
type nowhere struct{}

func (nowhere) Bash(_ context.Context, cmd string, _ ...pygent.BashOption) (pygent.BashResult, error) {
	return pygent.BashResult{Command: cmd}, nil
}
func (nowhere) ReadFile(context.Context, string) ([]byte, error) { return nil, fs.ErrNotExist }
func (nowhere) WriteFile(context.Context, string, []byte) error  { return nil }
func (nowhere) UploadFile(context.Context, string, string) error { return nil }
func (nowhere) ExportFile(context.Context, string, string) error { return nil }
func (nowhere) Cleanup() error                                   { return nil }

// broken is a runtime whose container cannot start.
type broken struct{ nowhere }

var errNoImage = fmt.Errorf("%w: no such image: nope:latest", pygent.ErrRuntimeStart)

func (broken) Bash(context.Context, string, ...pygent.BashOption) (pygent.BashResult, error) {
	return pygent.BashResult{ExitCode: -1}, errNoImage
}
