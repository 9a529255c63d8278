package strict_test

import (
	"strings"
	"testing"

	"github.com/x/pygent/internal/testkit/strict"
)

// ask returns a body of the Responses API with these items and fields.
func ask(items []string, fields ...string) string {
	all := append([]string{`"model":"gpt-5.4"`, `"input":[` + strings.Join(items, ",") + `]`}, fields...)
	return "{" + strings.Join(all, ",") + "}"
}

func responsesRules(t *testing.T, rules map[string]rule) {
	t.Helper()
	check(t, rules, func(r strict.Request) *strict.Refusal {
		return strict.OpenAIResponses(r, strict.Issued{
			Verified:  func(content string) bool { return content == "secret" },
			Reasoning: func(id string) string { return map[string]string{"fc_after": "rs_1"}[id] },
		})
	})
}

const (
	call      = `{"type":"function_call","id":"fc_1","call_id":"c1","name":"bash","arguments":"{}"}`
	output    = `{"type":"function_call_output","call_id":"c1","output":"ok"}`
	reasoning = `{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"secret"}`
	written   = `{"type":"message","id":"msg_1","role":"assistant","status":"completed","content":[{"type":"output_text","text":"fine"}]}`
)

func TestOpenAIResponsesChecksParameters(t *testing.T) {
	asking := func(fields ...string) string { return ask([]string{user}, fields...) }
	flat := `"tools":[{"type":"function","name":"f","strict":false,"parameters":{"type":"object","properties":{}}}]`
	const missing = "missing_required_parameter"
	responsesRules(t, map[string]rule{
		"a text":            {`{"model":"m","input":"hi"}`, "", "", ""},
		"everything":        {asking(flat, `"store":false,"stream":true,"include":["reasoning.encrypted_content"],"max_output_tokens":16,"reasoning":{"effort":"low"}`), "", "", ""},
		"no model":          {`{"input":"hi"}`, "'model'", missing, "model"},
		"no input":          {`{"model":"m"}`, "'input'", missing, "input"},
		"an object":         {`{"model":"m","input":{}}`, "but got an object", "invalid_type", "input"},
		"messages":          {asking(`"messages":[]`), "Unknown parameter: 'messages'", "unknown_parameter", "messages"},
		"limit":             {asking(`"max_completion_tokens":5`), "Unknown parameter", "unknown_parameter", "max_completion_tokens"},
		"small limit":       {asking(`"max_output_tokens":5`), "Expected a value >= 16, but got 5", "integer_below_min_value", "max_output_tokens"},
		"effort":            {asking(`"reasoning_effort":"low"`), "Unknown parameter", "unknown_parameter", "reasoning_effort"},
		"minimal effort":    {asking(`"reasoning":{"effort":"minimal"}`), "not supported with the 'gpt-5.4' model", "unsupported_value", "reasoning.effort"},
		"stored":            {asking(`"previous_response_id":"resp_1"`), "'resp_1' not found", "previous_response_not_found", "previous_response_id"},
		"other include":     {asking(`"include":["x"]`), "Invalid value: 'x'", "invalid_value", "include[0]"},
		"nested tool":       {asking(`"tools":[{"type":"function","function":{"name":"f"}}]`), "'tools[0].name'", missing, "tools[0].name"},
		"no properties":     {asking(`"tools":[{"type":"function","name":"f","parameters":{"type":"object"}}]`), "object schema missing properties", "invalid_function_parameters", "tools[0].parameters"},
		"strict":            {asking(`"tools":[{"type":"function","name":"f","strict":true,"parameters":{"type":"object","properties":{}}}]`), "'additionalProperties' is required", "invalid_function_parameters", "tools[0].parameters"},
		"other tool":        {asking(`"tools":[{"type":"x"}]`), "Invalid value: 'x'", "invalid_value", "tools[0].type"},
		"tool of no type":   {asking(`"tools":[{"name":"f"}]`), "Missing", missing, "tools[0].type"},
		"parallel, no tool": {asking(`"parallel_tool_calls":true`), "only allowed when 'tools'", "", "parallel_tool_calls"},
	})
}

