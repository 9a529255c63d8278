package web

import (
	_ "embed"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
)

// call is a request of the API by a user who may make it.
type call struct {
	*http.Request
	user string
	w    http.ResponseWriter
}

// errAnswered says that a function has written the answer itself.
var errAnswered = errors.New("answered")

// status is an answer with another status than 200.
type status struct {
	code int
	body any
}

// route is a function of the API. What it returns is the answer.
type route struct {
	pattern string // a method and a path below /api/v1
	do      func(s *Server, c call) (any, error)
	upload  bool // the body is a file, and not JSON
}

// routesOfAPI are the functions of the API. openapi.json describes them.
var routesOfAPI = []route{
	{"GET /sessions", (*Server).listSessions, false},
	{"POST /sessions", (*Server).postSession, false},
	{"GET /sessions/{s}", (*Server).getSession, false},
	{"DELETE /sessions/{s}", (*Server).deleteSession, false},
	{"POST /sessions/{s}/messages", (*Server).postMessage, false},
	{"DELETE /sessions/{s}/messages/{id}", (*Server).deleteMessage, false},
	{"POST /sessions/{s}/interrupt", (*Server).interrupt, false},
	{"POST /sessions/{s}/retry", (*Server).retry, false},
	{"GET /sessions/{s}/asks", (*Server).listAsks, false},
	{"POST /sessions/{s}/asks/{id}", (*Server).answerAsk, false},
	{"GET /sessions/{s}/history", (*Server).getHistory, false},
	{"POST /sessions/{s}/shell", (*Server).postShell, false},
	{"DELETE /sessions/{s}/shell", (*Server).deleteShell, false},
	{"GET /sessions/{s}/settings", (*Server).getSettings, false},
	{"PATCH /sessions/{s}/settings", (*Server).patchSettings, false},
	{"POST /sessions/{s}/commands", (*Server).postCommand, false},
	{"GET /sessions/{s}/completions", (*Server).getCompletions, false},
	{"GET /sessions/{s}/checkpoints", (*Server).listCheckpoints, false},
	{"POST /sessions/{s}/undo", (*Server).undo, false},
	{"POST /sessions/{s}/redo", (*Server).redo, false},
	{"POST /sessions/{s}/restore", (*Server).restore, false},
	{"POST /sessions/{s}/fork", (*Server).fork, false},
	{"POST /sessions/{s}/save", (*Server).postSave, false},
	{"DELETE /kept/{id}", (*Server).deleteKept, false},
	{"GET /sessions/{s}/changes", (*Server).listChanges, false},
	{"GET /sessions/{s}/files", (*Server).listFiles, false},
	{"GET /sessions/{s}/file", (*Server).viewFile, false},
	{"PUT /sessions/{s}/file", (*Server).putFile, true},
	{"POST /sessions/{s}/downloads", (*Server).postDownload, false},
	{"GET /sessions/{s}/tasks", (*Server).listTasks, false},
	{"GET /sessions/{s}/tasks/{t}", (*Server).getTask, false},
	{"POST /sessions/{s}/tasks/{t}/cancel", (*Server).cancelTask, false},
	{"GET /sessions/{s}/events", (*Server).getEvents, false},
	{"GET /openapi.json", (*Server).getDocument, false},
	{"POST /stream", (*Server).postStream, false},
}

// document describes the API.
//
//go:embed openapi.json
var document json.RawMessage

// getDocument answers with the description of the API.
func (s *Server) getDocument(call) (any, error) { return document, nil }

// routes returns the handler of the server.
func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	for _, route := range routesOfAPI {
		method, path, _ := strings.Cut(route.pattern, " ")
		mux.Handle(method+" "+s.opts.base+"/api/v1"+path, s.guarded(route))
	}
	mux.HandleFunc("GET "+s.opts.base+"/{$}", s.serveIndex)
	if s.opts.base != "" {
		mux.Handle("GET "+s.opts.base, http.RedirectHandler(s.opts.base+"/", http.StatusMovedPermanently))
	}
	mux.HandleFunc("GET "+s.opts.base+"/download/{ticket}", s.download)
	mux.HandleFunc("GET "+s.opts.base+"/assets/{file...}", s.serveFile)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if methods := methodsAt(mux, r); len(methods) > 0 {
			writeError(w, notAllowed(w, methods...))
			return
		}
		writeError(w, fail(http.StatusNotFound, "not_found", "page not found"))
	})
	return mux
}

// methodsAt returns the methods by which the address of a request is reached.
func methodsAt(mux *http.ServeMux, r *http.Request) (methods []string) {
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		other := *r
		other.Method = method
		if _, pattern := mux.Handler(&other); pattern != "/" {
			methods = append(methods, method)
		}
	}
	return methods
}

// notAllowed is the answer to a method that an address does not have.
func notAllowed(w http.ResponseWriter, methods ...string) error {
	w.Header().Set("Allow", strings.Join(methods, ", "))
	return fail(http.StatusMethodNotAllowed, "method", "use this method here: "+strings.Join(methods, ", "))
}

// guarded lets only those requests through that the user's own page, or a program that
// knows the token, has made.
func (s *Server) guarded(route route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		result, err := s.answer(route, w, r)
		var with *status
		switch {
		case errors.Is(err, errAnswered):
		case err != nil:
			if e := asAPIError(err); e.status >= http.StatusInternalServerError {
				s.opts.log.Warn("request", "path", r.URL.Path, "error", oneLine(err.Error()))
			}
			writeError(w, err)
		case asStatus(result, &with):
			writeJSON(w, with.code, with.body)
		case result == nil:
			w.WriteHeader(http.StatusNoContent)
		default:
			writeJSON(w, http.StatusOK, result)
		}
	})
}

func asStatus(result any, to **status) bool {
	with, ok := result.(*status)
	*to = with
	return ok
}

func (s *Server) answer(route route, w http.ResponseWriter, r *http.Request) (any, error) {
	b := newBody(w, r)
	if err := s.checkOrigin(r); err != nil {
		return nil, err
	}
	user, err := s.authorize(r)
	if err != nil {
		return nil, err
	}
	kind, most := "application/json", s.opts.limits.Body
	if route.upload {
		kind, most = "application/octet-stream", s.opts.limits.Upload
	}
	if err := checkContent(r, kind); err != nil {
		return nil, err
	}
	b.ReadCloser = http.MaxBytesReader(w, r.Body, most)
	r.Body = b
	return route.do(s, call{r, user, w})
}

// session returns the session that the path names.
func (c call) session(s *Server) (*session, error) { return s.session(c.user, c.PathValue("s")) }

// read reads the body, which is one JSON object with known fields. An empty body is an
// object without any.
func (c call) read(into any) error {
	d := json.NewDecoder(c.Body)
	d.DisallowUnknownFields()
	err := d.Decode(into)
	var tooLong *http.MaxBytesError
	switch {
	case errors.Is(err, io.EOF):
		return nil
	case errors.As(err, &tooLong), errors.Is(err, errTooSlow):
		return err
	case err != nil:
		return fail(http.StatusBadRequest, "bad_request", "the body is not valid: "+oneLine(err.Error()))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return fail(http.StatusBadRequest, "bad_request", "the body has more than one JSON value")
	}
	return nil
}
