package calltext_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/calltext"
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
		{"", false},
		{"I ran bash, and all is well.", false},
		{"<tool_call>{\"name\": \"other\", \"arguments\": {}}</tool_call>", false},
		{"{\"name\": \"bash\", \"version\": 5}", false},
		{"{\"name\": \"bashful\", \"arguments\": {}}", false},
		{"Call `bash` with {\"cmd\": \"ls\"}.", false},
	}
	for _, c := range cases {
		name := calltext.In(c.text, func(name string) bool { return slices.Contains(tools, name) })
		require.Equal(t, c.want, name != "", c.text)
	}
	require.Empty(t, calltext.In(cases[0].text, func(string) bool { return false }))
}
