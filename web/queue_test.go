package web_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
	"github.com/x/pygent/pygenttest"
)

func TestWhatIsSaidMeanwhileIsQueued(t *testing.T) {
	s := serve(t, []pygenttest.Reply{
		pygenttest.Call("bash", map[string]any{"cmd": "echo one"}), pygenttest.Text("First."),
	})
	p := s.open("")
	s.say("Begin.")
	a := s.asked()
	s.say("And a changelog.")
	s.say("Or rather not.")
	p.until("the queue", func(p *page) bool { return len(p.state.Queue) == 2 })
	require.Equal(t, "And a changelog.", p.look().state.Queue[0].Text)
	require.False(t, p.look().state.Held)
	var back struct{ Text string }
	s.must(http.MethodDelete, "/messages/"+p.look().state.Queue[1].ID, nil, &back)
	require.Equal(t, "Or rather not.", back.Text)
	status, _ := s.do(s.request(http.MethodDelete, "/sessions/"+s.id+"/messages/none", nil))
	require.Equal(t, http.StatusConflict, status)
	s.post("/asks/"+a.ID, map[string]any{"decision": "once"}, nil)
	p.shows("And a changelog.<", "<p>First.</p>")
	p.rests()
	require.Empty(t, p.look().state.Queue)
	require.NotContains(t, p.now(), "rather not")
}

// What a program said to an agent before it showed it is heard at once.
func TestWhatWasSaidBeforeThePageIsHeard(t *testing.T) {
	s := serveAt(t)
	s.agent = newAgent(t, pygenttest.NewScriptedModel(pygenttest.Text("Heard.")))
	_, err := s.agent.Say(pygent.Message{Content: "Begin."})
	require.NoError(t, err)
	s.id, err = s.server.Add("", s.agent)
	require.NoError(t, err)
	p := s.open("")
	p.shows("</span>Begin.<", "<p>Heard.</p>")
	p.rests()
	require.Empty(t, p.look().state.Queue)
}

// A stop that comes when the run has ended with a question already takes nothing from it.
func TestAStopThatComesTooLateLeavesTheQuestion(t *testing.T) {
	ended, stopped := make(chan struct{}), make(chan struct{})
	s := serve(t, []pygenttest.Reply{
		pygenttest.Call("continue", map[string]any{"prompt": "Delete all?", "options": []string{"Yes", "No"}}), pygenttest.Text("Kept."),
	}, pygent.WithHooks(pygent.Hooks{RunEnd: func(_ context.Context, _ *pygent.Agent, result *pygent.Result) error {
		if result.Question != nil {
			close(ended)
			<-stopped
		}
		return nil
	}}))
	p := s.open("")
	s.say("Begin.")
	<-ended
	s.post("/interrupt", nil, nil)
	close(stopped)
	p.until("the question", func(p *page) bool { return p.state.Needs == "question" && !p.state.Busy })
	require.NotContains(t, p.now(), `<div class="end">Stopped`)
	s.post("/asks/"+s.asked().ID, map[string]any{"answer": "No"}, nil)
	p.shows("<p>Kept.</p>")
	p.rests()
}

func TestAQueuedMessageNeverAnswersAQuestion(t *testing.T) {
	asking, ask := make(chan struct{}), make(chan struct{})
	model := pygenttest.NewScriptedModel(
		pygenttest.Decide(func(*pygent.ChatRequest) pygenttest.Reply {
			close(asking)
			<-ask
			return pygenttest.Call("continue", map[string]any{"prompt": "Delete all?", "options": []string{"Yes", "No"}})
		}),
		pygenttest.Text("Kept."), pygenttest.Text("Well."))
	s := serveAt(t)
	s.agent = newAgent(t, model)
	id, err := s.server.Add("", s.agent)
	require.NoError(t, err)
	s.id = id
	p := s.open("")
	s.say("Begin.")
	<-asking
	s.say("Yes, do.")
	close(ask)
	p.until("the question", func(p *page) bool { return p.state.Needs == "question" })
	p.until("that it is held", func(p *page) bool { return p.state.Held && len(p.state.Queue) == 1 })
	p.until("that it says so", func(p *page) bool { return p.state.Words == "Waiting for your answer" && !p.state.Busy })
	s.post("/messages", map[string]any{"text": "Yes, all.", "queue": true}, nil) // sent as the question came up
	p.until("both", func(p *page) bool { return p.state.Held && len(p.state.Queue) == 2 })
	require.Len(t, model.Requests(), 1)
	var back struct{ Text string }
	s.must(http.MethodDelete, "/messages/"+p.look().state.Queue[1].ID, nil, &back)
	require.Equal(t, "Yes, all.", back.Text)
	p.until("that it is taken back", func(p *page) bool {
		return p.state.Held && len(p.state.Queue) == 1 && p.state.Queue[0].Text == "Yes, do."
	})

	p.shows(`data-value="No"`)
	question := s.asked()
	require.Equal(t, "question", question.Kind)
	s.post("/asks/"+question.ID, map[string]any{"answer": "No"}, nil)
	p.shows("<p>Kept.</p>")
	p.rests()
	require.Empty(t, p.look().state.Words)
	texts := ""
	for _, m := range model.Requests()[1].Messages {
		if m.Role == chat.RoleUser {
			texts += m.Text() + "|"
		}
	}
	require.True(t, strings.HasPrefix(texts, "Begin.|No|"), "the answer comes first: %s", texts)
}

