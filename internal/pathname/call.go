package pathname

import "encoding/json"

// arguments names the arguments of tools that are paths of the workspace. The path of
// collect_file is one of another.
var arguments = map[string][]string{
	"bash":                  {"cwd"},
	"write_file":            {"path"},
	"edit_file":             {"path"},
	"download_file":         {"path"},
	"read_image":            {"path"},
	"collect_file":          {"dest"},
	"delegate_task":         {"files"},
	"delegate_persona_task": {"files"},
}

// InCall returns the arguments of a call of a built-in tool, as a JSON object, with the
// paths that read returns for those that are given. Of plain paths, nothing is asked.
func InCall(tool, args string, read func(given string) (string, error)) (string, error) {
	names := arguments[tool]
	if names == nil {
		return args, nil
	}
	var object map[string]json.RawMessage
	if json.Unmarshal([]byte(args), &object) != nil {
		return args, nil // the tool tells
	}
	changed := false
	for _, name := range names {
		value, differs, err := readValue(object[name], read)
		if err != nil {
			return args, err
		}
		if differs {
			object[name], changed = value, true
		}
	}
	if !changed {
		return args, nil
	}
	text, err := json.Marshal(object)
	return string(text), err
}

// readValue reads a path, or a list of them.
func readValue(value json.RawMessage, read func(string) (string, error)) (_ json.RawMessage, differs bool, err error) {
	var one string
	var list []string
	isList := json.Unmarshal(value, &one) != nil
	if isList && json.Unmarshal(value, &list) != nil || value == nil {
		return value, false, nil
	}
	if !isList {
		list = []string{one}
	}
	for i, given := range list {
		if IsPlain(given) {
			continue
		}
		name, err := read(given)
		if err != nil {
			return value, false, err
		}
		list[i], differs = name, differs || name != given
	}
	if isList {
		value, err = json.Marshal(list)
	} else {
		value, err = json.Marshal(list[0])
	}
	return value, differs, err
}
