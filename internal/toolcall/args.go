package toolcall

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/x/pygent/internal/jsonobj"
)

// words are, for each of our tools and its parameters, the names that other
// agents have for these. Those that are folded alike, such as filePath and
// file_path, need no entry of their own.
var words = map[string]map[string]string{
	"bash": {
		"cmd":        "command script code shell commands bash commandline input",
		"cwd":        "dir workdir workingdirectory workingdir directory cwd path",
		"background": "runinbackground isbackground detach detached async",
		"timeout":    "seconds timeoutseconds timeoutsec timeoutsecs timelimit",
	},
	"download_file": {
		"path":  pathWords,
		"line":  "startline startlineoneindexed linestart fromline firstline lineoffset linenumber start",
		"count": "limit lines linecount numlines maxlines nlines",
	},
	"read_image": {"path": pathWords + " image imagepath"},
	"write_file": {
		"path":    pathWords,
		"content": "contents text filetext data filecontent body newcontent codecontent",
	},
	"edit_file": {
		"path":        pathWords,
		"old_text":    "oldstr oldstring search find old oldcontent oldcode original targetcontent",
		"new_text":    "newstr newstring replace new newcontent newcode replacement replacewith replacementcontent replacementtext",
		"replace_all": "allowmultiple all global replaceallmatches",
		"edits":       "changes replacements edit",
	},
	"continue": {
		"prompt":  "question message text query questions description",
		"options": "choices followup suggestions answers",
	},
	"stop":       {"summary": "result answer message response output text finalanswer reason final conclusion value finalresponse description explanation details report"},
	"job_output": {"id": jobWords, "until": "waitfor pattern", "wait": "timeout waitseconds"},
	"job_kill":   {"id": jobWords},
	"delegate_task": {
		"prompt": "task description instructions message objective goal request",
		"files":  "paths inputfiles",
	},
	"delegate_persona_task": {
		"prompt":  "task description instructions message objective goal request",
		"persona": "agent name role",
		"files":   "paths inputfiles",
	},
	"task_status":  {"task_id": "id task", "wait": "timeout waitseconds"},
	"cancel_task":  {"task_id": "id task"},
	"send_task":    {"task_id": "id task"},
	"collect_file": {"task_id": "id task", "path": pathWords + " source src", "dest": "destination target to destpath"},
}

const (
	pathWords = "file filename filepath targetfile absolutepath pathname relativeworkspacepath targetdirectory directory directorypath dir dirpath"
	jobWords  = "job jobid bashid shellid processid pid"
)

// remarks are parameters, folded, in which other tools take remarks about a call:
// what is it for, does it need approval. Nothing here depends on them.
var remarks = map[string]bool{
	"description": true, "explanation": true, "justification": true, "reason": true, "reasoning": true, "thought": true, "thoughts": true,
	"rationale": true, "purpose": true, "intent": true, "toolsummary": true, "instructions": true, "subagenttype": true, "securityrisk": true,
	"requiresapproval": true, "requireuserapproval": true, "withescalatedpermissions": true, "linecount": true,
	"shouldreadentirefile": true, "readentirefile": true, "modeltype": true, "risklevel": true, "showlinenumbers": true,
	"yieldtimems": true, "maxoutputtokens": true, "maxoutputchars": true, "encoding": true,
}

// Translator returns what puts the arguments of a call into our words. tool is one of our
// tools, and name is what the model called.
func Translator(tool, name string) func(given map[string]any, has func(string) bool) error {
	asked := Fold(Bare(name))
	return func(given map[string]any, has func(string) bool) error {
		a := arguments{tool: tool, name: asked, foreign: asked != Fold(tool), inWords: Bare(name) != tool, given: given, has: has}
		return a.translate()
	}
}

// Value puts the arguments of a call that ends a run with a value into those of
// the tool that takes it: other agents give an answer or a result.
func Value(given map[string]any, has func(string) bool) error {
	a := arguments{given: given, has: has}
	const others = "result answer finalanswer final output response value data"
	name := a.find1("value", others)
	if name == "" || has(name) {
		return nil
	}
	if has("value") {
		given["value"] = given[name]
		delete(given, name)
		return nil
	}
	inner, ok := given[name].(map[string]any)
	if text, isText := given[name].(string); isText {
		object, unclosed, err := jsonobj.RepairObject(text)
		dec := json.NewDecoder(strings.NewReader(object))
		dec.UseNumber()
		ok = err == nil && !unclosed && dec.Decode(&inner) == nil
	}
	if ok && len(given) == 1 {
		delete(given, name)
		maps.Copy(given, inner)
	}
	return nil
}

// arguments are those of one call.
type arguments struct {
	tool    string // ours
	name    string // by which it was called, folded
	foreign bool   // the name is one of another agent's tools
	inWords bool   // the name is spelled as another agent's may be
	given   map[string]any
	has     func(string) bool
}

