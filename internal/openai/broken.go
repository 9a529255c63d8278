package openai

import (
	"errors"
	"net/http"
	"net/textproto"
	"slices"
	"strings"
)

// Package net/http has types for only a few of the errors of a server that
// breaks the rules of HTTP. The others are recognized by their first words.
// Each list is from the named file of Go 1.26.
var notHTTPWords = []string{
	"malformed HTTP response", "malformed HTTP status code", "malformed HTTP version", // response.go
	"bad Content-Length", "invalid empty Content-Length", "bad trailer key", "invalid Trailer key", // transfer.go
	"http: message cannot contain multiple Content-Length headers", // transfer.go
	"too many transfer encodings", "unsupported transfer encoding", // transfer.go
	"failed to parse Location header", // client.go
}

// notHTTP reports whether a server's answer does not begin like an HTTP
// response. A repeated request would get the same answer.
func notHTTP(err error) bool {
	if errors.As(err, new(textproto.ProtocolError)) {
		return true
	}
	root := rootOf(err).Error()
	for _, words := range notHTTPWords {
		if strings.HasPrefix(root, words) {
			return true
		}
	}
	return containsAny(err, "looked like an HTTP/1.1 header", "malformed response from server") // h2_bundle.go
}

// headersTooLong reports whether the headers of a response exceed the
// transport's limit; the words are those of transport.go and h2_bundle.go.
func headersTooLong(err error) bool {
	return containsAny(err, "response headers exceeded", "response header list larger than advertised limit")
}

// hintForHTTP2 says what may help against a fault of HTTP/2 that the same
// request meets again. It is "" for the other codes of errors: servers use them
// as they like when they are overloaded or restarted, so the request may succeed
// later. The words are those of h2_bundle.go.
func hintForHTTP2(err error) string {
	switch {
	case containsAny(err, "HTTP_1_1_REQUIRED"):
		return "the server wants HTTP/1.1: give an HTTP client of your own that speaks only that, or set GODEBUG=http2client=0"
	case containsAny(err, "INADEQUATE_SECURITY"):
		return "the server wants other settings of TLS: give an HTTP client of your own"
	case containsAny(err, "request header list larger than peer's advertised limit"):
		return "the server does not take headers of that size: are extra headers or the API key too long?"
	}
	return ""
}

func containsAny(err error, parts ...string) bool {
	return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(err.Error(), part) })
}

// tooMuchFraming reports whether the chunk headers of a body exceed the limit
// of net/http; the words are those of internal/chunked.go.
func tooMuchFraming(err error) bool {
	return errors.Is(err, http.ErrLineTooLong) || rootOf(err).Error() == "chunked encoding contains too much non-data"
}

// rootOf returns the innermost error.
func rootOf(err error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err
		}
		err = inner
	}
}
