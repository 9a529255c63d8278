package callsummary

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"unicode"

	"github.com/x/pygent/internal/cut"
)

// pairs writes the arguments of a call in their order as key=value, as in a shell. What
// is no object stays as it is. Both are bounded, and in a line.
func pairs(args string) string {
	d := json.NewDecoder(strings.NewReader(args))
	if begin, err := d.Token(); err != nil || begin != json.Delim('{') {
		return bounded(strings.Join(strings.Fields(args), " "), maxArguments)
	}
	var b strings.Builder
	for d.More() && b.Len() <= maxArguments {
		name, err := d.Token()
		var value json.RawMessage
		if err != nil || d.Decode(&value) != nil {
			return bounded(strings.Join(strings.Fields(args), " "), maxArguments)
		}
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		key, _ := name.(string) // of an object
		b.WriteString(word(key) + "=" + valueWords(value))
	}
	return bounded(b.String(), maxArguments)
}

// valueWords is a value: a text as it is, or quoted where it could be misread, and
// anything else as JSON.
func valueWords(value json.RawMessage) string {
	var text string
	if json.Unmarshal(value, &text) == nil && string(value) != "null" {
		return word(text)
	}
	var compact bytes.Buffer
	_ = json.Compact(&compact, value) // it was decoded
	return bounded(compact.String(), maxValue)
}

// word quotes a text that is empty or is no single plain word. Characters that do not
// print are escaped then.
func word(text string) string {
	short := bounded(text, maxValue)
	special := func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) || strings.ContainsRune(`"'=\`, r) }
	if text == "" || strings.ContainsFunc(text, special) {
		return strconv.Quote(short)
	}
	return short
}

// bounded shortens a text with a sign that something is left out.
func bounded(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return cut.Head(text, most) + "…"
}
