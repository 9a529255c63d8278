package browser

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/checkpoint"
	"github.com/x/pygent/pygenttest"
)

// two serves two sessions, each in a directory of its own, and shows the second one.
func two(t *testing.T, model *pygenttest.Server, opts ...pygent.Option) (s *served, p *page, dirs [2]string) {
	t.Helper()
	s = serveWith(t, model)
	t.Cleanup(func() { require.NoError(t, s.web.Close()) })
	for i := range dirs {
		dirs[i] = t.TempDir()
		agent := newAgent(t, model, dirs[i], append([]pygent.Option{checkpoint.Keep(t.TempDir())}, opts...)...)
		t.Cleanup(func() { // after the server
			require.NoError(t, s.web.Close())
			require.NoError(t, agent.Close())
		})
		var err error
		s.id, err = s.web.Add("", agent)
		require.NoError(t, err)
	}
	p = open(t, s.url)
	p.see("#composer", "")
	return s, p, dirs
}

// other shows the other one of two sessions, and waits until it is there.
func (p *page) other() {
	p.t.Helper()
	p.click("#sessions a:not([aria-current])", "")
	p.see("#composer", "")
}

// holds keeps the answers to requests back whose address has a part. Those that fail
// come to nothing then.
func (p *page) holds(part string, fail bool) {
	p.t.Helper()
	how := "false"
	if fail {
		how = "true"
	}
	p.run(`window.real ??= fetch
		window.held = []
		window.holding = true
		window.fetch = async (...request) => {
			if (!String(request[0]).includes(%s)) return real(...request)
			const answer = %s ? null : await real(...request)
			if (holding) await new Promise((go) => held.push(go))
			if (!answer) throw new TypeError('cut off')
			return answer
		}`, part, raw(how))
}

// held waits until an answer is kept back.
func (p *page) held() { p.t.Helper(); p.wait("held.length > 0") }

// lets the answers come, also those that the server still owes, and waits until the page
// has dealt with those that were held.
func (p *page) lets() {
	p.t.Helper()
	p.held()
	p.run("window.fetch = real; window.holding = false; held.forEach((go) => go()); for (let i = 0; i < 3; i++) await (await real('assets/icon.svg')).text()")
}

const field = "document.getElementById('text').value"

func TestUploadsStayWithTheirSession(t *testing.T) {
	_, p, dirs := two(t, pygenttest.NewServer(t))
	p.holds("/file?", false)
	p.run(`const data = new DataTransfer();
		for (const name of ['one.txt', 'two.txt']) data.items.add(new File([name], name));
		document.getElementById('log').dispatchEvent(new DragEvent('drop', {bubbles: true, cancelable: true, dataTransfer: data}))`)
	p.held()
	p.other()
	p.lets()
	p.other()
	p.see("#tree .file", "two.txt")
	require.FileExists(t, filepath.Join(dirs[1], "one.txt"))
	require.NoFileExists(t, filepath.Join(dirs[0], "two.txt"))
}

func TestADialogThatComesLateDoesNotOpenOverAnotherSession(t *testing.T) {
	_, p, dirs := two(t, pygenttest.NewServer(t, pygenttest.Text("Hello.")))
	write(t, dirs[1], "only here.txt", "text")
	p.said("Hi")
	p.see(".end", "Done")
	for _, late := range []struct{ address, entry string }{{"/settings", "Settings"}, {"/checkpoints", "Go back to a checkpoint"}} {
		p.holds(late.address, false)
		p.click("#menu", "")
		p.click("dialog button", late.entry)
		p.held()
		p.other()
		p.gone("dialog", "")
		p.lets()
		require.False(t, eval[bool](p, "document.getElementById('dialog').open"), late.entry)
		p.other()
	}
	p.see("#tree .file", "only here.txt")
	p.holds("/file?", false)
	p.click("#tree .file", "only here.txt")
	p.held()
	p.other()
	p.lets()
	require.False(t, eval[bool](p, "document.getElementById('dialog').open"))
}

