package web_test

import (
	"context"
	"encoding/json"
	"net/http"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/pygenttest"
	"github.com/x/pygent/sessions"
	"github.com/x/pygent/snapshot"
	"github.com/x/pygent/web"
)

// kept serves sessions that are kept and can be saved, loaded and removed.
func kept(t *testing.T, opts ...web.Option) *served {
	t.Helper()
	root := t.TempDir()
	opens := func(ctx context.Context, o web.Open) (*pygent.Agent, error) {
		id := o.Continue
		if id == "" {
			id = sessions.NewID()
		}
		options := []pygent.Option{
			pygent.WithModel(pygenttest.NewScriptedModel(pygenttest.Text("Hello."))), pygent.WithDocker(pygent.DockerNever),
			sessions.Keep(filepath.Join(root, id)),
		}
		if o.Snapshot != "" {
			from, err := snapshot.Load(ctx, o.Snapshot)
			if err != nil {
				return nil, err
			}
			options = append(options, from.Options()...)
		}
		return pygent.New(options...)
	}
	list := func(context.Context, string) ([]sessions.Info, error) { return sessions.List(root) }
	remove := func(_ context.Context, _, id string) error { return sessions.Remove(root, id) }
	s := serveAt(t, append(opts, web.WithOpen(opens), web.WithList(list), web.WithRemove(remove))...)
	s.id = s.begin(map[string]any{})
	return s
}

// begin begins a session.
func (s *served) begin(how map[string]any) string {
	s.t.Helper()
	status, answer := s.do(s.request(http.MethodPost, "/sessions", how))
	require.Equal(s.t, http.StatusCreated, status, "%s", answer)
	var made struct{ ID string }
	require.NoError(s.t, json.Unmarshal(answer, &made))
	return made.ID
}

func TestASessionIsSavedAndLoaded(t *testing.T) {
	s := kept(t)
	p := s.open("")
	s.say("Hi.")
	p.shows("<p>Hello.</p>")
	p.rests()
	s.post("/shell", map[string]any{"command": "echo one > made.txt", "wait": true}, nil)
	dir := filepath.Join(t.TempDir(), "saved")
	var saved struct {
		Dir     string
		Files   int
		LeftOut []string `json:"left_out"`
	}
	s.post("/save", map[string]any{"dir": dir}, &saved)
	require.Equal(t, dir, saved.Dir)
	require.Equal(t, 1, saved.Files)
	save := func(body map[string]any) int {
		status, _ := s.do(s.request(http.MethodPost, "/sessions/"+s.id+"/save", body))
		return status
	}
	require.Equal(t, http.StatusConflict, save(map[string]any{"dir": dir}))
	require.Equal(t, http.StatusOK, save(map[string]any{"dir": dir, "replace": true}))
	require.Equal(t, http.StatusBadRequest, save(map[string]any{"dir": "saved"}))

	s.id = s.begin(map[string]any{"snapshot": dir})
	again := s.open("")
	again.shows("</span>Hi.<", "<p>Hello.</p>")
	var got ran
	s.post("/shell", map[string]any{"command": "cat made.txt", "wait": true}, &got)
	require.Equal(t, "one\n", got.Output)
	status, _ := s.do(s.request(http.MethodPost, "/sessions", map[string]any{"snapshot": t.TempDir()}))
	require.Equal(t, http.StatusUnprocessableEntity, status)
	status, _ = s.do(s.request(http.MethodPost, "/sessions", map[string]any{"snapshot": dir, "continue": s.id}))
	require.Equal(t, http.StatusBadRequest, status)
}

func TestKeptSessionsAreRemoved(t *testing.T) {
	s := kept(t)
	p := s.open("")
	s.say("Hi.")
	p.shows("<p>Hello.</p>")
	p.rests()
	remove := func() int {
		status, _ := s.do(s.request(http.MethodDelete, "/kept/"+s.id, nil))
		return status
	}
	require.Equal(t, http.StatusConflict, remove(), "it is open")
	s.must(http.MethodDelete, "", nil, nil)
	require.Equal(t, http.StatusNoContent, remove())
	require.Equal(t, http.StatusNotFound, remove())
	_, list := s.do(s.request(http.MethodGet, "/sessions", nil))
	require.JSONEq(t, `{"sessions":[]}`, string(list))
}

func TestUsersSaveAndLoadOnlyIfTheHostSaysSo(t *testing.T) {
	s := kept(t, web.WithUser(func(*http.Request) (string, error) { return "ada", nil }))
	dir := filepath.Join(t.TempDir(), "saved")
	for path, body := range map[string]map[string]any{"/sessions/" + s.id + "/save": {"dir": dir}, "/sessions": {"snapshot": dir}} {
		status, _ := s.do(s.request(http.MethodPost, path, body))
		require.Equal(t, http.StatusForbidden, status, path)
	}
	require.NoDirExists(t, dir)
}
