package pygent

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// loadedHistory is what could be read of a history's file.
type loadedHistory struct {
	messages []Message
	end      int // where the last message ends, or the opening bracket
	torn     bool
	damaged  bool // what follows end is more than one unfinished message
	repairs  []string
}

// parseHistory reads a JSON array of messages, or as much of it as is whole.
// The error is [ErrNotHistory] when data is something else: what is refused
// here is left alone, what is accepted is repaired.
func parseHistory(data []byte) (*loadedHistory, error) {
	h := &loadedHistory{}
	if len(bytes.TrimSpace(data)) == 0 {
		return h, nil
	}
	d := json.NewDecoder(bytes.NewReader(data))
	if t, err := d.Token(); err != nil || t != json.Delim('[') {
		return nil, fmt.Errorf("%w: no JSON array", ErrNotHistory)
	}
	h.end = int(d.InputOffset())
	for d.More() {
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			return h, h.tear(data[h.end:], errors.Is(err, io.ErrUnexpectedEOF))
		}
		var m Message
		err := json.Unmarshal(raw, &m)
		if err == nil {
			m, err = encodeForHistory(m)
		}
		if err != nil {
			return nil, fmt.Errorf("%w: element %d: %w", ErrNotHistory, len(h.messages)+1, err)
		}
		h.messages = append(h.messages, m)
		h.end = int(d.InputOffset())
	}
	if _, err := d.Token(); err != nil {
		return h, h.tear(data[h.end:], true)
	}
	if rest := data[d.InputOffset():]; len(bytes.TrimSpace(rest)) > 0 {
		return h, h.tear(data[h.end:], false)
	}
	return h, nil
}

// tear notes that the array is not whole after h.end. cut says that it ends too
// early, rather than goes on with something that is no JSON.
func (h *loadedHistory) tear(tail []byte, cut bool) error {
	h.torn = true
	lost := bytes.TrimSpace(tail)
	lost = bytes.TrimSpace(bytes.TrimPrefix(lost, []byte(",")))
	if len(h.messages) == 0 && !beginsMessage(lost) {
		return fmt.Errorf("%w: no JSON array of messages", ErrNotHistory)
	}
	switch {
	case len(lost) == 0 || string(lost) == "]":
		h.repairs = append(h.repairs, "the file was cut off after its last message; a message being written then is lost")
	case cut && lost[0] == '{' && bytes.Count(lost, []byte(`"role"`)) <= 1:
		h.repairs = append(h.repairs, fmt.Sprintf("the last message was cut off and is lost (%d bytes of it were there)", len(lost)))
	default:
		h.damaged = true
		h.repairs = append(h.repairs, fmt.Sprintf("the file is damaged after message %d", len(h.messages)))
	}
	return nil
}

// beginsMessage reports whether text can be the first bytes of a message. It
// tells the first message, cut off, from another program's file.
func beginsMessage(text []byte) bool {
	const begin = `{"role":`
	head := strings.Join(strings.Fields(string(text[:min(len(text), 256)])), "")
	return strings.HasPrefix(head, begin) || strings.HasPrefix(begin, head)
}
