package openai

import (
	"errors"
	"net/http"
	"net/textproto"
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
	return false
}

// headersTooLong reports whether the headers of a response exceed the
// transport's limit; the words are those of transport.go.
func headersTooLong(err error) bool {
	return strings.Contains(err.Error(), "response headers exceeded")
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
