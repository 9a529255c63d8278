package web_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/pygenttest"
)

func TestAPageShowsATurn(t *testing.T) {
	s := serve(t, []pygenttest.Reply{
		pygenttest.TextAndCalls("I **look** first.\n\nThen I act.", pygenttest.Call("bash", map[string]any{"cmd": "echo hello, world"})),
		pygenttest.Text("# Done\n\nIt says `hello`."),
	}, pygent.WithConfirmBash(false))
	p := s.open("")
	s.say("Print a greeting, <b>please</b>.")
	p.shows(`<span class="sr">You: </span>Print a greeting, &lt;b&gt;please&lt;/b&gt;.`,
		`<p>I <strong>look</strong> first.</p>`, `<p>Then I act.</p>`,
		`<span class="verb">Ran</span><span class="what">echo hello, world</span>`, `data-out>hello, world</pre>`,
		`<h1>Done</h1>`, `<p>It says <code>hello</code>.</p>`, `<div class="end">Done · 2 steps`)
	p.rests()
	require.Equal(t, "Print a greeting, <b>please</b>.", p.look().state.Title)
	require.True(t, p.look().state.Runtime.Warn, "commands are not contained")

	late := s.open("")
	late.until("the same", func(late *page) bool { return late.text() == p.now() })
}

func TestACallNeedsTheUsersApproval(t *testing.T) {
	s := serve(t, []pygenttest.Reply{
		pygenttest.Call("bash", map[string]any{"cmd": "echo one"}),
		pygenttest.Call("bash", map[string]any{"cmd": "echo two"}),
		pygenttest.Text("Fine."),
	})
	p, other := s.open(""), s.open("")
	s.say("Go on.")
	first := s.asked()
	require.Equal(t, "Approval needed: run echo one", first.Text)
	p.until("that it waits", func(p *page) bool { return p.state.Needs == "approval" })
	p.shows(`Run this on your machine?`, `<pre tabindex="0">echo one</pre>`, `data-act="allow" data-ask="`+first.ID+`"`)
	s.post("/asks/"+first.ID, map[string]any{"decision": "once"}, nil)
	status, _ := s.do(s.request(http.MethodPost, "/sessions/"+s.id+"/asks/"+first.ID, map[string]any{"decision": "deny"}))
	require.Equal(t, http.StatusConflict, status, "the first answer wins")
	other.shows(`<p class="reason">Allowed</p>`)

	second := s.asked()
	s.post("/asks/"+second.ID, map[string]any{"decision": "deny", "reason": "not that"}, nil)
	other.shows(`<p class="reason">Denied: not that</p>`, `<span class="fact">denied: not that</span>`, "<p>Fine.</p>")
	p.rests()
	require.Empty(t, p.look().state.Needs)
}

// A call that runs when the page begins is shown as one that does, and ends in its place.
func TestACallThatRunsWhenThePageBeginsIsShownOnce(t *testing.T) {
	dir := t.TempDir()
	agent := newAgent(t, pygenttest.NewScriptedModel(
		pygenttest.Call("bash", map[string]any{"cmd": "until [ -e go ]; do sleep 0.05; done; echo gone"}), pygenttest.Text("Well.")),
		pygent.WithWorkspace(dir), pygent.WithConfirmBash(false))
	ended := make(chan error, 1)
	go func() {
		_, err := agent.RunUntilStop(t.Context(), "Wait.", pygent.WithEndOnReply())
		ended <- err
	}()
	require.Eventually(t, func() bool { return agent.State().Activity == pygent.ActivityTool }, patience, 5*time.Millisecond)
	s := serveAt(t)
	s.agent = agent
	id, err := s.server.Add("", agent)
	require.NoError(t, err)
	s.id = id
	p := s.open("")
	p.shows(`<details class="tool run" open>`, `<span class="verb">Running</span>`)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go"), nil, 0o600))
	require.NoError(t, <-ended)
	p.shows(`<span class="verb">Ran</span>`, "<p>Well.</p>")
	require.Equal(t, 1, strings.Count(p.now(), `<details class="tool`))
}
