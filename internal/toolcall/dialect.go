package toolcall

import (
	"cmp"
	"encoding/json"
	"iter"
	"strings"
	"sync"

	"github.com/x/pygent/internal/jsonobj"
)

// Bare returns a name without what servers and models put around it: the
// namespace in functions.bash (gpt-oss, Kimi), default_api:bash (Gemini) or
// tools/bash, the number of a call in functions.bash:0 (Kimi), the mark of a
// channel in bash<|channel|>commentary (gpt-oss: ollama #11704), quotes, white
// space, and an opening bracket with what follows. A name that has nothing of
// this is returned as it is.
func Bare(name string) string {
	if isPlain(name) {
		return name
	}
	name = strings.Trim(name, " \t\r\n\"'`")
	for _, mark := range []string{"<", "(", "{", "[", " ", "\n"} {
		name, _, _ = strings.Cut(name, mark)
	}
	if i := strings.LastIndexByte(name, ':'); i > 0 && isNumber(name[i+1:]) {
		name = name[:i]
	}
	if i := strings.LastIndexAny(name, ".:/="); i >= 0 && i+1 < len(name) {
		name = name[i+1:]
	}
	return strings.TrimRight(name, ".:/=")
}

func isPlain(name string) bool {
	for _, c := range []byte(name) {
		if !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '-') {
			return false
		}
	}
	return true
}

func isNumber(text string) bool { return text != "" && strings.Trim(text, "0123456789") == "" }

// Fold returns a name as it is compared: in lower case, without underscores and
// hyphens.
func Fold(name string) string {
	if len(name) > 64 {
		return name
	}
	return strings.ToLower(strings.NewReplacer("_", "", "-", "").Replace(name))
}

// Like returns the only one of some names that differs from a name in case, hyphens and
// underscores alone. found is true, without a name, if there are several.
func Like(name string, names ...iter.Seq[string]) (like string, found bool) {
	folded := Fold(name)
	for _, names := range names {
		for other := range names {
			switch {
			case folded == "" || Fold(other) != folded || other == like:
			case found:
				return "", true
			default:
				like, found = other, true
			}
		}
	}
	return like, found
}

// Legal returns a name as providers accept it: 1 to 64 of the characters a-z, A-Z, 0-9, _
// and -. Otherwise a model that makes up a name would make every later request fail.
func Legal(name string) string {
	legal := strings.Map(func(c rune) rune {
		if isPlain(string(c)) {
			return c
		}
		return '_'
	}, Bare(name))
	return cmp.Or(legal[:min(len(legal), 64)], "unnamed")
}

// LegalArguments returns arguments as they are sent: as a JSON object, which may be what was
// meant by one that is almost right.
func LegalArguments(text string) string {
	if jsonobj.IsObject(text) {
		return text
	}
	if object, unclosed, err := jsonobj.RepairObject(text); err == nil && !unclosed {
		return object
	}
	return "{}"
}

// IsNote reports whether a tool of another agent only notes what a model thinks or plans.
func IsNote(name string) bool {
	return hasWord("think thinking sequentialthinking reflect todowrite updateplan updatetodolist managetodolist plan", Fold(Bare(name)))
}

// Tool returns the tool of ours that a call of another agent's tool means, and ""
// if there is none. Some tools of others do several things, as their arguments
// say.
func Tool(name, arguments string) string {
	bare := Bare(name)
	if len(bare) > 64 {
		return ""
	}
	folded := Fold(bare)
	tool := names()[folded]
	if tool != editor && !isList[folded] {
		return tool
	}
	var given struct {
		Command   string
		Recursive any
	}
	object, _, err := jsonobj.RepairObject(arguments)
	if err != nil || json.Unmarshal([]byte(object), &given) != nil {
		given.Command, given.Recursive = "", nil
	}
	switch {
	case isList[folded] && (given.Recursive == true || given.Recursive == "true"):
		return "bash"
	case isList[folded]:
		return tool
	case given.Command == "view":
		return "download_file"
	case given.Command == "create":
		return "write_file"
	}
	return "edit_file"
}

// Ends reports whether a name is one by which other agents end their work.
func Ends(name string) bool { return Tool(name, "") == "stop" }

// Hint says what to use instead of a tool of another agent that has no
// counterpart. It is empty for other names.
func Hint(name string) string {
	return hints()[Fold(Bare(name))]
}

// hints are what to do instead of a tool, by its name, folded.
var hints = sync.OnceValue(func() map[string]string {
	all := map[string]string{}
	for names, hint := range map[string]string{
		"applypatch applydiff patch": "use edit_file with path, old_text and new_text, and write_file for a new file",
		"python ipython executepython runpython executeipythoncell jupyter codeinterpreter executecode runcode pythonexec": "code is run with bash: give cmd, such as python3 - <<'EOF', the code, and EOF on a line of its own",
		"readmanyfiles readfiles readmultiplefiles":   "call download_file for each file, in one answer",
		"insert insertcontent insertline insertlines": "insert with edit_file: old_text is the line there, new_text that line with the new ones",
		"todoread todo": "no list of what to do is kept here: go on with the work",
		"webfetch fetch fetchurl httprequest openurl websearch browser": "what can be reached is reached with curl in bash",
		"codebasesearch semanticsearch searchcodebase searchcode":       "search with grep -rn in bash",
		"writestdin sendinput": "commands get no input: give it in cmd, by a pipe or a here-document",
	} {
		for name := range strings.FieldsSeq(names) {
			all[name] = hint
		}
	}
	return all
})

// editor stands for the tools that view, create and edit files.
const editor = "an editor"

// names are the tools of others, folded, and ours.
var names = sync.OnceValue(func() map[string]string {
	tools := map[string]string{}
	for tool, others := range map[string]string{
		"bash":          "shell execute run runcommand executecommand execcommand runshellcommand runterminalcmd runterminalcommand runinterminal executebash runbash terminal exec cmd command localshell localshellcall shellcommand containerexec bashtool shelltool runshell grep ripgrep rg grepsearch searchfilecontent searchfiles glob find findfiles filesearch globfilesearch directorytree tree " + fileTools,
		"download_file": "read readfile view viewfile cat openfile open showfile getfile readfilecontents fsread readtextfile ls list listdir listdirectory listfiles",
		"edit_file":     "edit strreplace replace applyedit searchreplace searchandreplace multiedit multieditfile replaceinfile editfiles updatefile modifyfile",
		"write_file":    "write createfile savefile writetofile newfile overwritefile fswrite",
		"continue":      "ask askuser askhuman askfollowupquestion askquestion askuserquestion requestinput requestuserinput clarify userinput",
		"stop":          "finish done complete attemptcompletion submit finalanswer exit end terminate taskcomplete taskdone finishtask completetask markcomplete submitanswer submitresult quit",
		"job_kill":      "killshell killbash killjob stopjob killprocess",
		"job_output":    "bashoutput readjob getjoboutput shelloutput readoutput checkjob",
		"job_list":      "listjobs jobs",
		"delegate_task": "task dispatchagent newtask subagent spawnagent runtask delegate starttask",
		"read_image":    "viewimage openimage lookatimage readimagefile",
		editor:          "strreplaceeditor strreplacebasededittool texteditor",
	} {
		for name := range strings.FieldsSeq(others) {
			tools[name] = tool
		}
	}
	return tools
})
