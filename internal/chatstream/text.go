package chatstream

import (
	"bytes"
	"encoding/json"
)

// jsonText is text in pieces. The pieces are joined in their JSON form and
// decoded together: an escaped surrogate pair, or a UTF-8 sequence, may have
// been split between two of them.
type jsonText struct {
	body []byte // the inside of a JSON string
}

// add appends a JSON string, quotes and all.
func (t *jsonText) add(quoted json.RawMessage) {
	t.body = append(t.body, quoted[1:len(quoted)-1]...)
}

func (t *jsonText) quoted() json.RawMessage {
	out := make([]byte, 0, len(t.body)+2)
	out = append(out, '"')
	out = append(out, t.body...)
	return append(out, '"')
}

func (t *jsonText) String() string { return stringOf(t.quoted()) }

// content is a message's content: text, or parts as soon as one of them is
// more than text.
type content struct {
	text  jsonText
	parts []json.RawMessage // everything before text, when not only text
}

// add takes a string or an array of parts and returns the text in it.
func (c *content) add(raw json.RawMessage) (string, error) {
	if !present(raw) {
		return "", nil
	}
	switch raw[0] {
	case '"':
		c.text.add(raw)
		return stringOf(raw), nil
	case '[':
		var parts []json.RawMessage
		if err := json.Unmarshal(raw, &parts); err != nil {
			return "", err
		}
		text := ""
		for _, p := range parts {
			text += c.addPart(p)
		}
		return text, nil
	}
	return "", ErrMalformed
}

func (c *content) addPart(raw json.RawMessage) string {
	var part struct{ Type, Text json.RawMessage }
	if raw[0] == '"' {
		part.Text = raw
	} else if raw[0] != '{' || json.Unmarshal(raw, &part) != nil {
		return ""
	}
	kind := stringOf(part.Type)
	if (kind == "" || kind == "text" || kind == "output_text") && present(part.Text) && part.Text[0] == '"' {
		c.text.add(part.Text)
		return stringOf(part.Text)
	}
	c.flush()
	c.parts = append(c.parts, raw)
	return ""
}

// flush turns the text so far into a part.
func (c *content) flush() {
	if len(c.text.body) > 0 {
		part := append([]byte(`{"type":"text","text":`), c.text.quoted()...)
		c.parts = append(c.parts, append(part, '}'))
		c.text = jsonText{}
	}
}

func (c *content) finish() (string, []json.RawMessage) {
	if len(c.parts) == 0 {
		return c.text.String(), nil
	}
	c.flush()
	return "", c.parts
}

func present(raw json.RawMessage) bool {
	return len(raw) > 0 && !bytes.Equal(raw, []byte("null"))
}

// stringOf returns the string that raw holds, and "" if it holds none.
func stringOf(raw json.RawMessage) string {
	var s string
	if len(raw) == 0 || raw[0] != '"' || json.Unmarshal(raw, &s) != nil {
		return ""
	}
	return s
}

// intOf returns the integer that raw holds, and nil if it holds none.
func intOf(raw json.RawMessage) *int {
	var i int
	if !present(raw) || json.Unmarshal(raw, &i) != nil {
		return nil
	}
	return &i
}

// quote encodes s as a JSON string.
func quote(s string) json.RawMessage {
	b, err := json.Marshal(s)
	if err != nil { // cannot happen for a string
		return json.RawMessage(`""`)
	}
	return b
}
