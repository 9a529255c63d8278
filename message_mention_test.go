package pygent_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/pygenttest"
)

func TestAMessageTakesTheFilesAlongThatItMentions(t *testing.T) {
	t.Parallel()
	ws := t.TempDir()
	for name, content := range map[string]string{
		"main.go": "package main\n", "a b.txt": "blank\n", "pic.png": pngFile, "dir/inside.txt": "x", "program": "\x7fELF\x00\x01",
		"large.txt": strings.Repeat("x", 256<<10+1), "large.png": pngFile + strings.Repeat("x", 300<<10), "huge.png": pngFile + strings.Repeat("x", 6<<20),
	} {
		require.NoError(t, os.MkdirAll(filepath.Join(ws, filepath.Dir(name)), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(ws, name), []byte(content), 0o600))
	}
	require.NoError(t, os.Symlink("/etc/passwd", filepath.Join(ws, "out")))
	agent := newAgentOn(t, runtimeIn(t, ws), pygenttest.NewScriptedModel())

	for text, want := range map[string]string{
		"nothing, ada@example.org":     "",
		"see @main.go, and @./main.go": "main.go: The file main.go:",
		`@"a b.txt"!`:                  "a b.txt: The file a b.txt:",
		"@dir":                         "dir/: dir: a directory with 1 entry",
		"@pic.png @large.png":          "pic.png: data:image/png;base64 large.png: data:image/png;base64",
		"@program":                     "program: The content of the file program does not go along: it is no text, image, PDF file or recording that can (6 B). Look at it with your tools.",
		"@large.txt":                   "large.txt: The content of the file large.txt does not go along: it is too large (262.1 kB). Look at it with your tools.",
		"@huge.png":                    "huge.png: The content of the file huge.png does not go along: it is no text,",
		`@"main.go " @.\main.go @file://` + ws + "/main.go": "main.go: The file main.go:",
		"@~/main.go @file:///etc/passwd":                    "missing ~/main.go file:///etc/passwd",
		"@none.txt @ada @out @../x\x1bz":                    `missing none.txt ada out "../x\x1bz"`,
	} {
		parts, missing, err := agent.AttachMentioned(t.Context(), text)
		require.NoError(t, err, text)
		var got []string
		for _, p := range parts {
			head, _, _ := strings.Cut(p.Text+p.ImageURL, ",iVBOR")
			got = append(got, p.FileName+": "+head)
		}
		if len(missing) > 0 {
			got = append(got, "missing "+strings.Join(missing, " "))
		}
		require.True(t, strings.HasPrefix(strings.Join(got, " "), want) && (want != "" || got == nil), "%s: %q", text, got)
	}
}

func TestAPlainSessionTakesFilesAlong(t *testing.T) {
	t.Parallel()
	ws := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(ws, "main.go"), []byte("package main\n"), 0o600))
	const message = "read @main.go and @none.go"
	for name, test := range map[string]struct {
		first pygent.Message
		input string
		said  string
	}{
		"typed":         {pygent.Message{}, message + "\n", message + "The file main.go:\n```\npackage main\n```"},
		"given":         {pygent.UserMessage(message), "", message + "The file main.go:\n```\npackage main\n```"},
		"given in part": {pygent.UserMessage("", pygent.Part{Text: message}), "", message},
	} {
		t.Run(name, func(t *testing.T) {
			var out strings.Builder
			agent := newAgentOn(t, runtimeIn(t, ws), pygenttest.NewScriptedModel(pygenttest.Text("It is short.")),
				pygent.WithIO(strings.NewReader(test.input), &out), pygent.WithFirstMessage(test.first))
			require.NoError(t, agent.RunInteractive(t.Context()))
			_, shown, _ := strings.Cut(out.String(), "\n")
			if test.said != message {
				require.Equal(t, "(with main.go)\n! not in the workspace: none.go\nIt is short.\n", shown)
			}
			require.Equal(t, []string{test.said}, users(agent))
		})
	}
}

func TestAPlainSessionTakesDraggedImagesAlong(t *testing.T) {
	t.Parallel()
	pic := filepath.Join(t.TempDir(), "My Shot.png")
	require.NoError(t, os.WriteFile(pic, []byte(pngFile), 0o600))
	text := filepath.Join(filepath.Dir(pic), `My\ Shot.png`)
	if filepath.Separator != '/' {
		text = `"` + pic + `"`
	}
	var out strings.Builder
	agent := newAgent(t, pygenttest.NewScriptedModel(pygenttest.Text("Nice.")), pygent.WithIO(strings.NewReader(text+" what is this\n"), &out))
	require.NoError(t, agent.RunInteractive(t.Context()))
	require.Contains(t, out.String(), "(with "+pic+")")
	said := agent.History().Messages()[1]
	require.True(t, strings.HasPrefix(said.Parts[1].ImageURL, "data:image/png;base64,"))
}

// runtimeIn is a local runtime with a workspace that exists.
func runtimeIn(t *testing.T, ws string) pygent.Runtime {
	t.Helper()
	rt, err := pygent.NewLocalRuntime(t.Context(), pygent.WithWorkspace(ws))
	require.NoError(t, err)
	return rt
}
