package openai

import (
	"bytes"
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/x/pygent/internal/cut"
	"github.com/x/pygent/internal/openai/chatstream"
)

// Error is an error of the server, or of the connection to it.
type Error struct {
	Status          int // 0 when the connection itself broke
	Code            string
	Message         string
	RequestID       string
	Retryable       bool // the same request may succeed later
	ContextTooLarge bool
	RetryAfter      time.Duration
	Err             error // the cause, if any
}

// Error is the message.
func (e *Error) Error() string { return e.Message }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// refuseErrorStatus is a middleware that turns a response of an error status
// into an [*Error], before the SDK reads it without a limit.
func refuseErrorStatus(req *http.Request, next func(*http.Request) (*http.Response, error)) (*http.Response, error) {
	res, err := next(req)
	if err != nil || res.StatusCode >= 200 && res.StatusCode < 300 {
		return res, err
	}
	defer res.Body.Close()
	// If the body cannot be read in time, the error has the status alone.
	defer time.AfterFunc(errorBodyTime, func() { res.Body.Close() }).Stop()
	body, _ := io.ReadAll(io.LimitReader(res.Body, maxErrorBody))
	return nil, newStatusError(res.StatusCode, res.Header, body)
}

// newStatusError describes a response of an error status.
func newStatusError(status int, h http.Header, body []byte) *Error {
	f := parseErrorBody(body)
	e := &Error{
		Status:    status,
		Code:      cut.Head(cmp.Or(f.code, f.kind), maxErrorName),
		Message:   cut.Head(cmp.Or(f.message, f.unread(body), http.StatusText(status)), maxErrorMessage),
		RequestID: requestID(h),
	}
	if f.param != "" {
		e.Err = &paramError{f.param}
	}
	e.ContextTooLarge = f.contextTooLarge(status)
	mistake := f.mistake()
	if mistake != nil {
		e.Err = mistake
	}
	e.Retryable = (f.retryable(status) || mistake != nil) && !e.ContextTooLarge
	switch h.Get("x-should-retry") {
	case "false":
		e.Retryable = false
	case "true":
		e.Retryable = !f.permanent() && !e.ContextTooLarge
	}
	if e.Retryable {
		e.RetryAfter = min(cmp.Or(retryAfter(h), f.retryDelay, retryInWords(f.message)), longestRetryAfter)
	}
	return e
}

// Limits of how much of a server's text is shown.
const (
	maxErrorMessage = 8 << 10
	maxErrorName    = 200
)

// paramError adds the parameter that an API's error names in a separate field.
type paramError struct{ name string }

// Error names the parameter.
func (e *paramError) Error() string { return "parameter " + e.name }

// paramOf returns the parameter that an error names in a separate field.
func paramOf(api *Error) string {
	var named *paramError
	if errors.As(api, &named) {
		return named.name
	}
	return ""
}

// responseError describes an error while reading the answer of a response with
// status 200.
func responseError(err error, res *http.Response) error {
	id := requestID(res.Header)
	var api *Error
	var event *chatstream.ServerError
	switch {
	case errors.As(err, &api):
		api.RequestID = id
		return api
	case errors.As(err, &event):
		f := parseErrorBody(event.Body)
		status := f.statusOf()
		api = newStatusError(status, res.Header, event.Body)
		api.Status = f.status // not one that was only inferred
		if api.Retryable && IsOverload(status, nil) {
			api.Err = busyError{cmp.Or(api.Err, errOverloaded)}
		}
		return api
	case errors.Is(err, chatstream.ErrTooLarge):
		message := err.Error() + " (no model writes that, and it is not asked for again: is that a model server?)"
		return &Error{Status: res.StatusCode, Message: message, RequestID: id, Err: err}
	case errors.Is(err, chatstream.ErrUnfinished), errors.Is(err, chatstream.ErrNoChoice), errors.Is(err, chatstream.ErrMalformed):
		if encoding := encodingOf(res.Header); encoding != "" {
			message := fmt.Sprintf("the answer cannot be read: its header says that it is encoded as %q "+
				"(no more than gzip was asked for: does a proxy in front of the server encode it?)", encoding)
			return &Error{Status: res.StatusCode, Message: message, RequestID: id, Err: err}
		}
		return &Error{Status: res.StatusCode, Message: err.Error(), RequestID: id, Retryable: true, Err: err}
	case badGzip(err):
		message := fmt.Sprintf("the answer cannot be decompressed: %v", err)
		return &Error{Status: res.StatusCode, Message: message, RequestID: id, Retryable: true, Err: err}
	case tooMuchFraming(err):
		message := fmt.Sprintf("the answer is sent in chunks that hold almost nothing: %v (is that a model server?)", err)
		return &Error{Status: res.StatusCode, Message: message, RequestID: id, Err: err}
	}
	return &Error{
		Message:   fmt.Sprintf("the connection broke in the middle of the answer: %v", err),
		RequestID: id,
		Retryable: true,
		Err:       err,
	}
}

