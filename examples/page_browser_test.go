package examples_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/pygenttest"
)

// hostile is what a page must show as it is.
const hostile = `<script>document.title = "taken"</script><img src=x onerror="document.title='taken'">`

func TestThePageInABrowser(t *testing.T) {
	t.Parallel()
	b := startBrowser(t)
	gate := make(chan struct{})
	long := hostile // and what does not repeat itself
	for n := range 5000 {
		long += fmt.Sprint(" and ", n)
	}
	p := startPage(t,
		pygenttest.Text(long).WithChunkGate(gate),
		pygenttest.Call("bash", map[string]any{"cmd": "echo '" + strings.ReplaceAll(hostile, "'", `'\''`) + "'"}),
		pygenttest.Call("write_file", map[string]any{"path": "<img src=x onerror=alert(1)>.txt", "content": hostile}),
		pygenttest.Call("ask_user", map[string]any{"prompt": "Where to?", "schema": `{"type":"object","properties":{` +
			`"host":{"type":"string","enum":["alpha","beta"]},"port":{"type":"integer"},"force":{"type":"boolean"}},"required":["host"]}`}),
		pygenttest.Text("It is done."),
		pygenttest.Text("").WithGate(nil))
	b.open(p.address)

	// A long answer comes in pieces, and a reload in the middle loses nothing.
	b.say("Write much.")
	for range 3 {
		gate <- struct{}{}
	}
	b.await(`document.querySelector('main .text:not(.user)')`)
	b.reload()
	b.await(`document.querySelector('.user').textContent == 'Write much.'`)
	close(gate)
	b.await(`document.querySelector('main').textContent.includes('replied')`)
	texts := b.texts("main .text:not(.user)")
	require.Len(t, texts, 1)
	require.True(t, texts[0] == long, "the whole answer, as it was written: it begins with %.200q", texts[0])
	require.Equal(t, []string{"Write much."}, b.texts(".user"))

	// A question about a call survives a reload, and an answer shows the output.
	b.say("Work.")
	b.await(`document.querySelector('.ask')`)
	b.reload()
	b.click("Yes")
	b.await(`document.querySelector('details pre').textContent.includes('<img')`)
	require.Contains(t, b.texts("details pre")[0], hostile)

	// A change of a file is shown, and refused.
	b.await(`document.querySelector('.ask')?.textContent.includes('+ <script>')`)
	b.click("No")

	// A tool asks with a form.
	b.await(`document.querySelector('.ask select')`)
	b.enter("input[name=port]", "8080")
	b.clickOn("input[name=force]")
	b.clickOn("option:last-child")
	b.click("Answer")
	b.await(`document.querySelector('main').textContent.includes('It is done.')`)
	require.Contains(t, b.texts("details:last-of-type pre")[0], `"port":8080`)
	require.Contains(t, b.texts("details:last-of-type pre")[0], `"host":"beta"`)
	require.Contains(t, b.texts("details:last-of-type pre")[0], `"force":true`)

	// A model that says nothing is stopped.
	b.say("Wait for ever.")
	b.await(`document.querySelector('#status').textContent == 'thinks'`)
	b.clickOn("#stop")
	b.await(`document.querySelector('main').textContent.includes('cancelled')`)

	// What was shown is shown again, once, and none of it has done anything.
	b.reload()
	b.await(`document.querySelectorAll('.user').length == 3`)
	require.Equal(t, []string{"Write much.", "Work.", "Wait for ever."}, b.texts(".user"))
	require.Len(t, b.texts("details"), 3)
	require.Equal(t, "pygent", b.run(`return document.title`))
	require.Zero(t, b.run(`return document.querySelectorAll('img, main script').length`))
}

// browser is a browser without a window, driven as a person would.
type browser struct {
	t   *testing.T
	url string // of the session
}

