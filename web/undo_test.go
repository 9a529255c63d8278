package web_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/checkpoint"
	"github.com/x/pygent/commands"
	"github.com/x/pygent/pygenttest"
)

func TestATurnIsTakenBackAndBroughtBack(t *testing.T) {
	dir := t.TempDir()
	s := serve(t, []pygenttest.Reply{
		pygenttest.Text("Hello."),
		pygenttest.Call("write_file", map[string]any{"path": "a.txt", "content": "one\ntwo\n"}), pygenttest.Text("Written."),
	}, pygent.WithWorkspace(dir), checkpoint.Keep(t.TempDir()), pygent.WithConfirmBash(false))
	p := s.open("")
	s.say("Hi.")
	p.shows("<p>Hello.</p>")
	p.rests()
	s.say("Write it.")
	p.shows("<p>Written.</p>", `<span class="plus">+2</span>`)
	p.rests()
	require.FileExists(t, filepath.Join(dir, "a.txt"))
	var changes struct {
		Changes []struct{ Path, Status, HTML string }
	}
	s.get("/changes", &changes)
	require.Len(t, changes.Changes, 1)
	require.Equal(t, "A", changes.Changes[0].Status)
	require.Contains(t, changes.Changes[0].HTML, "<span>two</span>")
	var checkpoints struct{ Checkpoints []pygent.Checkpoint }
	s.get("/checkpoints", &checkpoints)
	require.NotEmpty(t, checkpoints.Checkpoints)

	var back struct{ Text string }
	s.post("/undo", map[string]any{"turns": 1}, &back)
	require.Equal(t, "Write it.", back.Text)
	p.until("that it is gone", func(p *page) bool {
		return !strings.Contains(p.text(), "Written.") && strings.Contains(p.text(), "<p>Hello.</p>")
	})
	require.NoFileExists(t, filepath.Join(dir, "a.txt"))
	s.post("/redo", nil, nil)
	p.shows("<p>Written.</p>")
	content, err := os.ReadFile(filepath.Join(dir, "a.txt"))
	require.NoError(t, err)
	require.Equal(t, "one\ntwo\n", string(content))

	status, _ := s.do(s.request(http.MethodPost, "/sessions/"+s.id+"/undo", map[string]any{"turns": 99}))
	require.Equal(t, http.StatusConflict, status)
	status, _ = s.do(s.request(http.MethodPost, "/sessions/"+s.id+"/restore", map[string]any{"checkpoint": 9999}))
	require.Equal(t, http.StatusNotFound, status)
}

func TestCommandsRunAsAtATerminal(t *testing.T) {
	s := serve(t, []pygenttest.Reply{pygenttest.Text("Hello.")}, pygent.WithCommands(commands.All()...), pygent.WithCommands(pygent.Command{
		Name: "ask", Summary: "Ask.", Message: message,
	}))
	p := s.open("")
	var done struct{ Output string }
	s.post("/commands", map[string]any{"line": "/help"}, &done)
	require.Contains(t, done.Output, "/model")
	p.shows(`<span class="verb">Command</span><span class="what">/help</span>`)
	status, body := s.do(s.request(http.MethodPost, "/sessions/"+s.id+"/commands", map[string]any{"line": "/hepl"}))
	require.Equal(t, http.StatusUnprocessableEntity, status)
	require.Contains(t, string(body), "/help")
	s.post("/commands", map[string]any{"line": "/ask me"}, nil)
	p.shows("Asked: me<", "<p>Hello.</p>")
	var completions struct{ Completions []pygent.Completion }
	s.get("/completions?line=/he", &completions)
	require.NotEmpty(t, completions.Completions)
}

