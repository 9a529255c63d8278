package gitwatch

import (
	"bytes"
	"regexp"
	"strings"
)

// plain are settings that git itself writes during normal work, with values
// that cannot cause harm. For example, a new branch is not reported.
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

	// pointing matches settings whose value is the path of a file or directory
	// that git reads or executes.
	pointing = regexp.MustCompile(`(?im)^[^#;\n]*\b(?:path|hookspath|fsmonitor|attributesfile)[ \t]*=[ \t]*"?([^"#;\r\n]+)`)
)

// maxPointers is how many paths of one configuration are followed.
const maxPointers = 20

// readConfig returns the parts of a configuration that can make git do
// something else, and the relative paths that it names. Everything that is not
// certainly plain is such a part. The function understands less than git's full
// grammar; a text with continued lines is taken as one part.
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
	var in map[string]*regexp.Regexp // the plain settings of the current section
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
			in = nil // unknown syntax: git may read what follows differently
		} else if allowed := in[strings.ToLower(m[1])]; allowed != nil && allowed.MatchString(m[2]) {
			continue
		}
		steering = append(steering, header+"\x00"+line+"\n"...)
	}
	return steering, pointers
}
