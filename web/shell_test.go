package web_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/checkpoint"
	"github.com/x/pygent/pygenttest"
	"github.com/x/pygent/web"
)

// ran is how a command line ended.
type ran struct {
	Output   string
	ExitCode int `json:"exit_code"`
	Stopped  bool
}

func TestAPersonRunsCommands(t *testing.T) {
	s := serve(t, nil)
	p := s.open("")
	var got ran
	s.post("/shell", map[string]any{"command": "echo one >made.txt; printf '\\033[1m<b>'; exit 3", "wait": true}, &got)
	require.Equal(t, ran{Output: "<b>", ExitCode: 3}, got)
	p.shows(`<span class="verb">You ran</span>`, "exit 3", "data-out>&lt;b&gt;</pre>")
	require.Zero(t, s.agent.History().Len(), "the agent does not hear of it")
	data, err := s.agent.Runtime().ReadFile(t.Context(), "made.txt")
	require.NoError(t, err)
	require.Equal(t, "one\n", string(data))
	status, _ := s.do(s.request(http.MethodPost, "/sessions/"+s.id+"/shell", map[string]any{"command": " "}))
	require.Equal(t, http.StatusBadRequest, status)
	status, _ = s.do(s.request(http.MethodDelete, "/sessions/"+s.id+"/shell", nil))
	require.Equal(t, http.StatusConflict, status)
}

func TestACommandIsShownWhileItRunsAndStopped(t *testing.T) {
	for name, stop := range map[string]func(*served){
		"by itself":          func(s *served) { s.must(http.MethodDelete, "/shell", nil, nil) },
		"by the stop button": func(s *served) { s.post("/interrupt", nil, nil) },
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, nil)
			p := s.open("")
			s.post("/shell", map[string]any{"command": "echo begun; sleep 600"}, nil)
			p.until("its output", func(p *page) bool {
				return p.state.Shell && strings.Contains(p.text(), "begun\n") && strings.Contains(p.text(), `data-act="stop-shell"`)
			})
			status, _ := s.do(s.request(http.MethodPost, "/sessions/"+s.id+"/shell", map[string]any{"command": "echo two"}))
			require.Equal(t, http.StatusConflict, status, "one at a time")
			stop(s)
			p.until("its end", func(p *page) bool {
				return !p.state.Shell && strings.Contains(p.text(), "stopped by you") && !strings.Contains(p.text(), "stop-shell")
			})
		})
	}
}

func TestACommandGoesOnBesideTheAgent(t *testing.T) {
	s := serve(t, []pygenttest.Reply{pygenttest.Call("bash", map[string]any{"cmd": "cat one two"}), pygenttest.Text("Hello.")},
		pygent.WithConfirmBash(false), checkpoint.Keep(t.TempDir()))
	p := s.open("")
	s.post("/shell", map[string]any{"command": "until [ -e go ]; do sleep 0.01; done; echo went"}, nil)
	s.say("Hi.")
	p.shows("<p>Hello.</p>")
	p.rests()
	s.post("/undo", nil, nil) // by which the page begins anew
	p.until("that it is gone", func(p *page) bool { return !strings.Contains(p.text(), "Hello.") })
	p.shows(`<span class="verb">You run</span>`)
	require.NoError(t, s.agent.Runtime().WriteFile(t.Context(), "go", nil))
	p.shows("went</pre>")
	p.until("its end", func(p *page) bool { return !p.state.Shell })
}

func TestUsersRunCommandsOnlyIfTheHostSaysSo(t *testing.T) {
	s := serveAt(t, web.WithUser(func(*http.Request) (string, error) { return "ada", nil }))
	s.agent = newAgent(t, pygenttest.NewScriptedModel())
	id, err := s.server.Add("ada", s.agent)
	require.NoError(t, err)
	status, _ := s.do(s.request(http.MethodPost, "/sessions/"+id+"/shell", map[string]any{"command": "echo"}))
	require.Equal(t, http.StatusForbidden, status)
}
