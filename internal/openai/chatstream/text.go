package chatstream

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/x/pygent/internal/jsonobj"
)

// jsonText is text in pieces. The pieces are joined as JSON strings and then
// decoded together, because a server may split an escaped surrogate pair, or a
// UTF-8 sequence, between two of them.
type jsonText struct {
	body []byte // the inside of a JSON string
}

// add appends a JSON string, including its quotes.
func (t *jsonText) add(quoted json.RawMessage) {
	t.body = append(t.body, quoted[1:len(quoted)-1]...)
}

func (t *jsonText) quoted() json.RawMessage {
	out := make([]byte, 0, len(t.body)+2)
	out = append(out, '"')
	out = append(out, t.body...)
	return append(out, '"')
}

func (t *jsonText) String() string { return jsonobj.Text(t.quoted()) }

// content is a message's content: a text, or parts as soon as one part is not
// text.
type content struct {
	text  jsonText
	parts []json.RawMessage // everything before text, when not only text
}

// add takes a string or an array of parts and returns the text in it.
func (c *content) add(raw json.RawMessage, b *budget) (string, error) {
	if !present(raw) {
		return "", nil
	}
	switch raw[0] {
	case '"':
		b.progress += len(raw) - len(`""`)
		c.text.add(raw)
		return jsonobj.Text(raw), nil
	case '[':
		var text strings.Builder
		for p := range jsonobj.Elements(raw) {
			b.progress += len(p)
			piece, err := c.addPart(p, b)
			if err != nil {
				return "", err
			}
			text.WriteString(piece)
		}
		return text.String(), nil
	}
	return "", fmt.Errorf("%w: the content is neither text nor a list", ErrMalformed)
}

func (c *content) addPart(raw json.RawMessage, b *budget) (string, error) {
	var kind, text json.RawMessage
	switch raw[0] {
	case '"':
		text = raw
	case '{':
		for name, value := range jsonobj.Members(raw) {
			switch string(name) {
			case "type":
				kind = value
			case "text":
				text = value
			}
		}
	default:
		return "", nil
	}
	if k := jsonobj.Text(kind); (k == "" || k == "text" || k == "output_text") && present(text) && text[0] == '"' {
		c.text.add(text)
		return jsonobj.Text(text), nil
	}
	c.flush()
	c.parts = append(c.parts, bytes.Clone(raw))
	return "", b.spend(costOfItem)
}

// flush turns the text so far into a part.
func (c *content) flush() {
	if len(c.text.body) > 0 {
		part := append([]byte(`{"type":"text","text":`), c.text.quoted()...)
		c.parts = append(c.parts, append(part, '}'))
		c.text = jsonText{}
	}
}

func (c *content) isEmpty() bool { return len(c.parts) == 0 && len(c.text.body) == 0 }

// join appends another content, unless it is empty or the same.
func (c *content) join(other *content) {
	switch {
	case other.isEmpty() || len(c.parts)+len(other.parts) == 0 && bytes.Equal(c.text.body, other.text.body):
		return
	case c.isEmpty():
		*c = *other
		return
	case len(c.parts)+len(other.parts) == 0:
		c.text.add(quote(betweenTexts))
		c.text.body = append(c.text.body, other.text.body...)
		return
	}
	c.flush()
	other.flush()
	c.parts = append(c.parts, other.parts...)
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

// index is the place of something in a list, where a server tells it.
type index struct {
	at   int
	told bool
}

// indexOf returns the index that raw holds.
func indexOf(raw json.RawMessage) index {
	at, told := jsonobj.Int(raw)
	return index{at, told}
}

// quote encodes s as a JSON string.
func quote(s string) json.RawMessage {
	b, err := json.Marshal(s)
	if err != nil { // cannot happen for a string
		return json.RawMessage(`""`)
	}
	return b
}
