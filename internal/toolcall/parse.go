package toolcall

import (
	"encoding/json"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Call is a call that a model wrote as text.
type Call struct {
	Name      string
	Arguments string // a JSON object; what stood in tags is strings there
	Before    string // the text before the call
	Block     string // the call as it was written
}

// Bounds of a text in which a call is looked for, and of a name.
const (
	maxText = 1 << 20
	maxName = 128
)

// Parse returns the call that an answer of a server is, or ends with. Whether text may be
// a call at all is a question of the server: leavesCalls reports whether it is one that
// leaves calls in the text, because it has no parser for them, or one that missed a call
// because the model left out a tag (ollama #16686, Qwen3-Coder #475, mlxcel #654,
// claude-code #63870). From any other server text is text, whatever it looks like.
//
// The call must be the only one, and complete in the template of a model family. JSON
// without a template is what users ask for and files quote, and is no call. Neither is
// what quotes or explains one: a call within a code fence, behind a colon or in a
// quotation, or with text after it.
func Parse(leavesCalls bool, text string) (Call, bool) {
	return parse(leavesCalls, text, introduces)
}

// ParseThoughts is Parse for the reasoning of an answer that has nothing else. There, the
// call may also stand in a line, after a sentence.
func ParseThoughts(leavesCalls bool, thoughts string) (Call, bool) {
	return parse(leavesCalls, thoughts, func(before string) bool { return introduces(before) || follows(before) })
}

func parse(leavesCalls bool, text string, mayFollow func(before string) bool) (Call, bool) {
	if !leavesCalls || len(text) > maxText {
		return Call{}, false
	}
	text = withoutEnd(text)
	from := 0
	if i := strings.LastIndex(text, "</think>"); i >= 0 {
		from = i + len("</think>")
	}
	answer := text[from:]
	if strings.Contains(answer, "<think>") {
		return Call{}, false
	}
	at := openerIn(answer)
	if at == nil {
		return Call{}, false
	}
	c := Call{Before: text[:from+at[0]], Block: answer[at[0]:]}
	if !mayFollow(answer[:at[0]]) {
		return Call{}, false
	}
	var ok bool
	if c.Name, c.Arguments, ok = inTemplate(c.Block); !ok || !usableName(c.Name) {
		return Call{}, false
	}
	return c, true
}

// Quoted reports whether a message has a call in it as it was written, apart from
// white space, escapes, and what stands before the lines of a quotation: numbers,
// names of files, marks of a difference. A model that repeats what it has read in
// a file, say, calls nothing.
func (c Call) Quoted(message string) bool {
	words := wordsOf(c.Block)
	return len(words) == 0 || inOrder(letters(message), words)
}

// Bounds of looking for words.
const (
	maxBetween = 120     // bytes between a word and the next one
	maxLooks   = 1 << 20 // words that are looked for
)

// inOrder reports whether words occur in a text one after another, with little
// between them. A text that makes it too long to tell has them.
func inOrder(text string, words []string) bool {
	looks := 0
	for from := 0; ; from++ {
		next := strings.Index(text[from:], words[0])
		if next < 0 {
			return false
		}
		from += next
		at, found := from+len(words[0]), 1
		for ; found < len(words); found++ {
			if looks++; looks > maxLooks {
				return true
			}
			word := words[found]
			within := text[at:min(at+maxBetween+len(word), len(text))]
			next := strings.Index(within, word)
			if next < 0 {
				break
			}
			at += next + len(word)
		}
		if found == len(words) {
			return true
		}
	}
}

// wordsOf returns the runs of letters in a text.
func wordsOf(text string) []string {
	return strings.FieldsFunc(withoutEscapes(text), func(r rune) bool { return r < 0x80 && !isLetter(byte(r)) })
}

// letters returns the letters of a text, without what is between them.
func letters(text string) string {
	out := make([]byte, 0, len(text))
	for _, c := range []byte(withoutEscapes(text)) {
		if isLetter(c) {
			out = append(out, c)
		}
	}
	return string(out)
}

func isLetter(c byte) bool {
	return c >= 0x80 || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}

// withoutEscapes returns a text with blanks in the place of the escapes of JSON,
// and letters in the place of those that stand for ASCII.
func withoutEscapes(text string) string {
	if !strings.Contains(text, `\`) {
		return text
	}
	out := make([]byte, 0, len(text))
	for i := 0; i < len(text); i++ {
		c := text[i]
		if c == '\\' && i+1 < len(text) {
			if n, err := strconv.ParseUint(text[min(i+2, len(text)):min(i+6, len(text))], 16, 8); err == nil && text[i+1] == 'u' && n < 0x80 {
				c, i = byte(n), i+5
			} else if strings.IndexByte(`nrt"\/`, text[i+1]) >= 0 {
				c, i = ' ', i+1
			}
		}
		out = append(out, c)
	}
	return string(out)
}