// emptyAnswer describes a successful response without a body. With status 204
// or the like the server meant it; another status may come from a proxy that
// lost its server.
func emptyAnswer(res *http.Response) *Error {
	switch res.StatusCode {
	case http.StatusNoContent, http.StatusResetContent:
		message := fmt.Sprintf("the server answered with status %d, which means nothing: is the base URL right?", res.StatusCode)
		return &Error{Status: res.StatusCode, Message: message}
	}
	return &Error{Status: res.StatusCode, Message: "the answer is empty", Retryable: true}
}

// explain turns err into an [*Error] that says what to do about it.
func (c *call) explain(err error) error {
	var api *Error
	if !errors.As(err, &api) {
		api = c.client.connectionError(err)
	}
	switch api.Status {
	case http.StatusUnauthorized:
		if c.client.hasKey {
			api.Message = strings.TrimSuffix(api.Message, ".") + ". Check OPENAI_API_KEY for " + c.client.baseURL.String()
		} else {
			api.Message = strings.TrimSuffix(api.Message, ".") + ". No API key was sent: set OPENAI_API_KEY"
		}
	default:
		api.Message += c.hint(api)
	}
	api.Message = c.client.redact(api.Message)
	return api
}

// hint says what may help against the error.
func (c *call) hint(api *Error) string {
	switch {
	case c.inResponses() && lacksResponses(api):
		return fmt.Sprintf(" (%s does not serve the Responses API: use chat completions%s)", c.client.baseURL, c.client.baseURLHint())
	case !c.inResponses() && wantsResponses(api) && c.adaptation.noResponses:
		return fmt.Sprintf(" (and %s does not serve the Responses API)", c.client.baseURL)
	case !c.inResponses() && wantsResponses(api):
		return " (choose the Responses API for this model: openai.API, or openai.api of the configuration)"
	case api.Status == http.StatusNotFound:
		return fmt.Sprintf(" (asked %s: is that the server, and does it serve a model called %q?%s)", c.address(), c.name, c.client.baseURLHint())
	}
	return ""
}

// address is where the model is asked.
func (c *call) address() string {
	return strings.TrimSuffix(c.client.baseURL.String(), "/") + "/" + c.path()
}

// baseURLHint names a common mistake in a base URL, if it is there.
func (c *Client) baseURLHint() string {
	if strings.Contains(c.baseURL.Path, "/v") || strings.Contains(c.baseURL.Path, "/deployments/") {
		return ""
	}
	return fmt.Sprintf(" base URLs commonly end in /v1: %s/v1", c.baseURL)
}

// statusOverloaded is a status of servers that are overloaded; net/http has no name for it.
const statusOverloaded = 529

// busyError is the cause of a server that may only be away for a moment: it has answered
// before, or accepts connections. Or it says, in words or by a code, that it is overloaded.
type busyError struct{ error }

// Unwrap returns the cause.
func (e busyError) Unwrap() error { return e.error }

// errOverloaded is the cause of an error of status 200 that says so.
var errOverloaded = errors.New("the server is overloaded")

// paidError is the cause of the error of an answer that took tokens, by its server's count.
type paidError struct {
	error // may be nil
	model string
	usage chatstream.Usage
}

// Error returns the words of the cause.
func (e *paidError) Error() string {
	if e.error == nil {
		return "the answer broke off"
	}
	return e.error.Error()
}

// Unwrap returns the cause.
func (e *paidError) Unwrap() error { return e.error }

// UsageOf returns what the answer took that an error is about, and the model that wrote it;
// nothing if its server did not say so.
func UsageOf(err error) (model string, used chatstream.Usage) {
	var paid *paidError
	if errors.As(err, &paid) {
		return paid.model, paid.usage
	}
	return "", chatstream.Usage{}
}

// paid notes in the error of an answer what it took.
func (c *call) paid(err error) error {
	var api *Error
	if c.used.Prompt+c.used.Completion > 0 && errors.As(err, &api) {
		api.Err = &paidError{api.Err, c.name, c.used}
	}
	return err
}

// IsOverload reports whether an error that may pass, with this status and cause, says that
// the server is overloaded, or away for a moment.
func IsOverload(status int, cause error) bool {
	switch status {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable, statusOverloaded:
		return true
	}
	return errors.As(cause, new(busyError))
}

