package strict_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/testkit/strict"
)

// signed is a call with the signature that Gemini gave it.
var signed = strings.Replace(called, `"type":"function"`, `"extra_content":{"google":{"thought_signature":"x"}},"type":"function"`, 1)

func TestGemini(t *testing.T) {
	const bad, at = "INVALID_ARGUMENT", "tools[0].function_declarations[0]"
	const parameters = at + ".parameters"
	const a = parameters + ".properties[0].value"
	check(t, map[string]rule{
		"a tool":               {one(property(`{"type":"array","items":{"type":"string"},"description":"x"}`)), "", "", ""},
		"required":             {one(tool(`{"type":"object","properties":{"a":{"type":"string"}},"required":["a"]}`)), "", "", ""},
		"alternatives":         {one(property(`{"anyOf":[{"type":"string","enum":["x"]},{"type":"integer"}]}`)), "", "", ""},
		"closed object":        {one(tool(`{"type":"object","properties":{"a":{"type":"string"}},"additionalProperties":false}`)), `Unknown name "additionalProperties"`, bad, parameters},
		"free-form object":     {one(property(`{"type":"object"}`)), "should be non-empty for OBJECT type", bad, a + ".properties"},
		"enum of numbers":      {one(property(`{"type":"integer","enum":[1]}`)), "only allowed for STRING type", bad, a},
		"enum with nothing":    {one(property(`{"type":"string","enum":["a",""]}`)), "enum[1]: cannot be empty", bad, a},
		"branches and more":    {one(property(`{"description":"x","anyOf":[{"type":"string"}]}`)), "it must be the only field set", bad, a},
		"no parameters":        {one(`"tools":[{"type":"function","function":{"name":"f"}}]`), "", "", ""},
		"a conversation":       {chat([]string{`{"role":"system","content":"x"}`, user, signed, result, said}), "", "", ""},
		"an old call":          {chat([]string{user, called, result, said, user}), "", "", ""},
		"type list":            {one(property(`{"type":["null","array"],"items":{"type":"string"}}`)), `Unknown name "type" at '` + a + `': Proto field is not repeating, cannot start list.`, bad, a},
		"boolean schema":       {one(property(`true`)), "Invalid value at '" + a + "'", bad, a},
		"boolean items":        {one(property(`{"type":"array","items":true}`)), "Invalid value", bad, a + ".items"},
		"in a branch":          {one(property(`{"anyOf":[{"type":"string"},true]}`)), "Invalid value", bad, a + ".any_of[1]"},
		"const":                {one(property(`{"const":"x"}`)), `Unknown name "const"`, bad, a},
		"dialect":              {one(tool(`{"$schema":"x","type":"object","properties":{"a":{"type":"string"}}}`)), `Unknown name "$schema"`, bad, parameters},
		"empty properties":     {one(tool(`{"type":"object","properties":{}}`)), "should be non-empty for OBJECT type", bad, parameters + ".properties"},
		"no items":             {one(property(`{"type":"array"}`)), "items: missing field.", bad, a + ".items"},
		"required, not there":  {one(tool(`{"type":"object","properties":{"a":{"type":"string"}},"required":["b"]}`)), "required[0]: property is not defined", bad, parameters},
		"name of a digit":      {one(`"tools":[{"type":"function","function":{"name":"1f"}}]`), "Must start with a letter or an underscore", bad, at + ".name"},
		"one name twice":       {one(`"tools":[{"type":"function","function":{"name":"f"}},{"type":"function","function":{"name":"f"}}]`), "Duplicate function declaration found: f", bad, ""},
		"unknown parameter":    {one(`"seed":1`), `Unknown name "seed": Cannot find field.`, bad, ""},
		"no turn":              {chat([]string{`{"role":"system","content":"x"}`}), "contents is not specified", bad, "contents"},
		"call first":           {chat([]string{signed, result}), "function call turn comes immediately after a user turn", bad, ""},
		"call after an answer": {chat([]string{user, said, signed, result}), "function call turn comes immediately after a user turn", bad, ""},
		"no signature":         {chat([]string{user, called, result}), "function call `default_api:bash` , position 2", bad, ""},
	}, strict.Gemini)
}

