package browser

import (
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/x/pygent/pygenttest"
)

// showcase is a session that has most of what a page shows.
func showcase(t *testing.T) *page {
	t.Helper()
	s := serve(t, pygenttest.NewServer(t,
		pygenttest.TextAndCalls("I look at how columns are counted first.", bash("ls -l; cat report.go")).WithReasoning("The lexer counts bytes, and the report counts characters."),
		pygenttest.Call("edit_file", map[string]any{"path": "report.go", "old_text": "return at", "new_text": "return width(line[:at])"}),
		bash("go vet ./... ; exit 1"),
		pygenttest.Text("## Where it goes wrong\n\nTabs count as *one* column in `report.go`, so the caret is off.\n\n- the lexer counts bytes\n- the report counts characters\n\n```go\nfunc column(line string, at int) int { // from 1\n\treturn 1 + len(\"tab\")\n}\n```\n\n| Where | Counts |\n| --- | --- |\n| lexer.go | bytes |\n| report.go | characters |\n"),
		bash("pip install --upgrade -r requirements.txt"),
	))
	write(t, s.dir, "report.go", "package app\n\nfunc column(line string, at int) int {\n\treturn at\n}\n")
	p := open(t, s.url)
	p.said("The caret under errors is off by a few columns when a line has tabs. Please find out why.")
	for i := range 3 {
		p.click(".ask:not(.done) button", "Allow once")
		p.wait("document.querySelectorAll('.ask.done').length > %d", i)
	}
	p.see(".end", "Done")
	p.said("Upgrade the requirements, too.")
	p.see(".ask:not(.done)", "pip install")
	p.typed("and add a line to the changelog\r")
	p.see(".queued", "changelog")
	return p
}

// views are the sizes and themes in which the page is looked at.
var views = []struct {
	name, theme   string
	width, height int64
}{
	{"light", "light", 1400, 900}, {"dark", "dark", 1400, 900}, {"phone", "light", 390, 844}, {"phone-dark", "dark", 390, 844}, {"tablet", "light", 900, 1000},
}

// barriers checks that what the page shows has no violation that axe-core finds, and
// keeps a picture of it.
func (p *page) barriers(name string) {
	p.t.Helper()
	if eval[bool](p, "!window.axe") {
		source, err := os.ReadFile(filepath.Join("..", "..", ".build", "axe", "node_modules", "axe-core", "axe.min.js"))
		if err != nil && os.Getenv("PYGENT_TEST_REQUIRE_TOOLS") == "" {
			p.t.Skip("scripts/chromium.sh installs axe-core")
		}
		require.NoError(p.t, err)
		p.run("%s", raw(source))
	}
	violations := eval[[]string](p, `axe.run(document, {runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']}).then(r =>
		r.violations.flatMap(v => v.nodes.map(n => v.id + ': ' + v.help + ': ' + n.html.slice(0, 200) + ' ' + n.failureSummary)))`)
	require.Empty(p.t, violations, name)
	p.shot(name)
}

func TestNoBarriers(t *testing.T) {
	p := showcase(t)
	for _, view := range views {
		p.size(view.width, view.height)
		p.theme(view.theme)
		p.wait("innerWidth == %d", view.width)
		p.barriers(view.name)
		require.LessOrEqual(t, eval[int](p, "document.documentElement.scrollWidth"), int(view.width), "the page scrolls sideways")
		if view.width < 500 {
			p.click("#open-side", "")
			p.see("#sessions a", "")
			p.barriers(view.name + "-sessions")
			p.click("[data-do=close-side]", "")
			p.gone("#sessions a", "")
		}
		p.run("for (const d of document.querySelectorAll('.tool')) d.open = true; document.getElementById('chat').scrollTop = 0")
		p.barriers(view.name + "-open")
		p.run("for (const d of document.querySelectorAll('.tool')) d.open = false; document.getElementById('jump').click()")
	}
}

func TestTargetsAreLargeEnough(t *testing.T) {
	p := showcase(t)
	for _, view := range views {
		p.size(view.width, view.height)
		p.wait("innerWidth == %d", view.width)
		least := 24
		if view.width < 500 {
			least = 36
		}
		small := eval[[]string](p, `[...document.querySelectorAll('button, summary, input, textarea, select, .sessions a')].filter(e => e.checkVisibility() && e.offsetParent && !e.closest('.think')).map(e => [e, e.getBoundingClientRect()])
			.filter(([e, r]) => r.width && (r.height < %d || r.width < %d)).map(([e, r]) => e.outerHTML.slice(0, 120) + ' ' + r.width + ' × ' + r.height)`, least, least)
		require.Empty(t, small, view.name)
	}
}

var update = flag.Bool("update", false, "draw the picture of the page in the README anew")

// The page as the README shows it. With -update it writes docs/page.png, which is not
// compared: it has times, and browsers draw letters differently.
func TestThePageOfTheREADME(t *testing.T) {
	p := showcase(t)
	p.size(1280, 1080)
	p.wait("innerWidth == 1280")
	p.run(`for (const e of document.querySelectorAll('.reason')) e.textContent = e.textContent.replace(/In \/\S+/, 'In /home/you/app')`) // the directory of the test
	p.run("document.getElementById('chat').scrollTop = 1e6")
	picture, err := chromedp.Run(p.ctx, chromedp.CaptureScreenshot())
	require.NoError(t, err)
	const most = 200_000 // bytes, so that the README is quick to load
	require.Less(t, len(picture), most)
	if *update {
		require.NoError(t, os.WriteFile(filepath.Join("..", "..", "docs", "page.png"), picture, 0o644))
	}
}

