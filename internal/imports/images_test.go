package imports

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// nameImages are the files of tests and scripts with the name of an image that a registry
// may serve, each with the reason why nothing fetches it.
var nameImages = map[string]string{
	"bench/embed/alone/main.go": "is linked to be weighed, and never run",
	"persona_test.go":           "describes runtimes that there are not",
	"setup_test.go":             "sets an agent up without Docker",
}

// anImage matches the name of an image in a text, with the registry that it names.
var anImage = regexp.MustCompile(`(?:\b[a-z0-9][a-z0-9.:/-]*/)?(?:\bpygent-test/[a-z]+|\b(?:alpine|busybox|debian|golang|node|python|ruby|rust|ubuntu):(?:[0-9]|latest|slim|stable)[a-z0-9.-]*)`)

// A name that anybody may register is no name for an image that a test runs: where the
// engine does not have it, whatever has been registered would run.
func TestTestsNameNoImageThatARegistryServes(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	unused := map[string]bool{}
	for name := range nameImages {
		unused[name] = true
	}
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(root, path)
		rel = filepath.ToSlash(rel)
		switch {
		case err != nil:
			return err
		case d.IsDir() && rel != "." && rel != ".ci" && (strings.HasPrefix(d.Name(), ".") || d.Name() == "node_modules"):
			return fs.SkipDir
		case !d.Type().IsRegular() || !runsForTests(rel):
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, name := range anImage.FindAllString(string(text), -1) {
			if registry, _, _ := strings.Cut(name, "/"); slices.Contains([]string{"pygent.invalid", "127.0.0.1:1", "localhost:1"}, registry) {
				continue
			}
			if delete(unused, rel); nameImages[rel] == "" {
				t.Errorf("%s names the image %s, which a registry may serve: see package enginetest", rel, name)
			}
		}
		return nil
	})
	require.NoError(t, err)
	require.Empty(t, unused, "exceptions for files that name no such image")
}

// runsForTests reports whether a file is run when this module is tested or measured.
func runsForTests(rel string) bool {
	switch dir, _, _ := strings.Cut(rel, "/"); dir {
	case "bench", "e2e", "examples", "pygenttest":
		return strings.HasSuffix(rel, ".go")
	case "scripts", ".ci", "Makefile":
		return true
	}
	return strings.HasSuffix(rel, "_test.go") || strings.HasPrefix(rel, "internal/testkit/")
}