func TestGeminiAnswersWithAList(t *testing.T) {
	req, _ := strict.Parse([]byte(one(property(`true`))), nil)
	b, err := json.Marshal(strict.Gemini(req).Body)
	require.NoError(t, err)
	var answer []struct {
		Error struct {
			Code    int
			Message string
			Status  string
			Details []struct{ FieldViolations []struct{ Field string } }
		}
	}
	require.NoError(t, json.Unmarshal(b, &answer))
	require.Len(t, answer, 1)
	require.Equal(t, 400, answer[0].Error.Code)
	require.Equal(t, "INVALID_ARGUMENT", answer[0].Error.Status)
	require.Contains(t, answer[0].Error.Details[0].FieldViolations[0].Field, "properties[0].value")
}

func TestMistral(t *testing.T) {
	say := func(messages ...string) string { return chat(messages) }
	const order = "invalid_request_message_order"
	rules := map[string]rule{
		"a conversation":      {say(`{"role":"system","content":"x"}`, user, called, result, said, user), "", "", ""},
		"result with a name":  {say(user, called, strings.Replace(result, `{`, `{"name":"bash",`, 1)), "", "", ""},
		"limit":               {one(`"max_tokens":5`), "", "", ""},
		"other limit":         {one(`"max_completion_tokens":5`), "Extra inputs are not permitted", "", "max_completion_tokens"},
		"name of a user":      {say(`{"role":"user","content":"x","name":"me"}`), "Extra inputs are not permitted", "", "name"},
		"reasoning":           {say(user, `{"role":"assistant","content":"x","reasoning_content":"y"}`, user), "Extra inputs are not permitted", "", "reasoning_content"},
		"user after result":   {say(user, called, result, user), "Unexpected role 'user' after role 'tool'", "3230", ""},
		"system after result": {say(user, called, result, `{"role":"system","content":"x"}`), "Unexpected role 'system' after role 'tool'", "3230", ""},
		"system after answer": {say(user, said, `{"role":"system","content":"x"}`), "Unexpected role 'system' after role 'assistant'", "3230", ""},
		"no result":           {say(user, called), "Not the same number of function calls and responses", "3230", ""},
		"ends with an answer": {say(user, said), "Expected last role User or Tool", "3230", ""},
		"ends with a prefix":  {say(user, `{"role":"assistant","content":"x","prefix":true}`), "", "", ""},
		"empty answer":        {say(user, `{"role":"assistant","content":""}`, user), "must have either content or tool_calls, but not none", "3240", ""},
		"id of others":        {say(user, strings.ReplaceAll(called, "call00001", "call_1"), strings.ReplaceAll(result, "call00001", "call_1")), "Tool call id was call_1 but must be", "3280", ""},
		"id of a result":      {say(user, called, strings.ReplaceAll(result, "call00001", "call_1")), "Tool call id was call_1 but must be", "3280", ""},
	}
	check(t, rules, strict.Mistral)

	req, _ := strict.Parse([]byte(rules["user after result"].body), nil)
	refusal := strict.Mistral(req)
	require.Equal(t, order, refusal.Type)
	b, err := json.Marshal(refusal.Body)
	require.NoError(t, err)
	require.JSONEq(t, `{"object":"error","message":"Unexpected role 'user' after role 'tool'","type":"invalid_request_message_order",
		"param":null,"code":"3230","raw_status_code":400}`, string(b))

	req, _ = strict.Parse([]byte(rules["name of a user"].body), nil)
	refusal = strict.Mistral(req)
	require.Equal(t, 422, refusal.Status)
	b, err = json.Marshal(refusal.Body)
	require.NoError(t, err)
	require.JSONEq(t, `{"object":"error","message":{"detail":[{"type":"extra_forbidden","loc":["body","messages",0,"user","name"],
		"msg":"Extra inputs are not permitted","input":"me"}]},"type":"invalid_request_error","param":null,"code":null}`, string(b))
}

