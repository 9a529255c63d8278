package web_test

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
	"github.com/x/pygent/checkpoint"
	"github.com/x/pygent/pygenttest"
	"github.com/x/pygent/sessions"
	"github.com/x/pygent/web"
)

func message(_ context.Context, _ *pygent.Agent, args string) (pygent.Message, error) {
	return chat.UserMessage("Asked: " + args), nil
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func TestSessionsAreBegunClosedAndContinued(t *testing.T) {
	dir, workspace, trees := t.TempDir(), t.TempDir()+"/w", t.TempDir()
	s := serveAt(t, web.WithOpen(func(_ context.Context, o web.Open) (*pygent.Agent, error) {
		id := o.Continue
		if id == "" {
			id = sessions.NewID()
		}
		where := workspace
		for _, info := range must(sessions.List(dir)) {
			if info.ID == id && info.Workspace != "" {
				where = info.Workspace
			}
		}
		require.NoError(t, os.MkdirAll(where, 0o755))
		return pygent.New(pygent.WithModel(pygenttest.NewScriptedModel(pygenttest.Text("Hello."))), pygent.WithDocker(pygent.DockerNever),
			pygent.WithWorkspace(where), sessions.Keep(dir+"/"+id), checkpoint.Keep(trees))
	}), web.WithList(func(context.Context, string) ([]sessions.Info, error) { return sessions.List(dir) }))
	open := func(body string, want int) string {
		status, answer := s.do(s.request(http.MethodPost, "/sessions", body))
		require.Equal(t, want, status, "%s", answer)
		var made struct{ ID string }
		require.NoError(t, json.Unmarshal(answer, &made))
		return made.ID
	}
	s.id = open("{}", http.StatusCreated)
	p := s.open("")
	s.say("Hi.")
	p.shows("<p>Hello.</p>")
	p.rests()
	require.Equal(t, s.id, open(`{"continue":"`+s.id+`"}`, http.StatusOK), "it is open")
	s.must(http.MethodDelete, "", nil, nil)
	p.until("that it is gone from the list", func(p *page) bool { return len(p.list) == 0 })

	status, body := s.do(s.request(http.MethodGet, "/sessions", nil))
	require.Equal(t, http.StatusOK, status)
	require.Contains(t, string(body), `"title":"Hi."`)
	require.Contains(t, string(body), `"open":false`)
	require.Equal(t, s.id, open(`{"continue":"`+s.id+`"}`, http.StatusCreated))
	again := s.open("")
	again.shows("</span>Hi.<", "<p>Hello.</p>")
	again.until("that it can be forked", func(p *page) bool { return p.state.Can["fork"] })
	var checkpoints struct{ Checkpoints []pygent.Checkpoint }
	s.get("/checkpoints", &checkpoints)
	var forked struct{ ID string }
	s.post("/fork", map[string]any{"checkpoint": checkpoints.Checkpoints[len(checkpoints.Checkpoints)-1].ID}, &forked)
	require.NotEqual(t, s.id, forked.ID)
	status, _ = s.do(s.request(http.MethodGet, "/sessions/"+forked.ID, nil))
	require.Equal(t, http.StatusOK, status)
	for _, id := range []string{"missing", "../" + s.id, "../../etc", dir + "/" + s.id} {
		open(`{"continue":"`+id+`"}`, http.StatusNotFound)
	}
}

func TestAnAgentOfTheHostIsNotClosedByAPage(t *testing.T) {
	s := serve(t, nil)
	status, _ := s.do(s.request(http.MethodDelete, "/sessions/"+s.id, nil))
	require.Equal(t, http.StatusForbidden, status)
	status, _ = s.do(s.request(http.MethodPost, "/sessions", "{}"))
	require.Equal(t, http.StatusForbidden, status)
}

func TestThePageEndsWithTheAgent(t *testing.T) {
	s := serve(t, nil)
	p := s.open("")
	p.until("the session", func(p *page) bool { return len(p.list) == 1 })
	require.NoError(t, s.agent.Close())
	p.until("its end", func(p *page) bool { return len(p.list) == 0 })
}

// A page that looks at the files while its session ends is told the same as one that looks
// a moment later.
func TestASessionThatEndsIsAlreadyGone(t *testing.T) {
	s := serve(t, nil)
	s.get("/files", new(struct{}))
	require.NoError(t, s.agent.Runtime().Cleanup())
	for _, at := range []string{"/files", "/file?path=a"} {
		status, body := s.do(s.request(http.MethodGet, "/sessions/"+s.id+at, nil))
		require.Equal(t, http.StatusNotFound, status, "%s: %s", at, body)
		require.Contains(t, string(body), `"no_session"`, at)
	}
}

// A session whose run was killed says so when it is continued, and goes on with it.
func TestASessionThatWasInterruptedSaysSo(t *testing.T) {
	history := filepath.Join(t.TempDir(), "history.json")
	require.NoError(t, os.WriteFile(history, []byte(`[{"role":"user","content":"Build it."}]`), 0o600))
	s := serveAt(t, web.WithOpen(func(context.Context, web.Open) (*pygent.Agent, error) {
		return pygent.New(pygent.WithModel(pygenttest.NewScriptedModel(pygenttest.Text("Built."))), pygent.WithDocker(pygent.DockerNever),
			pygent.WithWorkspace(t.TempDir()), pygent.WithHistoryFile(history))
	}))
	status, answer := s.do(s.request(http.MethodPost, "/sessions", "{}"))
	require.Equal(t, http.StatusCreated, status, "%s", answer)
	var made struct{ ID string }
	require.NoError(t, json.Unmarshal(answer, &made))
	s.id = made.ID
	p := s.open("")
	p.shows("</span>Build it.<", "was interrupted. Use /resume")
	s.post("/commands", map[string]any{"line": "/resume"}, nil)
	p.shows("<p>Built.</p>")
}

// The agent of a session that would be one too many is never made.
func TestASessionTooManyIsRefusedBeforeItsAgentIsMade(t *testing.T) {
	made := 0
	s := serveAt(t, web.WithLimits(web.Limits{Sessions: 1}), web.WithOpen(func(context.Context, web.Open) (*pygent.Agent, error) {
		made++
		return pygent.New(pygent.WithModel(pygenttest.NewScriptedModel()), pygent.WithDocker(pygent.DockerNever), pygent.WithWorkspace(t.TempDir()))
	}))
	for _, want := range []int{http.StatusCreated, http.StatusTooManyRequests, http.StatusTooManyRequests} {
		status, body := s.do(s.request(http.MethodPost, "/sessions", "{}"))
		require.Equal(t, want, status, "%s", body)
	}
	require.Equal(t, 1, made)
}
