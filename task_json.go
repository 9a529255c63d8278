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
