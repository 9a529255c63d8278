package slash

import (
	"errors"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Fields divides arguments at blanks, as a shell does: quotes of both kinds keep
// blanks together, and so does a backslash before one. Nothing else is special,
// not even a backslash before other characters than blanks, quotes and
// backslashes, as in the paths of Windows.
func Fields(args string) ([]string, error) {
	w := divide(args)
	if w.quote != 0 {
		return nil, errors.New("a quote is not closed: " + string(w.quote))
	}
	if w.open {
		w.all = append(w.all, w.word.String())
	}
	return w.all, nil
}

// Typed divides arguments that are being typed as [Fields] does. The last word is
// the one at their end: it is empty if a new one begins there, and its quote need
// not be closed. It begins at from, in bytes.
func Typed(args string) (words []string, from int) {
	w := divide(args)
	if !w.open {
		return append(w.all, ""), len(args)
	}
	return append(w.all, w.word.String()), w.from
}

// Quote returns a word as [Fields] reads it.
func Quote(word string) string {
	special := func(r rune) bool { return r == '\'' || r == '"' || r == '\\' || unicode.IsSpace(r) }
	if word != "" && strings.IndexFunc(word, special) < 0 {
		return word
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(word) + `"`
}

// words are the words of arguments.
type words struct {
	all []string

	word  strings.Builder // the last one
	from  int             // where it begins
	open  bool            // whether it has begun, even an empty one in quotes
	quote rune            // the quote that is open
}

func divide(args string) (w words) {
	for at := 0; at < len(args); {
		r, size := utf8.DecodeRuneInString(args[at:])
		next, nextSize := utf8.DecodeRuneInString(args[at+size:])
		begins := !w.open
		switch {
		case r == '\\' && w.quote != '\'' && nextSize > 0 && escapes(next, w.quote):
			w.word.WriteRune(next)
			w.open = true
			size += nextSize
		case w.quote != 0 && r == w.quote:
			w.quote = 0
		case w.quote == 0 && (r == '\'' || r == '"'):
			w.quote, w.open = r, true
		case w.quote == 0 && unicode.IsSpace(r):
			if w.open {
				w.all = append(w.all, w.word.String())
				w.word.Reset()
			}
			w.open = false
		default:
			w.word.WriteRune(r)
			w.open = true
		}
		if begins && w.open {
			w.from = at
		}
		at += size
	}
	return w
}

// escapes reports whether a backslash before a character stands for it, inside of
// a quote or, if that is 0, outside.
func escapes(r, quote rune) bool {
	if quote != 0 {
		return r == quote || r == '\\'
	}
	return r == '\'' || r == '"' || r == '\\' || unicode.IsSpace(r)
}
