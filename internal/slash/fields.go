package slash

import (
	"errors"
	"strings"
	"unicode"
)

// Fields divides arguments at blanks, as a shell does: quotes of both kinds keep
// blanks together, and so does a backslash before one. Nothing else is special,
// not even a backslash before other characters than blanks, quotes and
// backslashes, as in the paths of Windows.
func Fields(args string) ([]string, error) {
	var all []string
	var word strings.Builder
	var quote rune // the quote that is open
	open := false  // whether a word has begun, even an empty one in quotes
	text := []rune(args)
	for i := 0; i < len(text); i++ {
		r := text[i]
		switch {
		case r == '\\' && quote != '\'' && i+1 < len(text) && escapes(text[i+1], quote):
			i++
			word.WriteRune(text[i])
			open = true
		case quote != 0 && r == quote:
			quote = 0
		case quote == 0 && (r == '\'' || r == '"'):
			quote, open = r, true
		case quote == 0 && unicode.IsSpace(r):
			if open {
				all = append(all, word.String())
				word.Reset()
			}
			open = false
		default:
			word.WriteRune(r)
			open = true
		}
	}
	if quote != 0 {
		return nil, errors.New("a quote is not closed: " + string(quote))
	}
	if open {
		all = append(all, word.String())
	}
	return all, nil
}

// escapes reports whether a backslash before a character stands for it, inside of
// a quote or, if that is 0, outside.
func escapes(r, quote rune) bool {
	if quote != 0 {
		return r == quote || r == '\\'
	}
	return r == '\'' || r == '"' || r == '\\' || unicode.IsSpace(r)
}
