// Package callsummary says in a line what a call of a tool does, for people. It
// knows the built-in tools by name. Arguments are a model's: they may be
// anything, so what it returns may contain any characters and is bounded.
package callsummary

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/x/pygent/internal/cut"
)

// Bounds of what is said of a call.
const (
	// MaxTitle is the longest title, in bytes.
	MaxTitle = 4 << 10
	// MaxPaths is the largest number of paths.
	MaxPaths = 100
	// maxArguments is how much of the arguments the title of an unknown tool's
	// call shows, in bytes, and maxValue how much of one of them.
	maxArguments = 200
	maxValue     = 60
)

// arguments are those of the built-in tools that say what a call does.
type arguments struct {
	Cmd, Cwd, Path, Dest, ID, Prompt, Persona, Message, Name string
	Background                                               bool
	TaskID                                                   string `json:"task_id"`
}

// Title returns the name of a tool as people write it: "Write file" for
// write_file.
func Title(tool string) string {
	return UpperFirst(strings.ReplaceAll(tool, "_", " "))
}

// UpperFirst returns words as they begin a sentence.
func UpperFirst(words string) string {
	first, size := utf8.DecodeRuneInString(words)
	if upper := unicode.ToUpper(first); upper != first {
		return string(upper) + words[size:]
	}
	return words
}

// Builtin describes a call of a built-in tool. The title is empty for a tool
// that it does not know, and for arguments that are no object.
func Builtin(tool string, args json.RawMessage) (title string, paths []string) {
	words := builtin[tool]
	var a arguments
	if words == nil || json.Unmarshal(args, &a) != nil {
		return "", nil
	}
	if a.Path != "" {
		paths = []string{a.Path}
	}
	if a.Dest != "" {
		paths = []string{a.Dest}
	}
	return Bound(words(a), paths)
}

// builtin has for each built-in tool what its calls do.
var builtin = map[string]func(arguments) string{
	"bash":                  command,
	"job_output":            func(a arguments) string { return "read the output of job " + a.ID },
	"job_list":              func(arguments) string { return "list the jobs" },
	"job_kill":              func(a arguments) string { return "end job " + a.ID },
	"write_file":            func(a arguments) string { return "write " + a.Path },
	"edit_file":             func(a arguments) string { return "edit " + a.Path },
	"download_file":         func(a arguments) string { return "read " + a.Path },
	"read_image":            func(a arguments) string { return "look at " + a.Path },
	"read_skill":            func(a arguments) string { return "read the skill " + a.Name },
	"continue":              func(a arguments) string { return "ask: " + a.Prompt },
	"stop":                  func(arguments) string { return "stop" },
	"delegate_task":         delegation,
	"delegate_persona_task": delegation,
	"list_personas":         func(arguments) string { return "list the personas" },
	"task_status":           status,
	"send_task":             func(a arguments) string { return fmt.Sprintf("tell task %s: %s", a.TaskID, a.Message) },
	"collect_file":          collection,
	"cancel_task":           func(a arguments) string { return "cancel task " + a.TaskID },
}

func command(a arguments) string {
	text := "$ " + strings.TrimSpace(a.Cmd)
	if a.Background {
		text += " &"
	}
	if a.Cwd != "" {
		return fmt.Sprintf("(in %s) %s", a.Cwd, text)
	}
	return text
}

func delegation(a arguments) string {
	if a.Persona != "" {
		return fmt.Sprintf("delegate to %s: %s", a.Persona, a.Prompt)
	}
	return "delegate: " + a.Prompt
}

func status(a arguments) string {
	if a.TaskID == "" {
		return "ask for the tasks' status"
	}
	return "ask for the status of task " + a.TaskID
}

func collection(a arguments) string {
	text := fmt.Sprintf("collect %s of task %s", a.Path, a.TaskID)
	if a.Dest != "" {
		text += " to " + a.Dest
	}
	return text
}

// Of describes a call of any tool. One that is not built in is described by the
// file that its argument path names, or else by its arguments: name key=value.
func Of(tool, args string) (title string, paths []string) {
	if title, paths = Builtin(tool, json.RawMessage(args)); title != "" {
		return title, paths
	}
	var a struct{ Path string }
	if json.Unmarshal([]byte(args), &a) == nil && a.Path != "" {
		return Bound(tool+" "+a.Path, []string{a.Path})
	}
	return Bound(strings.TrimSpace(tool+" "+pairs(args)), nil)
}

// Failure says shortly what a call was for that failed: its command with the exit code,
// or its file. It is empty if neither is known.
func Failure(tool, args string, exit int) string {
	const shown = 80
	var a arguments
	if json.Unmarshal([]byte(args), &a) != nil {
		return ""
	}
	line, _, more := strings.Cut(strings.TrimSpace(a.Cmd), "\n")
	if more {
		line += " …"
	}
	switch {
	case tool == "bash" && line != "":
		return fmt.Sprintf("`%s` (exit code %d)", cut.Head(line, shown), exit)
	case a.Path != "":
		return "`" + cut.Head(a.Path, shown) + "`"
	}
	return ""
}

// Bound shortens a title and a list of paths that are too long. The title it
// returns is valid UTF-8.
func Bound(title string, paths []string) (string, []string) {
	bounded := slices.Clone(paths[:min(len(paths), MaxPaths)])
	for i, p := range bounded {
		bounded[i] = cut.Head(p, MaxTitle)
	}
	return cut.Head(strings.ToValidUTF8(title, "\uFFFD"), MaxTitle), bounded
}
