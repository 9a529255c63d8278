// Package callset reads a call that stands for several calls of our tools. Models write
// such calls because other agents have tools for them: apply_patch and its like change
// several files at once, multi_tool_use.parallel holds calls of other tools, and
// read_many_files names several files. A patch in the place of the texts that our tools want
// is one as well.
//
// A patch becomes a call of edit_file for each file that it changes, of write_file for
// each that it creates, and a command for each that it removes or renames. So whatever
// holds for those calls (approvals, hooks, paths, encodings, checkpoints, what people
// see) holds for each file of a patch. A patch is planned before any of it is done:
// [Set.Calls] finds the place of every hunk first. If one has none, nothing is done but
// the edit that fails, which says what comes nearest.
//
// The grammar of patches is the one that OpenAI documents for its models: see
// codex-rs/apply-patch/src/parser.rs and invocation.rs of github.com/openai/codex, also
// for the ways in which models type a patch into a shell. The blocks of SEARCH and REPLACE
// are those of aider (aider/coders/editblock_coder.py of github.com/Aider-AI/aider), Cline
// and Roo Code. Unified diffs are read as well.
package callset

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/x/pygent/internal/edit"
	"github.com/x/pygent/internal/jsonobj"
	"github.com/x/pygent/internal/toolcall"
)

// Call is a call of one tool.
type Call struct{ Name, Arguments string }

// Set is what a call stands for.
type Set struct {
	// Together says that the calls are done together or not at all.
	Together bool

	calls []Call // of what needs no plan
	files []file // of a patch
	dir   string // in which the paths of a patch begin; empty for the workspace
	after []Call // what follows a patch

	instead *Call // of a patch that cannot be applied; nil for none

	// taken is the edit whose old texts are the patch, and removed are these texts: a file
	// that holds them is to have them no more.
	taken   Call
	removed []string
}

// maxCalls is how many calls one can stand for.
const maxCalls = 100

// The tools of other agents, folded, that are read here.
const (
	patches  = "applypatch applydiff patch"
	bundles  = "parallel batch multitooluse"
	readers  = "readmanyfiles readfiles readmultiplefiles"
	inserts  = "insert insertcontent insertline insertlines insertatline"
	diffArgs = "diff patch input patchtext"
)

// Of returns what a call stands for: nil if it is what it seems. tool is the built-in tool
// of ours that it means, or "" if it means none, name is what the model called, and
// arguments are those of the tool, or the model's own where they do not fit it.
func Of(tool, name, arguments string) (*Set, error) {
	folded := toolcall.Fold(toolcall.Bare(name))
	switch {
	case tool == "bash":
		return inBash(arguments)
	case tool == "edit_file":
		return inEdit(arguments)
	case tool == "write_file":
		return ofWhole(arguments)
	case tool != "":
		return nil, nil
	case isOneOf(folded, patches):
		return ofPatch(arguments)
	case isOneOf(folded, bundles):
		return ofBundle(arguments)
	case isOneOf(folded, readers):
		return ofReader(arguments)
	case isOneOf(folded, inserts):
		if given, err := object(arguments); err == nil {
			return ofInsertion(given)
		}
	}
	return nil, nil
}

func isOneOf(folded, names string) bool { return slices.Contains(strings.Fields(names), folded) }

// object reads arguments as a JSON object, also one that is almost right.
func object(arguments string) (map[string]json.RawMessage, error) {
	var given map[string]json.RawMessage
	fixed, unclosed, err := jsonobj.RepairObject(arguments)
	if err == nil && unclosed {
		err = errors.New("the arguments are cut off")
	}
	if err == nil {
		err = json.Unmarshal([]byte(fixed), &given)
	}
	return given, err
}

// text returns the first parameter with one of the names, folded, that is a text.
func text(given map[string]json.RawMessage, names string) (value string, ok bool) {
	for name := range strings.FieldsSeq(names) {
		for own, raw := range given {
			if toolcall.Fold(own) == name && json.Unmarshal(raw, &value) == nil {
				return value, true
			}
		}
	}
	return "", false
}

