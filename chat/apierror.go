package chat

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/x/pygent/internal/jsonobj"
)

// APIError is an error of a model's API. Find it with errors.As. A custom
// pygent.Model may return it to have the agent retry.
type APIError struct {
	Status          int           // HTTP status; 0 when there was no answer
	Code            string        // the provider's code, such as "rate_limit_exceeded"
	Message         string        // the provider's words
	RequestID       string        // identifies the request when asking the provider for help
	Retryable       bool          // the same request may succeed later
	ContextTooLarge bool          // the conversation exceeds the model's window
	RetryAfter      time.Duration // how long the provider asks to wait; 0 when it does not
	Err             error         // the cause, if any
}

// Error says what happened in one sentence: what the server did, in its own words too, and
// what to do about it.
func (e *APIError) Error() string {
	said := slices.DeleteFunc([]string{e.summary(), e.words()}, func(text string) bool { return text == "" })
	s := cmp.Or(strings.Join(said, ": "), "the model's API failed")
	if e.RequestID != "" {
		s += " [request " + e.RequestID + "]"
	}
	return s
}

// words are those of the server, or of the cause.
func (e *APIError) words() string {
	if e.Message == "" && e.Err != nil {
		return e.Err.Error()
	}
	return e.Message
}

// summary says what the server did, with its status and code; empty where it did nothing
// wrong, or where there is none.
func (e *APIError) summary() string {
	if e.Status < 300 {
		return ""
	}
	did := "rejected the request"
	switch {
	case e.Status == http.StatusUnauthorized:
		did = "rejected the API key"
	case e.Status == http.StatusForbidden:
		did = "denied access"
	case e.Status == http.StatusTooManyRequests:
		did = "is limiting requests"
	case e.Status >= 500:
		did = "failed"
	}
	code := strconv.Itoa(e.Status)
	if e.Code != "" && e.Code != code {
		code += " " + e.Code
	}
	return "the model's server " + did + " (" + code + ")"
}

// Unwrap returns the cause.
func (e *APIError) Unwrap() error { return e.Err }

// apiErrorJSON is the JSON of an [APIError].
type apiErrorJSON struct {
	Status          int             `json:"status,omitempty"`
	Code            string          `json:"code,omitempty"`
	Message         string          `json:"message,omitempty"`
	RequestID       string          `json:"request_id,omitempty"`
	Retryable       bool            `json:"retryable,omitempty"`
	ContextTooLarge bool            `json:"context_too_large,omitempty"`
	RetryAfter      jsonobj.Seconds `json:"retry_after_seconds,omitempty"`
	Cause           string          `json:"cause,omitempty"` // the words of Err
}

// MarshalJSON encodes the error for a log or another process. The cause is
// reduced to its text.
func (e APIError) MarshalJSON() ([]byte, error) {
	out := apiErrorJSON{
		Status:          e.Status,
		Code:            e.Code,
		Message:         e.Message,
		RequestID:       e.RequestID,
		Retryable:       e.Retryable,
		ContextTooLarge: e.ContextTooLarge,
		RetryAfter:      jsonobj.Seconds(e.RetryAfter),
	}
	if e.Err != nil {
		out.Cause = e.Err.Error()
	}
	return json.Marshal(out)
}

// UnmarshalJSON is the inverse of MarshalJSON.
func (e *APIError) UnmarshalJSON(data []byte) error {
	var in apiErrorJSON
	if err := json.Unmarshal(data, &in); err != nil {
		return err
	}
	*e = APIError{
		Status:          in.Status,
		Code:            in.Code,
		Message:         in.Message,
		RequestID:       in.RequestID,
		Retryable:       in.Retryable,
		ContextTooLarge: in.ContextTooLarge,
		RetryAfter:      time.Duration(in.RetryAfter),
	}
	if in.Cause != "" {
		e.Err = errors.New(in.Cause)
	}
	return nil
}
