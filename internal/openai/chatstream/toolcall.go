package chatstream

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/x/pygent/internal/jsonobj"
)

// call is a tool call that arrives in fragments.
type call struct {
	at    int // its place among the calls
	index index
	id    string
	name  string
	args  jsonText
	so    CallProgress
	extra fields
	chunk int // the last chunk that had a fragment of it
	last  int // where the last fragment of args begins
	grown int // how many fragments of args began with the one before; -1 if any other did not
}

// fragment is the part of a call in one chunk.
type fragment struct {
	index    index
	id, name string
	args     json.RawMessage // a JSON string, or nil
	extra    []member
}

func (f fragment) hasArgs() bool { return len(f.args) > len(`""`) }

// addCalls returns how far the last call is of which it adds a fragment, and the
// arguments that it added.
func (a *Assembler) addCalls(p *part, raw json.RawMessage) (d CallDelta, arguments string, err error) {
	if !present(raw) {
		return d, "", nil
	}
	if raw[0] != '[' {
		return a.addCall(p, raw)
	}
	for e := range jsonobj.Elements(raw) {
		var piece string
		if d, piece, err = a.addCall(p, e); err != nil {
			return d, "", err
		}
		arguments += piece
	}
	return d, arguments, nil
}

func (a *Assembler) addCall(p *part, raw json.RawMessage) (CallDelta, string, error) {
	f, err := a.newFragment(raw)
	if err != nil {
		return CallDelta{}, "", err
	}
	c := a.callFor(p, f)
	if c == nil {
		at := 0
		for _, other := range a.parts {
			at += len(other.calls)
		}
		if at >= maxCalls {
			return CallDelta{}, "", tooMany("tool calls", maxCalls)
		}
		c = &call{at: at, index: f.index}
		p.calls = append(p.calls, c)
	}
	if err := c.add(f, p.whole, &a.budget); err != nil {
		return CallDelta{}, "", err
	}
	c.chunk = a.chunks
	return c.so.Delta(c.at, c.id, c.name), string(jsonobj.Inside(f.args)), nil
}

