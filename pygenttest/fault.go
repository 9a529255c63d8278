package pygenttest

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/x/pygent"
)

// fault is what goes wrong with a reply on its way.
type fault struct {
	// Raw bytes instead of an answer. They are sent as events when events is
	// not nil, else as one body.
	raw         bool
	status      int
	contentType string
	body        string
	events      []string

	// An answer that breaks off after some pieces, with an error event if
	// event is set, else by a closed connection.
	breaks bool
	after  int
	event  *pygent.APIError

	errType  string // the type in an error's body
	errParam string // the parameter that an error names
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
// it: retryable for 408, 409, 429 (not with the code "insufficient_quota") and
// 5xx, and context-too-large with the code "context_length_exceeded".
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

// RateLimited is a status 429 that asks to come back after a while. Zero asks
// for nothing.
func RateLimited(after time.Duration) Reply {
	return Status(http.StatusTooManyRequests, "rate_limit_exceeded", "Rate limit reached for requests").WithRetryAfter(after)
}

// QuotaExceeded is a status 429 that will not pass: the account has no money.
func QuotaExceeded() Reply {
	return Status(http.StatusTooManyRequests, codeQuota,
		"You exceeded your current quota, please check your plan and billing details.").WithErrorType(codeQuota)
}

// Overloaded is a status 503, which passes.
func Overloaded() Reply {
	return Status(http.StatusServiceUnavailable, "server_error", "The server is overloaded, please try again later.")
}

// ContextTooLarge is the status 400 of a conversation that exceeds the model's
// window of the given number of tokens.
func ContextTooLarge(window int) Reply {
	return Status(http.StatusBadRequest, codeContext, fmt.Sprintf(
		"This model's maximum context length is %d tokens. However, your messages resulted in %d tokens.", window, window+1))
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

// Raw is an answer of exactly these bytes, streaming asked for or not. Only a
// [Server] can give it.
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

// CutAfter closes the connection after n pieces of the answer, the role that
// opens a stream not counted: n of 0 closes it before the first byte, a large
// n just before the finish reason. A plain body is cut in its middle. A
// [ScriptedModel] returns a retryable [*pygent.APIError] without a status.
func (r Reply) CutAfter(n int) Reply {
	f := r.copyFault()
	f.breaks, f.after, f.event = true, n, nil
	r.fault = f
	return r
}

// FailAfter sends an error inside an answer whose status is 200, as gateways
// do: in a stream as an event after n pieces, counted as by [Reply.CutAfter],
// in place of a plain body. The stream then ends. A [ScriptedModel] returns an
// [*pygent.APIError] with the code, retryable unless the code tells of a bad
// request, an exhausted quota or a conversation too large.
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

// WithRetryAfter asks the client of an error to wait for d. A [Server] sends
// whole seconds as Retry-After, others also as Retry-After-Ms. It does nothing
// to replies that are not an [*pygent.APIError].
func (r Reply) WithRetryAfter(d time.Duration) Reply {
	var apiErr *pygent.APIError
	if errors.As(r.err, &apiErr) {
		e := *apiErr
		e.RetryAfter = d
		r.err = &e
	}
	return r
}

// WithErrorType sets the type in the error's body of a [Server].
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

// breakError is what a client makes of an answer that breaks off.
func (f *fault) breakError() error {
	if f.event != nil {
		return f.event
	}
	return &pygent.APIError{Retryable: true, Err: io.ErrUnexpectedEOF}
}

// validStatus reports whether status can end an exchange.
func validStatus(status int) bool { return status >= 200 && status <= 599 }

func retryableStatus(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusTooManyRequests:
		return true
	}
	return status >= http.StatusInternalServerError
}
