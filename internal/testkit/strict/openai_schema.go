package strict

import (
	"fmt"
	"slices"
	"strings"
)

// schemaTypes are the types of JSON Schema.
var schemaTypes = []string{"string", "number", "integer", "boolean", "object", "array", "null"}

// openAISchema checks the parameters of a function. The messages are quoted from
// evalstate/fast-agent#143 (properties), langchain-ai/langchainjs#9804 (the top
// level), sigoden/aichat#1049 (items) and chatanywhere/GPT_API_free#403 (type).
func openAISchema(param, function string, schema any, strictly bool) *Refusal {
	bad := func(format string, args ...any) *Refusal {
		return refuse(param, "invalid_function_parameters", "Invalid schema for function '%s': %s", function, fmt.Sprintf(format, args...))
	}
	root, ok := schema.(object)
	if !ok || root["type"] != "object" {
		return bad(`schema must be a JSON Schema of 'type: "object"', got 'type: %s'.`, rootType(root))
	}
	for _, name := range []string{"oneOf", "anyOf", "allOf", "enum", "not"} {
		if _, ok := root[name]; ok {
			return bad("schema must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level.")
		}
	}
	if _, ok := root["properties"].(object); !ok {
		return bad("In context=(), object schema missing properties.")
	}
	var found *Refusal
	walk(root, nil, func(path []string, s object) {
		if found != nil {
			return
		}
		if words := subschema(root, s); words != "" {
			found = bad("In context=%s, %s", context(path), words)
		} else if words := strictSubschema(s); strictly && words != "" {
			found = bad("In context=%s, %s", context(path), words)
		}
	})
	return found
}

func rootType(root object) string {
	if root["type"] == nil {
		return "null"
	}
	return fmt.Sprintf(`"%v"`, root["type"])
}

// subschema returns what is wrong with a schema at any depth, or "".
func subschema(root, s object) string {
	if t, ok := s["type"].(string); ok && !slices.Contains(schemaTypes, t) {
		return fmt.Sprintf("'%s' is not valid under any of the given schemas.", t)
	}
	if isType(s, "array") {
		if _, ok := s["items"]; !ok {
			return "array schema missing items."
		}
		if _, ok := s["items"].(object); !ok {
			return "array schema items is not an object."
		}
	}
	if ref := text(s["$ref"]); ref != "" && !resolves(root, ref) {
		return fmt.Sprintf("reference to component '%s' which was not found in the schema.", ref)
	}
	if required, ok := s["required"]; ok && required != nil {
		if _, ok := required.([]any); !ok {
			return fmt.Sprintf("%v is not of type 'array'.", required)
		}
	}
	return ""
}

// strictSubschema returns what the rules of strict functions refuse, or "" (the
// guide to structured outputs in OpenAI's reference).
func strictSubschema(s object) string {
	if !isType(s, "object") {
		return ""
	}
	if s["additionalProperties"] != false {
		return "'additionalProperties' is required to be supplied and to be false."
	}
	for _, name := range sorted(obj(s["properties"])) {
		if !slices.Contains(list(s["required"]), any(name)) {
			return fmt.Sprintf("'required' is required to be supplied and to be an array including every key in properties. Missing '%s'.", name)
		}
	}
	return ""
}

// isType reports whether a schema allows the type, alone or in a list.
func isType(s object, name string) bool {
	return s["type"] == name || slices.Contains(list(s["type"]), any(name))
}

// resolves reports whether a reference leads to something in the root.
func resolves(root object, ref string) bool {
	path, ok := strings.CutPrefix(ref, "#")
	if !ok {
		return false
	}
	var at any = root
	for _, name := range strings.Split(strings.Trim(path, "/"), "/") {
		if name == "" {
			continue
		}
		if at, ok = obj(at)[name]; !ok {
			return false
		}
	}
	return true
}

// context returns a path in the form of a Python tuple, as OpenAI prints it.
func context(path []string) string {
	quoted := make([]string, len(path))
	for i, p := range path {
		quoted[i] = "'" + p + "'"
	}
	if len(quoted) == 1 {
		return "(" + quoted[0] + ",)"
	}
	return "(" + strings.Join(quoted, ", ") + ")"
}

// walk visits a schema and the schemas in it, parents first.
func walk(s object, path []string, visit func(path []string, s object)) {
	visit(path, s)
	down := func(v any, names ...string) {
		if sub, ok := v.(object); ok {
			walk(sub, slices.Concat(path, names), visit)
		}
	}
	for _, key := range []string{"properties", "$defs", "definitions", "patternProperties"} {
		for _, name := range sorted(obj(s[key])) {
			down(obj(s[key])[name], key, name)
		}
	}
	for _, key := range []string{"items", "additionalProperties", "not"} {
		down(s[key], key)
	}
	for _, key := range []string{"anyOf", "oneOf", "allOf", "prefixItems"} {
		for i, sub := range list(s[key]) {
			down(sub, key, fmt.Sprint(i))
		}
	}
}
