package web_test

import (
	"encoding/base64"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/pygenttest"
)

const aPixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

// serveFiles shows an agent whose workspace has some files.
func serveFiles(t *testing.T, files map[string]string, replies ...pygenttest.Reply) (s *served, dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, content := range files {
		require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644))
	}
	return serve(t, replies, pygent.WithWorkspace(dir), pygent.WithConfirmBash(false)), dir
}

func TestFilesAreListedAndShown(t *testing.T) {
	pixel, err := base64.StdEncoding.DecodeString(aPixel)
	require.NoError(t, err)
	s, _ := serveFiles(t, map[string]string{
		"main.go": "package main // <b>\n", "sub/a.txt": "x", "pixel.png": string(pixel), "data": "\x00\x01\x02\x03",
		"evil.svg": "<svg><script>alert(1)</script></svg>", "long.txt": strings.Repeat("0123456789\n", 60_000),
	})
	var list struct {
		Files []struct {
			Path, Name string
			Dir        bool
		}
	}
	s.get("/files", &list)
	require.Len(t, list.Files, 6)
	s.get("/files?path=sub", &list)
	require.Len(t, list.Files, 1)
	require.Equal(t, "sub/a.txt", list.Files[0].Path)
	require.Equal(t, "a.txt", list.Files[0].Name)

	for name, tt := range map[string]struct {
		kind, has string
		truncated bool
	}{
		"main.go":   {"text", "&lt;b&gt;", false},
		"pixel.png": {"image", `<img src="data:image/png;base64,` + aPixel, false},
		"evil.svg":  {"text", "&lt;script", false},
		"data":      {"binary", "This is not text", false},
		"long.txt":  {"text", "Download the file", true},
		"sub":       {"directory", "directory", false},
	} {
		var v struct {
			Kind, HTML string
			Truncated  bool
		}
		s.get("/file?path="+name, &v)
		require.Equal(t, tt.kind, v.Kind, name)
		require.Contains(t, v.HTML, tt.has, name)
		require.Equal(t, tt.truncated, v.Truncated, name)
		require.NotContains(t, v.HTML, "<script")
	}
}

func TestFilesOutsideOfTheWorkspaceAreOutOfReach(t *testing.T) {
	s, dir := serveFiles(t, nil)
	secret := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(secret, []byte("the secret"), 0o600))
	require.NoError(t, os.Symlink(secret, filepath.Join(dir, "link")))
	require.NoError(t, os.Symlink(filepath.Dir(secret), filepath.Join(dir, "out")))
	for _, path := range []string{secret, "../" + filepath.Base(filepath.Dir(secret)) + "/secret", "link", "out/secret", "/etc/passwd", "../../../../etc/passwd", "a\x00b", ""} {
		escaped := "?path=" + url.QueryEscape(path)
		status, body := s.do(s.request(http.MethodGet, "/sessions/"+s.id+"/file"+escaped, nil))
		require.GreaterOrEqual(t, status, 400, "%q: %s", path, body)
		require.NotContains(t, string(body), "the secret", "%q", path)
		r := s.request(http.MethodPut, "/sessions/"+s.id+"/file"+escaped, "overwritten")
		r.Header.Set("Content-Type", "application/octet-stream")
		status, _ = s.do(r)
		if path != "link" { // the link itself may be replaced
			require.GreaterOrEqual(t, status, 400, "%q", path)
		}
		status, body = s.do(s.request(http.MethodPost, "/sessions/"+s.id+"/downloads", map[string]string{"path": path}))
		if status < 300 && path != "link" {
			require.Fail(t, "a download", "%q: %s", path, body)
		}
	}
	content, err := os.ReadFile(secret)
	require.NoError(t, err)
	require.Equal(t, "the secret", string(content))
}

