package browser

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	cdpage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"
)

// patience is how long a page may take to come to show something.
const patience = 30 * time.Second

// page is a tab of the browser.
type page struct {
	t      *testing.T
	ctx    context.Context
	window *window

	mu      sync.Mutex
	console []string // what the page complained of
	allowed []string // parts of complaints that are expected
}

// open opens an address in a tab with storage of its own.
func open(t *testing.T, url string) *page {
	t.Helper()
	if chromium == nil {
		t.Skip("there is no chromium; scripts/chromium.sh installs it")
	}
	return newWindow(t, url).open(t, url)
}

// another opens an address in another tab of the same window, with the same storage.
func (p *page) another(url string) *page {
	p.t.Helper()
	return p.window.open(p.t, url)
}

func (w *window) open(t *testing.T, url string) *page {
	t.Helper()
	ctx, cancel := context.WithCancel(w.tab(t))
	t.Cleanup(cancel) // which ends the hearing
	p := &page{t: t, ctx: ctx, window: w}
	require.NoError(t, chromedp.Listen(ctx, p.hear))
	p.size(1400, 900)
	p.theme("light")
	p.load(url)
	t.Cleanup(p.checkConsole)
	return p
}

// hear collects errors: exceptions, and what the browser refused to load or run.
func (p *page) hear(event any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		text := e.ExceptionDetails.Text
		if e.ExceptionDetails.Exception != nil {
			text += " " + e.ExceptionDetails.Exception.Description
		}
		p.console = append(p.console, text)
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError {
			p.console = append(p.console, e.Entry.Text+" "+e.Entry.URL)
		}
	}
}

// expect says that the page may complain so.
func (p *page) expect(complaints ...string) { p.allowed = append(p.allowed, complaints...) }

// ofAnEndedSession is what the browser notes when the page looks at the files of a session
// that ends in this moment, as it may in every test that ends one.
var ofAnEndedSession = regexp.MustCompile(`status of 404 .*/api/v1/sessions/[^/]+/(files\?path=|changes)$`)

func (p *page) checkConsole() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, text := range p.console {
		known := ofAnEndedSession.MatchString(text)
		for _, part := range p.allowed {
			known = known || strings.Contains(text, part)
		}
		if !known {
			p.t.Errorf("the page complains: %s", text)
		}
	}
	if p.t.Failed() {
		p.shot("failed")
	}
}

func (p *page) do(steps ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	require.NoError(p.t, chromedp.Do(ctx, steps...))
}

func (p *page) load(url string) {
	p.t.Helper()
	p.window.visits(url)
	p.do(chromedp.Navigate(url))
}

// eval runs an expression in a page.
func eval[T any](p *page, format string, args ...any) T {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](script(format, args...), chromedp.EvalAwaitPromise))
	require.NoError(p.t, err, format)
	return v
}

// run runs a statement in a page.
func (p *page) run(format string, args ...any) {
	p.t.Helper()
	eval[bool](p, "(async () => { %s; return true })()", raw(script(format, args...)))
}

// raw is a part of a script that is not quoted.
type raw string

// script puts texts into a script as its literals.
func script(format string, args ...any) string {
	for i, arg := range args {
		if text, ok := arg.(string); ok {
			literal, _ := json.Marshal(text)
			args[i] = string(literal)
		}
	}
	return fmt.Sprintf(format, args...)
}

// looks has the page itself look, until an expression is true or it has looked for a
// second: an answer for each look would cost more than the looks.
const looks = `(async () => {
	const end = performance.now() + 1000
	for (;;) {
		if (await (%s)) return true
		if (performance.now() > end) return false
		await new Promise((go) => setTimeout(go, 20))
	}
})()`