// opener matches what a call begins with in the templates:
//
//	<tool_call>                     Hermes, Qwen, GLM
//	<function=                      Qwen coder, Llama; often without <tool_call>
//	[TOOL_CALLS]                    Mistral
//	<|python_tag|>                  Llama
//	functools[                      Phi
//	<|tool_call|>, <|tool_calls…    Granite, Kimi
//	<｜tool▁calls▁begin｜>           DeepSeek
//	<|channel|>commentary to=       gpt-oss
//	<invoke name=, <function_calls> Anthropic, MiniMax
//	<｜DSML｜function_calls>        DeepSeek V3.2; <｜DSML｜tool_calls> V4
//	<seed:tool_call>                Seed-OSS
//	<|tool_call>call:               Gemma 4
var opener = regexp.MustCompile(`<tool_call>|<function=|\[TOOL_CALLS\]|<\|python_tag\|>|functools\[|<\|tool_calls?[a-z_]*\|>|<｜tool▁calls?▁begin｜>|(?:<\|start\|>assistant)?<\|channel\|>(?:commentary|analysis) to=|<(?:\w+:)?(?:invoke name=|function_calls>|tool_call>)|<｜DSML｜(?:function_calls|tool_calls|invoke name=)|<\|tool_call>call:`)

// openerIn returns where the first opener begins and ends in a text, and nil if there
// is none. Most texts have none, which is known without the expression, which is slow.
func openerIn(text string) []int {
	if strings.IndexByte(text, '<') < 0 && !strings.Contains(text, "[TOOL_CALLS]") && !strings.Contains(text, "functools[") {
		return nil
	}
	return opener.FindStringIndex(text)
}

// ends are what models end their answers with, if the server leaves it there.
var ends = []string{"<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<|call|>", "<|return|>", "<|end|>", "</s>", "<|endoftext|>", "<｜end▁of▁sentence｜>", "<seed:eos>", "<end_of_turn>", "<turn|>"}

func withoutEnd(text string) string {
	for range 3 {
		text = strings.TrimRight(text, " \t\r\n")
		for _, end := range ends {
			text = strings.TrimSuffix(text, end)
		}
	}
	return strings.TrimRight(text, " \t\r\n")
}

// introduces reports whether a call may follow a text. It begins a line of its
// own, and does not look like something that is quoted.
func introduces(before string) bool {
	said := strings.TrimRight(before, " \t\r\n")
	if said == "" {
		return true
	}
	line := said[strings.LastIndexByte(said, '\n')+1:]
	return strings.Contains(before[len(said):], "\n") && !strings.HasSuffix(said, ":") &&
		!strings.HasPrefix(strings.TrimSpace(line), ">") && strings.Count(said, "```")%2 == 0 && strings.Count(line, "`")%2 == 0
}

// follows reports whether a text ends with a sentence, behind which a call is no part of one.
func follows(before string) bool {
	said := strings.TrimRight(before, " \t")
	end, _ := utf8.DecodeLastRuneInString(said)
	return strings.ContainsRune(".!?…。！？", end) && introduces(said+"\n")
}

func usableName(name string) bool {
	return name != "" && len(name) <= maxName && !strings.ContainsAny(name, " \t\r\n<>\"'`{}()\uFFFD")
}

// inTemplate reads a call in one of the templates, which is all of block.
func inTemplate(block string) (name, arguments string, ok bool) {
	for _, read := range []func(string) (string, string, bool){tagged, invoked, mistral, kimi, deepSeek, harmony, jsonCall} {
		if name, arguments, ok = read(block); ok {
			return name, arguments, true
		}
	}
	return "", "", false
}

// inside returns what stands between a beginning and an end.
func inside(text, begin, end string) (string, bool) {
	text, ok := strings.CutPrefix(strings.TrimSpace(text), begin)
	if !ok {
		return "", false
	}
	text, ok = strings.CutSuffix(strings.TrimSpace(text), end)
	return strings.TrimSpace(text), ok
}

