package imports_test

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// behaviours are the test files of the root that are named after no source file, each with
// what it tests. All but main and export say so themselves, in their first comment.
var behaviours = map[string]string{
	"main":               "runs the tests, and has the helpers that three or more files use",
	"export":             "opens to the tests outside of the package what it exports to nobody else",
	"example":            "shows uses of the API that belong to no single name",
	"large":              "is left out under the race detector: what takes much memory stays bounded",
	"question":           "asks the user, in an agent and in its tasks",
	"random":             "lets agents work at random",
	"runtime_faults":     "lets containers, engines and helper processes hang or go away",
	"runtime_files":      "copies files into workspaces and out of them",
	"runtime_git":        "uses git in workspaces",
	"runtime_network":    "reaches hosts from commands",
	"runtime_owner":      "looks at the owners of what commands make",
	"runtime_protection": "confines commands without a container",
	"runtime_start":      "starts containers",
	"sweep":              "removes what dead processes left",
}

// ofSystem is what the name of a test file ends in besides what it is named after.
var ofSystem = regexp.MustCompile(`(_internal)?(_(linux|windows|unix|other))?$`)

func TestTestsOfTheRootAreNamedAfterWhatTheyTest(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("../../*.go")
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	var names []string
	for _, path := range paths {
		names = append(names, filepath.Base(path))
	}
	require.Empty(t, misnamed(names, behaviours))
	for _, path := range paths {
		name, isTest := testedBy(filepath.Base(path))
		if _, isBehaviour := behaviours[name]; !isTest || !isBehaviour {
			continue
		}
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Regexp(t, `(?m)\A(//go:build .*\n\n)?// (This|These) `, string(text), "%s begins with a sentence that says which behaviour it tests", path)
	}
}

func TestMisnamedTestFiles(t *testing.T) {
	t.Parallel()
	known := map[string]string{"main": "", "runtime_git": ""}
	for name, tt := range map[string]struct {
		files []string
		wrong []string
	}{
		"a source file":    {[]string{"task.go", "task_test.go", "task_internal_test.go", "task_linux_test.go", "task_internal_windows_test.go"}, nil},
		"a behaviour":      {[]string{"runtime_git_test.go", "runtime_git_linux_test.go"}, nil},
		"no source file":   {[]string{"task.go", "tasks_test.go"}, []string{"tasks_test.go: there is no tasks.go in the root"}},
		"a part of one":    {[]string{"task.go", "task_crash_test.go"}, []string{"task_crash_test.go: there is no task_crash.go in the root"}},
		"a behaviour gone": {[]string{"main_test.go"}, []string{"behaviours names runtime_git, but there is no such test file"}},
		"both":             {[]string{"main.go"}, []string{"behaviours names main, but there is a main.go"}},
	} {
		t.Run(name, func(t *testing.T) {
			files := tt.files
			for _, name := range []string{"main_test.go", "runtime_git_test.go"} {
				if !strings.HasPrefix(tt.files[0], "main_test") && !slices.Contains(files, name) {
					files = append(files, name)
				}
			}
			require.Equal(t, tt.wrong, misnamed(files, known))
		})
	}
}

// testedBy returns what a test file is named after.
func testedBy(file string) (name string, isTest bool) {
	name, isTest = strings.CutSuffix(file, "_test.go")
	return ofSystem.ReplaceAllString(name, ""), isTest
}

// misnamed returns what is wrong with the names of test files, of all files of a package.
func misnamed(files []string, behaviours map[string]string) (wrong []string) {
	tests := map[string]bool{}
	for _, file := range files {
		name, isTest := testedBy(file)
		tests[name] = tests[name] || isTest
		if _, isBehaviour := behaviours[name]; isTest && !isBehaviour && !slices.Contains(files, name+".go") {
			wrong = append(wrong, file+": there is no "+name+".go in the root")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(behaviours)) {
		switch {
		case slices.Contains(files, name+".go"):
			wrong = append(wrong, "behaviours names "+name+", but there is a "+name+".go")
		case !tests[name]:
			wrong = append(wrong, "behaviours names "+name+", but there is no such test file")
		}
	}
	return wrong
}
