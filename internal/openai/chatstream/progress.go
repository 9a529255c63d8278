package chatstream

import (
	"encoding/json"
	"time"
)

// Pace limits how often it is told how far a call is that a model writes. The zero Pace is
// ready to use. It is not safe for concurrent use.
type Pace struct {
	call CallDelta // what was told last
	at   time.Time
}

// Passes reports whether a delta is worth telling: the first of a call, one that knows the
// path, and one every tenth of a second.
func (p *Pace) Passes(d CallDelta) bool {
	const least = time.Second / 10
	now := time.Now()
	same := d.Index == p.call.Index && d.ID == p.call.ID && d.Tool == p.call.Tool && d.Bytes >= p.call.Bytes
	if same && d.Path == p.call.Path && now.Sub(p.at) < least {
		return false
	}
	p.call, p.at = d, now
	return true
}

// CallDelta says how far a call has arrived. The zero value says nothing.
type CallDelta struct {
	Index int    // of the call in the answer, from 0
	ID    string // empty as long as it is unknown
	Tool  string
	Bytes int    // of the arguments so far
	Path  string // the argument "path" or "file", once it has arrived
}

// maxPath bounds the path that is kept of a call, in bytes of JSON.
const maxPath = 1024

// CallProgress follows the arguments of a call while they arrive. The zero value
// is ready.
type CallProgress struct {
	scan  objectScan
	bytes int
}

// Add adds a piece of the arguments.
func (p *CallProgress) Add(text string) { p.add([]byte(text)) }

func (p *CallProgress) add(text []byte) {
	p.bytes += len(text)
	p.scan.feed(text)
}

// Delta says how far the call is.
func (p *CallProgress) Delta(index int, id, tool string) CallDelta {
	return CallDelta{Index: index, ID: id, Tool: tool, Bytes: p.bytes, Path: p.scan.path}
}

// objectScan finds the end of a JSON object that arrives in pieces, and its path.
// It does not validate the object.
type objectScan struct {
	depth             int
	inString, escaped bool
	done              bool

	key     bool   // the next string of the object itself is a key
	isPath  bool   // the next value is the path
	keeping bool   // the current string is kept in text
	text    []byte // a key, or the path, as JSON
	path    string
}

func (s *objectScan) feed(text []byte) {
	for i := 0; i < len(text) && !s.done; i++ {
		if s.inString {
			s.inside(text[i])
		} else {
			s.between(text[i])
		}
	}
}

// inside takes a byte of a string.
func (s *objectScan) inside(b byte) {
	switch {
	case s.escaped:
		s.escaped = false
	case b == '\\':
		s.escaped = true
	case b == '"':
		s.inString = false
		s.endString()
		return
	}
	if s.keeping {
		s.text = append(s.text, b)
		s.keeping = len(s.text) <= maxPath
	}
}

// endString looks at a string that is complete.
func (s *objectScan) endString() {
	if !s.keeping {
		return
	}
	s.keeping = false
	if s.key {
		s.isPath = string(s.text) == "path" || string(s.text) == "file"
		return
	}
	if json.Unmarshal(append(append([]byte{'"'}, s.text...), '"'), &s.path) != nil {
		s.path = ""
	}
	s.text = nil
}

// between takes a byte outside of strings.
func (s *objectScan) between(b byte) {
	switch b {
	case '"':
		s.inString = true
		s.keeping = s.depth == 1 && s.path == "" && (s.key || s.isPath)
		s.text = s.text[:0]
	case '{', '[':
		s.depth++
		s.key = s.depth == 1
	case '}', ']':
		s.depth--
		s.done = s.depth <= 0
	case ':':
		s.key = false
	case ',':
		if s.depth == 1 {
			s.key, s.isPath = true, false
		}
	}
}
