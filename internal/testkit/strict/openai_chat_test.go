package strict_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/testkit/strict"
)

func TestParseRefusesWhatIsNoObject(t *testing.T) {
	for _, text := range []string{"", "{", "[]", "null", `"x"`} {
		_, refusal := strict.Parse([]byte(text), nil)
		require.NotNil(t, refusal, text)
		require.Equal(t, 400, refusal.Status)
	}
}

func TestOpenAIChatChecksParameters(t *testing.T) {
	check(t, map[string]rule{
		"plain":                          {one(), "", "", ""},
		"options":                        {one(`"temperature":1,"stream":true,"stream_options":{"include_usage":true},"max_tokens":5`), "", "", ""},
		"no model":                       {`{"messages":[` + user + `]}`, "you must provide a model parameter", "", ""},
		"unknown field":                  {one(`"thinking":{}`), "Unknown parameter: 'thinking'.", "unknown_parameter", "thinking"},
		"stream options alone":           {one(`"stream_options":{}`), "only allowed when 'stream' is enabled", "", "stream_options"},
		"both limits":                    {one(`"max_tokens":1,"max_completion_tokens":1`), "at the same time", "invalid_parameter_combination", "max_tokens"},
		"parallel calls without tools":   {one(`"parallel_tool_calls":true`), "only allowed when 'tools' are specified", "", "parallel_tool_calls"},
		"a choice of tool without tools": {one(`"tool_choice":"auto"`), "only allowed when 'tools' are specified", "", "tool_choice"},
	}, strict.OpenAIChat)
}

func TestOpenAIChatChecksModels(t *testing.T) {
	tools := property(`{"type":"string"}`)
	ask := func(model string, fields ...string) string { return body(model, []string{user}, fields...) }
	const useResponses, only = "To use function tools, use /v1/responses", "only supported in v1/responses"
	check(t, map[string]rule{
		"5.4 with tools":          {ask("gpt-5.4", tools), "", "", ""},
		"5.4 with effort":         {ask("gpt-5.4", `"reasoning_effort":"low"`), "", "", ""},
		"5.4 with both":           {ask("gpt-5.4", tools, `"reasoning_effort":"low"`), useResponses, "", "reasoning_effort"},
		"5.5 with both":           {ask("gpt-5.5-2026-04-01", tools, `"reasoning_effort":"high"`), useResponses, "", "reasoning_effort"},
		"5.4 without reasoning":   {ask("gpt-5.4", tools, `"reasoning_effort":"none"`), "", "", ""},
		"5.4 with minimal effort": {ask("gpt-5.4", `"reasoning_effort":"minimal"`), "does not support 'minimal'", "unsupported_value", "reasoning_effort"},
		"5.6 with tools":          {ask("gpt-5.6-sol", tools), useResponses, "", "reasoning_effort"},
		"5.6 without reasoning":   {ask("gpt-5.6-sol", tools, `"reasoning_effort":"none"`), "", "", ""},
		"5.6 without tools":       {ask("gpt-5.6"), "", "", ""},
		"codex":                   {ask("gpt-5.1-codex"), only, "", "model"},
		"newer codex":             {ask("gpt-5.3-codex"), "This is not a chat model", "", "model"},
		"temperature":             {ask("gpt-5-mini", `"temperature":0.5`), "does not support 0.5 with this model", "unsupported_value", "temperature"},
		"default temperature":     {ask("gpt-5-mini", `"temperature":1`), "", "", ""},
		"o-pro":                   {ask("o3-pro"), only, "", "model"},
		"gpt-pro":                 {ask("gpt-5.2-pro"), only, "", "model"},
		"old limit":               {ask("o4-mini", `"max_tokens":5`), "Use 'max_completion_tokens' instead", "unsupported_parameter", "max_tokens"},
		"new limit":               {ask("o4-mini", `"max_completion_tokens":5`), "", "", ""},
	}, strict.OpenAIChat)
}

