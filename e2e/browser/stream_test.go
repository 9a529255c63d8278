package browser

import (
	"strings"
	"testing"

	cdpage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/checkpoint"
	"github.com/x/pygent/pygenttest"
)

// words is a text of n words that are all different.
func words(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString("word")
		b.WriteString(strings.Repeat("i", i%7))
		b.WriteByte(byte('a' + i%26))
		b.WriteByte(' ')
		if i%40 == 39 {
			b.WriteString("\n\n")
		}
	}
	return strings.TrimSpace(b.String())
}

func TestReconnectInTheMiddleOfAStream(t *testing.T) {
	pieces := make(chan struct{})
	text := words(400)
	s := serve(t, pygenttest.NewServer(t, pygenttest.Text(text).WithChunkGate(pieces), pygenttest.Text("After that.")))
	p := open(t, s.url)
	p.expect("ERR_CONNECTION", "ERR_EMPTY", "ERR_INCOMPLETE", "net::")
	p.said("Tell me")
	for range 3 {
		pieces <- struct{}{}
	}
	p.see("#log .md .open", "word")
	s.proxy.down()
	p.see("#lost", "Connection lost. The session continues")
	close(pieces) // the answer goes on without the page
	s.proxy.up()
	p.see(".end", "Done")
	p.wait("document.getElementById('lost').hidden")
	shown := eval[string](p, "[...document.querySelectorAll('#log .md p')].map(e => e.textContent).join(' ')")
	require.Equal(t, strings.Fields(text), strings.Fields(shown), "nothing is missed, nothing is there twice")
	p.said("Go on")
	p.see("#log .msg", "After that.")
}

func TestTwoTabs(t *testing.T) {
	s := serve(t, pygenttest.NewServer(t, bash("echo once"), pygenttest.Text("It is done.")))
	one := open(t, s.url)
	two := one.another(s.url)
	two.expect("409 (Conflict)")
	one.said("Do it")
	one.see(".ask:not(.done)", "echo once")
	two.see(".ask:not(.done)", "echo once")
	// The other tab presses late: it is told nothing but what was decided.
	two.run("window.late = document.querySelector('.ask [data-act=deny]').cloneNode(true); document.getElementById('log').append(window.late)")
	one.click(".ask:not(.done) button", "Allow once")
	two.see(".ask.done", "llowed")
	two.run("window.late.click()")
	two.see("#log .msg", "It is done.")
	one.see("#log .msg", "It is done.")
	two.wait("window.late.disabled == false")
	require.True(t, eval[bool](two, "document.getElementById('wrong').hidden"))
	require.Equal(t, 1, eval[int](two, "document.querySelectorAll('.ask').length"))
	require.Equal(t,
		eval[string](one, "document.getElementById('log').innerText"),
		eval[string](two, "(window.late.remove(), document.getElementById('log').innerText)"))
}

func TestTenTabs(t *testing.T) {
	s := serve(t, pygenttest.NewServer(t, pygenttest.Text("For all of you.")))
	tabs := []*page{open(t, s.url)}
	for range 9 {
		tabs = append(tabs, tabs[0].another(s.url))
	}
	for _, tab := range tabs {
		tab.wait("document.getElementById('composer').checkVisibility()")
	}
	tabs[9].said("Hello")
	for _, tab := range tabs {
		tab.wait("document.getElementById('log').innerText.includes('For all of you.')")
	}
	require.LessOrEqual(t, s.proxy.connections(), 6, "a browser has six connections to a host")
}

func TestTabThatComesLater(t *testing.T) {
	s := serve(t, pygenttest.NewServer(t, bash("echo out"), pygenttest.Text("# Title\n\nText.")), pygent.WithConfirmBash(false))
	one := open(t, s.url)
	one.said("Hello")
	one.see(".end", "Done")
	two := one.another(s.url)
	two.see(".end", "Done")
	require.Equal(t, eval[string](one, "document.getElementById('log').innerHTML"), eval[string](two, "document.getElementById('log').innerHTML"))
	// One that closes leaves the others alone.
	one.load("about:blank")
	s.model.Add(pygenttest.Text("Still here."))
	two.said("And now?")
	two.see("#log .msg", "Still here.")
}