const pathNames = "path filepath file filename targetfile"

// ofPatch reads the call of a tool that applies a patch. The patch is the only argument, or
// the arguments are no JSON but the patch: some servers pass it on as the model wrote it.
func ofPatch(arguments string) (*Set, error) {
	given, err := object(arguments)
	patch, ok := text(given, diffArgs+" content command cmd")
	if list := words(given["command"]); !ok && len(list) > 0 {
		patch, ok = list[len(list)-1], true
	}
	if err != nil || len(given) == 0 {
		patch, ok = arguments, strings.Contains(arguments, begin)
		var quoted string
		if json.Unmarshal([]byte(arguments), &quoted) == nil {
			patch, ok = quoted, true
		}
	}
	if !ok {
		return nil, fmt.Errorf("the patch is missing: give it as input, from %q to %q", begin, end)
	}
	if dir, inner, after, ok := inCommand(patch); ok { // the whole command
		if strings.TrimSpace(after) != "" {
			return nil, errors.New("the patch is followed by something else: give only the patch, and run commands with bash")
		}
		return newPatch(inner, dir, "")
	}
	name, _ := text(given, pathNames)
	return newPatch(patch, "", name)
}

func words(raw json.RawMessage) (list []string) {
	if json.Unmarshal(raw, &list) != nil {
		return nil
	}
	return list
}

func newPatch(patch, dir, name string) (*Set, error) {
	files, err := parse(patch, name)
	if err != nil {
		return nil, fmt.Errorf("%w; nothing was changed", err)
	}
	atPath(name, files)
	return &Set{Together: true, files: files, dir: dir}, nil
}

// inBash reads a command that applies a patch, as models write it that know a program for
// it. A command behind the patch is run after it.
func inBash(arguments string) (*Set, error) {
	var given map[string]json.RawMessage
	var cmd, cwd string
	if !strings.Contains(arguments, begin) || json.Unmarshal([]byte(arguments), &given) != nil ||
		json.Unmarshal(given["cmd"], &cmd) != nil {
		return nil, nil
	}
	if raw, ok := given["cwd"]; ok && json.Unmarshal(raw, &cwd) != nil {
		return nil, nil
	}
	dir, patch, after, ok := inCommand(cmd)
	if !ok {
		return nil, nil
	}
	set, err := newPatch(patch, join(cwd, dir), "")
	if err != nil || strings.TrimSpace(after) == "" {
		return set, err
	}
	if _, _, _, again := inCommand(after); again {
		return nil, errors.New("the command applies several patches: put them into one, from *** Begin Patch to *** End Patch; nothing was changed")
	}
	given["cmd"] = value(strings.TrimSpace(after))
	if dir != "" {
		given["cwd"] = value(join(cwd, dir))
	}
	set.after = []Call{{"bash", string(value(given))}}
	return set, nil
}

// value returns a value as JSON. All that come here have a JSON form.
func value(v any) json.RawMessage {
	raw, _ := json.Marshal(v)
	return raw
}

// call returns a call of a tool.
func call(tool string, arguments map[string]any) Call { return Call{tool, string(value(arguments))} }

// inEdit reads a call of edit_file, or of another agent's tool for it, that gives a diff,
// a patch in the place of texts, inserts at a line, or makes a new file by replacing nothing.
func inEdit(arguments string) (*Set, error) {
	given, err := object(arguments)
	if err != nil {
		return nil, nil // the tool tells
	}
	if command, _ := text(given, "command"); command == "insert" {
		return ofInsertion(given)
	}
	name, named := text(given, pathNames)
	if diff, ok := text(given, diffArgs); ok {
		return newPatch(diff, "", name)
	}
	if patch, ok := inEdits(given); ok && named {
		if files, _, err := ofItself(name, patch); err != nil || len(files) > 0 {
			set, err := newPatch(patch, "", name)
			if err == nil {
				set.taken, set.removed = Call{"edit_file", arguments}, oldTexts(given)
			}
			return set, err
		} // else the file is to have a patch, or to have one no more
	}
	old, given1 := text(given, "oldtext")
	content, ok := text(given, "newtext")
	if !named || !ok || old != "" || content == "" || given["edits"] != nil || !given1 {
		return nil, nil
	}
	return &Set{Together: true, files: []file{{path: name, kind: update, hunks: []hunk{{replace: &edit.Edit{New: content}}}}}}, nil
}