// What the model is told of it besides its output is not for people, now and later.
func TestAStoppedCommandShowsWhatItPrinted(t *testing.T) {
	for command, shown := range map[string]string{"sleep 600": "", "echo begun; sleep 600": "data-out>begun</pre>"} {
		t.Run(command, func(t *testing.T) {
			s := serve(t, []pygenttest.Reply{pygenttest.Call("bash", map[string]any{"cmd": command})}, pygent.WithConfirmBash(false))
			p := s.open("")
			s.say("Wait.")
			p.until("that it runs", func(p *page) bool {
				return p.state.Words == "Running a command" && (shown == "" || strings.Contains(p.text(), "begun\n"))
			})
			s.post("/interrupt", nil, nil)
			p.shows(`<div class="end">Stopped`, "stopped by you")
			p.rests()
			later := serveAt(t)
			id, err := later.server.Add("", s.agent)
			require.NoError(t, err)
			later.id = id
			past := later.open("")
			past.shows(`<div class="end">Stopped`, "stopped by you")
			for _, p := range []*page{p, past} {
				require.Contains(t, p.now(), shown)
				require.NotContains(t, p.now(), "may have taken effect")
				require.NotContains(t, p.now(), "did not finish")
			}
		})
	}
}

func TestPastCommandsShowWhatTheyPrinted(t *testing.T) {
	s := serve(t, []pygenttest.Reply{
		pygenttest.Calls(
			pygenttest.Call("bash", map[string]any{"cmd": "exit 3"}),
			pygenttest.Call("bash", map[string]any{"cmd": "echo whole\necho '[exit code 3]'; exit 3"}),
			pygenttest.Call("bash", map[string]any{"cmd": "echo well"}),
		),
		pygenttest.Text("Done."),
	}, pygent.WithConfirmBash(false))
	p := s.open("")
	s.say("Go.")
	p.shows("<p>Done.</p>")
	p.rests()
	later := serveAt(t)
	id, err := later.server.Add("", s.agent)
	require.NoError(t, err)
	later.id = id
	past := later.open("")
	past.shows("<p>Done.</p>")
	for _, p := range []*page{p, past} {
		require.Equal(t, 2, strings.Count(p.now(), "data-out>"), p.now())
		require.Contains(t, p.now(), "data-out>whole\n[exit code 3]</pre>")
		require.Contains(t, p.now(), "data-out>well</pre>")
	}
}

func TestTheTurnIsStopped(t *testing.T) {
	s := serve(t, []pygenttest.Reply{
		pygenttest.Call("bash", map[string]any{"cmd": "echo begun; sleep 600"}), pygenttest.Text("Again."),
	}, pygent.WithConfirmBash(false))
	p := s.open("")
	s.say("Wait.")
	p.until("the output", func(p *page) bool {
		return strings.Contains(p.text(), "begun\n") && p.state.Words == "Running a command"
	})
	s.say("Later.")
	s.post("/interrupt", nil, nil)
	p.shows(`<div class="end">Stopped`, "stopped by you")
	p.until("that it is held", func(p *page) bool { return p.state.Held && !p.state.Busy })
	s.post("/messages", map[string]any{"held": true}, nil)
	p.shows("</span>Later.<", "<p>Again.</p>")
	p.rests()
}

func TestAFailureIsToldAndTriedAgain(t *testing.T) {
	s := serve(t, []pygenttest.Reply{pygenttest.Status(401, "invalid_api_key", "Incorrect API key"), pygenttest.Text("Hello.")})
	p := s.open("")
	s.say("Hi.")
	p.shows(`<div class="bar-state fail">`, "Incorrect API key", `data-act="retry"`)
	p.rests()
	require.NotContains(t, p.now(), "Commands cannot run")
	s.post("/retry", nil, nil)
	p.shows("<p>Hello.</p>")
}
