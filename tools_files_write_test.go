package pygent_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/pygenttest"
)

func TestAFileIsNotReplacedByAPlaceholderUnasked(t *testing.T) {
	t.Parallel()
	dir, rt := workspaceWith(t, map[string]string{"a.go": twoFunctions})
	short := "package a\n\n// ... existing code ...\n"
	write := rawCall("write_file", jsonOf(t, map[string]any{"path": "a.go", "content": short}))
	other := rawCall("write_file", jsonOf(t, map[string]any{"path": "new.go", "content": short}))
	agent := newAgentOn(t, rt, pygenttest.NewScriptedModel(write, other, stop, write, stop))
	_, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.Equal(t, map[string]string{"a.go": twoFunctions, "new.go": short}, filesIn(t, dir))
	said := agent.History().Messages()[3].Text()
	require.Contains(t, said, `a.go was left as it is: write_file replaces the whole file, so that line 3, "// ... existing code ...", would stand in the file as it is, and 6 of its 7 lines would be lost: "func A() int {", "return 1", "}", ….`)
	_, err = agent.RunUntilStop(t.Context(), "again")
	require.NoError(t, err)
	require.Equal(t, short, filesIn(t, dir)["a.go"])
}
