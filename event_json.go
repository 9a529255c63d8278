package pygent

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// jsonSeconds is a duration whose JSON is a number of seconds, with fractions.
// Configuration and tools count in seconds too. Fields of this type are named
// *_seconds.
type jsonSeconds time.Duration

// MarshalJSON writes all digits that are not zero, so that nothing is lost.
func (s jsonSeconds) MarshalJSON() ([]byte, error) {
	n, sign := uint64(s), ""
	if s < 0 {
		n, sign = -n, "-"
	}
	const second = uint64(time.Second)
	text := fmt.Sprintf("%s%d.%09d", sign, n/second, n%second)
	return []byte(strings.TrimRight(strings.TrimRight(text, "0"), ".")), nil
}

// UnmarshalJSON reads any number.
func (s *jsonSeconds) UnmarshalJSON(data []byte) error {
	text := string(data)
	if text == "null" {
		return nil
	}
	if d, err := time.ParseDuration(text + "s"); err == nil { // exact, but it knows no exponents
		*s = jsonSeconds(d)
		return nil
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || math.Abs(f) > time.Duration(math.MaxInt64).Seconds() {
		return fmt.Errorf("%s is no number of seconds", text)
	}
	*s = jsonSeconds(math.Round(f * float64(time.Second)))
	return nil
}

// MarshalJSON gives the pause in seconds.
func (r RetryInfo) MarshalJSON() ([]byte, error) {
	type plain RetryInfo
	return json.Marshal(struct {
		plain
		Wait jsonSeconds `json:"wait_seconds"`
	}{plain(r), jsonSeconds(r.Wait)})
}

// UnmarshalJSON is the inverse of MarshalJSON.
func (r *RetryInfo) UnmarshalJSON(data []byte) error {
	type plain RetryInfo
	in := struct {
		*plain
		Wait *jsonSeconds `json:"wait_seconds"`
	}{(*plain)(r), (*jsonSeconds)(&r.Wait)}
	return json.Unmarshal(data, &in)
}

// MarshalJSON gives the time that the run took in seconds.
func (r Result) MarshalJSON() ([]byte, error) {
	type plain Result
	return json.Marshal(struct {
		plain
		Elapsed jsonSeconds `json:"elapsed_seconds"`
	}{plain(r), jsonSeconds(r.Elapsed)})
}

// UnmarshalJSON is the inverse of MarshalJSON.
func (r *Result) UnmarshalJSON(data []byte) error {
	type plain Result
	in := struct {
		*plain
		Elapsed *jsonSeconds `json:"elapsed_seconds"`
	}{(*plain)(r), (*jsonSeconds)(&r.Elapsed)}
	return json.Unmarshal(data, &in)
}

// MarshalJSON gives the time that the command took in seconds.
func (r BashResult) MarshalJSON() ([]byte, error) {
	type plain BashResult
	return json.Marshal(struct {
		plain
		Duration jsonSeconds `json:"duration_seconds"`
	}{plain(r), jsonSeconds(r.Duration)})
}

// UnmarshalJSON is the inverse of MarshalJSON.
func (r *BashResult) UnmarshalJSON(data []byte) error {
	type plain BashResult
	in := struct {
		*plain
		Duration *jsonSeconds `json:"duration_seconds"`
	}{(*plain)(r), (*jsonSeconds)(&r.Duration)}
	return json.Unmarshal(data, &in)
}

// MarshalJSON gives the time since the job began in seconds.
func (j Job) MarshalJSON() ([]byte, error) {
	type plain Job
	return json.Marshal(struct {
		plain
		Duration jsonSeconds `json:"duration_seconds"`
	}{plain(j), jsonSeconds(j.Duration)})
}

// UnmarshalJSON is the inverse of MarshalJSON.
func (j *Job) UnmarshalJSON(data []byte) error {
	type plain Job
	in := struct {
		*plain
		Duration *jsonSeconds `json:"duration_seconds"`
	}{(*plain)(j), (*jsonSeconds)(&j.Duration)}
	return json.Unmarshal(data, &in)
}

// apiErrorJSON is the JSON of an [APIError].
type apiErrorJSON struct {
	Status          int         `json:"status,omitempty"`
	Code            string      `json:"code,omitempty"`
	Message         string      `json:"message,omitempty"`
	RequestID       string      `json:"request_id,omitempty"`
	Retryable       bool        `json:"retryable,omitempty"`
	ContextTooLarge bool        `json:"context_too_large,omitempty"`
	RetryAfter      jsonSeconds `json:"retry_after_seconds,omitempty"`
	Cause           string      `json:"cause,omitempty"` // the words of Err
}

// MarshalJSON encodes the error for a log, or another process. Of the cause it
// keeps the words.
func (e APIError) MarshalJSON() ([]byte, error) {
	out := apiErrorJSON{
		Status:          e.Status,
		Code:            e.Code,
		Message:         e.Message,
		RequestID:       e.RequestID,
		Retryable:       e.Retryable,
		ContextTooLarge: e.ContextTooLarge,
		RetryAfter:      jsonSeconds(e.RetryAfter),
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
