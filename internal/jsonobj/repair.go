package jsonobj

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

const (
	maxRepairDepth = 100 // of nested values that are repaired
	near           = 24  // bytes that an error shows on each side of its place
)

// RepairError says what is wrong with a text, for the model that wrote it.
type RepairError struct {
	Offset  int    // in bytes
	Problem string // what is wrong there
	Near    string // the text around it
}

// Error says it with the place.
func (e *RepairError) Error() string {
	if e.Near == "" {
		return fmt.Sprintf("%s at byte %d", e.Problem, e.Offset)
	}
	return fmt.Sprintf("%s at byte %d, near %q", e.Problem, e.Offset, e.Near)
}

// Repair returns a text as JSON. A text that is JSON is returned as it is.
//
// unclosed says that the text ends where only the last brace of the object was
// missing; the returned text has it. This may be all that is missing, or the
// beginning of a longer object that was cut off between two properties.
func Repair(text string) (fixed string, unclosed bool, err error) {
	if json.Valid([]byte(text)) {
		return text, false, nil
	}
	s := &scanner{in: text}
	if err := s.document(); err != nil {
		return "", false, err
	}
	if !json.Valid(s.out) {
		return "", false, errors.New("the text is not JSON")
	}
	return string(s.out), s.unclosed, nil
}

// RepairObject returns a text as a JSON object, which may also be given as the text
// of a JSON string, or as the only element of a list (ollama #17719). No text at all, and null, are the empty object. For unclosed
// see [Repair].
func RepairObject(text string) (object string, unclosed bool, err error) {
	for range 3 {
		switch strings.TrimSpace(text) {
		case "", "null", `""`, "None":
			return "{}", false, nil
		}
		fixed, open, err := Repair(text)
		if err != nil {
			return "", false, err
		}
		trimmed := strings.TrimSpace(fixed)
		var list []json.RawMessage
		if trimmed[0] == '[' && !open && json.Unmarshal([]byte(fixed), &list) == nil && len(list) == 1 && list[0][0] == '{' {
			fixed, trimmed = string(list[0]), string(list[0])
		}
		if trimmed[0] == '{' {
			return fixed, open, nil
		}
		if trimmed[0] != '"' || json.Unmarshal([]byte(fixed), &text) != nil {
			break
		}
	}
	return "", false, errors.New("the text is JSON, but no object")
}

// scanner reads a text and writes JSON.
type scanner struct {
	in       string
	pos      int
	out      []byte
	depth    int
	unclosed bool
	bare     int  // where the string has a backslash that stands for itself, or -1
	control  int  // where it has one for a backspace or a form feed, which nobody writes, or -1
	scalar   bool // the last value was a number or a constant, which may be cut off
}

// fail returns an error about the present place.
func (s *scanner) fail(problem string) error { return s.failAt(s.pos, problem) }

func (s *scanner) failAt(pos int, problem string) error {
	from, to := max(0, pos-near), min(len(s.in), pos+near)
	for from > 0 && from < pos && !utf8.RuneStart(s.in[from]) {
		from++
	}
	for to < len(s.in) && to > pos && !utf8.RuneStart(s.in[to]) {
		to--
	}
	return &RepairError{Offset: pos, Problem: problem, Near: strings.ToValidUTF8(s.in[from:to], "\uFFFD")}
}

// document reads the whole text.
func (s *scanner) document() error {
	s.in = strings.TrimPrefix(s.in, "\ufeff")
	s.fence()
	s.space()
	begin := s.pos
	if err := s.value(); err != nil {
		return err
	}
	if s.unclosed {
		return nil
	}
	return s.rest(s.in[begin:s.pos])
}

// fence skips the beginning of a code fence, with the name of its language.
func (s *scanner) fence() {
	s.space()
	rest, ok := strings.CutPrefix(s.in[s.pos:], "```")
	if !ok {
		return
	}
	for _, language := range []string{"json5", "jsonc", "json", "JSON"} {
		if after, ok := strings.CutPrefix(rest, language); ok {
			rest = after
			break
		}
	}
	s.pos = len(s.in) - len(rest)
}

