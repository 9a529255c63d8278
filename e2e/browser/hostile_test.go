package browser

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/pygenttest"
)

// attack is a text that does harm wherever it is taken for HTML.
const attack = `<script>window.hit=1</script><img src=x onerror="window.hit=2"><svg onload="window.hit=3"></svg>` +
	`<iframe srcdoc="<script>parent.hit=4</script>"></iframe><a href="javascript:window.hit=5">a</a>` +
	`<style>body{display:none}</style><form action="https://evil.example"><input name=a></form>` +
	`"><details open ontoggle="window.hit=6">'<base href="https://evil.example/">`

// controls are characters that change what stands beside them.
const controls = "a\u202Egnp.exe\u2066 \x1b[2J\x1b]0;title\x07 \r overwritten"

// harmless checks that nothing ran, nothing was loaded, and the page still works.
func (p *page) harmless() {
	p.t.Helper()
	require.Nil(p.t, eval[any](p, "window.hit ?? null"), "a script ran")
	require.Equal(p.t, []string{}, eval[[]string](p, `[...document.querySelectorAll('#log *, #panel *, #sessions *, #dialog *, #status *, #queue *')].filter(e =>
		['SCRIPT','STYLE','IFRAME','FORM','BASE','OBJECT','EMBED','LINK','META'].includes(e.tagName) || e.namespaceURI != 'http://www.w3.org/1999/xhtml' ||
		[...e.attributes].some(a => a.name.startsWith('on') || a.name == 'style' || /^\s*javascript:/i.test(a.value)) ||
		e.tagName == 'IMG' && !e.src.startsWith('data:image/')).map(e => e.outerHTML)`))
	require.Equal(p.t, []string{}, eval[[]string](p, `performance.getEntriesByType('resource').map(e => e.name).filter(n => !n.startsWith(location.origin) && !n.startsWith('data:'))`))
	require.False(p.t, eval[bool](p, `/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069]/.test(document.body.innerText)`), "a control character is not shown as a sign")
}

func TestHostileMarkdown(t *testing.T) {
	markdown := attack + "\n\n" + attack + "\n\n[x](javascript:window.hit=7) [y](data:text/html,<script>1</script>) <javascript:window.hit=8> [z]( \tjava\nscript:1)\n\n" +
		"![pixel](https://evil.example/p.png) ![svg](data:image/svg+xml;base64,PHN2Zy8+) ![s](x\" onerror=\"window.hit=9)\n\n" +
		"```html\n" + attack + "\n```\n\n```\"><script>window.hit=10</script>\nx\n```\n\n| " + strings.ReplaceAll(attack, "|", "") + " |\n|:-:|\n| x |\n\n" + controls + "\n\nThe end."
	s := serve(t, pygenttest.NewServer(t, pygenttest.Text(markdown).WithReasoning(attack+controls)))
	p := open(t, s.url)
	p.said("Show me")
	p.see(".end", "Done")
	p.see("#log .md", "The end.")
	p.see("#log .md", "https://evil.example/p.png") // the address, and not the picture
	p.see("#log .md", "<script>window.hit=1</script>")
	p.harmless()
}

func TestHostileCommand(t *testing.T) {
	output := attack + strings.ReplaceAll(controls, "\r", "") // which has the rest of the line be written over
	s := serve(t, pygenttest.NewServer(t, bash("cat hostile.txt # "+attack+controls), pygenttest.Call(`bash`, `{"cmd": "`), pygenttest.Text("Done.")))
	write(t, s.dir, "hostile.txt", strings.Repeat(output+"\n", 5))
	p := open(t, s.url)
	p.typed(attack + " a\u202Egnp.exe\r")
	p.see("#log .msg.user", "window.hit=1")
	p.see(".ask pre", "window.hit=1")
	p.harmless()
	p.click(".ask button", "Allow once")
	p.see("#log .msg", "Done.")
	p.run("for (const d of document.querySelectorAll('details')) d.open = true")
	p.wait("document.querySelector('.tool pre.out').textContent.includes('window.hit=1')")
	p.harmless()
}

func TestHostileQuestion(t *testing.T) {
	s := serve(t, pygenttest.NewServer(t, pygenttest.Call("continue", map[string]any{"prompt": attack + controls, "options": []string{attack + controls, "no"}}), pygenttest.Text("Well.")))
	p := open(t, s.url)
	p.said("Go")
	p.see(".ask.q", "window.hit=1")
	p.harmless()
	p.click(".ask.q button", "window.hit=1")
	p.see("#log .msg", "Well.")
	p.harmless()
	require.Contains(t, lastUser(s.model.Requests()[1].Chat), attack)
}

func TestWrongToken(t *testing.T) {
	s := serve(t, pygenttest.NewServer(t))
	for _, url := range []string{"http://" + s.host() + "/", "http://" + s.host() + "/#" + strings.Repeat("x", 32)} {
		p := open(t, url)
		p.expect("401")
		p.see("#lost", "Open the address that pygent printed")
		require.False(t, eval[bool](p, "document.getElementById('composer').checkVisibility()"))
		// The right address makes it good.
		p.load("about:blank")
		p.load(s.url)
		p.wait("document.getElementById('composer').checkVisibility()")
	}
}