func TestAMessageIsTakenBackToBeSaidOtherwise(t *testing.T) {
	dir := t.TempDir()
	writes := func(name string) pygenttest.Reply {
		return pygenttest.Call("write_file", map[string]any{"path": name, "content": "x\n"})
	}
	s := serve(t, []pygenttest.Reply{
		writes("a"), pygenttest.Text("First."), writes("b"), pygenttest.Text("Second."),
		writes("c"), pygenttest.Text("Otherwise."), pygenttest.Text("Third."),
	}, pygent.WithWorkspace(dir), checkpoint.Keep(t.TempDir()), pygent.WithConfirmBash(false))
	p := s.open("")
	says := func(text, answer string) {
		t.Helper()
		s.say(text)
		p.shows("<p>" + answer + "</p>")
		p.rests()
	}
	goBack := func(said int, text string) {
		t.Helper()
		var back struct{ Text string }
		s.post("/restore", map[string]any{"said": said}, &back)
		require.Equal(t, text, back.Text)
	}
	says("Make a.", "First.")
	p.shows(`data-act="edit" data-said="0"`)
	require.NotContains(t, p.text(), `data-act="fork"`, "there is nothing before it to go on from")
	says("Make b.", "Second.")
	p.shows(`data-act="fork" data-said="1"`)
	goBack(1, "Make b.")
	p.until("that it is gone", func(p *page) bool {
		return !strings.Contains(p.text(), "Second.") && strings.Contains(p.text(), "taken back")
	})
	require.FileExists(t, filepath.Join(dir, "a"))
	require.NoFileExists(t, filepath.Join(dir, "b"))
	// The record keeps what was taken back; it does not count.
	says("Make c.", "Otherwise.")
	p.shows(`data-act="edit" data-said="1"`)
	says("And now?", "Third.")
	goBack(1, "Make c.")
	require.NoFileExists(t, filepath.Join(dir, "c"))
	goBack(0, "Make a.")
	require.NoFileExists(t, filepath.Join(dir, "a"))
	status, _ := s.do(s.request(http.MethodPost, "/sessions/"+s.id+"/restore", map[string]any{"said": 7}))
	require.Equal(t, http.StatusNotFound, status)
}

func TestWhatWasSaidMeanwhileHasNoMomentOfItsOwn(t *testing.T) {
	s := serve(t, []pygenttest.Reply{
		pygenttest.Call("bash", map[string]any{"cmd": "echo one"}), pygenttest.Text("First."), pygenttest.Text("Second."),
	}, checkpoint.Keep(t.TempDir()))
	p := s.open("")
	s.say("Begin.")
	a := s.asked()
	s.say("And more.")
	s.post("/asks/"+a.ID, map[string]any{"decision": "once"}, nil)
	p.shows("And more.", "<p>First.</p>")
	p.rests()
	status, body := s.do(s.request(http.MethodPost, "/sessions/"+s.id+"/restore", map[string]any{"said": 1}))
	require.Equal(t, http.StatusNotFound, status)
	require.Contains(t, string(body), "while the agent was working")
	s.post("/restore", map[string]any{"said": 0}, nil)
	p.until("that all is gone", func(p *page) bool { return !strings.Contains(p.text(), "First.") })
}

// An image comes back with the message that is taken back, under its name, and nobody is
// told to attach it again.
func TestAnImageComesBackWithItsMessage(t *testing.T) {
	s := serve(t, []pygenttest.Reply{pygenttest.Text("First."), pygenttest.Text("I see."), pygenttest.Text("Read it.")}, checkpoint.Keep(t.TempDir()))
	p := s.open("")
	s.say("Begin.")
	p.shows("<p>First.</p>")
	p.rests()
	s.post("/messages", map[string]any{"text": "Look.", "attachments": []map[string]any{{"name": "../a/pixel.png", "data": aPixel}}}, nil)
	p.shows("pixel.png · 7", "<p>I see.</p>")
	p.rests()
	var back struct {
		Text   string
		Notes  []string
		Images []struct{ Name, Data string }
	}
	s.post("/undo", map[string]any{"turns": 1}, &back)
	require.Equal(t, "Look.", back.Text)
	require.Empty(t, back.Notes)
	require.Len(t, back.Images, 1)
	require.Equal(t, "pixel.png", back.Images[0].Name)
	require.Equal(t, aPixel, back.Images[0].Data)
	p.shows("taken back")
	require.NotContains(t, p.now(), "attached again")
	// The page cannot put a file of another kind back: the person is told.
	s.post("/messages", map[string]any{"text": "Read.", "attachments": []map[string]any{{"name": "notes.pdf", "data": "JVBERi0xLjQK"}}}, nil)
	p.shows("<p>Read it.</p>")
	p.rests()
	s.post("/undo", map[string]any{"turns": 1}, &back)
	require.Equal(t, "Read.", back.Text)
	require.Len(t, back.Notes, 1)
	require.Contains(t, back.Notes[0], "attach these again, they were sent with the message: notes.pdf")
}
