package openai

import (
	"bytes"
	"cmp"
	"encoding/json"
	"math"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/x/pygent/internal/cut"
	"github.com/x/pygent/internal/jsonobj"
	"github.com/x/pygent/internal/openai/chatstream"
	"github.com/x/pygent/internal/openai/window"
)

// errorFields is what the body of an error says, in any of the forms that
// OpenAI-compatible servers use. Code and kind are in lower case.
type errorFields struct {
	message    string
	code, kind string
	param      string
	status     int // when the body names one
	retryDelay time.Duration
	generation string // what the model wrote, where that is the error
}

// parseErrorBody reads {"error": {…}}, {"error": "…"}, {"detail": …} (FastAPI),
// {"object": "error", …}, a list with one of these (Google), or plain text.
func parseErrorBody(body []byte) errorFields {
	const maxDepth = 4
	return parseError(bytes.TrimSpace(body), maxDepth)
}

func parseError(raw []byte, depth int) errorFields {
	var fields map[string]json.RawMessage
	switch {
	case len(raw) == 0 || depth == 0:
		return errorFields{}
	case raw[0] == '[':
		var list []json.RawMessage
		if json.Unmarshal(raw, &list) == nil && len(list) > 0 {
			return parseError(list[0], depth-1)
		}
		return errorFields{message: snippet(raw)}
	case json.Unmarshal(raw, &fields) != nil || fields == nil:
		return errorFields{message: textOf(raw)}
	}
	var f errorFields
	if inner := bytes.TrimSpace(fields["error"]); len(inner) > 0 && !bytes.Equal(inner, []byte("null")) {
		f = parseError(inner, depth-1)
	}
	f.fill(fields)
	return f
}

// unread returns the beginning of a body with an object that says nothing in a known form;
// else people would see no more than the status.
func (f *errorFields) unread(body []byte) string {
	var fields map[string]json.RawMessage
	if f.code+f.kind != "" || json.Unmarshal(body, &fields) != nil || len(fields) == 0 {
		return ""
	}
	return snippet(bytes.TrimSpace(body))
}

// fill adds the fields that an object has beside its "error".
func (f *errorFields) fill(fields map[string]json.RawMessage) {
	set := func(to *string, names ...string) {
		for _, name := range names {
			if *to == "" {
				*to = scalar(fields[name])
			}
		}
	}
	set(&f.code, "code", "error_code")
	set(&f.kind, "type", "status")
	set(&f.param, "param")
	for _, name := range []string{"message", "detail", "error_description", "msg", "error_msg", "error_message", "status_msg", "Message", "errmsg"} {
		if raw := fields[name]; f.message == "" && len(raw) > 0 && string(raw) != "null" {
			f.message = textOf(raw)
		}
	}
	if size := scalar(fields["n_ctx"]); size != "" && f.message != "" && window.InError(f.message) == 0 {
		f.message += " (n_ctx: " + size + ")" // llama.cpp
	}
	for _, name := range []string{"code", "status", "status_code"} {
		if n, err := strconv.Atoi(scalar(fields[name])); err == nil && n >= 400 && n < 600 && f.status == 0 {
			f.status = n
		}
	}
	f.code, f.kind = strings.ToLower(f.code), strings.ToLower(f.kind)
	f.addProviders(fields)
	f.addUpstream(fields["metadata"])
	f.addRetryInfo(fields["details"])
}

// addProviders adds what some providers have in fields of their own.
func (f *errorFields) addProviders(fields map[string]json.RawMessage) {
	var base struct {
		Code    int    `json:"status_code"`
		Message string `json:"status_msg"`
	}
	if json.Unmarshal(fields["base_resp"], &base) == nil && base.Code != 0 {
		f.message, f.code = cmp.Or(f.message, base.Message), cmp.Or(f.code, strconv.Itoa(base.Code))
	}
	if f.message == "" {
		f.message = firstMessage(fields["errors"])
	}
	for _, name := range []string{"prompt_filter_results", "promptFeedback"} {
		if by := chatstream.BlockedBy(fields[name]); len(by) > 0 && f.message == "" {
			f.message = "the provider's content filter blocked the prompt: " + cut.Head(strings.Join(by, ", "), maxErrorName)
			f.code = "content_filter"
		}
	}
	f.generation = cmp.Or(f.generation, scalar(fields["failed_generation"]))
}

// firstMessage returns the text of the first of a list of errors (Cloudflare).
func firstMessage(raw json.RawMessage) string {
	const maxDepth = 2
	if !jsonobj.BeginsArray(raw) {
		return ""
	}
	return parseError(raw, maxDepth).message
}

// addUpstream adds what OpenRouter passes on from the provider behind it: the
// body of its error as text, and its limits.
func (f *errorFields) addUpstream(raw json.RawMessage) {
	var metadata struct {
		Raw      json.RawMessage
		Provider json.RawMessage `json:"provider_name"`
		Headers  map[string]string
	}
	_ = json.Unmarshal(raw, &metadata) // what has another shape says nothing
	limits := http.Header{}
	for name, value := range metadata.Headers {
		limits.Set(name, value)
	}
	f.retryDelay = max(f.retryDelay, retryAfter(limits))
	const maxDepth = 3
	cause := parseError(bytes.TrimSpace(upstreamBody(metadata.Raw)), maxDepth)
	if cause.message == "" {
		return
	}
	f.message = strings.TrimSpace(f.message + ": " + strings.TrimSpace(scalar(metadata.Provider)+" "+cause.message))
	f.param = cmp.Or(f.param, cause.param)
	f.retryDelay = max(f.retryDelay, cause.retryDelay)
	if _, err := strconv.Atoi(f.code); err == nil || f.code == "" { // a status says less than a code
		f.code = cmp.Or(cause.code, cause.kind, f.code)
	}
}

