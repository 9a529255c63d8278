package browser

import (
	"context"
	"crypto/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/checkpoint"
	"github.com/x/pygent/pygenttest"
	"github.com/x/pygent/sessions"
	"github.com/x/pygent/web"
)

func TestFiles(t *testing.T) {
	s := serve(t, pygenttest.NewServer(t, bash("echo more > made.txt"), pygenttest.Text("Made.")), pygent.WithConfirmBash(false))
	require.NoError(t, os.MkdirAll(filepath.Join(s.dir, "docs", "deep"), 0o755))
	write(t, filepath.Join(s.dir, "docs"), "guide.md", "# Guide\n")
	write(t, s.dir, "main.go", "package main\n\nfunc main() {}\n")
	p := open(t, s.url)
	p.see("#tree .file", "main.go")
	p.click("#tree summary", "docs")
	p.see("#tree .file", "guide.md")
	p.click("#tree .file", "main.go")
	p.see("dialog[open] h2", "main.go")
	p.see("dialog[open] pre", "func main() {}")
	p.press("\u001b")
	p.gone("dialog", "")
	// What a turn makes appears, and what was opened stays open.
	p.said("Make a file")
	p.see("#tree .file", "made.txt")
	p.see("#tree .file", "guide.md")
	// A name after an @ is completed.
	p.typed("Read @docs/gu")
	p.see("#hints li", "docs/guide.md")
	p.press("\t")
	p.wait("document.getElementById('text').value == 'Read @docs/guide.md '")
}

func TestUpload(t *testing.T) {
	s := serve(t, pygenttest.NewServer(t, pygenttest.Text("Seen.")))
	local := t.TempDir()
	write(t, local, "up load.txt", "from the person")
	p := open(t, s.url)
	p.see("#panel button", "Upload")
	p.do(chromedp.SetUploadFiles("#upload", []string{filepath.Join(local, "up load.txt")}))
	p.see("#tree .file", "up load.txt")
	got, err := os.ReadFile(filepath.Join(s.dir, "up load.txt"))
	require.NoError(t, err)
	require.Equal(t, "from the person", string(got))

	// Dropped beside the field, it goes into the workspace; on it, with the message.
	drop := `const data = new DataTransfer(); data.items.add(new File(['dropped'], %s, {type: 'text/plain'}));
		const at = document.querySelector(%s);
		at.dispatchEvent(new DragEvent('dragover', {bubbles: true, cancelable: true, dataTransfer: data}));
		at.dispatchEvent(new DragEvent('drop', {bubbles: true, cancelable: true, dataTransfer: data}))`
	p.run(drop, "dropped.txt", "#log")
	p.see("#tree .file", "dropped.txt")
	p.run(drop, "attached.txt", "#text")
	p.see(".attached", "attached.txt")
	p.said("Look at it")
	p.see("#log .msg.user", "attached.txt")
	p.gone(".attached", "")
	p.see("#log .msg", "Seen.")
	messages := s.model.Requests()[0].Chat.Messages
	require.Contains(t, messages[len(messages)-1].Text(), "dropped", "the file did not go along")
	require.NoFileExists(t, filepath.Join(s.dir, "attached.txt"))
}

func TestUploadStaysInTheWorkspace(t *testing.T) {
	s := serve(t, pygenttest.NewServer(t))
	p := open(t, s.url)
	p.expect("400", "403", "404", "409", "422")
	p.wait("document.getElementById('composer').checkVisibility()")
	outside := filepath.Join(filepath.Dir(s.dir), "outside.txt")
	for _, path := range []string{"../outside.txt", outside, "a/../../outside.txt"} {
		status := eval[int](p, `fetch('/api/v1/sessions/' + %s + '/file?path=' + encodeURIComponent(%s), {method: 'PUT', body: 'x',
			headers: {'Content-Type': 'application/octet-stream', Authorization: 'Bearer ' + %s}}).then(r => r.status)`, s.id, path, s.web.Token())
		require.GreaterOrEqual(t, status, 400, path)
	}
	require.NoFileExists(t, outside)
}

func TestDownload(t *testing.T) {
	s := serve(t, pygenttest.NewServer(t))
	write(t, s.dir, "page.html", attack)
	p := open(t, s.url)
	p.click("#tree .file", "page.html")
	p.see("dialog[open] pre", "window.hit=1")
	p.harmless()
	p.run("window.got = []; HTMLAnchorElement.prototype.click = function () { got.push(this.href) }")
	p.click("dialog button", "Download")
	p.wait("got.length == 1")
	url := eval[string](p, "got[0]")
	require.NotContains(t, url, s.web.Token())
	path := strings.TrimPrefix(url, "http://"+s.host())
	first := s.call("GET", path, nil)
	require.Equal(t, 200, first.StatusCode)
	require.Contains(t, first.Header.Get("Content-Disposition"), "attachment")
	require.Equal(t, "nosniff", first.Header.Get("X-Content-Type-Options"))
	require.GreaterOrEqual(t, s.call("GET", path, nil).StatusCode, 400, "a link works once")
}

