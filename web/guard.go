package web

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/x/pygent"
)

// apiError is an error of a request, with its HTTP status and a code for programs.
type apiError struct {
	status  int
	code    string
	message string
}

// Error returns what is wrong, for people.
func (e *apiError) Error() string { return e.message }

func fail(status int, code, message string) error { return &apiError{status, code, message} }

// asAPIError is an error as it is answered. One that nobody has put into words is told
// as it is: the one who asks is the one whose agent it is.
func asAPIError(err error) *apiError {
	var known *apiError
	var tooLong *http.MaxBytesError
	switch {
	case errors.As(err, &known):
		return known
	case errors.As(err, &tooLong):
		return &apiError{http.StatusRequestEntityTooLarge, "too_large", "the request is too long"}
	case errors.Is(err, pygent.ErrAgentClosed), errors.Is(err, pygent.ErrRuntimeClosed):
		// The session ends in this moment, and will not be found by the next request.
		return &apiError{http.StatusNotFound, "no_session", oneLine(err.Error())}
	}
	return &apiError{http.StatusUnprocessableEntity, "failed", oneLine(err.Error())}
}

// writeError answers a request with an error.
func writeError(w http.ResponseWriter, err error) {
	e := asAPIError(err)
	writeJSON(w, e.status, e.body())
}

// body is an error as a program reads it.
func (e *apiError) body() any {
	return map[string]any{"error": map[string]string{"code": e.code, "message": e.message}}
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	data, err := json.Marshal(v)
	if err != nil {
		status, data = http.StatusInternalServerError, []byte(`{"error":{"code":"internal","message":"could not write the answer"}}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	writeAll(w, data)
}

// writeAll writes an answer. One that is long is written in pieces, each of which has to be
// read in time: one who does not read keeps no memory. What is short fits into the buffers
// of a connection; if it refuses a request, the server waits for the body of that first.
func writeAll(w http.ResponseWriter, data []byte) {
	const short = 32 << 10
	if len(data) <= short {
		_, _ = w.Write(data)
		return
	}
	control := http.NewResponseController(w)
	for len(data) > 0 {
		piece := data[:min(len(data), maxWrite)]
		if _, err := writeInTime(w, control, piece); err != nil {
			return
		}
		data = data[len(piece):]
	}
}

// writeInTime writes what has to be read within writeLimit. A recorder in a test has no
// deadlines, and neither has some hosts' writer.
func writeInTime(w http.ResponseWriter, control *http.ResponseController, p []byte) (int, error) {
	if err := control.SetWriteDeadline(time.Now().Add(writeLimit)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return 0, err
	}
	return w.Write(p)
}

// policy is the content security policy of the page: nothing is loaded from elsewhere,
// and nothing runs or styles but the files of this package.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"worker-src 'self'; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types pygent; frame-ancestors "

// setHeaders sets what every answer has.
func (s *Server) setHeaders(h http.Header) {
	ancestors := "'none'"
	if len(s.opts.frames) > 0 {
		ancestors = strings.Join(s.opts.frames, " ")
	}
	h.Set("Content-Security-Policy", policy+ancestors)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), microphone=(), geolocation=()")
}

// checkOrigin refuses requests that a foreign site makes, or makes the browser make.
func (s *Server) checkOrigin(r *http.Request) error {
	if !s.knowsHost(r.Host) {
		return fail(http.StatusMisdirectedRequest, "wrong_host", "this server does not accept that host name")
	}
	if origins := r.Header.Values("Origin"); len(origins) > 0 && (len(origins) > 1 || !sameOrigin(origins[0], r.Host)) {
		return fail(http.StatusForbidden, "wrong_origin", "the request comes from another site")
	}
	switch site := r.Header.Values("Sec-Fetch-Site"); {
	case len(site) == 0:
	case len(site) > 1, site[0] != "same-origin" && site[0] != "none":
		return fail(http.StatusForbidden, "wrong_origin", "the request comes from another site")
	}
	return nil
}

// sameOrigin reports whether an origin is the one of the host that the request is for.
// The scheme may be either: a proxy may have taken the TLS off.
func sameOrigin(origin, host string) bool {
	u, err := url.Parse(origin)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && strings.EqualFold(u.Host, host)
}

// knowsHost reports whether a Host header is one by which the server may be reached.
func (s *Server) knowsHost(host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	}
	return slices.ContainsFunc(s.opts.hosts, func(known string) bool {
		return strings.EqualFold(known, host) || strings.EqualFold(strings.Trim(known, "[]"), name)
	})
}

// authorize returns whose request it is.
func (s *Server) authorize(r *http.Request) (user string, err error) {
	if s.opts.user != nil {
		if user, err = s.opts.user(r); err != nil {
			return "", fail(http.StatusUnauthorized, "signed_out", "sign in first")
		}
		return user, nil
	}
	given, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	got, want := sha256.Sum256([]byte(given)), sha256.Sum256([]byte(s.opts.token))
	if !ok || subtle.ConstantTimeCompare(got[:], want[:]) != 1 {
		return "", fail(http.StatusUnauthorized, "unauthorized", "open the address that the program printed")
	}
	return "", nil
}

// checkContent refuses what a form of another site could send.
func checkContent(r *http.Request, want string) error {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return nil
	}
	if kind, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";"); strings.TrimSpace(strings.ToLower(kind)) != want {
		return fail(http.StatusUnsupportedMediaType, "content_type", "the request needs Content-Type: "+want)
	}
	return nil
}
