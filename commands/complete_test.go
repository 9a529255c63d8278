package commands_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/pygenttest"
)

func TestArgumentsAreCompleted(t *testing.T) {
	agent := session(t, pygenttest.Call("write_file", map[string]any{"path": "src/new file.go", "content": "x"}), pygenttest.Text("Done."))
	_, err := agent.RunUntilStop(t.Context(), "go", pygent.WithEndOnReply())
	require.NoError(t, err)
	home := t.TempDir()
	t.Setenv("HOME", home)
	require.NoError(t, os.MkdirAll(filepath.Join(home, "docs"), 0o700))
	for _, name := range []string{"a file.txt", ".hidden", "odd\x1b[2J"} {
		require.NoError(t, os.WriteFile(filepath.Join(home, name), nil, 0o600))
	}
	require.NoError(t, os.Symlink("docs", filepath.Join(home, "linked")))
	require.NoError(t, agent.SetModel(nil, "small"))
	agent.Tools().Disable("bash")
	for line, want := range map[string][]string{
		"/confirm-bash ":        {"on", "off"},
		"/confirm-bash o":       {"on", "off"},
		"/confirm-bash on ":     nil,
		"/model s":              {"small"},
		"/tools e":              {"enable"},
		"/tools enable ":        {"bash"},
		"/tools enable bash ":   nil,
		"/tools disable write_": {"write_file"},
		"/tools list ":          nil,
		"/cp ~/":                {"~/a file.txt", "~/docs/", "~/linked/", "~/.hidden"},
		"/cp " + home + "/a":    {home + "/a file.txt"},
		"/cp /nowhere/at/all/":  nil,
		"/cp x s":               {"src/"},
		"/export s":             {"src/"},
		"/export src/":          {"src/new file.go"},
		"/export ../":           nil,
		"/export src ~/d":       {"~/docs/"},
		"/diff ":                {"src/new file.go"},
		"/usage ":               nil,
	} {
		list, err := agent.CompleteCommand(t.Context(), line)
		require.NoError(t, err, line)
		var words []string
		for _, c := range list {
			words = append(words, c.Word)
		}
		require.Equal(t, want, words, line)
	}
}
