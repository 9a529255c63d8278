package chat

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
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

// Error says what happened in one sentence.
func (e *APIError) Error() string {
	s := "model API"
	if e.Status != 0 {
		s += fmt.Sprintf(": status %d", e.Status)
	}
	if e.Code != "" && e.Code != strconv.Itoa(e.Status) {
		s += fmt.Sprintf(" (%s)", e.Code)
	}
	if e.Message != "" {
		s += ": " + e.Message
	} else if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	if e.RequestID != "" {
		s += " [request " + e.RequestID + "]"
	}
	return s
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
