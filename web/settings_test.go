package web_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/testkit/enginetest"
	"github.com/x/pygent/pygenttest"
	"github.com/x/pygent/web"
)

// settings is how an agent is set up, as a program sees it.
type settings struct {
	Model, DefaultModel string
	Models              []string
	Persona             pygent.Persona
	ConfirmBash         bool `json:"confirm_bash"`
	Tools               []struct {
		Name, About, Note string
		Enabled           bool
	}
	Runtime pygent.RuntimeInfo
}

// enabled reports whether a tool is on.
func (s settings) enabled(t *testing.T, name string) bool {
	t.Helper()
	for _, tool := range s.Tools {
		if tool.Name == name {
			return tool.Enabled
		}
	}
	require.Fail(t, "no such tool", name)
	return false
}

func TestSettingsAreShownAndChanged(t *testing.T) {
	s := serve(t, []pygenttest.Reply{pygenttest.Text("Hello.")}, pygent.WithDisabledTools("read_image"))
	p := s.open("")
	var got settings
	s.get("/settings", &got)
	require.Equal(t, "Pygent", got.Persona.Name)
	require.True(t, got.ConfirmBash, "on this machine the page asks")
	require.Equal(t, "local", got.Runtime.Kind)
	require.NotEmpty(t, got.Runtime.Protection)
	require.True(t, got.enabled(t, "bash"))
	require.False(t, got.enabled(t, "read_image"))

	before := p.look().state.Set
	s.must(http.MethodPatch, "/settings", map[string]any{
		"model": "other/model", "persona": map[string]string{"name": "Ada", "description": "brief"},
		"confirm_bash": false, "tools": map[string]bool{"bash": false, "write_file": true},
	}, &got)
	require.Equal(t, "other/model", got.Model)
	require.Equal(t, pygent.Persona{Name: "Ada", Description: "brief"}, got.Persona)
	require.False(t, got.ConfirmBash)
	require.False(t, got.enabled(t, "bash"))
	now := s.agent.State().Settings
	require.Equal(t, "other/model", now.Model)
	require.Contains(t, now.Disabled, "bash")
	p.until("that they have changed", func(p *page) bool {
		return p.state.Set > before && p.state.Model == "other/model" && p.state.Persona == "Ada"
	})

	// What the program changes is told as well.
	before = p.look().state.Set
	s.agent.SetConfirmBash(true)
	p.until("that it has changed", func(p *page) bool { return p.state.Set > before })
	s.get("/settings", &got)
	require.True(t, got.ConfirmBash)
}

func TestSettingsAreRefusedAsAWhole(t *testing.T) {
	s := serve(t, nil, pygent.WithDisabledTools("read_image"))
	for body, want := range map[string]int{
		`{"model":"m","tools":{"nothing":true}}`:        http.StatusNotFound,
		`{"model":"m","tools":{"read_image":true}}`:     http.StatusConflict,
		`{"model":"two words","confirm_bash":false}`:    http.StatusBadRequest,
		`{"model":"m","persona":{"name":"two\nlines"}}`: http.StatusBadRequest,
		`{"model":"m","moodel":"m"}`:                    http.StatusBadRequest,
	} {
		status, _ := s.do(s.request(http.MethodPatch, "/sessions/"+s.id+"/settings", body))
		require.Equal(t, want, status, body)
		require.Empty(t, s.agent.State().Settings.Model, body)
		require.True(t, s.agent.State().Settings.Confirm, body)
	}
}

func TestUsersChangeSettingsOnlyIfTheHostSaysSo(t *testing.T) {
	ada := func(*http.Request) (string, error) { return "ada", nil }
	for _, rights := range [][]web.Option{nil, {web.WithRights(web.Rights{Settings: true})}} {
		s := serveAt(t, append(rights, web.WithUser(ada))...)
		s.agent = newAgent(t, pygenttest.NewScriptedModel())
		id, err := s.server.Add("ada", s.agent)
		require.NoError(t, err)
		s.id = id
		p := s.open("")
		p.until("what it can", func(p *page) bool { return p.state.Can != nil && p.state.Can["settings"] == (rights != nil) })
		status, _ := s.do(s.request(http.MethodPatch, "/sessions/"+s.id+"/settings", map[string]any{"confirm_bash": false}))
		if rights == nil {
			require.Equal(t, http.StatusForbidden, status)
		} else {
			require.Equal(t, http.StatusOK, status)
		}
		require.Equal(t, rights == nil, s.agent.State().Settings.Confirm)
	}
}

// Who is not let open the network is not asked about hosts, and the model is told so.
func TestUsersAreAskedAboutHostsOnlyIfTheHostSaysSo(t *testing.T) {
	ada := func(*http.Request) (string, error) { return "ada", nil }
	for name, c := range map[string]struct {
		opts []web.Option
		asks bool
	}{
		"one person":                 {nil, true},
		"users":                      {[]web.Option{web.WithUser(ada)}, false},
		"users with other rights":    {[]web.Option{web.WithUser(ada), web.WithRights(web.Rights{Settings: true, Shell: true, Snapshots: true})}, false},
		"users with the network":     {[]web.Option{web.WithUser(ada), web.WithRights(web.Rights{Network: true})}, true},
		"one person without a right": {[]web.Option{web.WithRights(web.Rights{})}, false},
	} {
		t.Run(name, func(t *testing.T) {
			image := requireImage(t)
			s := serveAt(t, c.opts...)
			model := pygenttest.NewScriptedModel(pygenttest.Text("Hello."))
			s.agent = newAgent(t, model, pygent.WithDocker(pygent.DockerRequired), pygent.WithImage(image))
			user := ""
			if len(c.opts) > 0 && name != "one person without a right" {
				user = "ada"
			}
			id, err := s.server.Add(user, s.agent)
			require.NoError(t, err)
			s.id = id
			p := s.open("")
			p.until("what it can", func(p *page) bool { return p.state.Can != nil && p.state.Can["network"] == c.asks })
			status, _ := s.do(s.request(http.MethodPost, "/sessions/"+s.id+"/messages", map[string]any{"text": "Hi."}))
			require.Less(t, status, 300)
			require.NoError(t, model.WaitRequests(t.Context(), 1))
			system := model.Requests()[0].Messages[0].Text()
			require.Contains(t, system, "Commands have no network")
			require.Equal(t, c.asks, strings.Contains(system, "the user is asked about others"), system)
		})
	}
}

// requireImage skips a test without an engine that has the image of the tests.
func requireImage(t *testing.T) string {
	t.Helper()
	enginetest.Need(t, enginetest.Image())
	return enginetest.Image()
}