// wait waits until an expression is true in the page, which may be loaded anew meanwhile.
func (p *page) wait(format string, args ...any) {
	p.t.Helper()
	condition := script(format, args...)
	deadline := time.Now().Add(patience)
	for {
		ctx, cancel := context.WithDeadline(p.ctx, deadline)
		ok, err := chromedp.Run(ctx, chromedp.Evaluate[bool](script(looks, raw(condition)), chromedp.EvalAwaitPromise))
		cancel()
		if err == nil && ok {
			return
		}
		if time.Now().After(deadline) {
			text, _ := chromedp.Run(p.ctx, chromedp.Evaluate[string](`[location.href, "focus: " + (document.activeElement?.id || document.activeElement?.tagName), "field: " + document.getElementById("text")?.value, document.body.innerText].join("\n")`))
			require.FailNow(p.t, "the page does not come to show it", "%s\nerror: %v\nthe page:\n%s", condition, err, text)
		}
		if err != nil {
			time.Sleep(20 * time.Millisecond) // before the next look
		}
	}
}

// see waits until an element that can be seen has the text.
func (p *page) see(selector, text string) {
	p.t.Helper()
	p.wait("[...document.querySelectorAll(%s)].some(e => e.checkVisibility({visibilityProperty: true}) && e.innerText.includes(%s))", selector, text)
}

// gone waits until no element that can be seen has the text.
func (p *page) gone(selector, text string) {
	p.t.Helper()
	p.wait("![...document.querySelectorAll(%s)].some(e => e.checkVisibility({visibilityProperty: true}) && e.innerText.includes(%s))", selector, text)
}

// click clicks the one button, or other element, that has the words, once it is there.
func (p *page) click(selector, words string) {
	p.t.Helper()
	find := script(`[...document.querySelectorAll(%s)].filter(e => e.checkVisibility({visibilityProperty: true}) && !e.disabled && (e.innerText + ' ' + (e.getAttribute('aria-label') ?? '')).includes(%s))`, selector, words)
	p.wait("%s.length == 1", raw(find))
	p.run("%s[0].click()", raw(find))
}

// typed types into the field for messages, as keys.
func (p *page) typed(keys string) {
	p.t.Helper()
	p.wait("document.getElementById('text').checkVisibility()")
	p.run("document.getElementById('text').focus()")
	p.press(keys)
}

// press presses keys, wherever the focus is. A key whose press is handled types nothing,
// as with a keyboard; chromedp's own events type in any case.
func (p *page) press(keys string) {
	p.t.Helper()
	for _, r := range keys {
		for _, event := range kb.Encode(r) {
			if event.Type == kb.KeyDown {
				event.Type = input.DispatchKeyEventTypeRawKeyDown
			}
			ctx, cancel := context.WithTimeout(p.ctx, patience)
			_, err := chromedp.Call(ctx, input.DispatchKeyEvent, *event)
			cancel()
			require.NoError(p.t, err)
		}
	}
}

// said says something and waits until the log shows it.
func (p *page) said(text string) {
	p.t.Helper()
	p.typed(text + "\r")
	p.see("#log .msg.user", text)
}

func (p *page) size(width, height int64) {
	p.t.Helper()
	p.do(chromedp.EmulateViewport(width, height))
}

// theme sets what the system prefers.
func (p *page) theme(scheme string) {
	p.t.Helper()
	_, err := chromedp.Call(p.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"},
	}})
	require.NoError(p.t, err)
}

// shot keeps a picture of the page among the artefacts of the test, with -artifacts:
// without, nobody would see it.
func (p *page) shot(name string) {
	if flag.Lookup("test.artifacts").Value.String() != "true" {
		return
	}
	ctx, cancel := context.WithTimeout(p.ctx, 5*time.Second)
	defer cancel()
	_, err := chromedp.Call(ctx, cdpage.BringToFront, cdp.Empty{})
	var png []byte
	if err == nil {
		png, err = chromedp.Run(ctx, chromedp.CaptureScreenshot())
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(p.t.ArtifactDir(), name+".png"), png, 0o644)
	}
	if err != nil {
		p.t.Errorf("keep a picture: %v", err)
	}
}

// before has every page of the tab run a script before its own.
func (p *page) before(script string) {
	p.t.Helper()
	p.window.spoilt = true
	_, err := chromedp.Call(p.ctx, cdpage.AddScriptToEvaluateOnNewDocument, cdpage.AddScriptToEvaluateOnNewDocumentParams{Source: script})
	require.NoError(p.t, err)
}
