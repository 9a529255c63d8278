package web_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/pygenttest"
)

// What a page is sent of a session is bounded, even if the model never ends an answer:
// the beginning goes, and the end is seen.
func TestAnEndlessAnswerIsKeptToItsEnd(t *testing.T) {
	if testing.Short() {
		t.Skip("prints megabytes")
	}
	var text strings.Builder
	for i := range 4500 {
		fmt.Fprintf(&text, "Paragraph %d.\n\n", i)
	}
	s := serve(t, []pygenttest.Reply{pygenttest.Text("Before."), pygenttest.Text(text.String()), pygenttest.Text("After.")})
	for _, say := range []string{"Begin.", "Write for ever.", "And now?"} {
		s.say(say)
		s.rests()
	}
	late := s.open("")
	late.until("all of it", func(p *page) bool { return p.whole() })
	late.shows("<p>Paragraph 4499.</p>", "<p>After.</p>")
	late.mu.Lock()
	defer late.mu.Unlock()
	require.LessOrEqual(t, len(late.html), 4000, "what is kept is bounded")
	require.NotContains(t, late.text(), "Paragraph 0.")
	for _, key := range late.keys {
		parent := late.parent[key]
		require.True(t, parent == "" || parent == "tasks" || late.html[parent] != "", "%s is in %s, which is gone", key, parent)
	}
}

// rests waits until the agent has done what was said.
func (s *served) rests() {
	s.t.Helper()
	require.Eventually(s.t, func() bool {
		var list struct {
			Sessions []struct{ Activity pygent.Activity }
		}
		status, body := s.do(s.request(http.MethodGet, "/sessions", nil))
		require.Equal(s.t, http.StatusOK, status)
		require.NoError(s.t, json.Unmarshal(body, &list))
		return list.Sessions[0].Activity == pygent.ActivityIdle && len(s.agent.State().Unheard) == 0
	}, patience, 5*time.Millisecond)
}
