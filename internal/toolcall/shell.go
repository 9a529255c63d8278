package toolcall

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/x/pygent/internal/escape"
)

// The tools of others, folded, that search in files, that search for files, and
// that list a directory.
var (
	isGrep = wordSet("grep ripgrep rg grepsearch searchfilecontent searchfiles")
	isFind = wordSet("glob find findfiles filesearch globfilesearch")
	isList = wordSet("ls list listdir listdirectory listfiles")
	isTree = wordSet("directorytree tree")
	isFile = wordSet(fileTools)
)

// fileTools are the tools of others, folded, that remove, rename and copy files, and make
// directories.
const fileTools = "deletefile removefile rm movefile renamefile mv copyfile cp createdirectory createfolder mkdir makedirectory createdir"

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
		quoted[i] = escape.Word(word)
	}
	return strings.Join(quoted, " ")
}

// The languages of the shell by the names that other agents give them, and how a
// command runs code in some others.
var (
	isShell = wordSet("bash sh shell zsh console terminal posix")
	runners = map[string]string{
		"python": "python3", "python3": "python3", "py": "python3", "ipython": "python3", "javascript": "node", "js": "node", "node": "node",
		"ruby": "ruby", "perl": "perl", "r": "Rscript -", "php": "php",
	}
)

// code treats what other agents run in an interpreter that is named beside the
// code, or in Python where none is: Open Interpreter's execute, for example. Only
// what is for the shell becomes a command.
func (a arguments) code() error {
	language, named := a.take("language lang interpreter").(string)
	language = strings.ToLower(strings.TrimSpace(language))
	if named && !isShell[language] {
		return codeError(cmp.Or(language, "another language"), cmp.Or(runners[language], "the interpreter"))
	}
	code, _ := a.given[a.find1("", "code")].(string)
	if named || code == "" || a.has("code") || a.find1("cmd", "command") != "" || a.name != "execute" && a.name != "run" && a.name != "exec" || forShell(code) {
		return nil
	}
	return codeError("Python", "python3")
}

func codeError(language, runner string) error {
	return fmt.Errorf("the code is run by a shell here. If it is %.40s, give cmd: %s <<'EOF', the code, and EOF on a line of its own. If it is for the shell, give it as cmd", language, runner)
}

// commands are words with which lines for the shell begin, and code in other
// languages does not.
var commands = wordSet("ls cd pwd cat echo git grep rg find mkdir rm cp mv touch head tail wc sort sed awk npm npx yarn pnpm pip pip3 python python3 node go cargo make cmake " +
	"pytest bash sh docker curl wget tar unzip apt apt-get apk sudo chmod chown which ps kill source tree diff du df stat file uname whoami date")

// forShell reports whether code is plainly for the shell: it says so in its first
// line, or begins with a command.
func forShell(code string) bool {
	code = strings.TrimSpace(code)
	first, _, _ := strings.Cut(code, "\n")
	if strings.HasPrefix(first, "#!") {
		return strings.HasSuffix(strings.TrimSpace(first), "sh")
	}
	words := strings.Fields(first)
	if len(words) == 0 || len(words) > 1 && strings.HasPrefix(words[1], "=") {
		return false
	}
	return commands[words[0]] || strings.HasPrefix(words[0], "./")
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
	flags, ok5 := a.grepFlags()
	named, ok6 := alternatives(files)
	a.dropRemarks()
	if !ok1 || !ok2 || !ok3 || !ok4 || !ok5 || !ok6 || len(a.given) > 0 {
		return errSearch
	}
	// Not every grep can leave directories out, but every find can.
	if insensitive {
		flags += "i"
	}
	a.given["cmd"] = fmt.Sprintf("find %s -name .git -prune -o -type f%s -exec grep %s -e %s {} +",
		escape.Word(beside(orHere(dir))), named, flags, escape.Word(pattern))
	return nil
}

// maxContext is how many lines around a match can be asked for.
const maxContext = 1000

// grepFlags takes what a search shows of its matches: the lines, with some around
// them, or only the names of files, or how many lines match.
func (a arguments) grepFlags() (flags string, ok bool) {
	mode := a.take("outputmode")
	if _, ok := whole(a.given[a.find1("", "headlimit")]); ok {
		a.take("headlimit") // what is long is cut in any case
	}
	for _, c := range []struct{ flag, words string }{{"A", "a aftercontext"}, {"B", "b beforecontext"}, {"C", "c context contextlines"}} {
		name := a.find1("", c.words)
		if name == "" {
			continue
		}
		n, isNumber := whole(a.given[name])
		if !isNumber || n < 0 || n > maxContext {
			return "", false
		}
		delete(a.given, name)
		flags += fmt.Sprintf("-%s %d ", c.flag, n)
	}
	switch mode {
	case nil, "content":
		return flags + "-nHE", true
	case "files_with_matches":
		return "-lE", true
	case "count":
		return "-cHE", true
	}
	return "", false
}

