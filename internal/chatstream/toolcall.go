package chatstream

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// call is a tool call that arrives in fragments.
type call struct {
	index *int
	id    string
	name  string
	args  jsonText
	scan  objectScan
	extra fields
	chunk int // the last chunk that had a fragment of it
}

// fragment is what one chunk says of one call.
type fragment struct {
	index    *int
	id, name string
	args     json.RawMessage // a JSON string, or nil
	extra    map[string]json.RawMessage
}

func (f fragment) hasArgs() bool { return len(f.args) > len(`""`) }

func (a *Assembler) addCalls(raw json.RawMessage) error {
	if !present(raw) {
		return nil
	}
	elements := []json.RawMessage{raw}
	if raw[0] == '[' {
		if err := json.Unmarshal(raw, &elements); err != nil {
			return err
		}
	}
	for _, e := range elements {
		f, err := newFragment(e)
		if err != nil {
			return err
		}
		c := a.callFor(f)
		if c == nil {
			if len(a.calls) >= maxCalls {
				return ErrTooLarge
			}
			c = &call{index: f.index, extra: fields{}}
			a.calls = append(a.calls, c)
		}
		if err := c.add(f, a.whole); err != nil {
			return err
		}
		c.chunk = a.chunks
	}
	return nil
}

// callFor returns the call that f continues, or nil when f begins one.
//
// A well-behaved server numbers its calls. Others number every call 0 (Ollama,
// Gemini), or send neither number nor id but each call in one piece; some
// invent a new id for each fragment (older vLLM). Hence: a fragment with a
// name begins a call when its id contradicts the one known, or when the
// arguments so far are already a complete object.
func (a *Assembler) callFor(f fragment) *call {
	if a.whole || len(a.calls) == 0 {
		return nil
	}
	last := a.calls[len(a.calls)-1]
	if f.index != nil {
		c := a.find(func(c *call) bool { return c.index != nil && *c.index == *f.index })
		switch {
		case c == nil && f.id == "" && f.name == "" && last.index == nil:
			return last
		case c == nil || f.name != "" && (contradict(c.id, f.id) || f.id == "" && a.begins(f, c)):
			return nil
		}
		return c
	}
	if f.id != "" {
		c := a.find(func(c *call) bool { return c.id == f.id })
		if c != nil && a.begins(f, c) && !c.repeatedBy(f) {
			return nil
		}
		return c
	}
	if a.begins(f, last) || f.name != "" && f.name != last.name && len(last.args.body) > 0 {
		return nil
	}
	return last
}

// begins reports whether f, which nothing tells apart from c, is yet another
// call: c is complete, or c had its fragment of this chunk already.
func (a *Assembler) begins(f fragment, c *call) bool {
	return f.name != "" && (c.chunk == a.chunks || c.scan.done && f.hasArgs())
}

func (a *Assembler) find(match func(*call) bool) *call {
	for _, c := range slices.Backward(a.calls) {
		if match(c) {
			return c
		}
	}
	return nil
}

func contradict(a, b string) bool { return a != "" && b != "" && a != b }

// repeatedBy reports whether f says all of c again, as servers do that end a
// call by sending it whole.
func (c *call) repeatedBy(f fragment) bool {
	return c.scan.done && f.id == c.id && f.name == c.name && stringOf(f.args) == c.args.String()
}

func (c *call) add(f fragment, whole bool) error {
	if c.id == "" {
		c.id = f.id
	}
	if c.scan.done && f.hasArgs() && c.repeatedBy(f) {
		return nil
	}
	c.addName(f.name)
	if f.hasArgs() {
		c.args.add(f.args)
		c.scan.feed(stringOf(f.args))
	}
	return c.extra.merge(f.extra, whole)
}

// addName takes a name that is whole, repeated, growing, or a piece. Once
// there are arguments it is settled.
func (c *call) addName(name string) {
	switch {
	case len(c.args.body) > 0 && c.name != "":
	case strings.HasPrefix(name, c.name):
		c.name = name
	case name != "":
		c.name += name
	}
}

func newFragment(raw json.RawMessage) (fragment, error) {
	var m map[string]json.RawMessage
	if err := json.Unmarshal(raw, &m); err != nil {
		return fragment{}, fmt.Errorf("%w: tool call: %w", ErrMalformed, err)
	}
	f := fragment{index: intOf(m["index"]), id: stringOf(m["id"])}
	var function struct{ Name, Arguments json.RawMessage }
	if present(m["function"]) {
		if err := json.Unmarshal(m["function"], &function); err != nil {
			return fragment{}, fmt.Errorf("%w: tool call: %w", ErrMalformed, err)
		}
	}
	f.name = stringOf(function.Name)
	if args := function.Arguments; present(args) {
		f.args = args
		if args[0] != '"' { // an object, where text of an object is due
			var compact bytes.Buffer
			if err := json.Compact(&compact, args); err != nil {
				return fragment{}, err
			}
			f.args = quote(compact.String())
		}
	}
	for _, known := range []string{"index", "id", "type", "function"} {
		delete(m, known)
	}
	f.extra = m
	return f, nil
}

// finishCalls returns the calls with what every call needs: a name and a
// unique id. What has neither name nor arguments was no call.
func (a *Assembler) finishCalls() []ToolCall {
	var calls []ToolCall
	used := map[string]bool{}
	taken := func(id string) bool {
		return id == "" || used[id] || a.TakenID != nil && a.TakenID(id)
	}
	for _, c := range a.calls {
		name := strings.TrimSpace(c.name)
		if name == "" && len(c.args.body) == 0 {
			continue
		}
		if name == "" {
			name = "unknown" // an empty name makes providers refuse the whole conversation
		}
		id := c.id
		for taken(id) {
			id = NewID()
		}
		used[id] = true
		calls = append(calls, ToolCall{ID: id, Name: name, Arguments: c.args.String(), Extra: c.extra.encode()})
	}
	return calls
}

// NewID returns an id that every provider accepts: Mistral's models want nine
// letters and digits.
func NewID() string { return rand.Text()[:9] }

// objectScan finds the end of a JSON object that arrives in pieces. It does
// not validate.
type objectScan struct {
	depth             int
	inString, escaped bool
	done              bool
}

func (s *objectScan) feed(text string) {
	for i := 0; i < len(text) && !s.done; i++ {
		switch b := text[i]; {
		case s.escaped:
			s.escaped = false
		case s.inString:
			s.escaped = b == '\\'
			s.inString = b != '"'
		case b == '"':
			s.inString = true
		case b == '{' || b == '[':
			s.depth++
		case b == '}' || b == ']':
			s.depth--
			s.done = s.depth <= 0
		}
	}
}