// mayBeAway reports whether a connection failed as with a server that is restarted, or
// behind a network that is down.
func mayBeAway(err error) bool {
	return hungUp(err) || errors.As(err, new(*net.DNSError)) ||
		isAnyOf(err, syscall.ECONNREFUSED, syscall.ECONNABORTED, syscall.EPIPE, syscall.ENETUNREACH, syscall.EHOSTUNREACH, syscall.ETIMEDOUT)
}

// hungUp reports whether the server closed the connection in place of an answer.
func hungUp(err error) bool {
	return isAnyOf(err, io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET)
}

func isAnyOf(err error, targets ...error) bool {
	return slices.ContainsFunc(targets, func(target error) bool { return errors.Is(err, target) })
}

// saysWhere tells how a person sets the base URL.
const saysWhere = "OPENAI_BASE_URL says where it is"

// connectionError describes a request that got no response.
func (c *Client) connectionError(err error) *Error {
	var transport *url.Error
	if !errors.As(err, &transport) {
		return &Error{Message: err.Error(), Err: err}
	}
	cause := transport.Err
	e := &Error{Retryable: true, Err: cause}
	var cert *tls.CertificateVerificationError
	var dns *net.DNSError
	var redirect *redirectError
	var hint string
	switch {
	case errors.As(cause, &cert):
		e.Retryable = false
		hint = "if the server's certificate is signed by an authority of your own, give its CA file"
	case errors.Is(cause, http.ErrSchemeMismatch), errors.As(cause, new(tls.RecordHeaderError)):
		e.Retryable = false
		hint = "the server does not speak TLS: does the base URL begin with http://?"
	case errors.As(cause, &redirect):
		e.Retryable = false
		hint = redirect.hint()
	case headersTooLong(cause):
		e.Retryable = false
		hint = "no server of a model sends that much before its answer: is the base URL right?"
	case notHTTP(cause):
		e.Retryable = false
		hint = "that is not HTTP: is the base URL right, with its port, and with https:// where the server wants it?"
	case hintForHTTP2(cause) != "":
		e.Retryable = false
		hint = hintForHTTP2(cause)
	case errors.Is(cause, syscall.ECONNREFUSED):
		// A server that has answered before is being restarted, perhaps. One that
		// never has is not there, and whoever waits should know at once.
		e.Retryable = c.answered.Load()
		hint = "is the server running there? " + saysWhere
	case errors.As(cause, &dns):
		e.Retryable = !dns.IsNotFound || c.answered.Load()
		hint = "is the name right, and the network up? " + saysWhere
	default:
		hint = "the connection broke before an answer came"
	}
	if e.Retryable && mayBeAway(cause) {
		e.Err = busyError{cause}
	}
	e.Message = fmt.Sprintf("cannot reach %s: %v (%s)", c.baseURL, cause, hint)
	return e
}

// permanentCodes are the codes of errors that waiting cannot solve, whatever
// the status.
var permanentCodes = []string{
	"insufficient_quota", "billing_hard_limit_reached", "billing_not_active", "billing_error",
	"insufficient_credits", "insufficient_balance", "insufficient_funds", "credit_balance_too_low",
	"account_deactivated", "access_terminated", "payment_required", "exceeded_current_quota_error",
}

// codeStatus gives the status of errors that come by a code alone, in a stream.
var codeStatus = map[string]int{
	"authentication_error":    401,
	"invalid_api_key":         401,
	"permission_error":        403,
	"permission_denied":       403,
	"not_found_error":         404,
	"model_not_found":         404,
	"request_too_large":       413,
	"content_filter":          400,
	"data_residency_mismatch": 400,
	"bad_request":             400,
	"badrequesterror":         400,
	"failed_precondition":     400,
	"not_implemented":         501,
	"rate_limit_exceeded":     429,
	"rate_limit_error":        429,

	"tool_use_failed":      400, // Groq; see mistake.go
	"output_parse_failed":  400,
	"invalidapikey":        401, // DashScope
	"arrearage":            402,
	"datainspectionfailed": 400,
	"throttling":           429,

	"1004": 401, "2049": 401, // MiniMax: login failed, invalid key
	"1002": 429, "1008": 402, // too often, no balance
	"1026": 400, "1027": 400, // the filter, of what is asked and what is answered
	"1039": 429, "2013": 400, // too many tokens, bad parameters
	"1113": 402, "1302": 429, "1303": 429, "1305": 429, // Zhipu: in arrears, too often, overloaded
}

