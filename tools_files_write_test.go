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

// A patch as the content of its own file is applied. One that does not fit is refused once.
func TestAFileIsNotReplacedByAPatchForItUnasked(t *testing.T) {
	t.Parallel()
	dir, rt := workspaceWith(t, map[string]string{"a": "x\n", "b": "x\n"})
	write := func(path, old string) pygenttest.Reply {
		return rawCall("write_file", jsonOf(t, map[string]any{"path": path, "content": "<<<<<<< SEARCH\n" + old + "\n=======\ny\n>>>>>>> REPLACE\n"}))
	}
	agent := newAgentOn(t, rt, pygenttest.NewScriptedModel(write("a", "x"), write("b", "q"), stop, write("b", "q"), write("sample", "q"), stop))
	_, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.Equal(t, map[string]string{"a": "y\n", "b": "x\n"}, filesIn(t, dir))
	require.Contains(t, results(agent)[0], "edited a at line 1")
	require.Contains(t, results(agent)[1], "b was left as it is: write_file replaces the whole file, so that it would hold the patch itself instead of what this makes of it. Change a part with edit_file, or give the whole content; if the file is meant to be so, make the same call again")
	_, err = agent.RunUntilStop(t.Context(), "again")
	require.NoError(t, err)
	blocks := "<<<<<<< SEARCH\nq\n=======\ny\n>>>>>>> REPLACE\n"
	require.Equal(t, map[string]string{"a": "y\n", "b": blocks, "sample": blocks}, filesIn(t, dir))
}