func TestOpenAIChatChecksTools(t *testing.T) {
	named := func(name, description string) string {
		return one(`"tools":[{"type":"function","function":{"name":"` + name + `","description":"` + description + `"}}]`)
	}
	many := strings.Repeat(`{"type":"function","function":{"name":"f"}},`, 128)
	const tooLong, atName = "string too long", "tools[0].function.name"
	check(t, map[string]rule{
		"without parameters": {named("f", "does f"), "", "", ""},
		"no tools":           {one(`"tools":[]`), "Invalid 'tools': empty array", "empty_array", "tools"},
		"128 tools":          {one(`"tools":[` + strings.TrimSuffix(many, ",") + `]`), "", "", ""},
		"129 tools":          {one(`"tools":[` + many + `{"type":"function","function":{"name":"f"}}]`), "array too long", "array_above_max_length", "tools"},
		"no list":            {one(`"tools":{}`), "expected an array of objects, but got an object", "invalid_type", "tools"},
		"flat":               {one(`"tools":[{"type":"function","name":"f"}]`), "Missing required parameter: 'tools[0].function'", "missing_required_parameter", "tools[0].function"},
		"no type":            {one(`"tools":[{"function":{"name":"f"}}]`), "'tools[0].type'", "missing_required_parameter", "tools[0].type"},
		"other type":         {one(`"tools":[{"type":"web"}]`), "Invalid value: 'web'", "invalid_value", "tools[0].type"},
		"unknown field":      {one(`"tools":[{"type":"function","function":{"name":"f","arguments":{}}}]`), "Unknown parameter", "unknown_parameter", "tools[0].function.arguments"},
		"no name":            {one(`"tools":[{"type":"function","function":{}}]`), "Missing", "missing_required_parameter", atName},
		"empty name":         {named("", ""), "empty string", "empty_string", atName},
		"long name":          {named(strings.Repeat("a", 65), ""), tooLong, "string_above_max_length", atName},
		"dotted name":        {named("a.b", ""), "does not match pattern", "invalid_value", atName},
		"1024 letters":       {named("f", strings.Repeat("ü", 1024)), "", "", ""},
		"1025 letters":       {named("f", strings.Repeat("ü", 1025)), tooLong, "string_above_max_length", "tools[0].function.description"},
	}, strict.OpenAIChat)
}

func TestOpenAIChatChecksSchemas(t *testing.T) {
	const code, param = "invalid_function_parameters", "tools[0].function.parameters"
	strictly := func(parameters string) string {
		return one(`"tools":[{"type":"function","function":{"name":"f","strict":true,"parameters":` + parameters + `}}]`)
	}
	check(t, map[string]rule{
		"empty properties":     {one(tool(`{"type":"object","properties":{}}`)), "", "", ""},
		"a map":                {one(property(`{"type":"object","additionalProperties":{"type":"string"}}`)), "", "", ""},
		"a reference":          {one(tool(`{"type":"object","properties":{"a":{"$ref":"#/$defs/n"}},"$defs":{"n":{"type":"integer"}}}`)), "", "", ""},
		"no properties":        {one(tool(`{"type":"object","additionalProperties":false}`)), "In context=(), object schema missing properties.", code, param},
		"no object":            {one(tool(`true`)), "got 'type: null'", code, param},
		"no type":              {one(tool(`{"properties":{}}`)), "got 'type: null'", code, param},
		"a string":             {one(tool(`{"type":"string"}`)), `got 'type: "string"'`, code, param},
		"alternatives":         {one(tool(`{"type":"object","properties":{},"anyOf":[]}`)), "at the top level", code, param},
		"no items":             {one(property(`{"type":"array"}`)), "In context=('properties', 'a'), array schema missing items.", code, param},
		"no items, or null":    {one(property(`{"type":["null","array"]}`)), "array schema missing items", code, param},
		"boolean items":        {one(property(`{"type":"array","items":true}`)), "array schema items is not an object", code, param},
		"items of items":       {one(property(`{"type":"array","items":{"type":"array"}}`)), "('properties', 'a', 'items')", code, param},
		"items of a branch":    {one(property(`{"anyOf":[{"type":"string"},{"type":"array"}]}`)), "('properties', 'a', 'anyOf', '1')", code, param},
		"no such type":         {one(property(`{"type":"int"}`)), "'int' is not valid", code, param},
		"lost reference":       {one(property(`{"$ref":"#/$defs/n"}`)), "'#/$defs/n' which was not found", code, param},
		"foreign reference":    {one(property(`{"$ref":"other.json"}`)), "which was not found", code, param},
		"required is no list":  {one(tool(`{"type":"object","properties":{},"required":true}`)), "is not of type 'array'", code, param},
		"strict":               {strictly(`{"type":"object","properties":{"a":{"type":"string"}},"required":["a"],"additionalProperties":false}`), "", "", ""},
		"strict, open":         {strictly(`{"type":"object","properties":{}}`), "'additionalProperties' is required", code, param},
		"strict, not required": {strictly(`{"type":"object","properties":{"a":{"type":"string"}},"additionalProperties":false}`), "Missing 'a'", code, param},
	}, strict.OpenAIChat)
}

