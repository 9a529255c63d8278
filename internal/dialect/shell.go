package dialect

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
)

// The tools of others, folded, that search in files, that search for files, and
// that list a directory.
var (
	isGrep = wordSet("grep ripgrep rg grepsearch searchfilecontent searchfiles")
	isFind = wordSet("glob find findfiles filesearch globfilesearch")
	isList = wordSet("ls list listdir listdirectory listfiles printtree")
)

func wordSet(list string) map[string]bool {
	set := map[string]bool{}
	for word := range strings.FieldsSeq(list) {
		set[word] = true
	}
	return set
}

// commandList turns a command that is a list of words into a line for the shell.
// Codex's shell and local_shell, and gpt-oss's container.exec, take such lists,
// often one that begins with a shell of its own.
func (a arguments) commandList() {
	name := a.find1("cmd", "command")
	list, ok := a.given[name].([]any)
	if !ok || len(list) == 0 {
		return
	}
	var command []string
	for i, v := range list {
		word, ok := v.(string)
		if !ok || strings.ContainsRune(word, 0) || i == 0 && len(list) > 1 && strings.ContainsAny(word, " \n") {
			return // several commands, perhaps
		}
		command = append(command, word)
	}
	delete(a.given, name)
	a.given["cmd"] = line(command)
}

// line returns a command as a line for the shell.
func line(command []string) string {
	if len(command) == 3 && slices.Contains([]string{"sh", "bash", "zsh"}, path.Base(command[0])) && slices.Contains([]string{"-c", "-lc"}, command[1]) {
		return command[2]
	}
	if len(command) == 1 {
		return command[0]
	}
	quoted := make([]string, len(command))
	for i, word := range command {
		quoted[i] = quote(word)
	}
	return strings.Join(quoted, " ")
}

// quote returns a word for the shell, which stands for itself.
func quote(word string) string {
	plain := func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("-_./=:,+@%", r))
	}
	if word != "" && strings.IndexFunc(word, plain) < 0 {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// errSearch is the error for a search that has no simple command.
var errSearch = errors.New("there is no tool for searching: use bash with grep or find")

// otherRegexps are what regular expressions of ripgrep and JavaScript have, and
// grep -E does not.
var otherRegexps = []string{`\d`, `\D`, `\p`, `\n`, `\t`, `\x`, `\u`, "(?", "*?", "+?", "??", "}?"}

// grep makes a command of a search in files.
func (a arguments) grep() error {
	pattern, ok := a.string("pattern query regex search")
	if !ok || pattern == "" || slices.ContainsFunc(otherRegexps, func(s string) bool { return strings.Contains(pattern, s) }) {
		return errSearch
	}
	dir, ok1 := a.string(pathWords + " path")
	files, ok2 := a.string("glob include includepattern filepattern")
	insensitive, ok3 := a.flag("i caseinsensitive ignorecase")
	_, ok4 := a.flag("n")
	if a.find1("", "casesensitive") != "" {
		sensitive, ok := a.flag("casesensitive")
		insensitive, ok3 = insensitive || !sensitive, ok3 && ok
	}
	a.dropRemarks()
	if mode := a.take("outputmode"); !ok1 || !ok2 || !ok3 || !ok4 || len(a.given) > 0 || mode != nil && mode != "content" {
		return errSearch
	}
	if strings.ContainsAny(files, "/{}") {
		return errSearch
	}
	// Not every grep can leave directories out, but every find can.
	named, flags := "", "-nHE"
	if files != "" {
		named = " -name " + quote(files)
	}
	if insensitive {
		flags += "i"
	}
	a.given["cmd"] = fmt.Sprintf("find %s -name .git -prune -o -type f%s -exec grep %s -e %s {} +",
		quote(beside(orHere(dir))), named, flags, quote(pattern))
	return nil
}

// find makes a command of a search for files by name.
func (a arguments) find() error {
	if a.find1("cmd", "command") != "" { // find itself, with a command
		return nil
	}
	pattern, ok1 := a.string("pattern globpattern query name")
	dir, ok2 := a.string(pathWords + " path")
	a.dropRemarks()
	name := strings.TrimPrefix(pattern, "**/")
	if !ok1 || !ok2 || len(a.given) > 0 || name == "" || strings.ContainsAny(name, "/{}") {
		return errSearch
	}
	a.given["cmd"] = fmt.Sprintf("find %s -name %s ! -path '*/.git/*'", quote(beside(orHere(dir))), quote(name))
	return nil
}

// beside returns a path that find does not take for an option.
func beside(dir string) string {
	if strings.HasPrefix(dir, "-") {
		return "./" + dir
	}
	return dir
}

func orHere(dir string) string {
	if dir == "" {
		return "."
	}
	return dir
}

// string takes the parameter that has one of the names. ok is false if it is no
// text that a command can have.
func (a arguments) string(names string) (value string, ok bool) {
	name := a.find1("", names)
	if name == "" {
		return "", true
	}
	value, ok = a.given[name].(string)
	delete(a.given, name)
	return value, ok && !strings.ContainsAny(value, "\x00\n\r")
}

// flag is string for a boolean.
func (a arguments) flag(names string) (value, ok bool) {
	name := a.find1("", names)
	if name == "" {
		return false, true
	}
	v := a.given[name]
	delete(a.given, name)
	switch v := v.(type) {
	case bool:
		return v, true
	case string:
		return v == "true", v == "true" || v == "false"
	case json.Number:
		return v == "1", v == "1" || v == "0"
	}
	return false, v == nil
}
