package examples_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/pygenttest"
)

// The first program of the README does what it says, and keeps its files.
func TestFirstProgramOfTheReadme(t *testing.T) {
	needsPrograms(t)
	t.Parallel()
	readme, err := os.ReadFile("../README.md")
	require.NoError(t, err)
	_, rest, ok := strings.Cut(string(readme), "```go\n")
	require.True(t, ok)
	program, _, ok := strings.Cut(rest, "```\n")
	require.True(t, ok)
	dir := t.TempDir()
	source := filepath.Join(dir, "main.go")
	require.NoError(t, os.WriteFile(source, []byte(program), 0o600))
	binary := filepath.Join(dir, "first")
	out, err := buildProgram("-o", binary, source).CombinedOutput()
	require.NoError(t, err, string(out))

	server := pygenttest.NewServer(t,
		pygenttest.Call("write_file", map[string]any{"path": "primes.sh", "content": "echo 2 3 5\n"}),
		pygenttest.Call("bash", map[string]any{"cmd": "sh primes.sh"}),
		pygenttest.Call("stop", map[string]any{"summary": "They are 2, 3, 5."}))
	cmd := exec.CommandContext(t.Context(), binary)
	cmd.Dir = t.TempDir()
	cmd.Env = append(append(os.Environ(), server.Env()...), "PYGENT_USE_DOCKER=0")
	out, err = cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	require.Equal(t, "stopped They are 2, 3, 5.\n", string(out))
	require.FileExists(t, filepath.Join(cmd.Dir, "primes", "primes.sh"))
}

// Whoever looks for an example finds it in the list.
func TestTheReadmeOfTheExamplesListsAll(t *testing.T) {
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	programs, err := filepath.Glob("*/main.go")
	require.NoError(t, err)
	for _, program := range programs {
		name := filepath.Dir(program)
		require.True(t, strings.Contains(string(readme), "["+name+"]("+name+")"), "examples/README.md does not list %s", name)
	}
	for _, link := range regexp.MustCompile(`\]\(([^)]+)\)`).FindAllStringSubmatch(string(readme), -1) {
		_, err := os.Stat(link[1])
		require.NoError(t, err)
	}
}
