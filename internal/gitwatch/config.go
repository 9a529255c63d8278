package gitwatch

import (
	"bytes"
	"regexp"
	"strings"
)

// plain are the settings that git itself writes as one works, with values that
// can do nothing: a new branch is no news.
var plain = map[string]map[string]*regexp.Regexp{
	"core": {
		"repositoryformatversion": word, "filemode": word, "bare": word, "logallrefupdates": word,
		"ignorecase": word, "precomposeunicode": word, "symlinks": word,
	},
	"branch": {"remote": remote, "merge": ref},
	"user":   {"name": text, "email": text},
}

var (
	word    = regexp.MustCompile(`^[a-z0-9]*$`)
	remote  = regexp.MustCompile(`^(\.|[A-Za-z0-9][A-Za-z0-9_-]*)$`)
	ref     = regexp.MustCompile(`^refs/heads/[A-Za-z0-9._/-]+$`)
	text    = regexp.MustCompile(`^[\pL\pN ._@+-]*$`)
	section = regexp.MustCompile(`^\[([A-Za-z]+)(?: "[^"\[\]]*")?\]$`)
	setting = regexp.MustCompile(`^([A-Za-z][A-Za-z0-9-]*) *= *(.*)$`)

	// pointing are settings whose value is a path to what git obeys or runs.
	pointing = regexp.MustCompile(`(?im)^[^#;\n]*\b(?:path|hookspath|fsmonitor|attributesfile)[ \t]*=[ \t]*"?([^"#;\r\n]+)`)
)

// maxPointers bounds how many paths of a configuration are followed.
const maxPointers = 20

// readConfig returns what of a configuration can steer git, and the relative
// paths that it names. Whatever is not certainly plain steers: this reads less
// than git's grammar, and a text that continues lines counts as a whole.
func readConfig(data []byte) (steering []byte, pointers []string) {
	for _, m := range pointing.FindAllSubmatch(data, maxPointers) {
		name := strings.TrimSpace(string(m[1]))
		if name != "" && !strings.HasPrefix(name, "/") && !strings.HasPrefix(name, "~") {
			pointers = append(pointers, name)
		}
	}
	if bytes.ContainsAny(data, "\\\r\x00") {
		return data, pointers
	}
	var in map[string]*regexp.Regexp // what is plain in the section
	var header string
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		if m := section.FindStringSubmatch(line); m != nil {
			in, header = plain[strings.ToLower(m[1])], line
			continue
		}
		m := setting.FindStringSubmatch(line)
		if m == nil {
			in = nil // whatever this is, git may take what follows for something else
		} else if allowed := in[strings.ToLower(m[1])]; allowed != nil && allowed.MatchString(m[2]) {
			continue
		}
		steering = append(steering, header+"\x00"+line+"\n"...)
	}
	return steering, pointers
}
