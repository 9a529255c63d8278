package toolcall_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/toolcall"
)

func TestToolCallsInTextAreNoticed(t *testing.T) {
	tools := []string{"bash", "write_file"}
	cases := []struct {
		text string
		want bool
	}{
		{"<tool_call>\n{\"name\": \"bash\", \"arguments\": {\"cmd\": \"ls\"}}\n</tool_call>", true},
		{"<tool_call>bash\n<arg_key>cmd</arg_key>", true},
		{"<tool_call>{\"arguments\": {}, \"name\": \"bash\"}", true},
		{"<function=bash>{\"cmd\": \"ls\"}</function>", true},
		{"<tool_call>\n<function=write_file>\n<parameter=path>", true},
		{"<function_calls><invoke name=\"bash\">", true},
		{"Sure!\n```json\n{\n  \"name\": \"bash\",\n  \"arguments\": {\"cmd\": \"ls\"}\n}\n```", true},
		{"{\"name\": \"bash\", \"parameters\": {\"cmd\": \"ls\"}}", true},
		{"{\"type\": \"function\", \"name\": \"bash\", \"parameters\": {}}", true},
		{"{\"type\": \"function\", \"function\": {\"name\": \"bash\", \"arguments\": {}}}", true},
		{"[TOOL_CALLS][{\"name\": \"bash\", \"arguments\": {}}]", true},
		{"[TOOL_CALLS]bash{\"cmd\": \"ls\"}", true},
		{"<|python_tag|>{\"name\": \"bash\", \"parameters\": {}}", true},
		{"<|tool_call|>[{\"name\": \"bash\", \"arguments\": {}}]", true},
		{strings.Repeat("x", 300_000) + "<tool_call>bash", true},
		{strings.Repeat("x", 64<<10) + "<tool_call>bash\n" + strings.Repeat("x", 64<<10), false}, // only the ends of a long text are looked at
		{"", false},
		{"I ran bash, and all is well.", false},
		{"<tool_call>{\"name\": \"other\", \"arguments\": {}}</tool_call>", false},
		{"{\"name\": \"bash\", \"version\": 5}", false},
		{"{\"name\": \"bashful\", \"arguments\": {}}", false},
		{"Call `bash` with {\"cmd\": \"ls\"}.", false},
	}
	offered := func(name string) bool { return slices.Contains(tools, name) }
	for _, c := range cases {
		require.Equal(t, c.want, toolcall.In(c.text, offered, offered).Tool != "", c.text)
	}
	none := func(string) bool { return false }
	require.Empty(t, toolcall.In(cases[0].text, none, none))
}

// What a server without a parser leaves in an answer, and the forms of other agents: each is
// a sign, with the name of its form, and the answer is asked back about.
func TestEachFormOfACallIsNamed(t *testing.T) {
	t.Parallel()
	dsml := "<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"bash\">\n<｜DSML｜parameter name=\"cmd\" string=\"true\">ls</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>"
	offered := func(name string) bool { return name == "bash" || name == "write_file" }
	known := func(name string) bool {
		return slices.Contains([]string{"bash", "functions.bash", "execute_command", "execute_bash", "read_file", "attempt_completion"}, name)
	}
	for text, form := range map[string]string{
		dsml: "DSML",
		strings.ReplaceAll(dsml, "function_calls", "tool_calls"):                                              "DSML",
		strings.ReplaceAll(dsml, "｜", "|"):                                                                    "DSML",
		strings.ReplaceAll(dsml, "｜", "||"):                                                                   "DSML",
		strings.ReplaceAll(dsml, "｜DSML｜", " | DSML | "):                                                      "DSML",
		"<|tool_call>call:bash{cmd:<|\"|>ls<|\"|>}<tool_call|>":                                               "Gemma's marks",
		"<|tool_call>call:bash(cmd: \"ls\")<tool_call|>":                                                      "Gemma's marks",
		"call:bash{cmd:ls}":                                                                                   "Gemma's marks",
		"<start_function_call>call:bash{cmd:<escape>ls<escape>}<end_function_call>":                           "Gemma's marks",
		"<|tool_call_start|>[bash(cmd=\"ls\")]<|tool_call_end|>":                                              "a <tool_call> tag",
		"[bash(cmd=\"ls\")]":                                                                                  "a Python list",
		"<|python_start|>[bash(cmd=\"ls\")]<|python_end|>":                                                    "a <tool_call> tag",
		"<seed:tool_call>\n<function=bash>\n<parameter=cmd>ls</parameter>\n</function>\n</seed:tool_call>":    "a <function> tag",
		"<|channel|>commentary to=functions.bash <|constrain|>json<|message|>{\"cmd\":\"ls\"}":                "harmony's channels",
		"<|start|>assistant to=functions.bash<|channel|>commentary json<|message|>{\"cmd\":\"ls\"}":           "harmony's channels",
		"commentary to=functions.bash json{\"cmd\":\"ls\"}":                                                   "harmony's channels",
		"We look.assistantcommentary to=functions.bash json{\"cmd\":\"ls\"}":                                  "harmony's channels",
		"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>bash\n```json\n{}\n```":                   "DeepSeek's marks",
		"```tool_code\nprint(default_api.bash(cmd=\"ls\"))\n```":                                              "a fence of tool_code",
		"```tool_code\nresult = bash(cmd='ls')\n```":                                                          "a fence of tool_code",
		"<tool_code>\nbash(cmd='ls')\n</tool_code>":                                                           "a fence of tool_code",
		"Thought: I list them.\nAction: bash\nAction Input: {\"cmd\": \"ls\"}\nObservation: a.txt\nI saw it.": "an Action line",
		"**Action:** `execute_bash`\n**Action Input:** ls":                                                    "an Action line",
		"Action: bash[ls]": "an Action line",
		"```json\n{\"action\": \"execute_bash\", \"action_input\": \"ls\"}\n```":                                                "JSON",
		"{\n  \"type\": \"function\",\n  \"function\": {\n    \"name\": \"bash\",\n    \"arguments\": {}\n  }\n}":               "JSON",
		"Now.\n```json\n{\"name\": \"bash\", \"arguments\": {\"cmd\": \"ls\"}}\n```":                                            "JSON",
		"```\n{\"arguments\": {\"cmd\": \"ls\"}, \"name\": \"bash\"}\n```":                                                      "JSON",
		"{\"tool\": \"bash\", \"cmd\": \"ls\"}":                                                                                 "JSON",
		"<execute_bash>\nls\n</execute_bash>":                                                                                   "XML",
		"I list.\n\n<execute_command>\n<command>ls</command>\n<requires_approval>false</requires_approval>\n</execute_command>": "XML",
		"<read_file>\n<path>a</path>\n</read_file>":                                                                             "XML",
		"<bash>ls</bash>":                       "XML",
		"<write_file path=\"a\">x</write_file>": "XML",
	} {
		sign := toolcall.In(text, offered, known)
		require.Equal(t, form, sign.Form, text)
		require.NotEmpty(t, sign.Tool)
		require.Equal(t, !strings.HasPrefix(text, "We look."), sign.Alone, text)
	}
	for _, text := range []string{
		"Action: look at the log.", "The next action: bash scripts.", "<code>bash</code>", "<read_file> is how Cline reads.", "<path>bash</path>",
		"Ask to=functions.none.", "{\"action\": \"bash\"}", "to=bash", `{"name": "execute_bash", "arguments": {}}`, "call: bash (by phone)", "[bash](https://example.org)",
	} {
		require.Empty(t, toolcall.In(text, offered, known), text)
	}
}