func TestOpenAIChatChecksMessages(t *testing.T) {
	say := func(messages ...string) string { return chat(messages) }
	const missing = "missing_required_parameter"
	check(t, map[string]rule{
		"roles":               {say(`{"role":"system","content":"be brief"}`, `{"role":"developer","content":"x"}`, user, said), "", "", ""},
		"parts":               {say(`{"role":"user","content":[{"type":"text","text":"x"},` + image + `]}`), "", "", ""},
		"parts of a result":   {say(user, called, `{"role":"tool","tool_call_id":"call00001","content":[{"type":"text","text":"x"}]}`), "", "", ""},
		"none":                {say(), "Invalid 'messages': empty array", "empty_array", "messages"},
		"no list":             {`{"model":"m","messages":{}}`, "expected an array of objects", "invalid_type", "messages"},
		"not there":           {`{"model":"m"}`, "'messages'", missing, "messages"},
		"a string":            {say(`"hi"`), "expected an object, but got a string", "invalid_type", "messages[0]"},
		"no role":             {say(`{"content":"x"}`), "'messages[0].role'", missing, "messages[0].role"},
		"other role":          {say(`{"role":"human","content":"x"}`), "Invalid value: 'human'", "invalid_value", "messages[0].role"},
		"unknown field":       {say(user, `{"role":"assistant","content":"x","reasoning_content":"y"}`), "Unknown parameter: 'messages[1].reasoning_content'", "unknown_parameter", "messages[1].reasoning_content"},
		"calls of a user":     {say(`{"role":"user","content":"x","tool_calls":[]}`), "Unknown parameter", "unknown_parameter", "messages[0].tool_calls"},
		"null":                {say(`{"role":"user","content":null}`), "expected a string, got null", "", "messages.[0].content"},
		"no content":          {say(user, `{"role":"assistant"}`), "expected a string, got null", "", "messages.[1].content"},
		"null result":         {say(user, called, `{"role":"tool","tool_call_id":"call00001","content":null}`), "got null", "", "messages.[2].content"},
		"no parts":            {say(`{"role":"user","content":[]}`), "empty array", "empty_array", "messages[0].content"},
		"a number":            {say(`{"role":"user","content":7}`), "but got a number", "invalid_type", "messages[0].content"},
		"an object":           {say(`{"role":"user","content":{}}`), "but got an object", "invalid_type", "messages[0].content"},
		"image in a result":   {say(user, called, `{"role":"tool","tool_call_id":"call00001","content":[`+image+`]}`), "this message with role 'tool' contains an image URL", "invalid_value", "messages[2]"},
		"image of system":     {say(`{"role":"system","content":[` + image + `]}`), "with role 'system'", "invalid_value", "messages[0]"},
		"image of a string":   {say(`{"role":"user","content":[{"type":"image_url","image_url":"http://x"}]}`), "expected an object, but got a string", "invalid_type", "messages[0].content[0].image_url"},
		"image of nothing":    {say(`{"role":"user","content":[{"type":"image_url","image_url":{}}]}`), "Missing", missing, "messages[0].content[0].image_url.url"},
		"image of a path":     {say(`{"role":"user","content":[{"type":"image_url","image_url":{"url":"/tmp/x"}}]}`), "Expected a valid URL", "invalid_value", "messages[0].content[0].image_url.url"},
		"image of the web":    {say(`{"role":"user","content":[{"type":"image_url","image_url":{"url":"https://x/y.png"}}]}`), "", "", ""},
		"file":                {say(`{"role":"user","content":[{"type":"file","file":{"filename":"a.pdf","file_data":"data:application/pdf;base64,AAAA"}}]}`), "", "", ""},
		"file by id":          {say(`{"role":"user","content":[{"type":"file","file":{"file_id":"file-1"}}]}`), "", "", ""},
		"file of nothing":     {say(`{"role":"user","content":[{"type":"file"}]}`), "expected an object", "invalid_type", "messages[0].content[0].file"},
		"file without data":   {say(`{"role":"user","content":[{"type":"file","file":{"filename":"a.pdf"}}]}`), "Missing", missing, "messages[0].content[0].file.file_id"},
		"file that is no URL": {say(`{"role":"user","content":[{"type":"file","file":{"filename":"a.pdf","file_data":"AAAA"}}]}`), "but got an invalid base64-encoded value.", "invalid_value", "messages[0].content[0].file.file_data"},
		"file of text":        {say(`{"role":"user","content":[{"type":"file","file":{"filename":"a.md","file_data":"data:text/markdown;base64,AAAA"}}]}`), "but got unsupported MIME type 'text/markdown'.", "invalid_value", "messages[0].content[0].file.file_data"},
		"image of svg":        {say(`{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/svg+xml;base64,AA=="}}]}`), "unsupported image", "sanitizer_server_error", ""},
		"other part":          {say(`{"role":"user","content":[{"type":"input_text","text":"x"}]}`), "Invalid value: 'input_text'", "invalid_value", "messages[0].content[0].type"},
		"part of no type":     {say(`{"role":"user","content":[{"text":"x"}]}`), "Missing", missing, "messages[0].content[0].type"},
		"part of no text":     {say(`{"role":"user","content":[{"type":"text"}]}`), "Missing", missing, "messages[0].content[0].text"},
	}, strict.OpenAIChat)
}