// rest reads what follows the value whose text is first.
//
// Servers that translate between APIs send the arguments twice, or an empty
// object before them, when they take whole objects for pieces of a stream. Two
// different objects are two calls that were run together, as Gemini's are by some
// (cogito #66, autogen #7549, hermes-agent #26053).
func (s *scanner) rest(first string) error {
	if first == "{}" {
		s.space()
		if s.peek() == '{' {
			begin := s.pos
			s.out = s.out[:0]
			if err := s.value(); err != nil {
				return err
			}
			if s.unclosed {
				return s.fail("the object is not closed")
			}
			first = s.in[begin:s.pos]
		}
	}
	extra := 0
	for {
		s.space()
		rest := s.in[s.pos:]
		switch {
		case rest == "":
			return nil
		case strings.HasPrefix(rest, first):
			s.pos += len(first)
		case (rest[0] == '}' || rest[0] == ']') && extra < 2:
			extra++
			s.pos++
		case rest[0] == ';':
			s.pos++
		case strings.HasPrefix(rest, "```"):
			s.pos += len("```")
		case marker(rest) > 0:
			s.pos += marker(rest)
		case rest[0] == '{':
			return s.fail("text after the JSON object: another, different object; make one call for each")
		default:
			return s.fail("text after the JSON object")
		}
	}
}

// marker returns the length of a mark of a model's template at the start of
// text, such as </tool_call> or <|call|>, or 0.
func marker(text string) int {
	const longest = 40
	if !strings.HasPrefix(text, "</") && !strings.HasPrefix(text, "<|") {
		return 0
	}
	end := strings.IndexByte(text[:min(len(text), longest)], '>')
	if end < 0 {
		return 0
	}
	for _, c := range []byte(text[1:end]) {
		if !isWord(c) && c != '/' && c != '|' {
			return 0
		}
	}
	return end + 1
}

func (s *scanner) space() {
	for s.pos < len(s.in) && strings.IndexByte(" \t\r\n", s.in[s.pos]) >= 0 {
		s.pos++
	}
}

// peek returns the present byte, or 0 at the end of the text.
func (s *scanner) peek() byte {
	if s.pos < len(s.in) {
		return s.in[s.pos]
	}
	return 0
}

func (s *scanner) value() error {
	if s.depth++; s.depth > maxRepairDepth {
		return s.fail("values are nested too deeply")
	}
	defer func() { s.depth-- }()
	s.space()
	s.scalar = false
	c := s.peek()
	switch {
	case c == '{':
		return s.object()
	case c == '[':
		return s.array()
	case c == '"' || c == '\'':
		return s.text()
	case s.pos == len(s.in):
		return s.fail("a value is missing: the text ends here")
	}
	return s.word()
}

func (s *scanner) object() error {
	s.pos++
	s.out = append(s.out, '{')
	for members := 0; ; members++ {
		s.space()
		if s.peek() == '}' {
			break
		}
		if members > 0 {
			s.out = append(s.out, ',')
		}
		if err := s.member(); err != nil {
			return err
		}
		s.space()
		if s.pos == len(s.in) && s.depth == 1 && !s.scalar {
			s.unclosed = true
			s.out = append(s.out, '}')
			return nil
		}
		if s.peek() == ',' {
			s.pos++
		} else if s.peek() != '}' {
			return s.after("}")
		}
	}
	s.close('}')
	return nil
}

// after returns the error for what follows a value in an object or an array.
func (s *scanner) after(end string) error {
	if s.pos == len(s.in) {
		return s.fail("the text ends before " + end)
	}
	return s.fail("want a comma or " + end + "; a quote within a string is written \\\"")
}

func (s *scanner) close(c byte) {
	s.pos++
	s.out = append(s.out, c)
	s.scalar = false
}

func (s *scanner) member() error {
	var err error
	switch c := s.peek(); {
	case c == '"' || c == '\'':
		err = s.text()
	case isWord(c):
		begin := s.pos
		for isWord(s.peek()) || s.peek() == '-' {
			s.pos++
		}
		s.out = append(append(append(s.out, '"'), s.in[begin:s.pos]...), '"')
	case s.pos == len(s.in):
		err = s.fail("the text ends before }")
	default:
		err = s.fail("want the name of a property")
	}
	if err != nil {
		return err
	}
	if s.space(); s.peek() != ':' {
		return s.fail("want a colon after the name of a property")
	}
	s.pos++
	s.out = append(s.out, ':')
	return s.value()
}