// An answer closes the dialog that it was asked for in, and no other one.
func TestADialogClosesOnlyItself(t *testing.T) {
	_, p, _ := two(t, pygenttest.NewServer(t, pygenttest.Text("Hello.")))
	p.said("Hi")
	p.see(".end", "Done")
	p.holds("/undo", false)
	p.click("#menu", "")
	p.click("dialog button", "Undo the last turn")
	p.held()
	p.press("\u001b")
	p.click("#menu", "")
	p.click("dialog button", "Settings")
	p.see("dialog h2", "Settings")
	p.lets()
	p.see("dialog h2", "Settings")
	p.wait(field + " == 'Hi'")
}

func TestWhatIsTypedStaysWithItsSession(t *testing.T) {
	_, p, _ := two(t, pygenttest.NewServer(t, pygenttest.Text("Hello.")))
	const attach = `const data = new DataTransfer(); data.items.add(new File(['x'], 'notes.txt', {type: 'text/plain'}));
		document.getElementById('text').dispatchEvent(new ClipboardEvent('paste', {bubbles: true, cancelable: true, clipboardData: data}))`
	p.said("Hi")
	p.see(".end", "Done")

	// What was typed and attached.
	p.typed("for the second")
	p.run(attach)
	p.see(".attached", "notes.txt")
	p.other()
	p.gone(".attached", "")
	require.Empty(t, eval[string](p, field))
	p.other()
	p.see(".attached", "notes.txt")
	require.Equal(t, "for the second", eval[string](p, field))

	// What could not be sent.
	p.holds("/messages", true)
	p.press("\r")
	p.held()
	p.other()
	p.lets()
	require.Empty(t, eval[string](p, field))
	p.gone(".attached", "")
	p.gone("#wrong", "")
	p.other()
	p.see("#wrong", "may have received this")
	p.see(".attached", "notes.txt")
	require.Equal(t, "for the second", eval[string](p, field))

	// A message that was taken back.
	p.holds("/undo", false)
	p.click("#menu", "")
	p.click("dialog button", "Undo the last turn")
	p.held()
	p.other()
	p.lets()
	require.Empty(t, eval[string](p, field))
	p.other()
	require.Equal(t, "Hi\nfor the second", eval[string](p, field))
}

// A folder that is dropped cannot be read; what came with it can.
func TestAFileThatCannotBeReadIsNamed(t *testing.T) {
	s := serve(t, pygenttest.NewServer(t))
	p := open(t, s.url)
	p.see("#composer", "")
	p.run(`const read = FileReader.prototype.readAsDataURL;
		FileReader.prototype.readAsDataURL = function (file) { if (file.name == 'folder') this.onerror(); else read.call(this, file) };
		const data = new DataTransfer();
		for (const name of ['folder', 'after.txt']) data.items.add(new File(['x'], name));
		document.getElementById('text').dispatchEvent(new DragEvent('drop', {bubbles: true, cancelable: true, dataTransfer: data}))`)
	p.see("#wrong", "folder cannot be read")
	p.see(".attached", "after.txt")
}

// The first Escape of two counts for the session in which it was pressed.
func TestEscapeOfAnotherSessionStopsNothing(t *testing.T) {
	gate := make(chan struct{})
	defer close(gate)
	s, p, _ := two(t, pygenttest.NewServer(t, pygenttest.Text("Never.").WithGate(gate), pygenttest.Text("Never.").WithGate(gate)))
	for i := range 2 {
		p.said("Begin")
		s.asked(i + 1)
		p.typed("some text")
		p.other()
	}
	p.typed("\u001b")
	p.see("#hint", "again stops")
	p.other()
	p.gone("#hint", "again stops")
	p.typed("\u001b")
	p.see("#hint", "again stops")
	p.see("#stop", "Stop")
}

