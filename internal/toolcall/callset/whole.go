package callset

import (
	"encoding/json"
	"path"
	"slices"
	"strings"
)

// Models that know a tool for patches put patches where ours want texts: into the old text of
// an edit, the list of edits, or the content of a whole file. What is read here is a text that
// is a patch from its first line to its last, so that no text about patches is taken for one.

// whole returns the patch that is all of a text, perhaps in a code block, with the name of
// its file above.
func whole(text string) (patch string, ok bool) {
	lines := strings.Split(strings.TrimSpace(plainEnds(text)), "\n")
	if n := len(lines); n > 2 && strings.HasPrefix(lines[0], "```") && lines[n-1] == "```" {
		lines = lines[1 : n-1]
	}
	if len(lines) < 2 {
		return "", false
	}
	first, last := lines[0], lines[len(lines)-1]
	if !isSection(first) && !aSearch.MatchString(first) && aSearch.MatchString(lines[1]) && nameAbove(lines[:1]) != "" {
		first = lines[1]
	}
	switch {
	case strings.TrimSpace(first) == begin:
		ok = strings.TrimSpace(last) == end
	case aSearch.MatchString(first):
		ok = aReplace.MatchString(last)
	default:
		ok = isSection(first) || unified.MatchString(first) || strings.HasPrefix(first, "diff --git ") || isDiffHeader(lines, 0)
	}
	return strings.Join(lines, "\n"), ok
}

// inEdits returns the patch that stands in the place of the texts of edit_file.
func inEdits(given map[string]json.RawMessage) (patch string, ok bool) {
	if raw, several := given["edits"]; several {
		var list []json.RawMessage
		if json.Unmarshal(raw, &list) != nil {
			list = []json.RawMessage{raw}
		}
		var all []string
		for _, one := range list {
			var texts map[string]json.RawMessage
			text := ""
			if json.Unmarshal(one, &text) != nil && json.Unmarshal(one, &texts) == nil {
				text, _ = inTexts(texts)
			}
			part, ok := whole(text)
			if !ok {
				return "", false
			}
			all = append(all, part)
		}
		return strings.Join(all, "\n"), len(all) > 0
	}
	return inTexts(given)
}

// plainEnds returns a text with line ends of one character.
func plainEnds(text string) string { return strings.ReplaceAll(text, "\r\n", "\n") }

// oldTexts returns the old texts of the edits of a call, if each has one.
func oldTexts(given map[string]json.RawMessage) (texts []string) {
	list := []map[string]json.RawMessage{given}
	if raw, several := given["edits"]; several && json.Unmarshal(raw, &list) != nil {
		return nil
	}
	for _, one := range list {
		old, _ := text(one, "oldtext")
		if old == "" {
			return nil
		}
		texts = append(texts, old)
	}
	return texts
}

// inTexts returns the only one of an old and a new text, if it is a patch.
func inTexts(given map[string]json.RawMessage) (patch string, ok bool) {
	old, _ := text(given, "oldtext")
	new, _ := text(given, "newtext")
	if old != "" && new != "" {
		return "", false
	}
	return whole(old + new)
}

// ofWhole reads a patch for a file that a call gives as all of the file's content. Where it
// does not fit the file, the call stays what it is.
func ofWhole(arguments string) (*Set, error) {
	var in struct{ Path, Content string }
	if json.Unmarshal([]byte(arguments), &in) != nil {
		return nil, nil // the tool tells
	}
	files, _, err := ofItself(in.Path, in.Content)
	if err != nil || len(files) == 0 || slices.ContainsFunc(files, func(f file) bool { return f.kind == remove || f.to != "" }) {
		return nil, nil
	}
	return &Set{Together: true, files: files, instead: &Call{"write_file", arguments}}, nil
}

// ofItself reads a content that is a patch for its own file, and for no other. named says
// that the patch gives its path. A file that is meant to be a patch has none.
func ofItself(name, content string) (files []file, named bool, err error) {
	if name == "" || slices.Contains([]string{".patch", ".diff", ".rej", ".orig"}, strings.ToLower(path.Ext(name))) {
		return nil, false, nil
	}
	patch, ok := whole(content)
	if !ok {
		return nil, false, nil
	}
	if files, err = parse(patch, name); err != nil {
		return nil, false, err
	}
	if !atPath(name, files) {
		return nil, false, nil
	}
	anonymous, err := parse(patch, "\x00")
	return files, err == nil && anonymous[0].path != "\x00", nil
}

// atPath gives a patch the path that its call names, if it is for one file, which may be that
// one: a patch names it as seen from a directory above or below. Otherwise another file of the
// same name would be changed. It reports whether the patch is for that file alone.
func atPath(name string, files []file) bool {
	for _, f := range files {
		if name == "" || !endsAlike(f.path, name) || path.Clean(f.path) != path.Clean(files[0].path) {
			return false
		}
	}
	for i := range files {
		f := &files[i]
		if f.to != "" && path.Dir(f.to) == path.Dir(f.path) {
			f.to = path.Join(path.Dir(name), path.Base(f.to))
		}
		f.path = name
	}
	return true
}

// endsAlike reports whether two paths may be of one file, of which one begins further up.
func endsAlike(a, b string) bool {
	a, b = "/"+strings.TrimPrefix(path.Clean(a), "/"), "/"+strings.TrimPrefix(path.Clean(b), "/")
	return strings.HasSuffix(a, b) || strings.HasSuffix(b, a)
}

// Marks says what would be wrong with the whole content of a file: it is a patch for the file
// itself. missing says that there is no such file yet. It is empty for any other content.
func Marks(name, content string, missing bool) string {
	files, named, err := ofItself(name, content)
	if err != nil || len(files) == 0 || missing && !named {
		return ""
	}
	return "it would hold the patch itself instead of what this makes of it"
}