func TestOpenAIResponsesChecksItems(t *testing.T) {
	items := func(items ...string) string { return ask(items, `"store":false`) }
	const missing, first = "missing_required_parameter", "input[0]"
	picture := `{"type":"input_image","image_url":"data:image/png;base64,iVBORw0KGgo="}`
	responsesRules(t, map[string]rule{
		"a conversation":        {items(user, reasoning, written, call, output, user), "", "", ""},
		"an image":              {items(`{"role":"user","content":[{"type":"input_text","text":"x"},` + picture + `]}`), "", "", ""},
		"an image in an output": {items(user, call, `{"type":"function_call_output","call_id":"c1","output":[`+picture+`]}`), "", "", ""},
		"a tool message":        {items(`{"role":"tool","content":"x"}`), "Invalid value: 'tool'", "invalid_value", first + ".role"},
		"other item":            {items(`{"type":"x"}`), "Invalid value: 'x'", "invalid_value", first},
		"unknown field":         {items(`{"role":"user","content":"x","name":"me"}`), "Unknown parameter: 'input[0].name'", "unknown_parameter", first + ".name"},
		"no content":            {items(`{"role":"user"}`), "Missing", missing, first + ".content"},
		"a number":              {items(`{"role":"user","content":7}`), "but got a number", "invalid_type", first + ".content"},
		"text of chat":          {items(`{"role":"user","content":[{"type":"text","text":"x"}]}`), "Invalid value: 'text'", "invalid_value", first + ".content[0]"},
		"input of the model":    {items(`{"role":"assistant","content":[{"type":"input_text","text":"x"}]}`), "Supported values are: 'output_text', 'refusal'", "invalid_value", first + ".content[0]"},
		"a file":                {items(`{"role":"user","content":[{"type":"input_file","filename":"a.pdf","file_data":"data:application/pdf;base64,AAAA"}]}`), "", "", ""},
		"a file of nothing":     {items(`{"role":"user","content":[{"type":"input_file"}]}`), "Missing", missing, first + ".content[0].file_id"},
		"a file of text":        {items(`{"role":"user","content":[{"type":"input_file","filename":"a.md","file_data":"data:text/plain;base64,AAAA"}]}`), "not supported. Please try again with a pdf", "invalid_value", first + ".content[0]"},
		"image as object":       {items(`{"role":"user","content":[{"type":"input_image","image_url":{"url":"http://x"}}]}`), "but got an object", "invalid_type", first + ".content[0].image_url"},
		"image of svg":          {items(`{"role":"user","content":[{"type":"input_image","image_url":"data:image/svg+xml;base64,AA=="}]}`), "does not represent a valid image", "invalid_value", "input"},
		"id of a message":       {items(strings.Replace(written, "msg_1", "item_1", 1)), "Expected an ID that begins with 'msg'", "invalid_value", first + ".id"},
		"id of a call":          {items(strings.Replace(call, "fc_1", "call_1", 1), output), "begins with 'fc'", "invalid_value", first + ".id"},
		"call of no name":       {items(strings.Replace(call, `"bash"`, `""`, 1), output), "empty string", "empty_string", first + ".name"},
		"call of no id":         {items(`{"type":"function_call","name":"f","arguments":""}`), "Missing", missing, first + ".call_id"},
		"call of an empty id":   {items(`{"type":"function_call","call_id":"","name":"f","arguments":""}`), "empty string", "empty_string", first + ".call_id"},
		"call of a long id":     {items(`{"type":"function_call","call_id":"` + strings.Repeat("a", 65) + `","name":"f","arguments":""}`), "maximum length 64", "string_above_max_length", first + ".call_id"},
		"no arguments":          {items(`{"type":"function_call","call_id":"c1","name":"f"}`, output), "Missing", missing, first + ".arguments"},
		"arguments of object":   {items(`{"type":"function_call","call_id":"c1","name":"f","arguments":{}}`, output), "expected a string", "invalid_type", first + ".arguments"},
		"no output":             {items(user, call), "No tool output found for function call c1.", "", "input"},
		"output of no call":     {items(user, output), "No tool call found for function call output with call_id c1.", "", "input"},
		"output of nothing":     {items(call, `{"type":"function_call_output","call_id":"c1"}`), "Missing", missing, "input[1].output"},
		"reasoning at the end":  {items(user, reasoning), "Item 'rs_1' of type 'reasoning' was provided without its required following item.", "", "input"},
		"reasoning of nobody":   {items(reasoning, user), "without its required following item", "", "input"},
		"reasoning not stored":  {items(`{"type":"reasoning","id":"rs_1","summary":[]}`, written), "Items are not persisted when `store` is set to false", "", "input"},
		"reasoning of others":   {items(strings.Replace(reasoning, "secret", "guessed", 1), written), "The encrypted content gues...ssed could not be verified", "invalid_encrypted_content", ""},
		"call with its cause":   {items(user, reasoning, strings.Replace(call, "fc_1", "fc_after", 1), output), "", "", ""},
		"call, no reasoning":    {items(user, strings.Replace(call, "fc_1", "fc_after", 1), output), "'fc_after' of type 'function_call' was provided without its required 'reasoning' item: 'rs_1'.", "", "input"},
		"open reasoning":        {items(strings.Replace(reasoning, `"summary":[]`, `"summary":[],"content":[{"type":"reasoning_text","text":"x"}]`, 1), written), "'input[0].content': array too long", "array_above_max_length", first + ".content"},
		"reasoning, no summary": {items(strings.Replace(reasoning, `"summary":[],`, "", 1), written), "Missing", missing, first + ".summary"},
	})
}