// ofInsertion reads a call that inserts lines. Anthropic's editor inserts after a line,
// Roo Code's insert_content before one, of which 0 is the end.
func ofInsertion(given map[string]json.RawMessage) (*Set, error) {
	name, named := text(given, pathNames)
	inserted, ok := text(given, "newstr inserttext text content newtext lines")
	var after int
	found := false
	for _, c := range []struct {
		name string
		less int
	}{{"insertline", 0}, {"afterline", 0}, {"line", 1}, {"linenumber", 1}, {"startline", 1}} {
		for own, raw := range given {
			if !found && toolcall.Fold(own) == c.name && json.Unmarshal([]byte(strings.Trim(string(raw), `"`)), &after) == nil {
				after, found = after-c.less, true
			}
		}
	}
	if !named || !ok || !found || after < -1 {
		return nil, errors.New("to insert lines, give path, insert_line (the number of the line after which they come) and new_str; or use edit_file")
	}
	return &Set{Together: true, files: []file{{path: name, kind: update, hunks: []hunk{{insert: true, near: after, lines: added(inserted)}}}}}, nil
}

// added returns the lines of a text as those of a hunk that adds them.
func added(text string) (lines []line) {
	for part := range strings.SplitSeq(strings.TrimSuffix(text, "\n"), "\n") {
		lines = append(lines, line{'+', part})
	}
	return lines
}

// ofBundle reads a call that holds others, such as OpenAI's multi_tool_use.parallel:
// {"tool_uses":[{"recipient_name":"functions.bash","parameters":{…}}]}.
func ofBundle(arguments string) (*Set, error) {
	given, err := object(arguments)
	var uses []map[string]json.RawMessage
	for name, raw := range given {
		if isOneOf(toolcall.Fold(name), "tooluses toolcalls calls invocations") && err == nil {
			err = json.Unmarshal(raw, &uses)
		}
	}
	if err != nil || len(uses) == 0 {
		return nil, errors.New("calls are made beside each other here: put several calls into one answer")
	}
	if len(uses) > maxCalls {
		return nil, fmt.Errorf("%d calls are too many for one: at most %d", len(uses), maxCalls)
	}
	set := &Set{}
	for i, use := range uses {
		name, ok := text(use, "recipientname toolname tool name")
		if !ok {
			return nil, fmt.Errorf("call %d of %d has no recipient_name", i+1, len(uses))
		}
		args := "{}"
		for own, raw := range use {
			if isOneOf(toolcall.Fold(own), "parameters arguments args input") {
				args = string(raw)
			}
		}
		set.calls = append(set.calls, Call{name, args})
	}
	return set, nil
}

// ofReader reads a call that reads several files.
func ofReader(arguments string) (*Set, error) {
	given, err := object(arguments)
	set := &Set{}
	for name, raw := range given {
		var files []json.RawMessage
		if err != nil || !isOneOf(toolcall.Fold(name), "paths files filepaths filenames") || json.Unmarshal(raw, &files) != nil {
			continue
		}
		for _, f := range files {
			var name string
			if json.Unmarshal(f, &name) == nil {
				f = value(map[string]string{"path": name})
			}
			set.calls = append(set.calls, Call{"read_file", string(f)})
		}
	}
	if len(set.calls) == 0 || len(set.calls) > maxCalls {
		return nil, fmt.Errorf("give paths, a list of 1 to %d files", maxCalls)
	}
	return set, nil
}