func (a arguments) translate() error {
	if err := a.special(); err != nil {
		return err
	}
	a.milliseconds()
	if a.tool == "download_file" {
		a.lines()
	}
	a.synonyms(a.given, a.has)
	if a.tool == "edit_file" {
		a.edits()
	}
	a.dropRemarks()
	return nil
}

// special treats what only some of the tools of others have.
func (a arguments) special() error {
	switch {
	case names()[a.name] == editor:
		return a.editor()
	case a.tool == "bash" && isGrep[a.name]:
		return a.grep()
	case a.tool == "bash" && isFind[a.name]:
		return a.find()
	case a.tool == "bash" && (isTree[a.name] || isList[a.name]):
		return a.tree()
	case a.tool == "bash" && isFile[a.name]:
		return a.file()
	case a.tool == "download_file" && isList[a.name]:
		if recursive, ok := a.flag("recursive"); recursive || !ok {
			return errors.New("one directory is listed at a time: for all below it, use bash with find . -not -path '*/.git/*'")
		}
		if a.find1("path", pathWords) == "" {
			a.given["path"] = "."
		}
	case a.tool == "bash":
		a.commandList()
		return a.code()
	case a.tool == "stop":
		a.dropIf("success succeeded completed taskcompleted status", "success", "succeeded", "completed", "complete", "done", "true", true)
	case a.tool == "write_file":
		a.dropIf("overwrite createdirectories createdirs makedirs mkdir", "true", true)
	case a.tool == "edit_file" && a.take("diff") != nil:
		return errors.New("there are no diffs here: give edit_file path, old_text and new_text")
	case a.tool == "edit_file" && a.name == "replace":
		if n := a.find1("", "expectedreplacements"); n != "" && a.given[n] == json.Number("1") {
			delete(a.given, n)
		}
	}
	return nil
}

// dropIf drops parameters that the tool does not have if they say what it does
// anyway.
func (a arguments) dropIf(names string, values ...any) {
	for name, v := range a.given {
		if !a.has(name) && hasWord(names, Fold(name)) && isOneOf(v, values) {
			delete(a.given, name)
		}
	}
}

func isOneOf(v any, values []any) bool {
	if text, ok := v.(string); ok {
		v = strings.ToLower(text)
	}
	switch v.(type) {
	case string, bool:
		return slices.Contains(values, v)
	}
	return false
}

// find1 returns the one given name for a parameter: its own, or another word for
// it. It is empty if there is none, or more than one.
func (a arguments) find1(own, others string) string {
	if _, ok := a.given[own]; ok {
		return own
	}
	found := ""
	for name := range a.given {
		if folded := Fold(name); folded == Fold(own) || hasWord(others, folded) {
			if found != "" {
				return ""
			}
			found = name
		}
	}
	return found
}

// hasWord reports whether a list of words has one.
func hasWord(list, word string) bool {
	at := strings.Index(list, word)
	for from := 0; word != "" && at >= 0; at = strings.Index(list[from:], word) {
		begin, end := from+at, from+at+len(word)
		if (begin == 0 || list[begin-1] == ' ') && (end == len(list) || list[end] == ' ') {
			return !strings.Contains(word, " ")
		}
		from = end
	}
	return false
}

// take removes a parameter, spelled in any way, and returns its value.
func (a arguments) take(folded string) any {
	name := a.find1("", folded)
	v := a.given[name]
	delete(a.given, name)
	return v
}

// synonyms gives parameters that the tool does not have the names of those that
// it has. It does nothing for a parameter that is given, or for which there are
// two other names.
func (a arguments) synonyms(given map[string]any, has func(string) bool) {
	for own, others := range words[a.tool] {
		if _, ok := given[own]; ok || !has(own) {
			continue
		}
		if found := wordFor(given, has, own, others); found != "" {
			given[own] = given[found]
			delete(given, found)
		}
	}
}

// wordFor returns the given name that stands for a parameter, or "".
func wordFor(given map[string]any, has func(string) bool, own, others string) string {
	var found, spelled []string
	for name := range given {
		switch folded := Fold(name); {
		case has(name):
		case folded == Fold(own):
			spelled = append(spelled, name)
		case hasWord(others, folded):
			found = append(found, name)
		}
	}
	if len(spelled) > 0 {
		found = spelled // its own name comes first
	}
	if len(found) > 1 {
		// As in Claude Code's Task, whose prompt has a description beside it.
		found = slices.DeleteFunc(found, func(name string) bool { return remarks[Fold(name)] })
	}
	if len(found) != 1 {
		return ""
	}
	return found[0]
}

// unset are parameters, folded, of the tools of others that ask for nothing if
// they are false.
const unset = "replaceall allowmultiple append restart background runinbackground isbackground detach multiline"

