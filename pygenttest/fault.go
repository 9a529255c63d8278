package pygenttest

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/x/pygent"
)

// fault is what goes wrong while a reply is sent.
type fault struct {
	// With raw, these bytes are sent instead of an answer: as events if events is
	// not nil, or else as one body.
	raw         bool
	status      int
	contentType string
	body        string
	events      []string

	// With breaks, the answer breaks off after some pieces: with an error event
	// if event is set, or else by a closed connection.
	breaks bool
	after  int
	event  *pygent.APIError

	errType  string // the type in an error's body
	errParam string // the parameter that an error names

	generation string // what a model wrote that could not be read
}

// Error is a call that fails with err. A [ScriptedModel] returns err itself. A
// [Server] answers an [*pygent.APIError] with its status and OpenAI's error
// body, or closes the connection when it has no status; any other error
// becomes a status 500.
func Error(err error) Reply {
	if err == nil {
		err = errors.New("pygenttest: Error was given no error")
	}
	return Reply{err: err}
}

// Status is an answer with an HTTP error status and OpenAI's error body. A
// [ScriptedModel] returns the [*pygent.APIError] that a client would make of
// it. That is retryable for 408, 409, 429 (not with the code
// "insufficient_quota") and 5xx, and has ContextTooLarge with the code
// "context_length_exceeded".
func Status(status int, code, message string) Reply {
	if !validStatus(status) {
		return Reply{bad: fmt.Errorf("%d is no HTTP status", status)}
	}
	return Error(&pygent.APIError{
		Status:          status,
		Code:            code,
		Message:         message,
		RequestID:       "req_scripted",
		Retryable:       retryableStatus(status) && code != codeQuota,
		ContextTooLarge: code == codeContext,
	})
}

// RateLimited is a status 429 that asks the client to wait before the next
// attempt. Zero sends no time to wait.
func RateLimited(after time.Duration) Reply {
	return Status(http.StatusTooManyRequests, "rate_limit_exceeded", "Rate limit reached for requests").WithRetryAfter(after)
}

// QuotaExceeded is a status 429 that a retry does not help: the account has no
// credit left.
func QuotaExceeded() Reply {
	return Status(http.StatusTooManyRequests, codeQuota,
		"You exceeded your current quota, please check your plan and billing details.").WithErrorType(codeQuota)
}

// Overloaded is a status 503, which a client may retry.
func Overloaded() Reply {
	return Status(http.StatusServiceUnavailable, "server_error", "The server is overloaded, please try again later.")
}

// ContextTooLarge is the status 400 for a conversation that exceeds the model's
// context window, which has the given number of tokens.
func ContextTooLarge(window int) Reply {
	return Status(http.StatusBadRequest, codeContext, fmt.Sprintf(
		"This model's maximum context length is %d tokens. However, your messages resulted in %d tokens.", window, window+1))
}

// ToolUseFailed is Groq's status 400 for an answer that it could not read as a call:
// what the model wrote comes with it. See [Reply.InStream].
func ToolUseFailed(generation string) Reply {
	r := Status(http.StatusBadRequest, "tool_use_failed",
		"Failed to call a function. Please adjust your prompt. See 'failed_generation' for more details.")
	r.fault = &fault{generation: generation}
	return r
}

// InStream sends the error of a status within a stream that has begun.
func (r Reply) InStream() Reply {
	var apiErr *pygent.APIError
	if errors.As(r.err, &apiErr) {
		f := r.copyFault()
		f.breaks, f.after, f.event = true, 1, apiErr
		r.err, r.fault = nil, f
	}
	return r
}

// UnsupportedParameter is a status 400 that names a parameter of the request.
func UnsupportedParameter(name string) Reply {
	r := Status(http.StatusBadRequest, "unsupported_parameter",
		fmt.Sprintf("Unsupported parameter: '%s' is not supported with this model.", name))
	r.fault = &fault{errParam: name}
	return r
}

// Disconnect closes the connection before the first byte of an answer.
func Disconnect() Reply { return Text("").CutAfter(0) }

