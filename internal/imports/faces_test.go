package imports_test

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// keptForTemplates are the packages of this module that a program gets because
// it runs a template: what the exported methods of Agent refer to. Faces must
// not be among them.
var keptForTemplates = []string{"internal/export", "internal/mention", "internal/slash"}

func TestAnEmbedderLinksNoFace(t *testing.T) {
	if testing.Short() {
		t.Skip("links two programs")
	}
	t.Parallel()
	plain, withTemplate := linkedPackages(t, "bench/embed/pygent"), linkedPackages(t, "bench/embed/template")
	for _, face := range []string{"terminal", "web", "internal/livearea", "internal/markdown", "internal/markdown/ansimark", "internal/markdown/htmlmark"} {
		require.False(t, plain[face], "an embedder links %s", face)
	}
	var more []string
	for path := range withTemplate {
		if !plain[path] {
			more = append(more, path)
		}
	}
	slices.Sort(more)
	require.Equal(t, keptForTemplates, more)
}

// linkedPackages builds a program and returns the packages of this module of
// which it contains code.
func linkedPackages(t *testing.T, program string) map[string]bool {
	t.Helper()
	path := filepath.Join(t.TempDir(), "program")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-ldflags=-w", "-o", path, importPath(program)).CombinedOutput()
	require.NoError(t, err, string(out))
	symbols, err := exec.CommandContext(t.Context(), "go", "tool", "nm", path).Output()
	require.NoError(t, err)
	require.NoError(t, os.Remove(path))
	packages := map[string]bool{}
	for _, match := range inModule.FindAllSubmatch(symbols, -1) {
		packages[string(match[1])] = true
	}
	require.Contains(t, slices.Collect(maps.Keys(packages)), "internal/sandbox", "the symbols of %s were not understood", program)
	return packages
}

// inModule matches a function of a package below the root, as "go tool nm"
// lists it.
var inModule = regexp.MustCompile(`(?m) T ` + regexp.QuoteMeta(module) + `/([a-z0-9/]+)\.`)
