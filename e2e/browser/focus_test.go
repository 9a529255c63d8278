package browser

import (
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/pygenttest"
)

// In a session that was just begun one types.
func TestANewSessionHasTheFocus(t *testing.T) {
	_, p := kept(t, pygenttest.NewServer(t, pygenttest.Text("Hello.")))
	p.wait("document.activeElement.id == 'text'")
}

// What is typed goes to the message, unless something else has the focus, or is asked.
func TestLettersGoToTheField(t *testing.T) {
	s := serve(t, pygenttest.NewServer(t, pygenttest.Text("Hello."), bash("true"), pygenttest.Text("So be it.")))
	p := open(t, s.url)
	p.see("#composer", "")
	p.run("document.activeElement.blur()")
	p.press("hello\r")
	p.see("#log .msg.user", "hello")
	p.see(".end", "Done")

	p.said("Do it")
	p.see(".ask", "Run this on your machine?")
	p.run("document.activeElement.blur()")
	p.press("y1")
	require.Empty(t, eval[string](p, "document.getElementById('text').value"))
	p.click(".ask button", "Deny")
	p.see("#log .msg", "So be it.")
}

// When a server has taken the place of another one, its address has a new token, with
// which all tabs go on.
func TestAllTabsGetANewToken(t *testing.T) {
	s := serve(t, pygenttest.NewServer(t))
	p := open(t, s.url)
	p.see("#composer", "")
	other := p.another(s.url)
	other.see("#composer", "")
	for _, one := range []*page{p, other} {
		one.expect("401", "404", "410", "ERR_")
	}

	next := serve(t, pygenttest.NewServer(t, pygenttest.Text("Hello.")))
	s.proxy.goesTo(next.proxy)
	other.see("#lost", "does not accept this page")
	address, err := url.Parse(next.url)
	require.NoError(t, err)
	p.run("location.hash = %s", address.Fragment)
	p.wait("location.hash == '#session=' + %s", next.id)
	p.said("Hi")
	p.see("#log .msg", "Hello.")
	other.wait("location.hash == '#session=' + %s", next.id)
	other.see("#log .msg", "Hello.")
	other.gone("#lost", "")
}
