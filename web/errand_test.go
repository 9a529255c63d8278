package web_test

import (
	"context"
	"io"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/pygenttest"
)

// gated is a reply that is given once gate is closed. asked is closed when the model is
// asked for it: what is said before that is heard at once.
func gated(gate <-chan struct{}, text string) (reply pygenttest.Reply, asked <-chan struct{}) {
	asking := make(chan struct{})
	return pygenttest.Decide(func(*pygent.ChatRequest) pygenttest.Reply {
		close(asking)
		<-gate
		return pygenttest.Text(text)
	}), asking
}

// What is said while a command keeps the agent busy is heard after the command.
func TestWhatIsSaidDuringACommandIsHeardAfterIt(t *testing.T) {
	gate := make(chan struct{})
	command, asked := gated(gate, "Of the command.")
	s := serve(t, []pygenttest.Reply{command, pygenttest.Text("Of the message.")}, pygent.WithCommands(pygent.Command{
		Name: "work", Summary: "Work.", Run: func(ctx context.Context, a *pygent.Agent, _ string, _ io.Writer) error {
			_, err := a.RunUntilStop(ctx, "Work.", pygent.WithEndOnReply())
			return err
		},
	}))
	p := s.open("")
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.post("/commands", map[string]any{"line": "/work"}, nil)
	}()
	p.shows("</span>Work.<")
	<-asked
	p.until("that it is told", func(p *page) bool { return p.state.Words == "Running /work" && p.state.Errand })
	s.say("And this.")
	s.say("And that.")
	p.until("that it waits", func(p *page) bool { return len(p.state.Queue) == 2 && !p.state.Held && !p.state.Busy })
	require.Equal(t, "And this.", p.look().state.Queue[0].Text)
	require.NotContains(t, p.now(), "busy")
	close(gate)
	<-done
	p.shows("</span>And this.<", "</span>And that.<", "<p>Of the message.</p>")
	p.rests()
	require.Empty(t, p.look().state.Queue)
}

// A message that the agent never gets is not lost. The run of a program that goes on
// does not get it either.
func TestAMessageThatTheAgentNeverGetsIsHeldBack(t *testing.T) {
	gate := make(chan struct{})
	s := serve(t, []pygenttest.Reply{pygenttest.Text("Of the program."), pygenttest.Text("Of the message.")}, pygent.WithPrompt(func(pygent.PromptInfo) string {
		<-gate
		return "Help."
	}))
	p := s.open("")
	ended := make(chan error, 1)
	go func() {
		_, err := s.agent.RunUntilStop(t.Context(), "Run.", pygent.WithEndOnReply())
		ended <- err
	}()
	p.shows("</span>Run.<")
	s.say("And this.")
	p.until("that it is held back", func(p *page) bool { return p.state.Held && len(p.state.Queue) == 1 })
	close(gate)
	p.shows("<p>Of the program.</p>")
	require.NoError(t, <-ended)
	require.True(t, p.look().state.Held)
	s.post("/retry", nil, nil)
	p.shows("</span>And this.<", "<p>Of the message.</p>")
	p.rests()
	require.Empty(t, p.look().state.Queue)
}

// A command goes on when the page that asked for it is reloaded; the stop button ends it.
func TestACommandEndsByTheStopButtonAndNotByAReload(t *testing.T) {
	begun, cause := make(chan struct{}), make(chan error, 1)
	s := serve(t, nil, pygent.WithCommands(pygent.Command{
		Name: "wait", Summary: "Wait.", Run: func(ctx context.Context, _ *pygent.Agent, _ string, _ io.Writer) error {
			close(begun)
			<-ctx.Done()
			cause <- context.Cause(ctx)
			return ctx.Err()
		},
	}))
	p := s.open("")
	ctx, cancel := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() {
		_, err := s.client.Do(s.request(http.MethodPost, "/sessions/"+s.id+"/commands", map[string]any{"line": "/wait"}).WithContext(ctx))
		left <- err
	}()
	<-begun
	cancel()
	require.ErrorIs(t, <-left, context.Canceled)
	p.until("that it goes on", func(p *page) bool { return p.state.Errand })
	s.post("/interrupt", nil, nil)
	require.ErrorContains(t, <-cause, "by the user")
	p.shows(`<span class="what">/wait</span>`, "interrupted by the user")
	p.until("its end", func(p *page) bool { return !p.state.Errand && p.state.Words == "" })
}
