package pygent

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path"
	"strings"
)

// String renders a command with its directory, for who decides about it.
func (in bashInput) String() string {
	command := "$ " + strings.TrimSpace(in.Cmd)
	if in.Cwd != "" {
		return fmt.Sprintf("(in %q) %s", in.Cwd, command)
	}
	return command
}

// commandIn returns what a call of bash runs; false for any other call.
func commandIn(call ToolCall) (in bashInput, ok bool) {
	ok = call.Name == "bash" && json.Unmarshal([]byte(call.Arguments), &in) == nil
	return in, ok
}

// fileChange is what a call does to a file of the workspace.
type fileChange struct {
	tool string
	path string // clean
	what string // the new content, or the difference
}

// title names the file and what changes it, for who decides about it.
func (c fileChange) title() string { return fmt.Sprintf("%s %q", c.tool, c.path) }

// changeIn returns what a call does to a file; false for one that does not.
func changeIn(call ToolCall) (fileChange, bool) {
	var name, what string
	var err error
	switch call.Name {
	case "write_file":
		var in writeInput
		err = json.Unmarshal([]byte(call.Arguments), &in)
		name, what = in.Path, in.Content
	case "edit_file":
		var in editInput
		err = json.Unmarshal([]byte(call.Arguments), &in)
		name, what = in.Path, prefixLines("- ", in.OldText)+"\n"+prefixLines("+ ", in.NewText)
	case "collect_file":
		var in collectInput
		err = json.Unmarshal([]byte(call.Arguments), &in)
		name, what = cmp.Or(in.Dest, in.Path), fmt.Sprintf("from task %q: %q", in.TaskID, in.Path)
	default:
		return fileChange{}, false
	}
	return fileChange{tool: call.Name, path: path.Clean(name), what: what}, err == nil
}

func prefixLines(prefix, text string) string {
	return prefix + strings.ReplaceAll(text, "\n", "\n"+prefix)
}
