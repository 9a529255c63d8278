package openai

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"

	"github.com/x/pygent/internal/cut"
)

// maxHeaderBytes bounds the headers of a response. In a map, a header may take
// a hundred times its size.
const maxHeaderBytes = 256 << 10

// boundedTransport is the default transport with a bound of its own. All models
// share it, and with it the connections.
var boundedTransport = sync.OnceValue(func() http.RoundTripper {
	transport, ok := newTransport(nil)
	if !ok {
		return http.DefaultTransport // of a program that replaced it
	}
	return transport
})

// newTransport is a copy of the default transport for models' servers, which trusts the
// authorities; nil are those of the system.
func newTransport(authorities *x509.CertPool) (*http.Transport, bool) {
	transport, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		return nil, false
	}
	transport = transport.Clone()
	transport.MaxResponseHeaderBytes = maxHeaderBytes
	if authorities != nil {
		transport.TLSClientConfig = &tls.Config{RootCAs: authorities, MinVersion: tls.VersionTLS12}
	}
	guardConnections(transport)
	return transport, true
}

// httpClient returns the client that was given, or one that trusts the CA file.
func (c *Config) httpClient() (*http.Client, error) {
	switch {
	case c.CAFile != "" && c.HTTP != nil:
		return nil, errors.New("a CA file cannot be combined with an HTTP client: set the client's own")
	case c.HTTP != nil:
		return c.HTTP, nil
	case c.CAFile == "":
		return &http.Client{}, nil
	}
	pem, err := os.ReadFile(c.CAFile)
	if err != nil {
		return nil, fmt.Errorf("CA file: %w", err)
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		return nil, fmt.Errorf("system certificates: %w", err)
	}
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("CA file %s: no PEM certificate in it", c.CAFile)
	}
	transport, ok := newTransport(pool)
	if !ok {
		return nil, errors.New("a CA file needs the standard http.DefaultTransport: set an HTTP client instead")
	}
	return &http.Client{Transport: transport}, nil
}

// guarded returns a copy of a client that follows no redirect that would send
// credentials to another server.
func guarded(client *http.Client) *http.Client {
	guarded := *client
	if guarded.Transport == nil {
		guarded.Transport = boundedTransport()
	}
	guarded.CheckRedirect = func(req *http.Request, via []*http.Request) error {
		if err := checkRedirect(req, via); err != nil || client.CheckRedirect == nil {
			return err
		}
		return client.CheckRedirect(req, via)
	}
	return &guarded
}

// errTurnedAway is the error of a server that accepts no request on any
// connection.
var errTurnedAway = errors.New("the server turns requests away, one connection after another")

// noteAnswer is a middleware that remembers that the server is there.
func (c *Client) noteAnswer(req *http.Request, next func(*http.Request) (*http.Response, error)) (*http.Response, error) {
	res, err := next(req)
	if _, refused := err.(*Error); err == nil || refused { // of refuseErrorStatus
		c.answered.Store(true)
	}
	return res, err
}

// sendSeldom is a middleware that bounds how often the transport itself resends
// a request. Without it, the transport resends for ever to an HTTP/2 server
// that asks on each connection for another one.
func sendSeldom(req *http.Request, next func(*http.Request) (*http.Response, error)) (*http.Response, error) {
	// Three redirects are followed, and connections that were idle may be dead.
	// With HTTP/2 each time takes two copies of the body.
	const most = 5
	copies := 0
	if again := req.GetBody; again != nil {
		req.GetBody = func() (io.ReadCloser, error) {
			if copies++; copies > most {
				return nil, errTurnedAway
			}
			return again()
		}
	}
	return next(req)
}

// checkRedirect refuses a redirect to another origin, and one that would change
// the request. All headers and the body would be sent along, and any of them
// may be secret. It allows a redirect to another path of the same server.
func checkRedirect(req *http.Request, via []*http.Request) error {
	const most = 3
	from := via[0]
	e := &redirectError{from: from.URL, to: req.URL}
	switch {
	case !isHTTP(req.URL):
		e.why = "no model's server has such an address"
	case origin(req.URL) != origin(from.URL):
		e.why = "the key and the conversation are not sent there"
	case req.Method != from.Method:
		e.why = fmt.Sprintf("with a status that makes %s a %s", from.Method, req.Method)
	case len(via) > most:
		e.why, e.loops = "and so again and again", true
	default:
		return nil
	}
	return e
}

func isHTTP(u *url.URL) bool { return (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" }

// origin is the scheme, host and port of a URL.
func origin(u *url.URL) string {
	port := u.Port()
	switch {
	case port != "":
	case u.Scheme == "https":
		port = "443"
	default:
		port = "80"
	}
	return u.Scheme + "://" + strings.ToLower(u.Hostname()) + ":" + port
}

// ErrRedirected is wrapped by the error of a redirect that was not followed.
var ErrRedirected = errors.New("the server sends requests on to another place")

// redirectError is a redirect that was not followed.
type redirectError struct {
	from, to *url.URL
	why      string
	loops    bool
}

// Error names both URLs, without parts that may hold secrets.
func (e *redirectError) Error() string {
	const longest = 300
	return fmt.Sprintf("%s sends requests on to %s: %s", bare(e.from), cut.Head(bare(e.to), longest), e.why)
}

// Unwrap returns [ErrRedirected].
func (e *redirectError) Unwrap() error { return ErrRedirected }

// bare is a URL without user, query and fragment.
func bare(u *url.URL) string {
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}

// hint says what to do about it.
func (e *redirectError) hint() string {
	if !isHTTP(e.to) || e.loops {
		return "is the base URL right?"
	}
	return "if you trust it, give that in the base URL: " + e.baseOf()
}

// baseOf guesses the base URL that a redirect points to.
func (e *redirectError) baseOf() string {
	const longest = 300
	path := e.to.Path
	for _, end := range []string{"/chat/completions", "/responses"} {
		path = strings.TrimSuffix(path, end)
	}
	return cut.Head((&url.URL{Scheme: e.to.Scheme, Host: e.to.Host, Path: path}).String(), longest)
}