func TestOllama(t *testing.T) {
	arguments := func(text string) string {
		return chat([]string{user, strings.Replace(called, `"{}"`, text, 1), result})
	}
	picture := func(url string) string {
		return chat([]string{`{"role":"user","content":[{"type":"text","text":"x"},{"type":"image_url","image_url":{"url":"` + url + `"}}]}`})
	}
	check(t, map[string]rule{
		"a tool":             {one(property(`{"type":["null","array"],"items":{}}`)), "", "", ""},
		"unknown parameter":  {one(`"max_completion_tokens":5,"x":1`), "", "", ""},
		"a conversation":     {chat([]string{user, called, result}), "", "", ""},
		"an image":           {picture("data:image/png;base64,iVBORw0KGgo="), "", "", ""},
		"boolean schema":     {one(property(`true`)), "cannot unmarshal bool into Go value of type api.ToolProperty", "", ""},
		"deep boolean":       {one(property(`{"type":"object","properties":{"b":false}}`)), "cannot unmarshal bool", "", ""},
		"boolean in branch":  {one(property(`{"anyOf":[true]}`)), "cannot unmarshal bool", "", ""},
		"type list":          {one(tool(`{"type":["object"],"properties":{}}`)), "cannot unmarshal array into Go struct field", "", ""},
		"no messages":        {chat(nil), "[] is too short - 'messages'", "", ""},
		"null":               {chat([]string{user, `{"role":"assistant","content":null}`}), "invalid message content type: <nil>", "", ""},
		"other part":         {chat([]string{`{"role":"user","content":[{"type":"input_text"}]}`}), "invalid message format", "", ""},
		"image of the web":   {picture("https://x/y.png"), "image URLs are not currently supported", "", ""},
		"image of no base64": {picture("data:image/png;base64,?"), "invalid image input", "", ""},
		"image of gif":       {picture("data:image/gif;base64,AA=="), "invalid image input", "", ""},
		"no tools, model":    {body("gemma3:12b", []string{user}, property(`{"type":"string"}`)), "registry.ollama.ai/library/gemma3:12b does not support tools", "", ""},
		"no tools, none":     {body("gemma3:12b", []string{user}), "", "", ""},
		"broken arguments":   {arguments(`"{"`), "invalid tool call arguments", "", ""},
		"arguments of text":  {arguments(`"\"x\""`), "invalid tool call arguments", "", ""},
	}, strict.Ollama)
	check(t, map[string]rule{
		"flat tool":      {`{"tools":[{"type":"function","name":"f","parameters":{"type":"object","properties":{"a":{}}}}]}`, "", "", ""},
		"boolean schema": {`{"tools":[{"type":"function","name":"f","parameters":{"type":"object","properties":{"a":true}}}]}`, "cannot unmarshal bool", "", ""},
	}, strict.OllamaResponses)
}

// A body of any shape is refused or accepted, and never makes a check panic.
func TestChecksBearAnything(t *testing.T) {
	values := []string{`null`, `true`, `7`, `"x"`, `[]`, `{}`, `[null,7,"x",[],{}]`, `[[[]]]`,
		`[{"role":"assistant","content":[7],"tool_calls":[7,{}]}]`, `[{"type":"function","function":7}]`,
		`[{"type":"function","function":{"name":"f","parameters":{"type":["object"],"properties":[],"required":{},"anyOf":7,"items":[]}}}]`}
	checks := []func(strict.Request) *strict.Refusal{
		strict.OpenAIChat, strict.Gemini, strict.Mistral, strict.Ollama, strict.OllamaResponses,
		func(r strict.Request) *strict.Refusal {
			return strict.OpenAIResponses(r, strict.Issued{
				Verified:  func(string) bool { return false },
				Reasoning: func(string) string { return "" },
			})
		},
	}
	for _, name := range []string{"model", "messages", "tools", "input", "include", "reasoning"} {
		for _, value := range values {
			req, refusal := strict.Parse([]byte(`{"model":"m","`+name+`":`+value+`}`), nil)
			require.Nil(t, refusal)
			for _, check := range checks {
				if refusal := check(req); refusal != nil {
					require.NotEmpty(t, refusal.Error())
					require.GreaterOrEqual(t, refusal.Status, 400)
				}
			}
		}
	}
}
