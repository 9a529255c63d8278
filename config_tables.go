package pygent

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
)

// asMounts takes "source:target[:ro]", or tables in a file.
func asMounts(v any) ([]Mount, error) {
	if t, ok := v.(text); ok {
		parts := split(string(t), ',')
		list := make([]any, len(parts))
		for i, part := range parts {
			list[i] = part
		}
		v = list
	}
	list, ok := v.([]any)
	if !ok {
		return nil, want("an array of mounts", v)
	}
	mounts := make([]Mount, 0, len(list))
	for i, item := range list {
		m, err := asMount(item)
		if err != nil {
			return nil, at(fmt.Sprintf("[%d]", i), err)
		}
		mounts = append(mounts, m)
	}
	return mounts, nil
}

func asMount(v any) (Mount, error) {
	const what = `"source:target" or "source:target:ro", or a table with source, target and read_only; target is absolute`
	var m Mount
	switch v := v.(type) {
	case string:
		// Cut from the right: a source on Windows starts with a drive.
		rest, readOnly := strings.CutSuffix(v, ":ro")
		if !readOnly {
			rest = strings.TrimSuffix(v, ":rw")
		}
		i := strings.LastIndexByte(rest, ':')
		if i < 0 {
			return m, want(what, v)
		}
		m = Mount{Source: rest[:i], Target: rest[i+1:], ReadOnly: readOnly}
	case map[string]any:
		err := fields(v, map[string]func(any) error{
			"source":    into(asString, &m.Source),
			"target":    into(asString, &m.Target),
			"read_only": into(asBool, &m.ReadOnly),
		})
		if err != nil {
			return m, err
		}
	default:
		return m, want(what, v)
	}
	if m.Source == "" || !path.IsAbs(m.Target) {
		return m, want(what, v)
	}
	return m, nil
}

// asPersonas takes names, or tables with name and description.
func asPersonas(v any) ([]Persona, error) {
	switch t := v.(type) {
	case text:
		return personasNamed(split(string(t), ',', os.PathListSeparator)), nil
	case string:
		return personasNamed([]string{t}), nil
	}
	list, ok := v.([]any)
	if !ok {
		return nil, want("an array of personas, each a name or a table with name and description", v)
	}
	personas := make([]Persona, 0, len(list))
	for i, item := range list {
		p, err := asPersona(item)
		if err != nil {
			return nil, at(fmt.Sprintf("[%d]", i), err)
		}
		personas = append(personas, p)
	}
	return personas, nil
}

func personasNamed(names []string) []Persona {
	personas := make([]Persona, len(names))
	for i, name := range names {
		personas[i].Name = name
	}
	return personas
}

func asPersona(v any) (Persona, error) {
	var p Persona
	switch v := v.(type) {
	case string:
		p.Name = v
	case map[string]any:
		err := fields(v, map[string]func(any) error{
			"name":        into(asString, &p.Name),
			"description": into(asString, &p.Description),
		})
		if err != nil {
			return p, err
		}
	}
	if p.Name == "" {
		return p, want("a persona: a name, or a table with name and description", v)
	}
	return p, nil
}

func asPersonasJSON(v any) ([]Persona, error) {
	const what = `a JSON array of objects with "name" and "description"`
	s, _ := v.(text)
	var list []any
	if json.Unmarshal([]byte(s), &list) != nil {
		return nil, want(what, v)
	}
	personas, err := asPersonas(list)
	if err != nil {
		return nil, want(what, v)
	}
	return personas, nil
}

// asObject takes a table, or a JSON object as text.
func asObject(v any) (map[string]any, error) {
	const what = "a table of JSON values"
	object, ok := v.(map[string]any)
	if t, isText := v.(text); isText {
		if json.Unmarshal([]byte(t), &object) != nil || object == nil {
			return nil, want("a JSON object", v)
		}
		return object, nil
	}
	if !ok {
		return nil, want(what, v)
	}
	// TOML has numbers that JSON has not: inf and nan.
	if _, err := json.Marshal(object); err != nil {
		return nil, want(what, v)
	}
	return object, nil
}

// asHeaders takes a table of strings, or a JSON object of strings as text.
func asHeaders(v any) (map[string]Secret, error) {
	object, err := asObject(v)
	if err != nil {
		return nil, err
	}
	headers := make(map[string]Secret, len(object))
	for name, value := range object {
		s, ok := value.(string)
		if !ok || name == "" || strings.ContainsAny(name, " :\r\n\t") || strings.ContainsAny(s, "\r\n\x00") {
			return nil, at("."+quoteKey(name), want("header names with a string each, in one line", value))
		}
		headers[name] = Secret(s)
	}
	return headers, nil
}

// asEnv takes a table of strings, named like variables and not like ours.
func asEnv(v any) (map[string]Secret, error) {
	object, ok := v.(map[string]any)
	if !ok {
		return nil, want("a table of strings", v)
	}
	env := make(map[string]Secret, len(object))
	for name, value := range object {
		s, ok := value.(string)
		if !ok || strings.ContainsRune(s, 0) {
			return nil, at("."+quoteKey(name), want("a string", value))
		}
		if !isEnvName(name) || isOurs(name) {
			return nil, at("."+quoteKey(name), want("the name of a command's variable: letters, digits and underscores, not OPENAI_… or PYGENT_…", name))
		}
		env[name] = Secret(s)
	}
	return env, nil
}

// fields applies each entry of a small table with a fixed set of names.
func fields(table map[string]any, known map[string]func(any) error) error {
	for _, name := range slices.Sorted(maps.Keys(table)) {
		set, ok := known[name]
		if !ok {
			reason := "unknown key; a table here has " + strings.Join(slices.Sorted(maps.Keys(known)), ", ")
			return &valueError{path: "." + quoteKey(name), reason: reason, field: name}
		}
		if err := set(table[name]); err != nil {
			return at("."+quoteKey(name), err)
		}
	}
	return nil
}

// into makes of a parser and a place what [fields] calls.
func into[T any](parse func(any) (T, error), place *T) func(any) error {
	return func(v any) error {
		parsed, err := parse(v)
		*place = parsed
		return err
	}
}
