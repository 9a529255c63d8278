package callset

import (
	"path"
	"regexp"
	"strings"
)

var (
	// A command that applies a patch, in a directory perhaps, with what follows.
	aCommand = regexp.MustCompile(`^(?:cd\s+('[^'\n]*'|"[^"$` + "`" + `\\\n]*"|[^\s'"$` + "`" + `\\;&|<>()*?]+)\s*(?:&&|;|\n)\s*)?(?:apply_patch|applypatch)\b[ \t]*((?s).*)$`)
	// The same by a pipe.
	aPipe = regexp.MustCompile(`^(?:cd\s+('[^'\n]*'|"[^"$` + "`" + `\\\n]*"|[^\s'"$` + "`" + `\\;&|<>()*?]+)\s*(?:&&|;|\n)\s*)?cat[ \t]*(<<[^|\n]*)\|[ \t]*(?:apply_patch|applypatch)[ \t]*(\n(?s).*)$`)
	// The beginning of a here-document.
	aHeredoc = regexp.MustCompile(`^<<(-?)[ \t]*(?:'(\w+)'|"(\w+)"|\\?(\w+))[ \t]*\n`)
)

// inCommand takes a patch out of a command that does nothing before it is applied but enter
// a directory. It may stand in a here-document, or in quotes. after is what the command does
// then, in the same directory.
//
// The text of a here-document is taken as it is, also where a shell would replace variables
// in it: no model means those of the shell in a patch.
func inCommand(command string) (dir, patch, after string, ok bool) {
	command = strings.TrimSpace(strings.ReplaceAll(command, "\r\n", "\n"))
	given := ""
	if m := aPipe.FindStringSubmatch(command); m != nil {
		dir, given = m[1], strings.TrimRight(m[2], " \t")+m[3]
	} else if m := aCommand.FindStringSubmatch(command); m != nil {
		dir, given = m[1], m[2]
	} else {
		return "", "", "", false
	}
	dir = strings.Trim(dir, `'"`)
	if inner, isSub := strings.CutPrefix(given, `"$(cat `); isSub {
		patch, after, ok = heredoc(strings.TrimSpace(inner))
		after, closed := strings.CutPrefix(strings.TrimLeft(after, " \t\n"), `)"`)
		return dir, patch, after, ok && closed && endsCommand(after)
	}
	if strings.HasPrefix(given, "<<") {
		patch, after, ok = heredoc(given)
		return dir, patch, after, ok
	}
	patch, after, ok = quoted(given)
	return dir, patch, after, ok && strings.Contains(patch, begin) && endsCommand(after)
}

// endsCommand reports whether what follows is another command, on a line of its own.
func endsCommand(after string) bool {
	first, _, _ := strings.Cut(after, "\n")
	return strings.TrimSpace(first) == ""
}

// heredoc reads a here-document with what follows it.
func heredoc(text string) (body, after string, ok bool) {
	m := aHeredoc.FindStringSubmatch(text)
	if m == nil {
		return "", "", false
	}
	word := m[2] + m[3] + m[4]
	rest := text[len(m[0]):]
	for at := 0; at <= len(rest); {
		l, _, more := strings.Cut(rest[at:], "\n")
		// A line with a blank before the word may be one of the patch.
		if l == word || m[1] == "-" && strings.TrimLeft(l, "\t") == word || !more && strings.TrimSpace(l) == word {
			return rest[:at], rest[min(at+len(l)+1, len(rest)):], true
		}
		if at += len(l) + 1; !more {
			break
		}
	}
	return "", "", false
}

// quoted reads a word of the shell in quotes.
func quoted(text string) (word, after string, ok bool) {
	var b strings.Builder
	for at := 0; at < len(text); {
		switch c := text[at]; {
		case c == '\'':
			n := strings.IndexByte(text[at+1:], '\'')
			if n < 0 {
				return "", "", false
			}
			b.WriteString(text[at+1 : at+1+n])
			at += n + 2
		case c == '"':
			n, ok := doubleQuoted(&b, text[at+1:])
			if !ok {
				return "", "", false
			}
			at += n + 1
		case c == '\\' && at+1 < len(text) && text[at+1] != '\n':
			b.WriteByte(text[at+1])
			at += 2
		case c == ' ' || c == '\t' || c == '\n':
			return b.String(), text[at:], true
		default:
			return "", "", false
		}
	}
	return b.String(), "", true
}

// doubleQuoted reads to the end of double quotes, and returns how long that was. What a
// shell would replace is left alone.
func doubleQuoted(b *strings.Builder, text string) (n int, ok bool) {
	for at := 0; at < len(text); at++ {
		switch c := text[at]; {
		case c == '"':
			return at + 1, true
		case c == '\\' && at+1 < len(text) && strings.IndexByte("\"\\$`", text[at+1]) >= 0:
			at++
			b.WriteByte(text[at])
		default:
			b.WriteByte(c)
		}
	}
	return 0, false
}

// join returns a path in a directory, which may be empty.
func join(dir, name string) string {
	if dir == "" || path.IsAbs(name) || strings.HasPrefix(name, "~") {
		return name
	}
	if name == "" {
		return dir
	}
	return path.Join(dir, name)
}
