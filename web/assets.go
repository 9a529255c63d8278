package web

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"net/http"
	"path"
	"strconv"
	"strings"
)

//go:embed assets
var files embed.FS

// kinds are the media types of the files of the page. They are written down, because
// what the machine says of them may differ.
var kinds = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
}

func newAsset(name string, data []byte) asset {
	sum := sha256.Sum256(data)
	kind := kinds[path.Ext(name)]
	if kind == "" {
		kind = "application/octet-stream"
	}
	return asset{data: data, kind: kind, etag: `"` + hex.EncodeToString(sum[:12]) + `"`}
}

// serveIndex answers with the page itself.
func (s *Server) serveIndex(w http.ResponseWriter, r *http.Request) { s.serveAsset(w, r, "index.html") }

// serveFile answers with a file of the page.
func (s *Server) serveFile(w http.ResponseWriter, r *http.Request) {
	s.serveAsset(w, r, strings.TrimPrefix(r.PathValue("file"), "/"))
}

// serveAsset answers with a file that is part of the program. Nothing in it is secret,
// so nobody needs to say who they are.
func (s *Server) serveAsset(w http.ResponseWriter, r *http.Request, name string) {
	a, ok := s.assets[name]
	if !ok {
		writeError(w, fail(http.StatusNotFound, "not_found", "there is no such file"))
		return
	}
	if !s.knowsHost(r.Host) {
		writeError(w, s.checkOrigin(r))
		return
	}
	h := w.Header()
	h.Set("ETag", a.etag)
	h.Set("Cache-Control", "no-cache")
	if r.Header.Get("If-None-Match") == a.etag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	h.Set("Content-Type", a.kind)
	h.Set("Content-Length", strconv.Itoa(len(a.data)))
	if r.Method != http.MethodHead {
		writeAll(w, a.data)
	}
}