func TestWithoutSharedWorkers(t *testing.T) {
	s := serve(t, pygenttest.NewServer(t, pygenttest.Text("By a stream of its own.")))
	p := open(t, "about:blank")
	p.before("delete globalThis.SharedWorker")
	p.load(s.url)
	p.said("Hello")
	p.see("#log .msg", "By a stream of its own.")
}

// atEnd says that the end of the conversation is seen.
const atEnd = "(c => c.scrollHeight - c.scrollTop - c.clientHeight < 2)(document.getElementById('chat'))"

func TestThePageFollowsTheEndOnlyWhenTheReaderIsThere(t *testing.T) {
	pieces := make(chan struct{})
	s := serve(t, pygenttest.NewServer(t, pygenttest.Text(words(2000)), pygenttest.Text(words(2000)).WithChunkGate(pieces)))
	p := open(t, s.url)
	p.said("A long one")
	p.see(".end", "Done")
	p.wait(atEnd)
	p.said("Another")
	pieces <- struct{}{}
	p.wait("document.querySelectorAll('#log .msg .md').length == 2")
	p.wait(atEnd)
	p.run("document.getElementById('chat').scrollTop = 200")
	p.see("#jump", "Latest")
	close(pieces)
	p.wait("document.querySelectorAll('.end').length == 2")
	require.Equal(t, 200, eval[int](p, "document.getElementById('chat').scrollTop"), "nothing moves under the reader")
	p.click("#jump", "Latest")
	p.wait(atEnd)
	p.gone("#jump", "")
}

// What an undo takes back stands in the field as it was, below the end of what is left.
func TestTheEndIsSeenAfterAnUndo(t *testing.T) {
	s := serve(t, pygenttest.NewServer(t, pygenttest.Text(words(2000)), pygenttest.Text(words(2000))), checkpoint.Keep(t.TempDir()))
	write(t, s.dir, "main.go", "package main")
	p := open(t, s.url)
	for range 2 {
		p.said("A long one of @main.go")
		p.see(".end", "Done")
	}
	p.wait("document.querySelectorAll('.end').length == 2")
	p.click("#menu", "")
	p.click("dialog button", "Undo the last turn")
	p.wait("document.getElementById('text').value == 'A long one of @main.go'")
	p.wait("document.querySelectorAll('#log .msg.user').length == 1")
	p.wait(atEnd)
	p.gone("#jump", "")
	require.True(t, eval[bool](p, "document.getElementById('hints').hidden"))
}

// A tab that the browser has put to sleep shows all that came meanwhile when it wakes.
func TestTabThatSleeps(t *testing.T) {
	pieces := make(chan struct{})
	text := words(400)
	s := serve(t, pygenttest.NewServer(t, pygenttest.Text(text).WithChunkGate(pieces), pygenttest.Text("Good morning.")))
	p := open(t, s.url)
	awake := p.another(s.url)
	p.said("Tell me")
	pieces <- struct{}{}
	p.see("#log .md", "word")
	p.lifecycle(cdpage.SetWebLifecycleStateStateFrozen)
	close(pieces)
	awake.see(".end", "Done")
	p.lifecycle(cdpage.SetWebLifecycleStateStateActive)
	p.see(".end", "Done")
	shown := eval[string](p, "[...document.querySelectorAll('#log .md p')].map(e => e.textContent).join(' ')")
	require.Equal(t, strings.Fields(text), strings.Fields(shown), "nothing is missed, nothing is there twice")
	p.said("Good night")
	p.see("#log .msg", "Good morning.")
}

// lifecycle puts the tab to sleep, or wakes it.
func (p *page) lifecycle(state cdpage.SetWebLifecycleStateState) {
	p.t.Helper()
	_, err := chromedp.Call(p.ctx, cdpage.SetWebLifecycleState, cdpage.SetWebLifecycleStateParams{State: state})
	require.NoError(p.t, err)
}
