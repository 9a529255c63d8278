// Package toolcall reads the calls of models that do not write them as the API has them.
//
// [Parse] finds calls that a model wrote as text, in the templates of model families and in
// the words of other agents, and reads those that cannot be anything else. Such a call is a
// sign that the server has no tool call parser for its model, or that the model was trained
// on another agent.
//
// [Tool] and [Translator] know the tools of other agents by the names and parameters that
// models remember from their training: Claude Code's Read and Bash, Anthropic's
// str_replace_based_edit_tool, Codex's shell, Gemini's run_shell_command, Cline's
// attempt_completion, and what is common to many. They say which tool of ours a call means,
// and put its arguments into our words. They know our tools by their names only: whether
// such a tool exists, may be used, and has a parameter is for the caller to say.
package toolcall

import (
	"regexp"
	"strings"
)

// Sign is what shows that a text has a call in it, complete or not.
type Sign struct {
	Tool  string // as the model wrote it; empty without a sign
	Form  string // what the call is written in, such as "JSON"
	At    int    // how much of the text is before it, in bytes
	Alone bool   // the text begins or ends with the call, so it is hardly an explanation

	Quoted bool // the call is in a code block or a span of code, or behind a colon, after something else
}

// Example reports whether a text shows the call as an example: it quotes it, and says more.
func (s Sign) Example() bool { return s.Quoted && !s.Alone }

// Quotes returns the tool of a call that the text quotes; empty for none.
func (s Sign) Quotes() string {
	if s.Quoted {
		return s.Tool
	}
	return ""
}

// form is a way to write a call. The group of its expression is the tool's name.
type form struct {
	name string
	// template reports that the form is that of calls alone. Such a call may have the name
	// of another agent's tool; elsewhere only the tools that the model was offered count.
	template bool
	closed   bool // the name is that of a tag, which has to be closed
	re       *regexp.Regexp
}

// forms are the ways to write a call, the plainest signs first. Where no project is named,
// the form is that of the chat templates of the models.
var forms = []form{
	// <tool_call>{"name": "bash", … (Hermes, Qwen), <tool_call>bash (GLM),
	// [TOOL_CALLS][{"name": "bash", … or [TOOL_CALLS]bash (Mistral),
	// <|python_tag|>{"name": … (Llama), functools[{"name": … (Phi),
	// <|tool_call_start|>[bash(cmd="ls")] (LFM2; Liquid4All/cookbook#72).
	{"a <tool_call> tag", true, false, regexp.MustCompile(`(?:<\|?tool_calls?(?:_begin|_start)?\|?>|\[TOOL_CALLS\]|<\|python_(?:tag|start)\|>|functools)\s*[\[{]*\s*(?:"name"\s*:\s*)?"?([\w.-]+)`)},
	// The same, with the arguments before the name.
	{"a <tool_call> tag", true, false, regexp.MustCompile(`<\|?tool_call\|?>[^<]*"name"\s*:\s*"([\w.-]+)"`)},
	// <function=bash> (Llama, Qwen coder, in <seed:tool_call> Seed-OSS), <invoke name="bash">
	// (Anthropic, MiniMax).
	{"a <function> tag", true, false, regexp.MustCompile(`<function=["']?([\w.-]+)`)},
	{"an <invoke> tag", true, false, regexp.MustCompile(`<(?:\w+:)?invoke name="([\w.-]+)"`)},
	// <｜DSML｜invoke name="bash"> (DeepSeek from V3.2). What reaches a client has other
	// bars and blanks, too: cline/cline#13348, AgentFlocks/flocks#687.
	{"DSML", true, false, regexp.MustCompile(`<\s*[｜|]+\s*DSML\s*[｜|]+\s*invoke\s+name\s*=\s*"([\w.-]+)"`)},
	// <｜tool▁call▁begin｜>bash, or function<｜tool▁sep｜>bash (DeepSeek before).
	{"DeepSeek's marks", true, false, regexp.MustCompile(`<｜tool▁call▁begin｜>\s*(?:function<｜tool▁sep｜>)?([\w.-]+)`)},
	// <|tool_call>call:bash{cmd:<|"|>ls<|"|>}<tool_call|> (Gemma 4), also in parentheses or
	// without its marks: jundot/omlx#581, NousResearch/hermes-agent#7449, Gitlawb/openclaude#380.
	// <start_function_call>call:bash{… (FunctionGemma).
	{"Gemma's marks", true, false, regexp.MustCompile(`(?m)(?:^|>)\s*call:([\w.-]+)\s*[{(]`)},
	// <|channel|>commentary to=functions.bash <|constrain|>json<|message|>{… (gpt-oss), also
	// where a server removed the marks or the order is another: vllm-project/vllm#32587.
	{"harmony's channels", true, false, regexp.MustCompile(`(?:commentary|analysis|assistant)\s+to=([\w.-]+)`)},
	{"harmony's channels", true, false, regexp.MustCompile(`\bto=functions\.([\w-]+)`)},
	// A fence of tool_code with a call in Python (Gemini, Gemma 3).
	{"a fence of tool_code", true, false, regexp.MustCompile("(?:```|<)tool_(?:code|call)s?>?\\s+(?:\\w+\\s*=\\s*)?(?:print\\()?\\s*(?:\\w+\\.)*([\\w-]+)\\(")},
	// Action: bash, and in the next line Action Input: {… (ReAct, LangChain); Action: bash[ls].
	{reAct, true, false, regexp.MustCompile("(?m)^[\\s*#]*Action\\s*:[\\s*]*`?([\\w.-]+)`?[^\\n]{0,40}\\n+[\\s*#]*Action Input\\s*:")},
	{reAct, false, false, regexp.MustCompile("(?m)^[\\s*#]*Action\\s*:[\\s*]*`?([\\w.-]+)`?\\s*(?:$|[\\[({])")},
	{"JSON", true, false, regexp.MustCompile(`"action"\s*:\s*"([\w.-]+)"\s*,\s*"action_input"\s*:`)},
	// {"name": "bash", "arguments": {…}}, bare or in a code fence, with fields
	// such as "type" before the name, or the arguments before it.
	{"JSON", false, false, regexp.MustCompile(`\{\s*(?:"(?:type|id)"\s*:\s*"[^"]*"\s*,\s*)*"(?:name|tool|tool_name|function)"\s*:\s*"([\w.-]+)"\s*,\s*"(?:arguments|parameters|args|input|tool_input)"\s*:`)},
	{"JSON", false, false, regexp.MustCompile(`"function"\s*:\s*\{\s*"name"\s*:\s*"([\w.-]+)"\s*,\s*"arguments"\s*:`)},
	{"JSON", false, false, regexp.MustCompile(`\{\s*"(?:arguments|parameters|args|input|tool_input)"\s*:\s*\{[^{}]*\}\s*,\s*"(?:name|tool|tool_name|function)"\s*:\s*"([\w.-]+)"`)},
	{"JSON", false, false, regexp.MustCompile(`\{\s*"(?:tool|tool_name|function)"\s*:\s*"([\w.-]+)"\s*[,}]`)},
	// [bash(cmd="ls")] (Llama 4, LFM2 where the server removed its marks).
	{"a Python list", false, false, regexp.MustCompile(`(?m)^\s*\[([\w.-]+)\(\s*(?:\w+\s*=|\))`)},
	// <execute_command><command>ls</command></execute_command> (Cline, Roo Code),
	// <execute_bash>ls</execute_bash> (OpenHands, once CodeAct). Names without a low line
	// are those of other elements, too, unless it is that of an offered tool.
	{"XML", true, true, regexp.MustCompile(`<([A-Za-z]+_[\w.-]+)>`)},
	{"XML", false, true, regexp.MustCompile(`<([A-Za-z][\w.-]*)(?:\s[^<>]*)?>`)},
}