func TestHostileFileNames(t *testing.T) {
	s := serve(t, pygenttest.NewServer(t, bash("true"), pygenttest.Text("Done.")), pygent.WithConfirmBash(false))
	names := []string{`<img src=x onerror="window.hit=1">.txt`, "a\u202Egnp.exe", "b\x1b[2J.txt", `"><script>window.hit=2<`, "c\nd.txt"}
	for _, name := range names {
		write(t, s.dir, name, attack+controls)
	}
	write(t, s.dir, "evil.svg", `<svg xmlns="http://www.w3.org/2000/svg" onload="window.hit=3"><script>window.hit=4</script></svg>`)
	p := open(t, s.url)
	p.wait("document.querySelectorAll('#tree .file').length == %d", len(names)+1)
	p.harmless()
	for i := range len(names) + 1 {
		p.run("document.querySelectorAll('#tree .file')[%d].click()", i)
		p.see("dialog[open] h2", "")
		p.wait("document.getElementById('dialog-body').innerText.length > 20")
		p.harmless()
		p.press("\u001b")
		p.gone("dialog", "")
	}
}

func TestUndo(t *testing.T) {
	s := serve(t, pygenttest.NewServer(t, bash("echo one > kept.txt"), pygenttest.Text("First."), bash("echo two > gone.txt; rm kept.txt"), pygenttest.Text("Second.")),
		pygent.WithConfirmBash(false), checkpoint.Keep(t.TempDir()))
	p := open(t, s.url)
	p.said("Make one")
	p.see("#log .msg", "First.")
	p.see("#tree .file", "kept.txt")
	p.said("Make two")
	p.see("#log .msg", "Second.")
	p.see("#tree .file", "gone.txt")
	p.click("#tab-changes", "Changes")
	p.see("#changes .change", "gone.txt")
	p.see("#changes .diff .a", "two")
	p.click("#menu", "")
	p.click("dialog button", "Undo the last turn")
	p.gone("#log .msg", "Second.")
	p.wait("document.getElementById('text').value == 'Make two'") // to be said otherwise
	require.FileExists(t, filepath.Join(s.dir, "kept.txt"))
	require.NoFileExists(t, filepath.Join(s.dir, "gone.txt"))
	p.click("#tab-files", "Files")
	p.see("#tree .file", "kept.txt")
	p.gone("#tree .file", "gone.txt")
	p.click("#menu", "")
	p.click("dialog button", "Redo")
	p.see("#log .msg", "Second.")
	require.FileExists(t, filepath.Join(s.dir, "gone.txt"))
	p.click("#menu", "")
	p.click("dialog button", "Go back to a checkpoint")
	p.see("dialog li", "Make one")
	p.run("[...document.querySelectorAll('dialog li')].find(e => e.innerText.includes('Make one')).querySelector('button').click()")
	p.gone("#log .msg", "First.")
	require.NoFileExists(t, filepath.Join(s.dir, "kept.txt"))
}

func TestSessions(t *testing.T) {
	model := pygenttest.NewServer(t, pygenttest.Text("In the first."), pygenttest.Text("In the second."), pygenttest.Text("On it goes."))
	root, dir := t.TempDir(), t.TempDir()
	beginAgent := func(_ context.Context, o web.Open) (*pygent.Agent, error) {
		at := filepath.Join(root, o.Continue)
		if o.Continue == "" {
			at = filepath.Join(root, rand.Text())
		}
		return newAgent(t, model, dir, sessions.Keep(at)), nil
	}
	list := func(context.Context, string) ([]sessions.Info, error) { return sessions.List(root) }
	s := serveWith(t, model, web.WithOpen(beginAgent), web.WithList(list))
	t.Cleanup(func() { require.NoError(t, s.web.Close()) })
	p := open(t, s.url)
	p.see(".empty", "No session is open.")
	p.click("#new", "New session")
	p.said("The first one")
	p.see(".end", "Done")
	first := eval[string](p, "location.hash")
	p.click("#new", "New session")
	p.wait("location.hash != %s && document.getElementById('composer').checkVisibility()", first)
	p.gone("#log .msg", "In the first.")
	p.said("The second one")
	p.see("#log .msg", "In the second.")
	// One and the other, with what was typed for each.
	p.typed("for the second")
	p.click("#sessions a", "The first one")
	p.see("#log .msg", "In the first.")
	p.gone("#log .msg", "In the second.")
	require.Empty(t, eval[string](p, "document.getElementById('text').value"))
	p.click("#sessions a", "The second one")
	p.see("#log .msg", "In the second.")
	p.wait("document.getElementById('text').value == 'for the second'")
	// A closed one can go on.
	p.click("#sessions a", "The first one")
	p.see("#log .msg", "In the first.")
	p.click("#menu", "")
	p.click("dialog button", "Close this session")
	p.see("#log .msg", "In the second.")
	p.see("#sessions a.closed", "The first one")
	p.click("#sessions a.closed", "The first one")
	p.see("#log .msg", "In the first.")
	p.gone("#sessions a.closed", "")
	p.said("Go on")
	p.see("#log .msg", "On it goes.")
}
