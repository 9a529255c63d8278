package web

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/markdown/htmlmark"
	"github.com/x/pygent/internal/numeral"
	"github.com/x/pygent/internal/plain"
	"github.com/x/pygent/internal/sniff"
)

// Bounds of what is shown of files.
const (
	maxListed = 2000      // files of a directory
	maxViewed = 256 << 10 // bytes of a text
	maxImage  = 4 << 20   // bytes of an image
)

// file is a file of the workspace in a list.
type file struct {
	Path     string    `json:"path"`
	Name     string    `json:"name"` // as people can read it
	Size     int64     `json:"size"`
	Modified time.Time `json:"modified"`
	Dir      bool      `json:"dir"`
	Link     bool      `json:"link"`
}

// errNoFiles is the answer of a runtime that does not list files.
var errNoFiles = fail(http.StatusNotImplemented, "unsupported", "the files of this runtime cannot be listed")

// fileError puts an error about a file into a status.
func fileError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return fail(http.StatusNotFound, "no_file", oneLine(err.Error()))
	case errors.Is(err, fs.ErrPermission):
		return fail(http.StatusForbidden, "forbidden", oneLine(err.Error()))
	}
	return err
}

// file returns the session that the path of a request names, and the file of its query.
// The runtime confines that to the workspace.
func (c call) file(s *Server) (*session, string, error) {
	one, err := c.session(s)
	name := c.URL.Query().Get("path")
	if err == nil && (name == "" || strings.ContainsRune(name, 0) || !utf8.ValidString(name)) {
		err = fail(http.StatusBadRequest, "bad_request", "path does not name a file")
	}
	return one, name, err
}

// listFiles lists a directory of the workspace.
func (s *Server) listFiles(c call) (any, error) {
	one, err := c.session(s)
	if err != nil {
		return nil, err
	}
	lister, ok := pygent.RuntimeAs[pygent.FileLister](one.agent.Runtime())
	if !ok {
		return nil, errNoFiles
	}
	dir := cmp.Or(c.URL.Query().Get("path"), ".")
	found, more, err := lister.ListFiles(c.Context(), dir, 1, maxListed)
	if err != nil {
		return nil, fileError(err)
	}
	list := []file{}
	for _, f := range found {
		list = append(list, file{f.Path, oneLine(path.Base(f.Path)), f.Size, f.ModTime, f.Mode.IsDir(), f.Mode&fs.ModeSymlink != 0})
	}
	return map[string]any{"path": dir, "files": list, "more": more}, nil
}

// viewed is what is shown of a file.
type viewed struct {
	Path      string    `json:"path"`
	Size      int64     `json:"size"`
	Modified  time.Time `json:"modified,omitzero"`
	Kind      string    `json:"kind"` // text, image, binary or directory
	Text      string    `json:"text,omitempty"`
	Truncated bool      `json:"truncated"`
	HTML      string    `json:"html"` // what a page shows
}

// viewFile shows a file of the workspace, or says what it is.
func (s *Server) viewFile(c call) (any, error) {
	one, name, err := c.file(s)
	if err != nil {
		return nil, err
	}
	v := viewed{Path: name, Size: -1}
	rt := one.agent.Runtime()
	if lister, ok := pygent.RuntimeAs[pygent.FileLister](rt); ok {
		info, err := lister.StatFile(c.Context(), name)
		if err != nil {
			return nil, fileError(err)
		}
		v.Size, v.Modified = info.Size, info.ModTime
		if info.Mode.IsDir() {
			v.Kind, v.HTML = "directory", `<p class="reason">This is a directory.</p>`
			return v, nil
		}
		if !info.Mode.IsRegular() && info.Mode&fs.ModeSymlink == 0 {
			v.Kind, v.HTML = "binary", `<p class="reason">This is not a regular file.</p>`
			return v, nil
		}
	}
	data, err := beginning(c.Context(), rt, name, maxImage+1)
	if err != nil {
		return nil, fileError(err)
	}
	v.Size = max(v.Size, int64(len(data)))
	v.show(data)
	return v, nil
}

