package strict

import (
	"fmt"
	"regexp"
	"unicode/utf8"
)

const (
	maxTools       = 128
	maxName        = 64
	maxDescription = 1024
	maxCallID      = 40
)

var namePattern = regexp.MustCompile(`^[a-zA-Z0-9_-]+$`)

// toolList checks the list of tools, and the parameters that require one.
func (r Request) toolList(tool func(at string, t object) *Refusal) *Refusal {
	given, ok := r.fields["tools"]
	if !ok {
		return r.withoutTools()
	}
	tools, ok := given.([]any)
	switch {
	case !ok:
		return wrongType("tools", "an array of objects", given)
	case len(tools) == 0:
		return emptyArray("tools")
	case len(tools) > maxTools:
		return refuse("tools", "array_above_max_length",
			"Invalid 'tools': array too long. Expected an array with maximum length %d, but got an array with length %d instead.", maxTools, len(tools))
	}
	for i, t := range tools {
		at := fmt.Sprintf("tools[%d]", i)
		o, ok := t.(object)
		if !ok {
			return wrongType(at, "an object", t)
		}
		if found := tool(at, o); found != nil {
			return found
		}
	}
	return nil
}

// withoutTools refuses parameters that require tools (Upsonic/Upsonic#323).
func (r Request) withoutTools() *Refusal {
	for _, name := range []string{"tool_choice", "parallel_tool_calls"} {
		if has(r.fields, name) {
			return refuse(name, "", "Invalid value for '%[1]s': '%[1]s' is only allowed when 'tools' are specified.", name)
		}
	}
	return nil
}

// chatTool checks a tool of a chat completion.
func chatTool(at string, t object) *Refusal {
	switch {
	case !has(t, "type"):
		return missing(at + ".type")
	case t["type"] != "function":
		return refuse(at+".type", "invalid_value", "Invalid value: '%v'. Supported values are: 'function' and 'custom'.", t["type"])
	case !has(t, "function"):
		return missing(at + ".function")
	}
	function, ok := t["function"].(object)
	if !ok {
		return wrongType(at+".function", "an object", t["function"])
	}
	return first(
		func() *Refusal { return unknown(at+".", t, "type", "function") },
		func() *Refusal {
			return unknown(at+".function.", function, "name", "description", "parameters", "strict")
		},
		func() *Refusal { return functionOf(at+".function", function) },
	)
}

// responsesTool checks a tool of the Responses API, which has no object
// "function" around its fields. OpenAI says of a tool with one that its name is
// missing (crewAIInc/crewAI#6657).
func responsesTool(at string, t object) *Refusal {
	switch {
	case !has(t, "type"):
		return missing(at + ".type")
	case t["type"] != "function":
		return refuse(at+".type", "invalid_value", "Invalid value: '%v'. Supported values are: 'function' and others that pygent does not use.", t["type"])
	case !has(t, "name"):
		return missing(at + ".name")
	}
	return first(
		func() *Refusal { return unknown(at+".", t, "type", "name", "description", "parameters", "strict") },
		func() *Refusal { return functionOf(at, t) },
	)
}

// functionOf checks the fields that both forms of a function have.
func functionOf(at string, f object) *Refusal {
	name, ok := f["name"].(string)
	if !ok {
		if !has(f, "name") {
			return missing(at + ".name")
		}
		return wrongType(at+".name", "a string", f["name"])
	}
	if found := functionName(at+".name", name); found != nil {
		return found
	}
	if n := utf8.RuneCountInString(text(f["description"])); n > maxDescription {
		return tooLong(at+".description", maxDescription, n)
	}
	if !has(f, "parameters") {
		return nil // a function without arguments: huggingface/huggingface_hub#3214
	}
	return openAISchema(at+".parameters", name, f["parameters"], f["strict"] == true)
}

func functionName(param, name string) *Refusal {
	switch {
	case name == "":
		return refuse(param, "empty_string",
			"Invalid '%s': empty string. Expected a string with minimum length 1, but got an empty string instead.", param)
	case len(name) > maxName:
		return tooLong(param, maxName, len(name))
	case !namePattern.MatchString(name):
		return refuse(param, "invalid_value",
			"Invalid '%s': string does not match pattern. Expected a string that matches the pattern '%s'.", param, namePattern)
	}
	return nil
}

func tooLong(param string, limit, length int) *Refusal {
	return refuse(param, "string_above_max_length",
		"Invalid '%s': string too long. Expected a string with maximum length %d, but got a string with length %d instead.", param, limit, length)
}