// dropRemarks drops the remarks, and what is not asked for, that the tool has no
// parameter for.
func (a arguments) dropRemarks() {
	for name, v := range a.given {
		folded := Fold(name)
		switch v := v.(type) {
		case map[string]any, []any:
		case bool:
			if !a.has(name) && (remarks[folded] || !v && hasWord(unset, folded)) {
				delete(a.given, name)
			}
		default:
			if !a.has(name) && remarks[folded] {
				delete(a.given, name)
			}
		}
	}
}

// edits puts the edits of a list into our words.
func (a arguments) edits() {
	list, ok := a.given["edits"].([]any)
	if !ok {
		return
	}
	for _, item := range list {
		if edit, ok := item.(map[string]any); ok {
			a.synonyms(edit, func(name string) bool {
				return name == "old_text" || name == "new_text" || name == "replace_all"
			})
		}
	}
}

// milliseconds turns a time limit in milliseconds into seconds. Its name tells
// the unit, or that it is a command's limit of more than an hour in another
// agent's tool: those limits are in milliseconds too.
func (a arguments) milliseconds() {
	if !a.has("timeout") {
		return
	}
	if v, ok := a.given["timeout"]; ok {
		if ms, ok := number(v); ok && a.tool == "bash" && ms >= 3600 && (a.inWords || a.find1("", "command") != "") {
			a.given["timeout"] = seconds(ms)
		}
		return
	}
	name := a.find1("", "timeoutms timeoutmillis timeoutmilliseconds")
	if ms, ok := number(a.given[name]); ok {
		delete(a.given, name)
		a.given["timeout"] = seconds(ms)
	}
}

func seconds(ms float64) json.Number {
	return json.Number(strings.TrimRight(strings.TrimRight(fmt.Sprintf("%.3f", ms/1000), "0"), "."))
}

// number returns a value as a number, which may be written as a string.
func number(v any) (float64, bool) {
	var n json.Number
	switch v := v.(type) {
	case json.Number:
		n = v
	case string:
		n = json.Number(strings.TrimSpace(v))
	}
	f, err := n.Float64()
	return f, err == nil && !math.IsInf(f, 0) && !math.IsNaN(f)
}

// whole returns a value as a whole number.
func whole(v any) (int64, bool) {
	f, ok := number(v)
	return int64(f), ok && f == math.Trunc(f) && math.Abs(f) < 1<<40
}

func integer(n int64) json.Number { return json.Number(fmt.Sprint(n)) }

// lines puts a range of lines into line and count. The tools of others count
// lines where ours counts bytes in offset.
func (a arguments) lines() {
	if _, given := a.given["count"]; given || !a.has("line") || !a.has("count") {
		return
	}
	_, line := a.given["line"]
	if n, ok := whole(a.given["offset"]); ok && n >= 0 && a.foreign && !line {
		delete(a.given, "offset")
		a.given["line"] = integer(max(n, 1))
	}
	first, last := a.listedRange()
	if first == 0 {
		first, last = a.namedRange()
	}
	if first == 0 {
		return
	}
	a.given["line"] = integer(first)
	if last >= first {
		a.given["count"] = integer(last - first + 1)
	}
}

// listedRange takes a range such as [first, last] out of the arguments. The last
// line may be -1, for the end.
func (a arguments) listedRange() (first, last int64) {
	name := a.find1("", "viewrange linerange range lines")
	list, ok := a.given[name].([]any)
	if text, isText := a.given[name].(string); isText { // "3-5"
		from, to, _ := strings.Cut(text, "-")
		list, ok = []any{from, to}, true
	}
	if !ok || len(list) != 2 {
		return 0, 0
	}
	first, ok1 := whole(list[0])
	last, ok2 := whole(list[1])
	if !ok1 || !ok2 || first < 0 {
		return 0, 0
	}
	delete(a.given, name)
	return max(first, 1), last
}

// namedRange takes a range out of the arguments that is given by the names of its
// ends. Without a last line there is none.
func (a arguments) namedRange() (first, last int64) {
	start := a.find1("line", words["download_file"]["line"])
	end := a.find1("", "endline endlineoneindexedinclusive lineend toline lastline end endlineoneindexed")
	last, ok := whole(a.given[end])
	if !ok {
		return 0, 0
	}
	if start != "" {
		if first, ok = whole(a.given[start]); !ok || first < 0 {
			return 0, 0
		}
	}
	delete(a.given, start)
	delete(a.given, end)
	return max(first, 1), last
}

// editor treats the commands of Anthropic's text editor.
func (a arguments) editor() error {
	command, _ := a.take("command").(string)
	switch command {
	case "view", "create", "str_replace", "":
		if command == "str_replace" && a.find1("new_text", words["edit_file"]["new_text"]) == "" {
			a.given["new_text"] = "" // it may be left out there
		}
		return nil
	case "insert":
		return errors.New("edit_file does not insert at a line: give the line there as old_text, and the line with the new ones as new_text")
	case "undo_edit":
		return errors.New("edit_file cannot undo: edit the file once more")
	}
	return fmt.Errorf("there is no command %.40q: use download_file, write_file or edit_file", command)
}
