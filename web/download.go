package web

import (
	"crypto/rand"
	"io"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/x/pygent"
)

// Bounds of links to downloads.
const (
	ticketLife = time.Minute
	maxTickets = 100 // of one user
)

// ticket is a link to a file that works once. A browser follows it without the token,
// which it sends to nobody by itself.
type ticket struct {
	session *session
	path    string
	until   time.Time
}

// postDownload makes a link to a file.
func (s *Server) postDownload(c call) (any, error) {
	one, err := c.session(s)
	if err != nil {
		return nil, err
	}
	var in struct {
		Path string `json:"path"`
	}
	if err := c.read(&in); err != nil {
		return nil, err
	}
	if lister, ok := pygent.RuntimeAs[pygent.FileLister](one.agent.Runtime()); ok {
		info, err := lister.StatFile(c.Context(), in.Path)
		if err != nil {
			return nil, fileError(err)
		}
		if info.Mode.IsDir() || !info.Mode.IsRegular() && info.Mode&fs.ModeSymlink == 0 {
			return nil, fail(http.StatusUnprocessableEntity, "no_file", "only files can be downloaded")
		}
	}
	id := rand.Text() + rand.Text()
	s.mu.Lock()
	defer s.mu.Unlock()
	now, begun := time.Now(), 0
	for old, t := range s.tickets {
		switch {
		case now.After(t.until):
			delete(s.tickets, old)
		case t.session.user == c.user:
			begun++
		}
	}
	if begun >= maxTickets {
		return nil, fail(http.StatusTooManyRequests, "too_many", "too many downloads; wait a minute")
	}
	s.tickets[id] = ticket{one, in.Path, now.Add(ticketLife)}
	return map[string]string{"url": s.opts.base + "/download/" + id}, nil
}

// redeem returns what a link stands for, once. Where the host knows its users, a link is
// of no use to another one, and stays good for its own.
func (s *Server) redeem(r *http.Request, id string) (ticket, error) {
	user := ""
	if s.opts.user != nil {
		var err error
		if user, err = s.authorize(r); err != nil {
			return ticket{}, err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	t, ok := s.tickets[id]
	if ok && t.session.user != user {
		return ticket{}, errUsed
	}
	delete(s.tickets, id)
	if !ok || time.Now().After(t.until) {
		return ticket{}, errUsed
	}
	return t, nil
}

// errUsed is the answer to a link that does not work any more.
var errUsed = fail(http.StatusGone, "used", "the link has been used or has expired")

// download answers with a file, for the browser to save and never to show.
func (s *Server) download(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet { // a look at the link does not use it up
		writeError(w, notAllowed(w, http.MethodGet))
		return
	}
	if err := s.checkOrigin(r); err != nil {
		writeError(w, err)
		return
	}
	t, err := s.redeem(r, r.PathValue("ticket"))
	if err != nil {
		writeError(w, err)
		return
	}
	out := &attachmentWriter{w: w, control: http.NewResponseController(w), name: path.Base(t.path)}
	err = copyFile(r, t, out)
	switch {
	case err != nil && out.begun:
		panic(http.ErrAbortHandler) // so that the browser knows that the file is not whole
	case err != nil:
		writeError(w, fileError(err))
	default:
		out.begin() // of an empty file
	}
}

func copyFile(r *http.Request, t ticket, w io.Writer) error {
	rt := t.session.agent.Runtime()
	if streamer, ok := pygent.RuntimeAs[pygent.FileStreamer](rt); ok {
		_, err := streamer.ReadFileTo(r.Context(), t.path, 0, w)
		return err
	}
	data, err := rt.ReadFile(r.Context(), t.path)
	if err == nil {
		_, err = w.Write(data)
	}
	return err
}

// attachmentWriter writes a download, whose headers come with the first bytes. A
// browser that does not read is not waited for.
type attachmentWriter struct {
	w       http.ResponseWriter
	control *http.ResponseController
	name    string
	begun   bool
}

func (a *attachmentWriter) begin() {
	if a.begun {
		return
	}
	a.begun = true
	h := a.w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Disposition", disposition(a.name))
	h.Set("Cache-Control", "no-store")
	a.w.WriteHeader(http.StatusOK)
}

// Write writes a part of the file, with the headers before the first.
func (a *attachmentWriter) Write(p []byte) (int, error) {
	a.begin()
	return writeInTime(a.w, a.control, p)
}

// disposition has a browser save a file under its name, as far as that is harmless.
func disposition(name string) string {
	name = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || strings.ContainsRune(`/\:*?"<>|`, r) {
			return '_'
		}
		return r
	}, oneLine(name))
	if header := mime.FormatMediaType("attachment", map[string]string{"filename": name}); header != "" {
		return header
	}
	return "attachment"
}
