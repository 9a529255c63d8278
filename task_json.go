package pygent

import "encoding/json"

// MarshalJSON gives the limit that was reached in seconds.
func (s TaskStatus) MarshalJSON() ([]byte, error) {
	type plain TaskStatus
	return json.Marshal(struct {
		plain
		Timeout jsonSeconds `json:"timeout_seconds,omitempty"`
	}{plain(s), jsonSeconds(s.Timeout)})
}

// UnmarshalJSON is the inverse of MarshalJSON.
func (s *TaskStatus) UnmarshalJSON(data []byte) error {
	type plain TaskStatus
	in := struct {
		*plain
		Timeout *jsonSeconds `json:"timeout_seconds"`
	}{(*plain)(s), (*jsonSeconds)(&s.Timeout)}
	return json.Unmarshal(data, &in)
}

// MarshalJSON gives the limits of time in seconds.
func (l TaskLimits) MarshalJSON() ([]byte, error) {
	type plain TaskLimits
	return json.Marshal(struct {
		plain
		StepTimeout jsonSeconds `json:"step_timeout_seconds,omitempty"`
		Timeout     jsonSeconds `json:"timeout_seconds,omitempty"`
	}{plain(l), jsonSeconds(l.StepTimeout), jsonSeconds(l.Timeout)})
}

// UnmarshalJSON is the inverse of MarshalJSON.
func (l *TaskLimits) UnmarshalJSON(data []byte) error {
	type plain TaskLimits
	in := struct {
		*plain
		StepTimeout *jsonSeconds `json:"step_timeout_seconds"`
		Timeout     *jsonSeconds `json:"timeout_seconds"`
	}{(*plain)(l), (*jsonSeconds)(&l.StepTimeout), (*jsonSeconds)(&l.Timeout)}
	return json.Unmarshal(data, &in)
}