func TestOpenAIChatChecksCalls(t *testing.T) {
	calling := func(calls string) string {
		return chat([]string{user, `{"role":"assistant","content":null,"tool_calls":` + calls + `}`, result})
	}
	two := strings.Replace(called, `[{`, `[{"id":"b","type":"function","function":{"name":"f","arguments":""}},{`, 1)
	const at = "messages[1].tool_calls"
	const missing, did = "missing_required_parameter", "did not have response messages: "
	check(t, map[string]rule{
		"answered":             {chat([]string{user, called, result, said, user, called, result}), "", "", ""},
		"any order":            {chat([]string{user, two, result, `{"role":"tool","tool_call_id":"b","content":""}`}), "", "", ""},
		"arguments of no JSON": {calling(`[{"id":"call00001","type":"function","function":{"name":"f","arguments":"{"}}]`), "", "", ""},
		"no calls":             {calling(`[]`), "empty array", "empty_array", at},
		"no list":              {calling(`{}`), "expected an array of objects", "invalid_type", at},
		"no id":                {calling(`[{"type":"function","function":{"name":"f","arguments":""}}]`), "Missing", missing, at + "[0].id"},
		"long id":              {calling(`[{"id":"` + strings.Repeat("a", 41) + `","type":"function","function":{"name":"f","arguments":""}}]`), "maximum length 40", "string_above_max_length", at + "[0].id"},
		"no type":              {calling(`[{"id":"a","function":{"name":"f","arguments":""}}]`), "Missing", missing, at + "[0].type"},
		"no function":          {calling(`[{"id":"a","type":"function"}]`), "Missing", missing, at + "[0].function"},
		"no arguments":         {calling(`[{"id":"a","type":"function","function":{"name":"f"}}]`), "Missing", missing, at + "[0].function.arguments"},
		"an object":            {calling(`[{"id":"a","type":"function","function":{"name":"f","arguments":{}}}]`), "expected a string, but got an object", "invalid_type", at + "[0].function.arguments"},
		"name of spaces":       {calling(`[{"id":"a","type":"function","function":{"name":"a b","arguments":""}}]`), "does not match pattern", "invalid_value", at + "[0].function.name"},
		"unknown field":        {calling(`[{"id":"a","type":"function","index":0,"function":{"name":"f","arguments":""}}]`), "Unknown parameter", "unknown_parameter", at + "[0].index"},
		"no result":            {chat([]string{user, called}), did + "call00001", "", "messages.[2].role"},
		"one result of two":    {chat([]string{user, two, result, user}), did + "b", "", "messages.[3].role"},
		"late result":          {chat([]string{user, called, user, result}), did + "call00001", "", "messages.[2].role"},
		"result of no call":    {chat([]string{user, result}), "must be a response to a preceeding message", "", "messages.[1].role"},
		"second result":        {chat([]string{user, called, result, result}), "must be a response to a preceeding message", "", "messages.[3].role"},
		"result of no id":      {chat([]string{user, called, `{"role":"tool","content":""}`}), "Missing", missing, "messages[2].tool_call_id"},
		"one id twice":         {chat([]string{user, strings.ReplaceAll(two, `"b"`, `"call00001"`), result, result}), "Duplicate value", "invalid_value", at},
	}, strict.OpenAIChat)
}

func TestKnownFieldsAreTaken(t *testing.T) {
	text := chat([]string{user, `{"role":"assistant","content":"x","reasoning_content":"y"}`})
	req, refusal := strict.Parse([]byte(text), func(field string) bool { return field == "reasoning_content" })
	require.Nil(t, refusal)
	require.Nil(t, strict.OpenAIChat(req))
}
