package browser

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/checkpoint"
	"github.com/x/pygent/internal/testkit/enginetest"
	"github.com/x/pygent/pygenttest"
)

// inContainer has commands run in a container, or skips the test.
func inContainer(t *testing.T) pygent.Option {
	t.Helper()
	enginetest.Need(t, enginetest.Image())
	return pygent.WithImage(enginetest.Image())
}

// A whole session whose commands run in a container: a question about a call and its
// output, the question about a host, an edit, files, a job, and taking it all back.
func TestSessionInAContainer(t *testing.T) {
	image := inContainer(t)
	const fetch = "python3 -c \"import urllib.request; urllib.request.urlopen('http://a.example.com/x')\""
	s := serve(t, pygenttest.NewServer(t,
		bash("echo one > a.txt; cat /proc/1/comm; ls /.dockerenv"),
		bash(fetch),
		pygenttest.Call("edit_file", map[string]any{"path": "a.txt", "old_text": "one", "new_text": "two"}),
		pygenttest.Text("It is **edited**."),
	), image, pygent.WithDocker(pygent.DockerRequired), pygent.WithAllowedHosts("b.example.com"), pygent.WithConfirmBash(true), checkpoint.Keep(t.TempDir()))
	p := open(t, s.url)
	p.wait("document.getElementById('runtime').innerText.includes('Docker')")
	p.said("Edit it")
	p.see(".ask:not(.done)", "Run this in the container?")
	p.click(".ask:not(.done) button", "Allow once")
	p.wait("document.querySelector('.tool pre.out')?.textContent.includes('/.dockerenv')")
	p.see(".ask:not(.done)", "urlopen")
	p.click(".ask:not(.done) button", "Allow once")
	p.see(".ask:not(.done)", "A command wants to reach")
	p.see(".ask:not(.done) pre", "a.example.com")
	p.run("document.querySelector('.ask:not(.done) input').focus()")
	p.press("use what is here\r")
	p.see(".ask.done", "use what is here")
	p.see(".tool.bad", "exit 1")
	p.see("#log .msg", "It is edited.")
	p.see(".diff .a", "two")
	p.see("#tree .file", "a.txt")
	p.click("#tree .file", "a.txt")
	p.see("dialog[open] pre", "two")
	p.press("\u001b")
	p.click("#menu", "")
	p.click("dialog button", "Undo the last turn")
	p.gone("#log .msg", "It is edited.")
	p.gone("#tree .file", "a.txt")
	require.NoFileExists(t, filepath.Join(s.dir, "a.txt"))
	results := s.model.Requests()[2].Chat.Messages
	require.Contains(t, results[len(results)-1].Text(), "use what is here", "the model hears why")
}