func (s *scanner) array() error {
	s.pos++
	s.out = append(s.out, '[')
	for items := 0; ; items++ {
		s.space()
		if s.peek() == ']' {
			break
		}
		if items > 0 {
			s.out = append(s.out, ',')
		}
		if err := s.value(); err != nil {
			return err
		}
		s.space()
		switch s.peek() {
		case ',':
			s.pos++
		case ']':
		case '}':
			// The bracket is missing, but the object around the array is closed, so
			// the text is not one that was cut off.
			s.out = append(s.out, ']')
			return nil
		default:
			return s.after("]")
		}
	}
	s.close(']')
	return nil
}

// text reads a string in either kind of quotes.
func (s *scanner) text() error {
	begin, quote := s.pos, s.in[s.pos]
	s.out = append(s.out, '"')
	s.bare, s.control = -1, -1
	for s.pos++; s.pos < len(s.in); s.pos++ {
		switch c := s.in[s.pos]; {
		case c == quote:
			if s.bare >= 0 && s.control >= 0 {
				return s.failAt(s.control, `an escape that may mean a control character or itself; a backslash is written \\`)
			}
			s.pos++
			s.out = append(s.out, '"')
			return nil
		case c == '"':
			s.out = append(s.out, '\\', '"')
		case c == '\\':
			if err := s.escape(quote); err != nil {
				return err
			}
		case c < 0x20:
			s.out = append(s.out, control(c)...)
		default:
			s.out = append(s.out, c)
		}
	}
	return s.failAt(begin, "a string is not closed: the text ends inside the one that begins")
}

// control returns the escape of a control character.
func control(c byte) string {
	switch c {
	case '\n':
		return `\n`
	case '\t':
		return `\t`
	case '\r':
		return `\r`
	}
	return fmt.Sprintf(`\u%04x`, c)
}

// escape reads a backslash and what follows. It ends on the last byte.
//
// Before a letter that needs no escape, as in a regular expression, the
// backslash can only be meant itself. Before a quote of the other kind or a
// dollar sign it may be meant for the shell, or not at all; that is an error. So
// is \b in a string in which others are not escaped: it is that of a regular
// expression.
func (s *scanner) escape(quote byte) error {
	if s.pos+1 >= len(s.in) {
		return s.fail("a string is not closed: the text ends after the backslash")
	}
	c := s.in[s.pos+1]
	switch {
	case c == 'b' || c == 'f':
		s.control = s.pos
		s.out = append(s.out, '\\', c)
	case strings.IndexByte(`"\/nrt`, c) >= 0:
		s.out = append(s.out, '\\', c)
	case c == 'u' && isHex(s.in[s.pos+2:]):
		s.out = append(s.out, s.in[s.pos:s.pos+6]...)
		s.pos += 4
	case c == '\'' && quote == '\'':
		s.out = append(s.out, c)
	case c != 'u' && c != 'x' && isLetter(c), strings.IndexByte(`.()[]*+?|^-`, c) >= 0:
		s.bare = s.pos
		s.out = append(s.out, '\\', '\\', c)
	default:
		return s.fail(`an escape that JSON does not have; a backslash is written \\`)
	}
	s.pos++
	return nil
}

// word reads a number or a constant.
func (s *scanner) word() error {
	begin := s.pos
	for c := s.peek(); isWord(c) || c == '-' || c == '+' || c == '.'; c = s.peek() {
		s.pos++
	}
	word := s.in[begin:s.pos]
	switch word {
	case "True":
		word = "true"
	case "False":
		word = "false"
	case "None":
		word = "null"
	}
	if word == "" || !json.Valid([]byte(word)) {
		return s.failAt(begin, "a value that is not JSON (a string needs quotes)")
	}
	s.out = append(s.out, word...)
	s.scalar = true
	return nil
}

func isHex(text string) bool {
	if len(text) < 4 {
		return false
	}
	for _, c := range []byte(text[:4]) {
		if !('0' <= c && c <= '9' || 'a' <= c && c <= 'f' || 'A' <= c && c <= 'F') {
			return false
		}
	}
	return true
}

func isLetter(c byte) bool { return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' }

func isWord(c byte) bool { return isLetter(c) || '0' <= c && c <= '9' || c == '_' }
