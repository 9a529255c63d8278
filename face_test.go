package pygent_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/pygenttest"
)

// register makes f a face until the test ends. Faces are those of the process, so no test
// that registers one, or needs that there is none, runs beside others.
func register(t *testing.T, name string, f pygent.Face) {
	t.Helper()
	pygent.RegisterFace(name, f)
	t.Cleanup(func() { pygent.RegisterFace(name, nil) })
}

func TestARegisteredFaceRunsTheSession(t *testing.T) {
	for name, run := range map[string]func(*pygent.Agent, context.Context) error{
		pygent.FaceTerminal: (*pygent.Agent).RunInteractive,
		pygent.FaceWeb:      (*pygent.Agent).RunGUI,
	} {
		t.Run(name, func(t *testing.T) {
			model := pygenttest.NewScriptedModel(pygenttest.Text("Hello."))
			var out strings.Builder
			agent := newAgent(t, model, pygent.WithIO(strings.NewReader("Hi.\n"), &out), pygent.WithResume(true))
			left := errors.New("left")
			register(t, name, func(ctx context.Context, s pygent.FaceSession) error {
				require.Same(t, agent, s.Agent)
				require.True(t, s.Resume)
				said, err := io.ReadAll(s.In)
				require.NoError(t, err)
				result, err := s.Agent.RunUntilStop(ctx, string(said), pygent.WithEndOnReply())
				require.NoError(t, err)
				fmt.Fprint(s.Out, result.Summary)
				return left
			})
			require.ErrorIs(t, run(agent, t.Context()), left)
			require.Equal(t, "Hello.", out.String())
		})
	}
}

func TestAFaceCanLeaveTheSessionToThePlainOne(t *testing.T) {
	var out strings.Builder
	agent := newAgent(t, pygenttest.NewScriptedModel(pygenttest.Text("Hello.")), pygent.WithIO(strings.NewReader("Hi.\n/exit\n"), &out))
	register(t, pygent.FaceTerminal, func(ctx context.Context, s pygent.FaceSession) error { return s.Plain(ctx) })
	require.NoError(t, agent.RunInteractive(t.Context()))
	require.Contains(t, out.String(), "Hello.")
}

func TestThePersonAtAFaceIsAskedAsLongAsItGoesOn(t *testing.T) {
	model := pygenttest.NewScriptedModel(callBash("echo 1"), callBash("echo 1"), pygenttest.Text("Done."), callBash("echo 1"), pygenttest.Text("Done."))
	agent := newAgent(t, model)
	var asked int
	register(t, pygent.FaceTerminal, func(ctx context.Context, s pygent.FaceSession) error {
		end := s.Answers(ctx, pygent.FaceUser{Approve: func(context.Context, pygent.ApprovalRequest) (pygent.Decision, error) {
			asked++
			return pygent.Decision{Allow: true, Session: true}, nil
		}})
		_, err := s.Agent.RunUntilStop(ctx, "go", pygent.WithEndOnReply())
		require.NoError(t, err)
		require.Equal(t, 1, asked, "the first answer is for the session")
		require.True(t, s.Agent.State().Settings.Approval)
		end()
		require.False(t, s.Agent.State().Settings.Approval)
		_, err = s.Agent.RunUntilStop(ctx, "again", pygent.WithEndOnReply())
		return err
	})
	require.NoError(t, agent.RunInteractive(t.Context()))
	require.Equal(t, 1, asked)
}

func TestAPanicOfAFaceIsAnError(t *testing.T) {
	agent := newAgent(t, pygenttest.NewScriptedModel())
	register(t, pygent.FaceWeb, func(context.Context, pygent.FaceSession) error { panic("no browser") })
	require.ErrorContains(t, agent.RunGUI(t.Context()), "no browser")
}

func TestAClosedAgentHasNoFace(t *testing.T) {
	a := newAgent(t, pygenttest.NewScriptedModel())
	require.NoError(t, a.Close())
	require.ErrorIs(t, a.RunInteractive(t.Context()), pygent.ErrAgentClosed)
	require.ErrorIs(t, a.RunGUI(t.Context()), pygent.ErrAgentClosed)
}

func TestRunGUIWithoutAFaceSaysWhatToImport(t *testing.T) {
	agent := newAgent(t, pygenttest.NewScriptedModel())
	err := agent.RunGUI(t.Context())
	require.ErrorIs(t, err, pygent.ErrNoFace)
	require.ErrorContains(t, err, "import _ \"github.com/x/pygent/web\", or another package that calls RegisterFace(FaceWeb, …)")
}
