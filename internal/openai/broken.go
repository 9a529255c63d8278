package openai

import (
	"errors"
	"net/http"
	"net/textproto"
	"strings"
)

// Package net/http has types for few of the errors of a server that does not
// speak HTTP as it should. The others are told by the words they begin with,
// each list from the file of Go 1.26 that is named.
var notHTTPWords = []string{
	"malformed HTTP response", "malformed HTTP status code", "malformed HTTP version", // response.go
	"bad Content-Length", "invalid empty Content-Length", "bad trailer key", "invalid Trailer key", // transfer.go
	"http: message cannot contain multiple Content-Length headers", // transfer.go
	"too many transfer encodings", "unsupported transfer encoding", // transfer.go
	"failed to parse Location header", // client.go
}

// notHTTP reports whether a server answered with what is no head of an HTTP
// response. The next answer will begin like this one.
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

// headersTooLong reports whether the head of a response is beyond what the
// transport takes; the words are those of transport.go.
func headersTooLong(err error) bool {
	return strings.Contains(err.Error(), "response headers exceeded")
}

// tooMuchFraming reports whether the lines between the chunks of a body are
// beyond what net/http takes; the words are those of internal/chunked.go.
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
