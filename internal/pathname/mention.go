package pathname

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxNames is how many files a message may name.
const maxNames = 50

// MentionAt returns where the mention of a file begins, "@name" or `@"name`, that a
// text ends with; negative if it does not end with one.
func MentionAt(text string) int {
	line := text[strings.LastIndexByte(text, '\n')+1:]
	begin := len(text) - len(line)
	for at := strings.LastIndexByte(line, '@'); at >= 0; at = strings.LastIndexByte(line[:at], '@') {
		if !beginsWord(line[:at]) {
			continue
		}
		name := line[at+1:]
		if quoted, ok := strings.CutPrefix(name, `"`); ok {
			if closingQuote(quoted) < 0 {
				return begin + at
			}
			return -1
		}
		if !strings.ContainsFunc(name, unicode.IsSpace) {
			return begin + at
		}
	}
	return -1
}

// beginsWord reports whether a word can begin after a text. The @ in an e-mail
// address begins none.
func beginsWord(before string) bool {
	r, size := utf8.DecodeLastRuneInString(before)
	return size == 0 || unicode.IsSpace(r) || strings.ContainsRune("([{<'\"`,;:", r)
}

// closingQuote returns where the quote ends that a text begins inside of; negative
// for nowhere.
func closingQuote(text string) int {
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case '"':
			return i
		}
	}
	return -1
}

// MissingMentions says that files are not there which a message names. temporary says that the
// workspace is a new directory: often it was meant to be that of the person.
func MissingMentions(names []string, temporary bool) string {
	text := "not in the workspace: " + strings.Join(names, ", ")
	if temporary {
		text += " (it is a temporary one, which begins empty; --cwd or --workspace DIR works in a directory of yours)"
	}
	return text
}

// Mention is how a message names a file. The name of a directory is not finished:
// what is in it may follow.
func Mention(name string) string {
	plain := utf8.ValidString(name) && !strings.HasPrefix(name, `"`) &&
		!strings.ContainsFunc(name, func(r rune) bool { return unicode.IsSpace(r) || !strconv.IsPrint(r) })
	isDir := strings.HasSuffix(name, "/")
	switch {
	case plain && isDir:
		return "@" + name
	case plain:
		return "@" + name + " "
	case isDir:
		return "@" + strings.TrimSuffix(strconv.Quote(name), `"`)
	}
	return "@" + strconv.Quote(name) + " "
}

// Unquoted reads the inside of a quoted name.
func Unquoted(text string) string {
	if name, err := strconv.Unquote(`"` + text + `"`); err == nil {
		return name
	}
	return text
}

// Mentions returns the names that a text mentions. Each is a list of what may be
// meant, the likeliest first: "@main.go," names main.go.
func Mentions(text string) (names [][]string) {
	seen := map[string]bool{}
	for at := 0; at < len(text) && len(names) < maxNames; {
		next := strings.IndexByte(text[at:], '@')
		if next < 0 {
			break
		}
		at += next + len("@")
		if !beginsWord(text[:at-1]) {
			continue
		}
		meant := mentionedNames(text[at:])
		if len(meant) > 0 && !seen[meant[0]] {
			seen[meant[0]] = true
			names = append(names, meant)
		}
	}
	return names
}

// mentionedNames returns what the name at the beginning of a text may be.
func mentionedNames(text string) []string {
	if quoted, ok := strings.CutPrefix(text, `"`); ok {
		quoted, _, _ = strings.Cut(quoted, "\n")
		if end := closingQuote(quoted); end >= 0 {
			quoted = quoted[:end]
		}
		if name := Unquoted(quoted); name != "" && name != quoted {
			return []string{name, quoted}
		}
		if quoted == "" {
			return nil
		}
		return []string{quoted}
	}
	if end := strings.IndexFunc(text, unicode.IsSpace); end >= 0 {
		text = text[:end]
	}
	const longest = 4096 // of a path
	if text == "" || len(text) > longest {
		return nil
	}
	names := []string{text}
	for len(names) < 5 {
		shorter := text[:len(text)-len(lastRune(text))]
		if shorter == "" || !strings.ContainsAny(lastRune(text), ".,;:!?)]}>'\"`") {
			break
		}
		names, text = append(names, shorter), shorter
	}
	return names
}

func lastRune(text string) string {
	_, size := utf8.DecodeLastRuneInString(text)
	return text[len(text)-size:]
}
