package web_test

import (
	"bufio"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/pygenttest"
)

func TestAPageThatWasAwayCatchesUp(t *testing.T) {
	s := serve(t, []pygenttest.Reply{
		pygenttest.TextAndCalls("One.", pygenttest.Call("bash", map[string]any{"cmd": "echo begun"})),
		pygenttest.Text("Two.\n\nThree."), pygenttest.Text("Four."),
	})
	p := s.open("")
	s.say("Go.")
	a := s.asked()
	p.until("the question, and where it is", func(p *page) bool {
		return strings.Contains(p.text(), "<p>One.</p>") && strings.Contains(p.text(), "Run this on your machine?") && p.whole()
	})
	p.close()
	s.post("/asks/"+a.ID, map[string]any{"decision": "once"}, nil)
	all := s.open("")
	all.shows("<p>Three.</p>", `<div class="end">Done`)
	all.rests()
	s.again(p)
	p.until("the same", func(p *page) bool { return p.text() == all.now() })
	require.Equal(t, 1, p.look().resets, "only what has changed was told")
	for _, o := range p.look().ops {
		require.NotContains(t, o.HTML, "One.", "that was known")
		require.NotEqual(t, "say", o.Op, "what is past is not read aloud")
	}

	p.until("where it is", func(p *page) bool { return p.whole() })
	s.again(p) // with nothing new
	p.until("that it is followed", func(p *page) bool {
		return slices.ContainsFunc(p.ops, func(o op) bool { return o.Op == "sessions" })
	})
	s.say("More.")
	p.shows("<p>Four.</p>")
	for _, o := range p.look().ops {
		require.NotContains(t, o.HTML, "Three.")
	}
	require.Equal(t, 1, p.look().resets)
	p.until("that it is read aloud", func(p *page) bool { return slices.Contains(p.said, "Four.") })
	require.Equal(t, 1, strings.Count(p.now(), "One."), "nothing is there twice")
}

func TestAPageOfAnotherServerBeginsAnew(t *testing.T) {
	s := serve(t, []pygenttest.Reply{pygenttest.Text("Hello.")})
	s.say("Hi.")
	for _, at := range []string{"", "other.3", "nonsense", "other.x"} {
		p := s.open(at)
		p.shows("<p>Hello.</p>")
		require.Equal(t, 1, p.look().resets, at)
	}
}

func TestTenPagesFollow(t *testing.T) {
	s := serve(t, []pygenttest.Reply{pygenttest.Text(strings.Repeat("A word. ", 500))})
	var pages []*page
	for range 10 {
		pages = append(pages, s.open(""))
	}
	s.say("Go.")
	for _, p := range pages {
		p.shows(`<div class="end">Done`)
		require.Equal(t, pages[0].now(), p.now())
	}
}

func TestProgramsGetTheEventsOnce(t *testing.T) {
	s := serve(t, []pygenttest.Reply{pygenttest.Text("Hello."), pygenttest.Text("Again.")})
	s.say("Hi.")
	p := s.open("")
	p.shows(`<div class="end">Done`)
	first := s.events("", pygent.EventRunEnd)
	require.Equal(t, pygent.EventUser, first[0].event.Type)
	s.say("Once more.")
	later := s.events(first[len(first)-1].id, pygent.EventRunEnd)
	require.Equal(t, pygent.EventUser, later[0].event.Type, "nothing comes twice")
	require.Equal(t, "Once more.", later[0].event.Text)

	for id, status := range map[string]int{"other.1": http.StatusGone, "x": http.StatusBadRequest} {
		r := s.request(http.MethodGet, "/sessions/"+s.id+"/events", nil)
		r.Header.Set("Last-Event-ID", id)
		got, _ := s.do(r)
		require.Equal(t, status, got, id)
	}
}

type event struct {
	id    string
	event pygent.Event
}

// events reads the events after an id, up to one of a type. Deltas are left out.
func (s *served) events(after string, last pygent.EventType) (list []event) {
	s.t.Helper()
	r := s.request(http.MethodGet, "/sessions/"+s.id+"/events", nil)
	r.Header.Set("Last-Event-ID", after)
	resp, err := s.client.Do(r)
	require.NoError(s.t, err)
	defer resp.Body.Close()
	require.Equal(s.t, http.StatusOK, resp.StatusCode)
	lines, id := bufio.NewScanner(resp.Body), ""
	for lines.Scan() {
		if text, ok := strings.CutPrefix(lines.Text(), "id: "); ok {
			id = text
		}
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		var e pygent.Event
		require.NoError(s.t, json.Unmarshal([]byte(data), &e))
		if e.Type != pygent.EventText && e.Type != pygent.EventSettings {
			list = append(list, event{id, e})
		}
		if e.Type == last {
			return list
		}
	}
	require.FailNow(s.t, "the stream ended")
	return nil
}

// A program that was away too long is told so. It begins with the history, and a page
// by what is seen: neither misses anything.
func TestAProgramThatWasAwayTooLongIsToldSo(t *testing.T) {
	replies := []pygenttest.Reply{}
	for i := range 5 {
		content := strings.Repeat("much\n", 60_000) + strconv.Itoa(i)
		replies = append(replies, pygenttest.Call("write_file", map[string]any{"path": "much.txt", "content": content}))
	}
	s := serve(t, append([]pygenttest.Reply{pygenttest.Text("Hello.")}, append(replies, pygenttest.Text("That was much."), pygenttest.Text("Well."))...), pygent.WithConfirmBash(false))
	p := s.open("")
	s.say("Hi.")
	known := s.events("", pygent.EventRunEnd)
	p.shows("<p>Hello.</p>")
	p.rests()
	p.close()
	s.say("Do much.")
	s.open("").shows("<p>That was much.</p>")

	r := s.request(http.MethodGet, "/sessions/"+s.id+"/events", nil)
	r.Header.Set("Last-Event-ID", known[len(known)-1].id)
	status, body := s.do(r)
	require.Equal(t, http.StatusGone, status)
	require.Contains(t, string(body), `"code":"too_old"`)
	var history struct {
		At      string
		Entries json.RawMessage
	}
	s.get("/history", &history)
	require.True(t, strings.Contains(string(history.Entries), "That was much."))
	s.say("And now?")
	later := s.events(history.At, pygent.EventRunEnd)
	require.Equal(t, "And now?", later[0].event.Text, "it goes on from there")

	s.again(p)
	p.shows("<p>That was much.</p>")
	require.Equal(t, 5, strings.Count(p.now(), `<span class="verb">Wrote</span>`))
}