// tagged reads <tool_call>…</tool_call> and <function=name>…</function>, also
// one within the other, of which the outer one may have lost its beginning.
func tagged(block string) (name, arguments string, ok bool) {
	if inner, ok := inside(block, "<seed:tool_call>", "</seed:tool_call>"); ok {
		block = inner
	}
	if inner, ok := inside(block, "<tool_call>", "</tool_call>"); ok {
		if strings.HasPrefix(inner, "{") {
			return objectCall(inner)
		}
		if !strings.HasPrefix(inner, "<") {
			return glm(inner)
		}
		block = inner
	}
	block = strings.TrimSuffix(strings.TrimSpace(block), "</tool_call>")
	inner, ok := inside(block, "<function=", "</function>")
	if !ok || strings.Contains(inner, "<function=") || strings.Contains(inner, "</function>") {
		return "", "", false
	}
	name, body, ok := strings.Cut(inner, ">")
	if !ok {
		return "", "", false
	}
	if body = strings.TrimSpace(body); strings.HasPrefix(body, "{") {
		return strings.Trim(name, `"'`), body, isObject(body)
	}
	arguments, ok = parameters(body, "<parameter=", "</parameter>")
	return strings.Trim(name, `"'`), arguments, ok
}

// dsml marks DeepSeek's tags, <｜DSML｜invoke name="…">, whose parameters say whether they are
// strings.
const dsml = "｜DSML｜"

// invoked reads <invoke name="name"><parameter name="key">value</parameter></invoke>.
func invoked(block string) (name, arguments string, ok bool) {
	for _, outer := range []string{"function_calls", "antml:function_calls", "minimax:tool_call", dsml + "function_calls", dsml + "tool_calls"} {
		if inner, ok := inside(block, "<"+outer+">", "</"+outer+">"); ok {
			block = inner
		}
	}
	for _, prefix := range []string{"", "antml:", dsml} {
		inner, ok := inside(block, "<"+prefix+`invoke name="`, "</"+prefix+"invoke>")
		if !ok || strings.Contains(inner, prefix+"invoke name=") || strings.Contains(inner, "</"+prefix+"invoke>") {
			continue
		}
		name, body, ok := strings.Cut(inner, `">`)
		if !ok {
			continue
		}
		arguments, ok := parameters(body, "<"+prefix+`parameter name="`, "</"+prefix+"parameter>")
		return name, arguments, ok
	}
	return "", "", false
}

// parameters reads a sequence of tags with a key and a value each. A value in
// which another tag begins could end in two places, and is refused.
func parameters(body, begin, end string) (arguments string, ok bool) {
	given := map[string]string{}
	for body = strings.TrimSpace(body); body != ""; body = strings.TrimSpace(body) {
		rest, ok := strings.CutPrefix(body, begin)
		if !ok {
			return "", false
		}
		key, rest, ok := strings.Cut(rest, ">")
		if !ok {
			return "", false
		}
		value, rest, ok := strings.Cut(rest, end)
		key, _, _ = strings.Cut(strings.Trim(key, `"' `), `" string="`) // of DSML
		if _, again := given[key]; !ok || again || !usableName(key) || strings.Contains(value, begin) {
			return "", false
		}
		value = strings.TrimPrefix(strings.TrimPrefix(value, "\r"), "\n")
		given[key] = strings.TrimSuffix(strings.TrimSuffix(value, "\n"), "\r")
		body = rest
	}
	encoded, err := json.Marshal(given)
	return string(encoded), err == nil
}

// glm reads name and <arg_key>key</arg_key><arg_value>value</arg_value>.
func glm(inner string) (name, arguments string, ok bool) {
	name, rest, found := strings.Cut(inner, "<arg_key>")
	name = strings.TrimSpace(name)
	given := map[string]string{}
	for found {
		key, after, _ := strings.Cut(rest, "</arg_key>")
		after, begun := strings.CutPrefix(strings.TrimSpace(after), "<arg_value>")
		value, after, ended := strings.Cut(after, "</arg_value>")
		key = strings.TrimSpace(key)
		if _, again := given[key]; !begun || !ended || again || strings.Contains(value, "<arg_key>") || strings.Contains(value, "<arg_value>") {
			return "", "", false
		}
		given[key] = value
		after = strings.TrimSpace(after)
		if after == "" {
			break
		}
		if rest, found = strings.CutPrefix(after, "<arg_key>"); !found {
			return "", "", false
		}
	}
	encoded, err := json.Marshal(given)
	return name, string(encoded), err == nil
}

