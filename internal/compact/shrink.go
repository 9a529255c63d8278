package compact

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/x/pygent/internal/cut"
)

// What a shrunk message keeps, in bytes.
const (
	smallResult = 400 // a result that is not longer stays as it is
	firstLine   = 120
	noteLine    = 200
	notes       = 3
	mostShrunk  = 2 << 10 // what ShrinkResult leaves is not longer
	longString  = 500     // an argument that is longer loses its end
	restString  = 200
)

const (
	leftOut   = "[left out to save room: "
	lookAgain = "; if you need it, look again]"
)

// ShrinkResult returns what is left of an old result: how large it was, how the call
// ended, how the text begins, and the notes at its end, which name the file with
// the whole output, say. A short one stays.
func ShrinkResult(text, outcome string) string {
	if len(text) <= smallResult || len(text) <= mostShrunk && strings.HasPrefix(text, leftOut) {
		return text
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s%s", leftOut, size(text))
	if outcome != "" {
		fmt.Fprintf(&b, ", the call's outcome was %s", outcome)
	}
	if first := firstOf(text); first != "" {
		fmt.Fprintf(&b, ", it began with %q", first)
		if last := verdictOf(text); last != "" && last != first {
			fmt.Fprintf(&b, " and ended with %q", last)
		}
	}
	b.WriteString(lookAgain)
	for _, note := range notesOf(text) {
		b.WriteString("\n" + note)
	}
	return b.String()
}

func size(text string) string {
	lines := strings.Count(text, "\n")
	if !strings.HasSuffix(text, "\n") {
		lines++
	}
	if lines == 1 {
		return fmt.Sprintf("%d bytes", len(text))
	}
	return fmt.Sprintf("%d lines, %d bytes", lines, len(text))
}

// firstOf returns the beginning of the first line that says something. The line
// of a command is in the call already.
func firstOf(text string) string {
	for line := range strings.Lines(text[:min(len(text), 4<<10)]) {
		line = strings.TrimSpace(strings.ToValidUTF8(line, "\uFFFD"))
		if line != "" && !strings.HasPrefix(line, "$ ") {
			return cut.Head(line, firstLine)
		}
	}
	return ""
}

// verdictOf returns the last line that a command printed, which often says how it
// went. It is empty for other results.
func verdictOf(text string) string {
	if !strings.HasPrefix(text, "$ ") {
		return ""
	}
	lines := strings.Split(text[max(0, len(text)-4<<10):], "\n")
	for i := len(lines) - 1; i > 0; i-- {
		line := strings.TrimSpace(strings.ToValidUTF8(lines[i], "\uFFFD"))
		if line != "" && !isNote(line) {
			return cut.Head(line, firstLine)
		}
	}
	return ""
}

// notesOf returns the last lines in brackets, by which tools say where the whole
// output is and how a command ended.
func notesOf(text string) []string {
	end := strings.TrimRight(text[max(0, len(text)-4<<10):], "\n")
	lines := strings.Split(end, "\n")
	first := len(lines)
	for first > 0 && len(lines)-first < notes && isNote(lines[first-1]) {
		first--
	}
	var found []string
	for _, line := range lines[first:] {
		if len(line) > noteLine {
			line = cut.Head(line, noteLine) + "…]"
		}
		found = append(found, strings.ToValidUTF8(line, "\uFFFD"))
	}
	return found
}

func isNote(line string) bool { return strings.HasPrefix(line, "[") && strings.HasSuffix(line, "]") }

// ShrinkArguments returns the arguments of an old call, a JSON object, with long texts
// shortened. It stays an object with the same fields and types. If nothing is to
// be gained, it is returned as it is.
func ShrinkArguments(object string) string {
	if len(object) <= longString {
		return object
	}
	d := json.NewDecoder(strings.NewReader(object))
	d.UseNumber()
	var value map[string]any
	if d.Decode(&value) != nil || value == nil {
		return object
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if e.Encode(shorten(value)) != nil || b.Len() >= len(object) {
		return object
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func shorten(value any) any {
	switch value := value.(type) {
	case string:
		if len(value) > longString {
			head := cut.Head(value, restString)
			return fmt.Sprintf("%s… %s%d more bytes]", head, leftOut, len(value)-len(head))
		}
	case []any:
		for i := range value {
			value[i] = shorten(value[i])
		}
	case map[string]any:
		for name := range value {
			value[name] = shorten(value[name])
		}
	}
	return value
}