// startBrowser starts the browser of Debian's packages chromium and
// chromium-driver, which scripts/tools.sh installs.
func startBrowser(t *testing.T) *browser {
	t.Helper()
	path, err := exec.LookPath("chromedriver")
	if err != nil {
		t.Skip("this needs a browser: install chromium and chromium-driver")
	}
	driver := exec.Command(path, "--port=0")
	out, err := driver.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, driver.Start())
	t.Cleanup(func() {
		_ = driver.Process.Kill()
		_ = driver.Wait()
	})
	b := &browser{t: t}
	for lines := bufio.NewScanner(out); b.url == "" && lines.Scan(); {
		if _, port, ok := strings.Cut(lines.Text(), "successfully on port "); ok {
			b.url = "http://127.0.0.1:" + strings.Trim(port, ".") + "/session"
		}
	}
	require.NotEmpty(t, b.url, "chromedriver does not start")
	var session struct{ SessionID string }
	b.post("", map[string]any{"capabilities": map[string]any{"alwaysMatch": map[string]any{
		"timeouts": map[string]any{"script": 120_000, "implicit": 60_000},
		"goog:chromeOptions": map[string]any{"args": []string{
			"--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-quic", "--no-first-run",
			"--disable-background-networking", "--disable-component-update", "--disable-sync", "--user-data-dir=" + t.TempDir(),
		}},
	}}}, &session)
	b.url += "/" + session.SessionID
	t.Cleanup(func() {
		req, err := http.NewRequest(http.MethodDelete, b.url, nil)
		require.NoError(t, err)
		resp, err := http.DefaultClient.Do(req)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		http.DefaultClient.CloseIdleConnections()
	})
	return b
}

// post sends a command of the WebDriver protocol, and decodes its value.
func (b *browser) post(path string, body, value any) {
	b.t.Helper()
	data, err := json.Marshal(body)
	require.NoError(b.t, err)
	resp, err := http.Post(b.url+path, "application/json", bytes.NewReader(data))
	require.NoError(b.t, err)
	defer resp.Body.Close()
	var got struct{ Value json.RawMessage }
	require.NoError(b.t, json.NewDecoder(resp.Body).Decode(&got))
	require.Equal(b.t, http.StatusOK, resp.StatusCode, "%s", got.Value)
	if value != nil {
		require.NoError(b.t, json.Unmarshal(got.Value, value))
	}
}

func (b *browser) open(url string) { b.t.Helper(); b.post("/url", map[string]any{"url": url}, nil) }
func (b *browser) reload()         { b.t.Helper(); b.post("/refresh", map[string]any{}, nil) }

// run runs the body of a function in the page, and returns its result.
func (b *browser) run(script string) (value any) {
	b.t.Helper()
	b.post("/execute/sync", map[string]any{"script": script, "args": []any{}}, &value)
	return value
}

// await waits until an expression is true in the page.
func (b *browser) await(expression string) {
	b.t.Helper()
	b.post("/execute/async", map[string]any{"args": []any{}, "script": `
		const done = arguments[0], holds = () => ` + expression + `
		const look = () => { try { if (holds()) { watch.disconnect(); done() } } catch {} }
		const watch = new MutationObserver(look)
		watch.observe(document, {subtree: true, childList: true, characterData: true, attributes: true})
		look()`}, nil)
}

// texts returns the texts of all elements that a selector finds.
func (b *browser) texts(selector string) (texts []string) {
	b.t.Helper()
	b.post("/execute/sync", map[string]any{"args": []any{selector},
		"script": `return [...document.querySelectorAll(arguments[0])].map(e => e.textContent)`}, &texts)
	return texts
}

// element does something with an element, for which it waits.
func (b *browser) element(using, value, action string, body map[string]any) {
	b.t.Helper()
	var ids map[string]string
	b.post("/element", map[string]any{"using": using, "value": value}, &ids)
	for _, id := range ids {
		b.post("/element/"+id+action, body, nil)
	}
}

func (b *browser) clickOn(selector string) {
	b.t.Helper()
	b.element("css selector", selector, "/click", map[string]any{})
}

func (b *browser) click(button string) {
	b.t.Helper()
	b.element("xpath", "//button[.="+strconv.Quote(button)+"]", "/click", map[string]any{})
}

func (b *browser) enter(selector, text string) {
	b.t.Helper()
	b.element("css selector", selector, "/value", map[string]any{"text": text})
}

func (b *browser) say(text string) {
	b.t.Helper()
	b.enter("footer input", text+"\n")
}