// mistral reads [TOOL_CALLS]name{…} and [TOOL_CALLS]name[ARGS]{…}.
func mistral(block string) (name, arguments string, ok bool) {
	rest := strings.TrimPrefix(block, "[TOOL_CALLS]") // what begins otherwise has no usable name
	at := strings.IndexByte(rest, '{')
	if at < 0 {
		return "", "", false
	}
	name = strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest[:at]), "[ARGS]"))
	return name, rest[at:], usableName(name) && !strings.Contains(name, "[") && isObject(rest[at:])
}

// kimi reads <|tool_call_begin|>functions.name:0<|tool_call_argument_begin|>{…}<|tool_call_end|>.
func kimi(block string) (name, arguments string, ok bool) {
	if inner, ok := inside(block, "<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"); ok {
		block = inner
	}
	inner, ok := inside(block, "<|tool_call_begin|>", "<|tool_call_end|>")
	if !ok {
		return "", "", false
	}
	name, arguments, _ = strings.Cut(inner, "<|tool_call_argument_begin|>")
	return strings.TrimSpace(name), arguments, isObject(arguments)
}

// deepSeek reads <｜tool▁call▁begin｜>name<｜tool▁sep｜>{…}<｜tool▁call▁end｜>, and the
// form of earlier models, where a type comes first and the arguments are fenced.
func deepSeek(block string) (name, arguments string, ok bool) {
	if inner, ok := inside(block, "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"); ok {
		block = inner
	}
	inner, ok := inside(block, "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>")
	if !ok {
		return "", "", false
	}
	name, arguments, ok = strings.Cut(inner, "<｜tool▁sep｜>")
	if name == "function" {
		name, arguments, _ = strings.Cut(arguments, "\n")
		arguments, ok = inside(arguments, "```json", "```")
	}
	return strings.TrimSpace(name), arguments, ok && isObject(arguments)
}

// harmony reads gpt-oss's <|channel|>commentary to=functions.name
// <|constrain|>json<|message|>{…}.
func harmony(block string) (name, arguments string, ok bool) {
	head, arguments, _ := strings.Cut(block, "<|message|>")
	_, name, _ = strings.Cut(head, " to=")
	name, _, _ = strings.Cut(name, "<|")
	name, _, _ = strings.Cut(strings.TrimSpace(name), " ")
	return name, arguments, isObject(arguments)
}

// jsonCall reads the templates in which a call is an object, or the only one of a
// list, behind a mark.
func jsonCall(block string) (name, arguments string, ok bool) {
	for _, mark := range []string{"[TOOL_CALLS]", "<|python_tag|>", "functools", "<|tool_call|>", "<|tool_calls|>"} {
		rest, ok := strings.CutPrefix(block, mark)
		if !ok {
			continue
		}
		rest = strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "<|/tool_call|>"))
		if inner, ok := inside(rest, "[", "]"); ok {
			rest = inner
		}
		return objectCall(rest)
	}
	return "", "", false
}

// objectCall reads {"name": …, "arguments": {…}} with nothing besides, and the same
// inside {"type": "function", "function": …}.
func objectCall(text string) (name, arguments string, ok bool) {
	var fields map[string]json.RawMessage
	if !isObject(text) || json.Unmarshal([]byte(text), &fields) != nil {
		return "", "", false
	}
	if inner := fields["function"]; isObject(string(inner)) {
		fields = nil
		_ = json.Unmarshal(inner, &fields) // it is an object
	}
	found := 0
	for key, value := range fields {
		var text string
		isText := json.Unmarshal(value, &text) == nil
		switch key {
		case "name", "tool", "tool_name", "function":
			name = text
			found++
		case "arguments", "parameters", "args", "input", "tool_input":
			if arguments = string(value); isText {
				arguments = text
			}
			found++
		case "type", "id":
		default:
			return "", "", false
		}
	}
	return name, arguments, found == 2 && isObject(arguments)
}

// isObject reports whether text is one JSON object, in which no name comes twice.
func isObject(text string) bool {
	dec := json.NewDecoder(strings.NewReader(text))
	if open, _ := dec.Token(); open != json.Delim('{') {
		return false
	}
	names := map[json.Token]bool{}
	for dec.More() {
		name, err := dec.Token()
		if err != nil || names[name] || dec.Decode(new(json.RawMessage)) != nil {
			return false
		}
		names[name] = true
	}
	_, open := dec.Token()
	_, end := dec.Token()
	return open == nil && end == io.EOF
}