// pairs are the colours that stand on each other, and the contrast that they need.
var pairs = []struct {
	on   string
	fg   string
	need float64
}{
	{"bg surface sunken hover tint add-bg del-bg", "text", 4.5},
	{"bg surface sunken hover", "muted", 4.5},
	{"bg surface tint", "accent", 4.5},
	{"accent", "on-accent", 4.5},
	{"surface bg add-bg", "ok", 4.5},
	{"surface bg bad-bg del-bg", "bad", 4.5},
	{"warn-bg surface sunken", "warn", 4.5},
	{"bg surface", "edge", 3},
	{"sunken surface", "code-keyword code-string code-number code-name", 4.5},
}

func TestContrastOfTheStylesheet(t *testing.T) {
	sheet, err := os.ReadFile(filepath.Join("..", "..", "web", "assets", "style.css"))
	require.NoError(t, err)
	colours := map[string][2]string{}
	for _, m := range regexp.MustCompile(`--([a-z-]+):light-dark\((#[0-9a-f]{6}),(#[0-9a-f]{6})\)`).FindAllStringSubmatch(string(sheet), -1) {
		colours[m[1]] = [2]string{m[2], m[3]}
	}
	require.Len(t, colours, 22)
	used := map[string]bool{}
	for _, pair := range pairs {
		for _, on := range strings.Fields(pair.on) {
			for _, fg := range strings.Fields(pair.fg) {
				used[on], used[fg] = true, true
				require.Contains(t, colours, on)
				require.Contains(t, colours, fg)
				for theme, name := range []string{"light", "dark"} {
					got := contrast(colours[fg][theme], colours[on][theme])
					require.GreaterOrEqual(t, got, pair.need, "%s on %s, %s: %.2f", fg, on, name, got)
				}
			}
		}
	}
	for name := range colours {
		require.True(t, used[name] || name == "line", "%s is compared with nothing", name)
	}
	// No rule has a colour of its own.
	rules := string(sheet[strings.Index(string(sheet), "[data-theme=light]"):])
	require.Empty(t, regexp.MustCompile(`[^&]#[0-9a-f]{6}\b|rgb\(|hsl\(`).FindAllString(rules, -1))
}

func contrast(a, b string) float64 {
	la, lb := luminance(a), luminance(b)
	return (math.Max(la, lb) + 0.05) / (math.Min(la, lb) + 0.05)
}

// luminance is the relative luminance of WCAG 2.
func luminance(colour string) float64 {
	var l float64
	for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
		v, err := strconv.ParseUint(colour[1+2*i:3+2*i], 16, 8)
		if err != nil {
			panic(fmt.Sprintf("%s is no colour", colour))
		}
		c := float64(v) / 255
		if c <= 0.04045 {
			c /= 12.92
		} else {
			c = math.Pow((c+0.055)/1.055, 2.4)
		}
		l += weight * c
	}
	return l
}

func TestKeyboard(t *testing.T) {
	s := serve(t, pygenttest.NewServer(t, pygenttest.Text("One.")))
	p := open(t, s.url)
	p.wait("document.activeElement.id == 'text'")
	// The first stop leads to the field, past everything else.
	require.True(t, eval[bool](p, "document.querySelector('a, button, input, [tabindex]').matches('.skip')"))
	p.run("document.querySelector('.skip').focus()")
	p.press("\r")
	p.wait("document.activeElement.id == 'text'")
	p.press("first")
	p.run("document.execCommand('insertLineBreak')")
	p.press("second\r")
	p.see(".msg.user", "first\nsecond")
	p.see(".end", "Done")
	// The list of sessions.
	p.run("dispatchEvent(new KeyboardEvent('keydown', {key: 'k', ctrlKey: true, bubbles: true}))")
	p.wait("document.activeElement.matches('#sessions a')")
	// Everything that can be reached can be seen to be.
	require.Equal(t, []string{}, eval[[]string](p, `(() => { const bad = []; for (const e of document.querySelectorAll('a[href], button, summary, textarea, [tabindex="0"]')) {
		if (!e.checkVisibility() || e.disabled) continue; e.focus({focusVisible: true}); const s = getComputedStyle(e);
		if (document.activeElement == e && s.outlineStyle == 'none' && !e.closest('.box')) bad.push(e.outerHTML.slice(0, 100)) } return bad })()`))
}

func TestScreenReaders(t *testing.T) {
	s := serve(t, pygenttest.NewServer(t, bash("echo 1"), pygenttest.Text("First paragraph.\n\nSecond paragraph.")))
	p := open(t, s.url)
	p.wait("document.getElementById('composer').checkVisibility()")
	p.run("window.heard = []; new MutationObserver(all => { for (const m of all) for (const n of m.addedNodes) heard.push(n.textContent) }).observe(document.getElementById('said'), {childList: true})")
	p.said("Hello")
	p.wait("heard.some(t => t.startsWith('Approval needed:') && t.includes('echo 1'))")
	p.wait("document.activeElement.id == 'text'") // the focus is not taken away
	p.click(".ask button", "Allow once")
	p.see(".end", "Done")
	p.wait("heard.filter(t => /paragraph/.test(t)).join(' ').match(/First paragraph\\..*Second paragraph\\./)")
	require.LessOrEqual(t, eval[int](p, "heard.length"), 6, "not every token is said")
	require.Equal(t, "off", eval[string](p, "document.getElementById('log').getAttribute('aria-live')"))
	require.Equal(t, "polite", eval[string](p, "document.getElementById('said').getAttribute('aria-live')"))
	p.see("#log", "")
	require.Contains(t, eval[string](p, "document.getElementById('log').textContent"), "Pygent:")
}