// callFor returns the call that f continues, or nil if f begins a new one.
//
// A well-behaved server numbers its calls. Others number every call 0 (Ollama,
// Gemini), or send neither number nor id but each call in one piece; some
// invent a new id for each fragment (older vLLM). Hence: a fragment with a
// name begins a call when its id contradicts the one known, or when the
// arguments so far are already a complete object.
func (a *Assembler) callFor(p *part, f fragment) *call {
	if p.whole || len(p.calls) == 0 {
		return nil
	}
	last := p.calls[len(p.calls)-1]
	if f.index.told {
		c := p.find(func(c *call) bool { return c.index == f.index })
		switch {
		case c == nil && f.id == "" && f.name == "" && !last.index.told:
			return last
		case c == nil || f.name != "" && (contradict(c.id, f.id) || f.id == "" && a.begins(f, c)):
			return nil
		}
		return c
	}
	if f.id != "" {
		c := p.find(func(c *call) bool { return c.id == f.id })
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

// begins reports whether f, which has no index or id that differs from c's,
// begins another call: because c is complete, or because c already had a
// fragment in this chunk.
func (a *Assembler) begins(f fragment, c *call) bool {
	return f.name != "" && (c.chunk == a.chunks || c.so.scan.done && f.hasArgs())
}

func (p *part) find(match func(*call) bool) *call {
	for _, c := range slices.Backward(p.calls) {
		if match(c) {
			return c
		}
	}
	return nil
}

func contradict(a, b string) bool { return a != "" && b != "" && a != b }

// repeatedBy reports whether f repeats all of c. Some servers end a call by
// sending it once more as a whole.
func (c *call) repeatedBy(f fragment) bool {
	const longest = 6 // bytes of JSON for a byte of text
	if !c.so.scan.done || f.id != c.id || f.name != c.name || longest*len(f.args) < len(c.args.body) {
		return false // without decoding all arguments for every little piece
	}
	text, args := jsonobj.Text(f.args), c.args.String()
	return text == args || jsonobj.Text(json.RawMessage(text)) == args // LiteLLM encodes the repetition once more
}

// equals reports whether two calls are the same one.
func (c *call) equals(other *call) bool {
	return c.id != "" && c.id == other.id && c.name == other.name && bytes.Equal(c.args.body, other.args.body)
}

func (c *call) add(f fragment, whole bool, b *budget) error {
	if c.id == "" {
		c.id = f.id
	}
	if c.so.scan.done && f.hasArgs() && c.repeatedBy(f) {
		return nil
	}
	if c.addName(f.name); len(c.name) > maxName {
		return tooMany("bytes in a tool's name", maxName)
	}
	if f.hasArgs() {
		b.progress += len(f.args) - len(`""`)
		c.follow(f, b)
		c.args.add(f.args)
		c.so.add(jsonobj.Inside(f.args))
	}
	return c.extra.merge(f.extra, whole, b)
}

// follow notes whether a fragment has all of the arguments so far, as some servers send them
// (Baidu Qianfan, others for DeepSeek). Once that is beyond doubt, it replaces them, so that
// long arguments are no larger than those of other servers.
func (c *call) follow(f fragment, b *budget) {
	const certain, long = 4, 16 // fragments, and bytes of the last one
	begun := len(c.args.body)
	before := c.args.body[c.last:]
	longer := len(f.args)-len(`""`) > len(before)
	switch {
	case begun == 0:
	case c.grown >= 0 && bytes.HasPrefix(f.args[1:], before):
		c.grown++
	default:
		c.grown = -1
	}
	c.last = begun
	if longer && c.grown >= certain && len(before) >= long {
		b.used -= begun
		c.args.body, c.last, c.so = c.args.body[:0], 0, CallProgress{}
	}
}

// arguments returns the arguments as one text. Of a server that sends all of them in each
// fragment, the last fragment has them, and all fragments together are no JSON.
func (c *call) arguments() string {
	if all := c.args.String(); c.grown <= 0 || c.last == 0 || json.Valid([]byte(all)) {
		return all
	}
	last := jsonText{c.args.body[c.last:]}
	if text := last.String(); jsonobj.BeginsObject([]byte(text)) && json.Valid([]byte(text)) {
		return text
	}
	return c.args.String()
}

// addName adds to the name. The fragment may hold the whole name, repeat it,
// extend it, or hold a piece of it. Once there are arguments, the name does not
// change any more.
func (c *call) addName(name string) {
	switch {
	case len(c.args.body) > 0 && c.name != "":
	case strings.HasPrefix(name, c.name):
		c.name = name
	case name != "":
		c.name += name
	}
}

func (a *Assembler) newFragment(raw json.RawMessage) (f fragment, err error) {
	if err := mustBeObject(raw, "tool call"); err != nil {
		return f, err
	}
	var id, function json.RawMessage
	f.extra = a.ofCall[:0]
	n := 0
	for name, value := range jsonobj.Members(raw) {
		if n++; n > maxFields {
			return f, errTooManyFields
		}
		switch string(name) {
		case "index":
			f.index = indexOf(value)
		case "id":
			id = value
		case "type":
		case "function":
			function = value
		default:
			f.extra = append(f.extra, member{name, value})
		}
	}
	a.ofCall = f.extra
	if f.id = jsonobj.Text(id); len(f.id) > maxName {
		return f, tooMany("bytes in a tool call's id", maxName)
	}
	if !present(function) { // some proxies write name and arguments beside the id
		function = raw
		f.extra = slices.DeleteFunc(f.extra, func(m member) bool { return string(m.name) == "name" || string(m.name) == "arguments" })
	}
	return f, f.setFunction(function)
}

// setFunction sets what a fragment says of the function.
func (f *fragment) setFunction(function json.RawMessage) (err error) {
	if err := mustBeObject(function, "function of a tool call"); err != nil {
		return err
	}
	for name, value := range jsonobj.Members(function) {
		switch string(name) {
		case "name":
			f.name = jsonobj.Text(value)
		case "arguments":
			f.args, err = textOfArguments(value)
		}
	}
	return err
}

// textOfArguments returns arguments as a JSON string. Some servers send the
// object itself instead of its text.
func textOfArguments(raw json.RawMessage) (json.RawMessage, error) {
	if !present(raw) {
		return nil, nil
	}
	if raw[0] == '"' {
		return raw, nil
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, raw); err != nil {
		return nil, fmt.Errorf("%w: arguments: %w", ErrMalformed, err)
	}
	return quote(compact.String()), nil
}

// finishCalls returns the calls, each with a name and a unique id. It drops a
// call that has neither name nor arguments.
func (a *Assembler) finishCalls(all []*call) []ToolCall {
	var calls []ToolCall
	used := map[string]bool{}
	taken := func(id string) bool {
		return id == "" || used[id] || a.TakenID != nil && a.TakenID(id)
	}
	for _, c := range all {
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
		calls = append(calls, ToolCall{ID: id, Name: name, Arguments: c.arguments(), Extra: c.extra.encode()})
	}
	return calls
}

// NewID returns an id that every provider accepts: Mistral's models want nine
// letters and digits.
func NewID() string { return rand.Text()[:9] }

// UniqueIDs gives a new id, which begins with a prefix, to each call that has none, or
// that has the id of another one, so that every call can have its own result. It changes
// a copy.
func UniqueIDs[C any](calls []C, id func(*C) *string, prefix string) []C {
	seen := map[string]bool{"": true}
	fixed := calls
	for i := range calls {
		if of := *id(&calls[i]); !seen[of] {
			seen[of] = true
			continue
		}
		if &fixed[0] == &calls[0] {
			fixed = slices.Clone(calls)
		}
		fresh := fmt.Sprint(prefix, i)
		for seen[fresh] {
			fresh += "x"
		}
		*id(&fixed[i]), seen[fresh] = fresh, true
	}
	return fixed
}