func TestAnExplanationIsNotACallAlone(t *testing.T) {
	t.Parallel()
	const call = "<tool_call>\n{\"name\": \"bash\", \"arguments\": {\"cmd\":\"ls\"}}\n</tool_call>"
	bash := func(name string) bool { return name == "bash" }
	for text, want := range map[string]bool{
		call:         true,
		" \n" + call: true,
		"<tool_call>\n{\"name\": \"bash\", \"arguments\": {\"cmd\":": true,
		"<think>What now?</think>\n" + call + "\nThat lists them.":   true,
		"I list the files.\n" + call:                                 true,
		"I list the files:\n```xml\n" + call + "\n```":               true,
		call + "\nThat lists the files.":                             true,
		"One writes " + call:                                         false,
		"<think>What now?</think>\nOne writes " + call:               false,
		"<think>What now?</think>\nI list the files.\n" + call:       true,
		"</think>One writes " + call:                                 false,
		"One writes\n" + call + "\nfor bash.<|im_end|>":              false,
		"One writes\n" + call + "\nwhere bash is the tool.":          false,
	} {
		sign := toolcall.In(text, bash, bash)
		require.Equal(t, "bash", sign.Tool, text)
		require.Equal(t, want, sign.Alone, text)
	}
}

// The names of elements are many in a page, and each is asked about once.
func TestANameIsAskedAboutOnce(t *testing.T) {
	t.Parallel()
	asked := 0
	none := func(name string) bool {
		if name == "some_name" {
			asked++
		}
		return false
	}
	require.Empty(t, toolcall.In(strings.Repeat("<some_name></some_name>\n", 100), none, func(string) bool { return false }))
	require.LessOrEqual(t, asked, 2, "once for each form of an element")
}

func TestACallThatATextQuotes(t *testing.T) {
	t.Parallel()
	bash := func(name string) bool { return name == "bash" }
	const call = `{"name": "bash", "arguments": {"cmd": "ls"}}`
	for text, want := range map[string]bool{
		"A call looks so:\n\n```json\n" + call + "\n```": true,
		"A call is JSON.\n```json\n" + call + "\n```":    true,
		"A call looks so:\n" + call:                      true,
		"```json\n" + call + "\n```":                     false,
		call:                                             false,
		"I look at it.\n" + call:                         false,
	} {
		sign := toolcall.In(text, bash, bash)
		require.Equal(t, "bash", sign.Tool)
		require.Equal(t, want, sign.Quoted, text)
	}
}

// A call that is a part of what an answer says is no call that failed.
func TestACallThatIsAnExample(t *testing.T) {
	t.Parallel()
	bash := func(name string) bool { return name == "bash" }
	const call = `{"name": "bash", "arguments": {"cmd": "ls"}}`
	for text, want := range map[string]bool{
		"A call looks so:\n\n```json\n" + call + "\n```\n\nThe server reads it.":          true,
		"The log has `" + call + "` in it.":                                               true,
		"The test sends `" + call + "`":                                                   true,
		"Models write\n<tool_call>\n" + call + "\n</tool_call>\nfor it.":                  false,
		"<think>How?</think>The log has <tool_call>" + call + "</tool_call>, and no end.": false,
		"Now.\n```json\n" + call + "\n```":                                                false,
		"I list them.\n<tool_call>\n" + call + "\n</tool_call>":                           false,
		"<think>I list them.</think>\n" + call + "\nThat lists them.":                     false,
		"We look.assistantcommentary to=functions.bash json{\"cmd\":\"ls\"}":              false,
		call: false,
	} {
		sign := toolcall.In(text, bash, bash)
		require.Equal(t, "bash", sign.Tool, text)
		require.Equal(t, want, sign.Example(), text)
	}
}