// Raw is an answer of exactly these bytes, whether or not the client asked for a
// stream. Only a [Server] can give it.
func Raw(status int, contentType, body string) Reply {
	if !validStatus(status) {
		return Reply{bad: fmt.Errorf("%d is no HTTP status", status)}
	}
	return Reply{fault: &fault{raw: true, status: status, contentType: contentType, body: body}}
}

// HTML is the error page of a proxy or gateway instead of JSON.
func HTML(status int) Reply {
	return Raw(status, "text/html", fmt.Sprintf(
		"<html>\r\n<head><title>%[1]d %[2]s</title></head>\r\n<body>\r\n<center><h1>%[1]d %[2]s</h1></center>\r\n</body>\r\n</html>\r\n",
		status, http.StatusText(status)))
}

// Malformed is a status 200 whose JSON breaks off in the middle.
func Malformed() Reply {
	return Raw(http.StatusOK, "application/json", `{"id":"chatcmpl-1","object":"chat.completion","choices":[{"index":0,"mess`)
}

// SSE is a stream of exactly these events: each string is sent as one
// "data: " line. Nothing is added, not even "[DONE]". Only a [Server] can give
// it.
func SSE(data ...string) Reply {
	return Reply{fault: &fault{raw: true, status: http.StatusOK, contentType: "text/event-stream", events: append([]string{}, data...)}}
}

// CutAfter closes the connection after n pieces of the answer. The role that
// opens a stream is not counted. With n of 0 it closes before the first byte,
// with a large n just before the finish reason. It cuts a plain body in the
// middle. A [ScriptedModel] returns a retryable [*pygent.APIError] without a
// status.
func (r Reply) CutAfter(n int) Reply {
	f := r.copyFault()
	f.breaks, f.after, f.event = true, n, nil
	r.fault = f
	return r
}

// FailAfter sends an error inside an answer whose status is 200, as gateways do.
// A stream gets it as an event after n pieces, counted as by [Reply.CutAfter],
// and then ends; a plain body is replaced by it. A [ScriptedModel] returns an
// [*pygent.APIError] with the code. It is retryable unless the code means a bad
// request, an exhausted quota or a conversation that is too large.
func (r Reply) FailAfter(n int, code, message string) Reply {
	f := r.copyFault()
	f.breaks, f.after = true, n
	f.event = &pygent.APIError{
		Status:          http.StatusOK,
		Code:            code,
		Message:         message,
		Retryable:       code != codeQuota && code != codeContext && code != "invalid_request_error",
		ContextTooLarge: code == codeContext,
	}
	r.fault = f
	return r
}

// WithRetryAfter makes an error ask the client to wait for d. A [Server] sends it
// as Retry-After in seconds, rounded up, and if they are not whole, also as
// Retry-After-Ms. It does nothing to replies that are not an [*pygent.APIError].
func (r Reply) WithRetryAfter(d time.Duration) Reply {
	var apiErr *pygent.APIError
	if errors.As(r.err, &apiErr) {
		e := *apiErr
		e.RetryAfter = d
		r.err = &e
	}
	return r
}

// WithErrorType sets the type in the error body that a [Server] sends.
func (r Reply) WithErrorType(typ string) Reply {
	f := r.copyFault()
	f.errType = typ
	r.fault = f
	return r
}

// WithHeader adds a header to the answer of a [Server].
func (r Reply) WithHeader(name, value string) Reply {
	r.header = r.header.Clone()
	if r.header == nil {
		r.header = make(http.Header)
	}
	r.header.Add(name, value)
	return r
}

const (
	codeQuota   = "insufficient_quota"
	codeContext = "context_length_exceeded"
)

func (r Reply) copyFault() *fault {
	if r.fault == nil {
		return &fault{}
	}
	f := *r.fault
	return &f
}

// breakError returns the error that a client makes of an answer that breaks off.
func (f *fault) breakError() error {
	if f.event != nil {
		return f.event
	}
	return &pygent.APIError{Retryable: true, Err: io.ErrUnexpectedEOF}
}

// validStatus reports whether status can be the status of an answer.
func validStatus(status int) bool { return status >= 200 && status <= 599 }

func retryableStatus(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusTooManyRequests:
		return true
	}
	return status >= http.StatusInternalServerError
}
