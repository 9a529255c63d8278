package web_test

import (
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/pygenttest"
	"github.com/x/pygent/web"
)

// A thousand connections that say nothing keep nobody out.
func TestAThousandConnectionsKeepNobodyOut(t *testing.T) {
	s := serve(t, []pygenttest.Reply{pygenttest.Text("Still here.")})
	for range 1000 {
		conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
		require.NoError(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		_, err = io.WriteString(conn, "POST /api/v1/stream HTTP/1.1\r\nHost: loc")
		require.NoError(t, err)
	}
	p := s.open("")
	s.say("Are you there?")
	p.shows("<p>Still here.</p>")
}

// A command that prints without end neither holds the page up nor fills its memory: the
// end of the output is seen, and what the person does meanwhile counts.
func TestAFloodOfOutputIsSeenAtItsEnd(t *testing.T) {
	if testing.Short() {
		t.Skip("prints megabytes")
	}
	s := serve(t, []pygenttest.Reply{
		pygenttest.Call("bash", map[string]any{"cmd": "i=0; while [ ! -e stop ]; do head -c 100000 /dev/zero | tr '\\0' x; echo \"line $((i=i+1))\"; done; echo the end"}),
		pygenttest.Text("It ended."),
	}, pygent.WithConfirmBash(false))
	p := s.open("")
	s.say("Print much.")
	p.until("much output", func(p *page) bool {
		for _, out := range p.out {
			if strings.Contains(out, "line 1\n") || strings.Contains(out, "line 2") {
				return true
			}
		}
		return false
	})
	p.until("that some of it is left out", func(p *page) bool {
		for _, out := range p.out {
			if strings.Contains(out, "\n…\n") {
				return true
			}
		}
		return false
	})
	s.say("And tell me when it ends.")
	p.until("the queue", func(p *page) bool { return len(p.state.Queue) == 1 })
	late := s.open("")
	late.until("that it runs", func(p *page) bool { return strings.Contains(p.text(), `<details class="tool run"`) })
	late.mu.Lock()
	require.Less(t, len(late.text()), 200_000, "one who comes later gets the end of the output")
	late.mu.Unlock()
	dir := p.look().state.Runtime.Directory
	require.NoError(t, os.WriteFile(filepath.Join(dir, "stop"), nil, 0o600))
	p.shows("<p>It ended.</p>")
	p.rests()
	require.Contains(t, p.now(), "the end")
}

// What waits to be opened, as a pipe does, is never opened, whatever leads to it.
func TestSpecialFilesAreNotWaitedFor(t *testing.T) {
	s := serve(t, []pygenttest.Reply{
		pygenttest.Call("bash", map[string]any{"cmd": "mkfifo pipe; ln -s pipe link; ln -s loop loop; ln -s /dev/zero zero"}), pygenttest.Text("Made."),
	}, pygent.WithConfirmBash(false))
	p := s.open("")
	s.say("Make them.")
	p.shows("<p>Made.</p>")
	for _, name := range []string{"pipe", "link", "loop", "zero"} {
		status, body := s.do(s.request(http.MethodGet, "/sessions/"+s.id+"/file?path="+name, nil))
		if status == http.StatusOK {
			require.Contains(t, string(body), `"binary"`, name)
		}
		var link struct{ URL string }
		status, body = s.do(s.request(http.MethodPost, "/sessions/"+s.id+"/downloads", map[string]string{"path": name}))
		if status != http.StatusOK {
			continue
		}
		require.NoError(t, json.Unmarshal(body, &link))
		resp, err := s.client.Get(s.url + link.URL)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.GreaterOrEqual(t, resp.StatusCode, 400, name)
	}
}

// An upload that is too large leaves nothing behind.
func TestAnUploadThatIsTooLargeLeavesNothing(t *testing.T) {
	s := serveAt(t, web.WithLimits(web.Limits{Upload: 1000}))
	dir := t.TempDir()
	s.agent = newAgent(t, pygenttest.NewScriptedModel(), pygent.WithWorkspace(dir))
	id, err := s.server.Add("", s.agent)
	require.NoError(t, err)
	for _, length := range []int64{2000, -1} { // told before, or not
		r := s.request(http.MethodPut, "/sessions/"+id+"/file?path=large", strings.Repeat("x", 2000))
		r.Header.Set("Content-Type", "application/octet-stream")
		r.ContentLength = length
		status, body := s.do(r)
		require.Equal(t, http.StatusRequestEntityTooLarge, status, "%s", body)
	}
	files, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, files)
}