// phraseStatus gives the status of errors that come by their words alone: an overload, or
// a fault that no second request mends.
var phraseStatus = []struct {
	status  int
	phrases []string
}{
	{http.StatusTooManyRequests, []string{"too many requests", "rate limit", "overloaded"}},
	{http.StatusInternalServerError, []string{"try again"}},
	{http.StatusUnauthorized, []string{"api key", "apikey", "api_key", "unauthorized", "authentication", "login fail", "token expired", "invalid token"}},
	{http.StatusPaymentRequired, []string{"balance not enough", "insufficient balance", "account balance", "balance is", "arrears", "out of credit", "insufficient quota", "recharge"}},
	{http.StatusForbidden, []string{"no permission", "forbidden"}},
	{http.StatusNotFound, []string{"model not found", "no such model", "model does not exist"}},
}

// statusOf returns the status that an error inside a stream stands for. An
// unknown error counts as one of the server, since the server had accepted the
// request.
func (f errorFields) statusOf() int {
	if f.status != 0 {
		return f.status
	}
	for _, code := range []string{f.code, f.kind} {
		if status, ok := codeStatus[code]; ok {
			return status
		}
		if strings.HasPrefix(code, "invalid") || strings.HasPrefix(code, "unsupported") ||
			strings.Contains(code, "policy") || strings.Contains(code, "image") {
			return http.StatusBadRequest
		}
	}
	message := strings.ToLower(f.message)
	for _, known := range phraseStatus {
		if slices.ContainsFunc(known.phrases, func(phrase string) bool { return strings.Contains(message, phrase) }) {
			return known.status
		}
	}
	return http.StatusInternalServerError
}

func (f errorFields) permanent() bool {
	return slices.Contains(permanentCodes, f.code) || slices.Contains(permanentCodes, f.kind)
}

func (f errorFields) retryable(status int) bool {
	if f.permanent() {
		return false
	}
	switch status {
	case http.StatusRequestTimeout, http.StatusConflict, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	case http.StatusNotImplemented, http.StatusHTTPVersionNotSupported:
		return false
	}
	return status >= 500
}

// contextCodes and contextPhrases tell that a conversation is too long for the
// model. The texts are in TestOverflowsOfServersAreRecognised.
var (
	contextCodes = []string{
		"context_length_exceeded", "exceed_context_size_error", "context_window_exceeded", "context_exceeded",
		"model_max_prompt_tokens_exceeded", "request_too_large", "contextwindowexceedederror",
	}
	contextPhrases = []string{
		"maximum context length", "max context length", "context length exceeded", "context_length_exceeded",
		"exceeds the available context size", "exceed context limit", "exceeds the context", "exceeds context size", "exceeds the model's context",
		"context window", "context size has been exceeded", "greater than the context length",
		"prompt is too long", "prompt too long", "input is too long", "maximum prompt length",
		"exceeds the maximum number of tokens allowed", "reduce the length of the messages",
		"exceeds the maximum allowed input length", "input tokens exceed",
		"maximum model length", "longer than the model's context length", "context length of only",
		"`max_new_tokens` must be <=", "`inputs` must have less than", "but model only supports up to",
		"prompt token count of", "exceeded model token limit", "range of input length should be",
		"prompt exceeds max length", "tokens in the prompt cannot exceed", "contextwindowexceedederror",
	}
)

func (f errorFields) contextTooLarge(status int) bool {
	switch status {
	case http.StatusRequestEntityTooLarge:
		return true
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound:
		return false
	}
	if slices.Contains(contextCodes, f.code) || slices.Contains(contextCodes, f.kind) {
		return true
	}
	message := strings.ToLower(f.message)
	if status == http.StatusTooManyRequests {
		// More than a minute's allowance: no wait helps, only a shorter request.
		return strings.Contains(message, "request too large") && strings.Contains(message, "(tpm)")
	}
	return slices.ContainsFunc(contextPhrases, func(phrase string) bool { return strings.Contains(message, phrase) })
}

func requestID(h http.Header) string {
	id := cmp.Or(h.Get("x-request-id"), h.Get("apim-request-id"), h.Get("request-id"), h.Get("x-amzn-requestid"))
	return cut.Head(id, maxErrorName)
}

// snippetSize is how much of a body that is no JSON is shown, in bytes.
const snippetSize = 300

// snippet is the beginning of a body that is no JSON, in one line.
func snippet(body []byte) string {
	if bytes.HasPrefix(body, []byte("<")) {
		return "the answer is an HTML page"
	}
	s := strings.Join(strings.Fields(strings.ToValidUTF8(string(body), "?")), " ")
	if len(s) > snippetSize {
		s = strings.ToValidUTF8(s[:snippetSize], "") + "…"
	}
	return s
}
