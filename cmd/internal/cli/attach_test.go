package cli

import (
	"bytes"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/pygenttest"
)

// inFile writes a file of the test and returns its path.
func inFile(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

func TestFilesAreSentWithThePrompt(t *testing.T) {
	t.Parallel()
	notes := inFile(t, "notes, of today.txt", "buy milk")
	var drawn bytes.Buffer
	require.NoError(t, png.Encode(&drawn, image.NewGray(image.Rect(0, 0, 2, 2))))
	picture := inFile(t, "drawn.png", drawn.String())
	server := pygenttest.NewServer(t, pygenttest.Call("stop", map[string]any{"summary": "Seen."}))
	got := finish(t, command(t, server.Env(), "run", "--no-docker", "--attach", notes, "--attach", picture, "What", "is", "it?"))
	require.Equal(t, 0, got.code, got.stderr)
	messages := server.Requests()[0].Chat.Messages
	sent := messages[len(messages)-1]
	require.Len(t, sent.Parts, 3)
	require.Equal(t, "What is it?", sent.Parts[0].Text)
	require.Contains(t, sent.Parts[1].Text, "buy milk")
	require.True(t, strings.HasPrefix(sent.Parts[2].ImageURL, "data:image/png;base64,"))
}

func TestFilesAreSentWithTheFirstMessageOfASession(t *testing.T) {
	t.Parallel()
	notes := inFile(t, "notes.txt", "buy milk")
	server := pygenttest.NewServer(t, pygenttest.Text("Milk."), pygenttest.Text("No."))
	cmd := command(t, server.Env(), "--no-docker", "--attach", notes)
	cmd.Stdin = strings.NewReader("What is it?\nAny more?\n")
	got := finish(t, cmd)
	require.Equal(t, 0, got.code, got.stderr)
	sent := server.Requests()[0].Chat.Messages[1:]
	require.Len(t, sent, 2)
	require.Contains(t, sent[0].Text(), "buy milk")
	require.Equal(t, "What is it?", sent[1].Text())
}

func TestWhatCannotBeAttachedIsSaid(t *testing.T) {
	t.Parallel()
	program := inFile(t, "program.bin", "\x7fELF\x00\x01")
	for want, args := range map[string][]string{
		"--attach: attach /nowhere/x: no such file or directory":                    {"run", "--no-docker", "--attach", "/nowhere/x", "Go."},
		program + ": neither text in UTF-8 nor an image, a PDF file or a recording": {"run", "--no-docker", "--attach", program, "Go."},
		"not a regular file":           {"--no-docker", "--attach", t.TempDir()},
		"--attach: the value is empty": {"run", "--no-docker", "--attach", "", "Go."},
		"--attach needs a prompt":      {"run", "--no-docker", "--resume", "--history", inFile(t, "h.json", "[]"), "--attach", inFile(t, "a.txt", "a")},
	} {
		server := pygenttest.NewServer(t)
		got := finish(t, command(t, server.Env(), args...))
		require.Equal(t, 2, got.code, args)
		require.Contains(t, got.stderr, want)
		require.Empty(t, server.Requests())
	}
}