// show decides how the beginning of a file is shown.
func (v *viewed) show(data []byte) {
	kind := sniff.Of(string(data[:min(len(data), 4096)]))
	if address, ok := imageAddress(data); ok && len(data) <= maxImage {
		v.Kind = "image"
		v.HTML, _ = htmlmark.Image(address, v.Path)
		return
	}
	v.Truncated = len(data) > maxViewed || v.Size > maxViewed
	if len(data) > maxViewed {
		data = data[:maxViewed]
	}
	text := strings.TrimSuffix(strings.ToValidUTF8(string(data), "\uFFFD"), "\uFFFD")
	if kind.Name != "" || bytes.IndexByte(data, 0) >= 0 || strings.Count(text, "\uFFFD")*10 > len(text) {
		v.Kind, v.Truncated = "binary", false
		v.HTML = `<p class="reason">` + esc("This is not text"+prefixed(" but ", kind.Name)+": "+numeral.Bytes(v.Size)+".") + `</p>`
		return
	}
	v.Kind, v.Text = "text", text
	shown := plain.Clean(text)
	if strings.ContainsRune(text, 0x1b) { // what it does to a terminal is a part of it
		shown = text
	}
	v.HTML = `<pre class="chroma" tabindex="0"><code>` + htmlmark.Highlight(strings.TrimPrefix(path.Ext(v.Path), "."), shown) + `</code></pre>`
	if v.Truncated {
		v.HTML += `<p class="reason">` + esc("The first "+numeral.Bytes(int64(len(data)))+" of "+numeral.Bytes(v.Size)+". Download the file to see all of it.") + `</p>`
	}
}

// imageAddress returns an image as a data URL, if it is of a format that cannot hold a
// script.
func imageAddress(data []byte) (string, bool) {
	kind := http.DetectContentType(data)
	switch kind {
	case "image/png", "image/jpeg", "image/gif", "image/webp":
		return "data:" + kind + ";base64," + base64.StdEncoding.EncodeToString(data), true
	}
	return "", false
}

// errEnough ends the copying of a file of which enough was read.
var errEnough = errors.New("enough was read")

// limited keeps the first bytes that are written to it.
type limited struct {
	bytes.Buffer
	most int
}

// Write keeps what fits, and returns errEnough for the rest.
func (l *limited) Write(p []byte) (int, error) {
	fits := min(len(p), l.most-l.Len())
	l.Buffer.Write(p[:fits])
	if fits < len(p) {
		return fits, errEnough
	}
	return len(p), nil
}

// beginning reads the beginning of a file.
func beginning(ctx context.Context, rt pygent.Runtime, name string, most int) ([]byte, error) {
	streamer, ok := pygent.RuntimeAs[pygent.FileStreamer](rt)
	if !ok {
		data, err := rt.ReadFile(ctx, name)
		return data[:min(len(data), most)], err
	}
	l := limited{most: most}
	_, err := streamer.ReadFileTo(ctx, name, 0, &l)
	if errors.Is(err, errEnough) || l.Len() == most {
		err = nil
	}
	return l.Bytes(), err
}

// putFile writes a file of the workspace. It is there whole, or not at all.
func (s *Server) putFile(c call) (any, error) {
	one, name, err := c.file(s)
	if err != nil {
		return nil, err
	}
	rt := one.agent.Runtime()
	if streamer, ok := pygent.RuntimeAs[pygent.FileStreamer](rt); ok {
		err = streamer.WriteFileFrom(c.Context(), name, c.Body)
	} else {
		var data []byte
		if data, err = io.ReadAll(io.LimitReader(c.Body, pygent.MaxReadFile)); err == nil {
			err = rt.WriteFile(c.Context(), name, data)
		}
	}
	if err != nil {
		return nil, fileError(fmt.Errorf("write %s: %w", oneLine(name), err))
	}
	one.log.filesChanged()
	return nil, nil
}
