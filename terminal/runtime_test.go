package terminal

import (
	"context"
	"io/fs"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/faces"
	"github.com/x/pygent/internal/livearea"
	"github.com/x/pygent/pygenttest"
)

// brokenRuntime is a runtime of somebody else that has no files and panics.
type brokenRuntime struct{ pygent.Runtime }

func (brokenRuntime) ReadFile(context.Context, string) ([]byte, error) { return nil, fs.ErrNotExist }
func (brokenRuntime) Describe(context.Context) pygent.RuntimeInfo      { panic("no description") }
func (brokenRuntime) Start(context.Context) error                      { panic("no start") }
func (brokenRuntime) Cleanup() error                                   { return nil }

// slowRuntime is one whose files are read for ever.
type slowRuntime struct{ brokenRuntime }

func (slowRuntime) ReadFile(ctx context.Context, _ string) ([]byte, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// onBroken is a session on a broken runtime that has no terminal.
func onBroken(t *testing.T) *session { return onRuntime(t, brokenRuntime{}) }

func onRuntime(t *testing.T, rt pygent.Runtime) *session {
	agent, err := pygent.New(pygent.WithRuntime(rt), pygent.WithModel(pygenttest.NewScriptedModel()))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, agent.Close()) })
	s := &session{agent: agent, ctx: t.Context(), posts: make(chan func(), 1)}
	s.display.area, s.start = livearea.New(80, 24), faces.NewStartFailure(s.cannotRun)
	t.Cleanup(s.work.Wait)
	return s
}

func TestARuntimeThatPanicsEndsNoSession(t *testing.T) {
	s := onBroken(t)
	require.Zero(t, s.describe())
	s.startRuntime()
	(<-s.posts)()
	require.Contains(t, s.display.take(), "commands cannot run: \x1b[mpanic: no start")
}