// reAct is the form whose call is the end of an answer, whatever the model adds: it
// invents the observation, too.
const reAct = "an Action line"

// In returns the sign of a written call in a text, and none if there is none. offered reports
// whether the model was offered a tool of a name, and known whether a name is that of a
// tool in the words of any agent.
func In(text string, offered, known func(name string) bool) Sign {
	const enough = 64 << 10 // models write calls at the start or the end of a text
	if len(text) > 2*enough {
		text = text[:enough] + text[len(text)-enough:]
	}
	if !strings.ContainsAny(text, "<{(:=") {
		return Sign{} // known without the expressions, which are slow
	}
	for _, f := range forms {
		seen := map[string]bool{}
		for _, at := range f.re.FindAllStringSubmatchIndex(text, -1) {
			name := strings.TrimRight(text[at[2]:at[3]], ".-")
			if len(name) > maxName || seen[name] {
				continue
			}
			seen[name] = true
			if (offered(name) || f.template && known(name)) && (!f.closed || strings.Contains(text[at[3]:], "</"+name+">")) {
				return Sign{Tool: name, Form: f.name, At: at[0], Alone: alone(text, at[0], f.name == reAct), Quoted: quoted(text[:at[0]])}
			}
		}
	}
	return Sign{}
}

// lead is what may be before the name of a tool and belongs to its call: the beginning of a
// code fence, and lines of markup and JSON.
var lead = regexp.MustCompile("(?:(?:^|\\n)[ \\t]*(?:```[\\w-]*|[<{\\[\"][^\\n]*)\\s*)+$")

// alone reports whether a text begins with the call of which a sign is at a place, or ends
// with it: whatever is before such a call is a line of its own, and its last character
// is one that ends calls. last reports that nothing counts after it.
func alone(text string, at int, last bool) bool {
	thoughts := len(text[:at]) - len(afterThoughts(text[:at]))
	text = withoutEnd(text[thoughts:])
	at = min(at-thoughts, len(text))
	before := lead.ReplaceAllString(text[:at], "\n")
	if strings.TrimSpace(before) == "" {
		return true
	}
	ends := last || strings.HasSuffix(text, "```") || strings.ContainsAny(text[len(text)-1:], ">}])")
	return ends && strings.Contains(before[len(strings.TrimRight(before, " \t\r\n")):], "\n")
}

// quoted reports whether what follows a text is quoted by it.
func quoted(before string) bool {
	said := strings.TrimSpace(lead.ReplaceAllString(afterThoughts(before), "\n"))
	line := said[strings.LastIndexByte(said, '\n')+1:]
	return said != "" && (strings.HasSuffix(said, ":") || strings.Count(before, "```")%2 == 1 || strings.Count(line, "`")%2 == 1)
}

func afterThoughts(text string) string {
	if i := strings.LastIndex(text, "</think>"); i >= 0 {
		return text[i+len("</think>"):]
	}
	return text
}