// find makes a command of a search for files by name.
func (a arguments) find() error {
	if a.find1("cmd", "command") != "" { // find itself, with a command
		return nil
	}
	pattern, ok1 := a.string("pattern globpattern query name")
	dir, ok2 := a.string(pathWords + " path")
	a.dropRemarks()
	below, name, deep := splitGlob(pattern)
	named, ok3 := alternatives(name)
	if !ok1 || !ok2 || !ok3 || len(a.given) > 0 || name == "" || strings.ContainsAny(below, "*?[{}") {
		return errSearch
	}
	switch {
	case !path.IsAbs(pattern):
		dir = path.Join(orHere(dir), below)
	case dir == "" && below != "":
		dir = below
	default:
		return errSearch
	}
	depth := ""
	if !deep {
		depth = " -maxdepth 1"
	}
	a.given["cmd"] = fmt.Sprintf("find %s%s%s ! -path '*/.git/*'", escape.Word(beside(dir)), depth, named)
	return nil
}

// tree makes a command of a listing of all that is below a directory.
func (a arguments) tree() error {
	if a.find1("cmd", "command") != "" { // tree itself, with a command
		return nil
	}
	dir, ok1 := a.string(pathWords + " path")
	_, ok2 := a.flag("recursive")
	a.dropRemarks()
	if !ok1 || !ok2 || len(a.given) > 0 {
		return errors.New("for all below a directory, use bash with find . -not -path '*/.git/*'")
	}
	a.given["cmd"] = fmt.Sprintf("find %s ! -path '*/.git/*'", escape.Word(beside(orHere(dir))))
	return nil
}

// file makes a command of what is done with a file or a directory.
func (a arguments) file() error {
	if a.find1("cmd", "command") != "" {
		return nil
	}
	var cmd string
	var ok1, ok2, recursive bool
	var from, to string
	switch {
	case strings.HasPrefix(a.name, "mv") || strings.HasPrefix(a.name, "move") || strings.HasPrefix(a.name, "rename"):
		cmd = "mv"
	case strings.HasPrefix(a.name, "cp") || strings.HasPrefix(a.name, "copy"):
		cmd = "cp -r"
	case strings.HasPrefix(a.name, "rm") || strings.HasPrefix(a.name, "delete") || strings.HasPrefix(a.name, "remove"):
		recursive, ok1 = a.flag("recursive")
		if cmd = "rm"; recursive {
			cmd = "rm -r"
		}
		from, ok2 = a.string(pathWords + " path")
		return a.run(cmd, ok1 && ok2, from)
	default:
		_, ok1 = a.flag("recursive parents")
		from, ok2 = a.string(pathWords + " path")
		return a.run("mkdir -p", ok1 && ok2, from)
	}
	to, ok2 = a.string("destination dest to target destinationpath destpath newpath newname topath targetpath")
	from, ok1 = a.string("source src from sourcepath srcpath oldpath oldname frompath " + pathWords + " path")
	return a.run(cmd, ok1 && ok2, from, to)
}

// run makes a command of a program and the files that it is for.
func (a arguments) run(program string, ok bool, files ...string) error {
	a.dropRemarks()
	if !ok || len(a.given) > 0 || slices.Contains(files, "") {
		return fmt.Errorf("use %s in bash", program)
	}
	for _, f := range files {
		program += " " + escape.Word(beside(f))
	}
	a.given["cmd"] = program
	return nil
}

// splitGlob divides a pattern into the directory where it begins and the pattern of
// a name. deep says that the directories below are searched as well, as they are for
// a name alone, and for all that is below a directory.
func splitGlob(pattern string) (below, name string, deep bool) {
	pattern = strings.TrimPrefix(pattern, "./")
	at := strings.LastIndexByte(pattern, '/')
	if at < 0 {
		return "", pattern, true
	}
	below, name = pattern[:at], pattern[at+1:]
	if below == "**" {
		return "", name, true
	}
	below, deep = strings.CutSuffix(below, "/**")
	return below, name, deep || name == "**"
}

// maxToolName is how long the pattern of a name can be, in bytes. With its alternatives
// written out, the condition is much longer.
const maxToolName = 1000

// alternatives is the condition of find for a name such as *.{js,ts}. No name is
// any.
func alternatives(name string) (condition string, ok bool) {
	if name == "" || len(name) > maxToolName {
		return "", name == ""
	}
	begin, end := strings.IndexByte(name, '{'), strings.IndexByte(name, '}')
	if begin < 0 && end < 0 {
		return " -name " + escape.Word(name), !strings.Contains(name, "/")
	}
	if end < begin || begin < 0 || strings.Contains(name, "/") || strings.Count(name, "{")+strings.Count(name, "}") > 2 {
		return "", false
	}
	var names []string
	for _, choice := range strings.Split(name[begin+1:end], ",") {
		names = append(names, "-name "+escape.Word(name[:begin]+choice+name[end+1:]))
	}
	return " \\( " + strings.Join(names, " -o ") + " \\)", true
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