func TestServerOnAnotherPort(t *testing.T) {
	s := serve(t, pygenttest.NewServer(t, pygenttest.Text("Never asked for.")))
	var mu sync.Mutex
	var seen []*http.Request
	var target string
	hostile := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		seen = append(seen, r)
		mu.Unlock()
		w.Header().Set("Content-Type", "text/html")
		if r.URL.Path == "/" {
			fmt.Fprintf(w, `<title>hostile</title><script>const target = %q</script>`, target)
		}
	}))
	defer hostile.Close()
	target = "http://" + s.host()

	// The person has used the page, then comes to the hostile one.
	p := open(t, s.url)
	p.wait("document.getElementById('composer').checkVisibility()")
	require.Empty(t, eval[string](p, "document.cookie"))
	p.expect("CORS", "ERR_FAILED", "Content Security Policy", "403", "401", "415", "Refused", "blocked", "ERR_BLOCKED", "404", "405")
	p.load(hostile.URL)
	path := "/api/v1/sessions/" + s.id + "/messages"
	body := `{"text":"evil"}`
	attempts := eval[[]string](p, `Promise.all([
		fetch(target + %[1]s, {method: 'POST', mode: 'no-cors', credentials: 'include', body: %[2]s}),
		fetch(target + %[1]s, {method: 'POST', credentials: 'include', headers: {'Content-Type': 'application/json'}, body: %[2]s}),
		fetch(target + '/api/v1/sessions', {credentials: 'include'}),
		fetch(target + '/api/v1/stream', {method: 'POST', mode: 'no-cors', credentials: 'include', body: '{"views":{}}'}),
		fetch(target + '/', {}),
	].map(f => f.then(r => r.text().then(t => r.type + ':' + t), e => 'refused')))`, path, body)
	for _, got := range attempts {
		require.Contains(t, []string{"refused", "opaque:"}, got)
	}
	// A form, a frame, a window, a worker.
	p.run(`const frame = document.createElement('iframe'); frame.name = 'f'; document.body.append(frame);
		const form = document.createElement('form'); form.method = 'POST'; form.enctype = 'text/plain'; form.target = 'f'; form.action = target + %s;
		form.innerHTML = '<input name=\'{"text":"evil","x":"\' value=\'"}\'>'; document.body.append(form); form.submit();
		await new Promise(done => frame.onload = done)`, path)
	require.Equal(t, "refused", eval[string](p, `new Promise(done => {
		const frame = document.createElement('iframe'); frame.src = target + '/'; document.body.append(frame);
		frame.onload = () => { try { done(frame.contentWindow.document?.title ?? 'refused') } catch { done('refused') } } })`))
	require.Equal(t, "refused", eval[string](p, `new Promise(done => {
		try { const w = new SharedWorker(target + '/assets/worker.js'); w.onerror = () => done('refused'); w.port.onmessage = () => done('got in'); w.port.start() } catch { done('refused') } })`))
	require.Empty(t, s.model.Requests(), "the agent was made to do something")
	mu.Lock()
	defer mu.Unlock()
	for _, r := range seen {
		body, _ := io.ReadAll(r.Body)
		all := fmt.Sprint(r.URL, r.Header, string(body))
		require.NotContains(t, all, s.web.Token())
		require.Empty(t, r.Header["Cookie"])
	}
}

func TestNoPolicyIsBroken(t *testing.T) {
	s := serve(t, pygenttest.NewServer(t, pygenttest.Text(answerText)), pygent.WithConfirmBash(false))
	p := open(t, s.url)
	p.said("Hello")
	p.see(".end", "Done")
	// The page's own policy lets nothing in that is not the server's.
	refused := eval[[]string](p, `(async () => {
		const got = [];
		document.addEventListener('securitypolicyviolation', e => got.push(e.effectiveDirective));
		try { const s = document.createElement('script'); s.textContent = 'window.hit = 1'; document.body.append(s) } catch {}
		try { document.body.insertAdjacentHTML('beforeend', '<img src="data:," onerror="window.hit = 2">') } catch {}
		const i = new Image(); i.src = 'http://127.0.0.1:1/x.png';
		await fetch('http://127.0.0.1:1/').catch(() => {});
		const st = document.createElement('style'); st.textContent = 'body{color:red}'; document.head.append(st);
		for (let n = 0; n < 500 && !(got.includes('img-src') && got.includes('connect-src') && got.includes('style-src-elem')); n++) await new Promise(done => setTimeout(done, 20));
		return [...new Set(got)].sort() })()`)
	p.expect("Content Security Policy", "TrustedScript", "Trusted")
	require.Subset(t, refused, []string{"connect-src", "img-src", "style-src-elem"})
	require.Nil(t, eval[any](p, "window.hit ?? null"))
}
