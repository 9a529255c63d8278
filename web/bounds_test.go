package web_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/pygenttest"
)

// What a page is sent of a session is bounded, even if the model never ends an answer:
// the beginning goes, and the end is seen.
func TestAnEndlessAnswerIsKeptToItsEnd(t *testing.T) {
	var text strings.Builder
	for i := range 4500 {
		fmt.Fprintf(&text, "Paragraph %d.\n\n", i)
	}
	s := serve(t, []pygenttest.Reply{pygenttest.Text("Before."), pygenttest.Text(text.String()), pygenttest.Text("After.")})
	p := s.open("")
	s.say("Begin.")
	p.shows("<p>Before.</p>")
	p.rests()
	s.say("Write for ever.")
	p.until("its end", func(p *page) bool { return p.state.Context.Used > 10_000 && !p.state.Busy })
	s.say("And now?")
	p.shows("<p>After.</p>")
	p.rests()

	late := s.open("")
	late.shows("<p>Paragraph 4499.</p>", "<p>After.</p>")
	late.rests()
	late.mu.Lock()
	defer late.mu.Unlock()
	require.LessOrEqual(t, len(late.html), 4000, "what is kept is bounded")
	require.NotContains(t, late.text(), "Paragraph 0.")
	for _, key := range late.keys {
		parent := late.parent[key]
		require.True(t, parent == "" || parent == "tasks" || late.html[parent] != "", "%s is in %s, which is gone", key, parent)
	}
}