func TestASessionIsBegunOnce(t *testing.T) {
	_, p := kept(t, pygenttest.NewServer(t))
	first := eval[string](p, "location.hash")
	p.holds("/sessions", false)
	p.run("document.getElementById('new').click(); document.getElementById('new').click()")
	p.lets()
	p.wait("location.hash != %s", first)
	p.wait("document.querySelectorAll('#sessions a').length == 2")
	p.click("#new", "") // a later one is begun
	p.wait("document.querySelectorAll('#sessions a').length == 3")
}

func TestACopyButtonSaysAgainWhatItDoes(t *testing.T) {
	s := serve(t, pygenttest.NewServer(t, pygenttest.Text(answerText)))
	p := open(t, s.url)
	p.run("navigator.clipboard.writeText = async () => {}; window.later = []; const wait = setTimeout; window.setTimeout = (f, ms) => ms == 1500 ? later.push(f) : wait(f, ms)")
	p.said("Go")
	p.see(".end", "Done")
	p.run("document.querySelector('.code [data-act=copy]').click()")
	p.wait("later.length == 1")
	p.run("document.querySelector('.code [data-act=copy]').click()")
	p.wait("later.length == 2")
	p.run("later.forEach((f) => f())")
	p.see(".code [data-act=copy]", "Copy")
	p.gone(".code [data-act=copy]", "Copied")
}

// A link with any fragment takes the page to no other server, nor its token from it.
func TestAFragmentThatIsNoTokenChangesNothing(t *testing.T) {
	_, p, _ := two(t, pygenttest.NewServer(t, pygenttest.Text("Hello.")))
	p.expect("401") // for what the fragment says
	p.other()
	shown := eval[string](p, "document.querySelector('#sessions [aria-current]').dataset.session")
	p.holds("/openapi.json", false)
	p.run("location.hash = '#x'")
	p.lets()
	p.wait("location.hash == '#session=' + %s", shown)
	p.said("Hi")
	p.see("#log .msg", "Hello.")
	p.gone("#lost", "")
}

func TestExitEndsTheSession(t *testing.T) {
	_, p := kept(t, pygenttest.NewServer(t, pygenttest.Text("Hello.")))
	p.said("Hi")
	p.see(".end", "Done")
	p.typed("/exit\r")
	p.see("#sessions a.closed", "Hi")
	p.see(".empty", "No session is open.")
}

func TestAnAnswerIsCopied(t *testing.T) {
	s := serve(t, pygenttest.NewServer(t, pygenttest.Text("First.\n\n```go\nfunc f() {}\n```\n\nLast.")))
	p := open(t, s.url)
	p.run("navigator.clipboard.writeText = async (text) => { window.copied = text }")
	p.said("Go")
	p.see(".end", "Done")
	p.run("document.querySelector('.msg:not(.user)>.acts button').focus()")
	p.press(" ")
	p.wait("window.copied == %s", "First.\n\nfunc f() {}\n\nLast.")
}

// A queued message that is taken back comes into the field with its images.
func TestAQueuedMessageComesBackWithItsImages(t *testing.T) {
	gate := make(chan struct{})
	defer close(gate)
	s := serve(t, pygenttest.NewServer(t, pygenttest.Text("Never.").WithGate(gate)))
	p := open(t, s.url)
	p.said("Begin")
	s.asked(1)
	p.run(`const data = new DataTransfer(); data.items.add(new File([Uint8Array.from(atob(%s), c => c.charCodeAt(0))], 'one.png', {type: 'image/png'}));
		document.getElementById('text').dispatchEvent(new ClipboardEvent('paste', {bubbles: true, cancelable: true, clipboardData: data}))`, picture(t))
	p.see(".attached", "one.png")
	p.typed("Look\r")
	p.see(".queued", "Look")
	p.gone(".attached", "")
	p.click(".queued button", "Edit")
	p.wait("document.querySelector('.attached img')?.naturalWidth == 8")
	require.Equal(t, "Look", eval[string](p, field))
}