func TestFilesAreUploaded(t *testing.T) {
	s, dir := serveFiles(t, nil)
	r := s.request(http.MethodPut, "/sessions/"+s.id+"/file?path="+url.QueryEscape("new dir/ä b.txt"), "hello")
	status, body := s.do(r)
	require.Equal(t, http.StatusUnsupportedMediaType, status, "%s", body)
	r = s.request(http.MethodPut, "/sessions/"+s.id+"/file?path="+url.QueryEscape("new dir/ä b.txt"), "hello")
	r.Header.Set("Content-Type", "application/octet-stream")
	status, body = s.do(r)
	require.Equal(t, http.StatusNoContent, status, "%s", body)
	content, err := os.ReadFile(filepath.Join(dir, "new dir", "ä b.txt"))
	require.NoError(t, err)
	require.Equal(t, "hello", string(content))
}

func TestADownloadWorksOnceAndIsNeverShown(t *testing.T) {
	s, _ := serveFiles(t, map[string]string{"evil \"x\".html": "<script>alert(1)</script>", "empty": ""})
	var link struct{ URL string }
	s.post("/downloads", map[string]string{"path": "evil \"x\".html"}, &link)
	resp, err := s.client.Head(s.url + link.URL)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusMethodNotAllowed, resp.StatusCode, "a look at the link does not use it up")
	resp, err = s.client.Get(s.url + link.URL)
	require.NoError(t, err)
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusOK, resp.StatusCode)
	require.Equal(t, "<script>alert(1)</script>", string(body))
	require.Equal(t, "application/octet-stream", resp.Header.Get("Content-Type"))
	require.Equal(t, "nosniff", resp.Header.Get("X-Content-Type-Options"))
	require.Equal(t, `attachment; filename="evil _x_.html"`, resp.Header.Get("Content-Disposition"))

	resp, err = s.client.Get(s.url + link.URL)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusGone, resp.StatusCode)

	s.post("/downloads", map[string]string{"path": "empty"}, &link)
	resp, err = s.client.Get(s.url + link.URL)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusOK, resp.StatusCode)

	status, _ := s.do(s.request(http.MethodPost, "/sessions/"+s.id+"/downloads", map[string]string{"path": "none"}))
	require.Equal(t, http.StatusNotFound, status)
}

func TestImagesGoAlongWithMessages(t *testing.T) {
	s, _ := serveFiles(t, map[string]string{"notes.txt": "Remember the milk."}, pygenttest.Text("I see."))
	p := s.open("")
	s.post("/messages", map[string]any{
		"text":        "Look at this, and at @notes.txt and @none.txt",
		"attachments": []map[string]any{{"name": "pixel.png", "data": aPixel}},
	}, nil)
	p.shows(`<img src="data:image/png;base64,`+aPixel, `<span class="chip">notes.txt · 19 B</span>`, "Not in the workspace: none.txt", "<p>I see.</p>")
	status, _ := s.do(s.request(http.MethodPost, "/sessions/"+s.id+"/messages", map[string]any{"text": " "}))
	require.Equal(t, http.StatusBadRequest, status)
}

// A message that is taken back before anybody heard it comes back with its images.
func TestAQueuedMessageIsTakenBackWithItsImages(t *testing.T) {
	gate := make(chan struct{})
	reply, asked := gated(gate, "Hello.")
	s := serve(t, []pygenttest.Reply{reply})
	p := s.open("")
	s.say("Begin.")
	<-asked
	s.post("/messages", map[string]any{"text": "Look.", "attachments": []map[string]any{{"name": "pixel.png", "data": aPixel}}}, nil)
	p.until("the queue", func(p *page) bool { return len(p.state.Queue) == 1 })
	var back struct {
		Text   string
		Images []struct{ Data string }
	}
	s.must(http.MethodDelete, "/messages/"+p.look().state.Queue[0].ID, nil, &back)
	close(gate)
	require.Equal(t, "Look.", back.Text)
	require.Len(t, back.Images, 1)
	require.Equal(t, aPixel, back.Images[0].Data)
}