// upstreamBody returns the body that raw holds, as text or as it is.
func upstreamBody(raw json.RawMessage) []byte {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return []byte(s)
	}
	return raw
}

// addRetryInfo takes Google's google.rpc.RetryInfo.
func (f *errorFields) addRetryInfo(raw json.RawMessage) {
	var details []struct {
		RetryDelay string `json:"retryDelay"`
	}
	_ = json.Unmarshal(raw, &details) // details of other shapes say nothing
	for _, d := range details {
		if delay, err := time.ParseDuration(d.RetryDelay); err == nil && delay > 0 {
			f.retryDelay = delay
		}
	}
}

// scalar returns a string or number as text.
func scalar(raw json.RawMessage) string {
	var s string
	var n json.Number
	switch {
	case json.Unmarshal(raw, &s) == nil:
		return s
	case json.Unmarshal(raw, &n) == nil:
		return n.String()
	}
	return ""
}

// textOf returns a JSON string's text, and anything else as it is, shortened.
func textOf(raw []byte) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	return snippet(raw)
}

// retryAfter returns how long a response asks to wait. It is 0 if the response
// has no valid time.
func retryAfter(h http.Header) time.Duration {
	if d := durationUnits(h.Get("retry-after-ms"), time.Millisecond); d > 0 {
		return d
	}
	if v := h.Get("retry-after"); v != "" {
		if d := durationUnits(v, time.Second); d > 0 {
			return d
		}
		if at, err := http.ParseTime(v); err == nil {
			return max(0, time.Until(at))
		}
	}
	wait := time.Duration(0)
	for _, of := range []string{"requests", "tokens"} {
		if h.Get("x-ratelimit-remaining-"+of) == "0" {
			wait = max(wait, resetIn(h.Get("x-ratelimit-reset-"+of)))
		}
	}
	if wait == 0 && h.Get("x-ratelimit-remaining") == "0" {
		wait = resetIn(h.Get("x-ratelimit-reset"))
	}
	return wait
}

// resetIn reads "6m0s" (OpenAI), seconds, or a time in seconds or milliseconds
// since 1970 (OpenRouter). A reset more than a day away is not believed.
func resetIn(v string) time.Duration {
	d, err := time.ParseDuration(v)
	if err != nil {
		d = durationUnits(v, time.Second)
		if n, err := strconv.ParseInt(v, 10, 64); err == nil {
			const seconds, millis = 1e9, 1e12 // times of this century
			switch {
			case n >= millis:
				d = time.Until(time.UnixMilli(n))
			case n >= seconds:
				d = time.Until(time.Unix(n, 0))
			}
		}
	}
	if d < 0 || d > 24*time.Hour {
		return 0
	}
	return d
}

// durationUnits reads a number of units that fits a Duration.
func durationUnits(v string, unit time.Duration) time.Duration {
	n, err := strconv.ParseFloat(strings.TrimSpace(v), 64)
	if err != nil || math.IsNaN(n) || n <= 0 {
		return 0
	}
	if n *= float64(unit); n < float64(longestRetryAfter) {
		return time.Duration(n)
	}
	return longestRetryAfter
}

// longestRetryAfter bounds the wait that a server may ask for, so that
// computing with it cannot overflow. No provider's limit lasts longer than a
// month.
const longestRetryAfter = 31 * 24 * time.Hour

// Waits in the words of messages: "Please try again in 6m0s" (OpenAI, Groq),
// "Please retry after 26 seconds" (Azure), "retryDelay": "34s" (Google),
// "retry_after_seconds": 4.5 (gateways).
var (
	wordsOfWait = regexp.MustCompile(`(?i)(?:try again|retry|wait)[a-z ]{0,24}(?:in|after|for|about|delay"?:) *"?~?((?:\d+(?:\.\d+)? ?(?:milliseconds?|millis|ms|seconds?|secs?|s|minutes?|mins?|m|hours?|hrs?|h|days?|d)(?:,? and |, | )?)+)(?:[^a-z0-9]|$)`)
	fieldOfWait = regexp.MustCompile(`(?i)"?retry_?after(_ms|_seconds)?"? *[:=] *"?(\d+(?:\.\d+)?)`)
	unitOfWait  = regexp.MustCompile(`(?i)(\d+(?:\.\d+)?) ?(ms|mil|s|m|h|d)`)
)

// retryInWords returns the wait that a message asks for, and 0 if it does not.
func retryInWords(message string) time.Duration {
	if match := fieldOfWait.FindStringSubmatch(message); match != nil {
		unit := time.Second
		if strings.EqualFold(match[1], "_ms") {
			unit = time.Millisecond
		}
		return durationUnits(match[2], unit)
	}
	match := wordsOfWait.FindStringSubmatch(message)
	if match == nil {
		return 0
	}
	units := map[string]time.Duration{
		"ms": time.Millisecond, "mil": time.Millisecond, "s": time.Second, "m": time.Minute, "h": time.Hour, "d": 24 * time.Hour,
	}
	wait := time.Duration(0)
	for _, part := range unitOfWait.FindAllStringSubmatch(match[1], -1) {
		wait = min(wait+durationUnits(part[1], units[strings.ToLower(part[2])]), longestRetryAfter)
	}
	return wait
}
