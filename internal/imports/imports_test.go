// Package imports_test checks which packages of the module import which. Its tests run the go
// command on the sources of all of them, so that they are run again after every change.
package imports_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "github.com/x/pygent"

// layers are all packages by layer, the lowest first. A package may import only
// packages of lower layers, except for the pairs in withinLayer. "..." stands
// for all packages below a directory, which may import each other.
// ARCHITECTURE.md describes the layers.
var layers = [][]string{
	{ // What leaves share.
		"internal/cut", "internal/escape", "internal/exchange", "internal/filelock", "internal/numeral", "internal/patherr", "internal/pathname",
		"internal/sniff", "internal/starlimit/hush", "internal/tempname", "internal/tree",
	},
	{ // Leaves: each does one thing.
		"internal/approval", "internal/boundset", "internal/budget", "internal/checkpoint/writewatch",
		"internal/console/lineinput", "internal/denylist", "internal/egress", "internal/eventqueue", "internal/export", "internal/filetext",
		"internal/gitrepo/gitwatch", "internal/imports", "internal/jsonobj", "internal/loopdetect", "internal/looptext", "internal/markdown",
		"internal/mediabudget", "internal/openai/thought", "internal/openai/window", "internal/owner", "internal/pasted", "internal/plain",
		"internal/progress", "internal/screen", "internal/slash", "internal/spelling", "internal/starlimit", "internal/survey",
		"internal/testkit/cmdtest", "internal/testkit/enginetest", "internal/testkit/fakebash", "internal/testkit/strict",
		"internal/testkit/termtest", "internal/toolchain", "internal/treedir", "internal/verdict",
	},
	{ // Packages built from leaves.
		"internal/callsummary", "internal/compact", "internal/edit", "internal/filediff", "internal/gitrepo", "internal/guest/...",
		"internal/jobtrack", "internal/livearea", "internal/markdown/ansimark", "internal/markdown/htmlmark", "internal/openai/chatstream",
		"internal/safecall", "internal/skills", "internal/toolcall", "internal/toolschema", "internal/workspace",
	},
	{ // Packages that a part of the root is built on.
		"internal/checkpoint/objstore", "internal/console", "internal/form", "internal/journal/...", "internal/openai/responses", "internal/retry",
		"internal/sandbox", "internal/sessiondir", "internal/settings", "internal/snapshot", "internal/stash", "internal/taskpool",
		"internal/toolcall/callset",
	},
	{ // Packages built from those.
		"internal/checkpoint", "internal/docker", "internal/openai",
	},
	{ // What packages of this module see of histories and agents.
		"internal/bridge",
	},
	{ // What an agent and its model say to each other.
		"chat",
	},
	{ // What goes along with messages.
		"internal/mention",
	},
	{ // Models.
		"openai",
	},
	{ // The package that users import.
		".",
	},
	{ // What is kept of agents, and what they read, which programs import.
		"checkpoint", "project", "sessions", "snapshot",
	},
	{ // What faces share.
		"internal/faces",
	},
	{ // Faces and extensions, which programs import.
		"lines", "otel", "script", "terminal", "web",
	},
	{ // Packages that use the root as a user would.
		"bench/...", "cmd/...", "commands", "e2e/...", "examples/...", "internal/testkit", "internal/testkit/persontest", "pygenttest",
	},
}

// withinLayer are the imports within a layer that are allowed nevertheless.
var withinLayer = map[string][]string{
	"bench/...":                   {"pygenttest"},
	"cmd/...":                     {"commands"},
	"examples/...":                {"pygenttest"},
	"internal/testkit/persontest": {"pygenttest"},
	"internal/testkit":            {"pygenttest"},
	"terminal":                    {"lines"},
	"internal/tempname":           {"internal/filelock"},
	"internal/tree":               {"internal/patherr"},
}

func TestImportsRunDown(t *testing.T) {
	if testing.Short() {
		t.Skip("lists the packages of three systems")
	}
	t.Parallel()
	for _, system := range []string{"linux", "darwin", "windows"} {
		t.Run(system, func(t *testing.T) {
			packages := listPackages(t, system)
			for _, wrong := range append(wrongImports(packages), staleEntries(packages)...) {
				t.Error(wrong)
			}
		})
	}
}

// TestAnAgentLinksNoEndpointOfTheSDK keeps the SDK's client out of programs, most of
// which it would be.
func TestAnAgentLinksNoEndpointOfTheSDK(t *testing.T) {
	const sdk = "github.com/openai/openai-go/v3"
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", module).Output()
	require.NoError(t, err)
	linked := strings.Fields(string(out))
	require.Contains(t, linked, sdk+"/option")
	for _, path := range []string{"", "/responses", "/realtime"} {
		require.NotContains(t, linked, sdk+path)
	}
}

// One package of the library talks to the engine, so that the move to another client of it is
// one change.
func TestOnePackageImportsTheClientOfTheEngine(t *testing.T) {
	if testing.Short() {
		t.Skip("lists the packages")
	}
	t.Parallel()
	importers := map[string]bool{}
	for _, p := range listPackages(t, "linux") {
		for _, path := range p.Imports {
			if strings.HasPrefix(path, "github.com/docker/docker/") {
				importers[shortPath(p.ImportPath)] = true
			}
		}
	}
	maps.DeleteFunc(importers, func(path string, _ bool) bool { // what only tests and measurements use
		return strings.HasPrefix(path, "bench/") || path == "internal/testkit/enginetest"
	})
	require.Equal(t, map[string]bool{"internal/docker": true}, importers)
}

func TestWrongImportsAreFound(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		path, imports, says string
	}{
		"down":                     {".", "internal/settings", ""},
		"down to a leaf":           {"cmd/pygent", "internal/screen", ""},
		"within a directory":       {"internal/guest/server", "internal/guest/wire", ""},
		"the standard library":     {"internal/cut", "", ""},
		"what is allowed":          {"examples/basic", "pygenttest", ""},
		"up to the root":           {"internal/settings", ".", "internal/settings imports github.com/x/pygent: imports run down only"},
		"up below":                 {"internal/tree", "internal/workspace", "internal/tree imports internal/workspace: imports run down only"},
		"within a layer":           {"internal/cut", "internal/denylist", "internal/cut imports internal/denylist: imports run down only"},
		"from another command":     {"cmd/pygent", "pygenttest", "cmd/pygent imports pygenttest: imports run down only"},
		"a package of no layer":    {"internal/new", "", "internal/new is in no layer: add it to the table layers in internal/imports/imports_test.go, above all that it imports"},
		"below one with no dots":   {"internal/cut/new", "", "internal/cut/new is in no layer"},
		"a name that begins alike": {"internal/guests", "", "internal/guests is in no layer"},
	} {
		t.Run(name, func(t *testing.T) {
			p := listedPackage{ImportPath: importPath(tt.path), Imports: []string{"fmt"}}
			if tt.imports != "" {
				p.Imports = append(p.Imports, importPath(tt.imports))
			}
			wrong := wrongImports([]listedPackage{p})
			if tt.says == "" {
				require.Empty(t, wrong)
				return
			}
			require.Len(t, wrong, 1)
			require.Contains(t, wrong[0], tt.says)
		})
	}
}

func TestStaleEntriesAreFound(t *testing.T) {
	t.Parallel()
	var packages []listedPackage
	for _, entry := range slices.Concat(layers...) {
		packages = append(packages, listedPackage{ImportPath: importPath(strings.TrimSuffix(entry, "/..."))})
	}
	require.Empty(t, staleEntries(packages))
	require.Equal(t, []string{"internal/denylist is in the table layers in internal/imports/imports_test.go, but there is no such package"},
		staleEntries(slices.DeleteFunc(packages, func(p listedPackage) bool { return p.ImportPath == importPath("internal/denylist") })))
}

// listedPackage is what the go command reports about a package.
type listedPackage struct {
	Dir, ImportPath string
	Imports         []string
}

// listPackages returns the module's packages as they are built for a GOOS.
func listPackages(t *testing.T, system string) []listedPackage {
	t.Helper()
	list := exec.CommandContext(t.Context(), "go", "list", "-e", "-json=Dir,ImportPath,Imports", module+"/...")
	list.Env = append(os.Environ(), "GOOS="+system, "CGO_ENABLED=0")
	out, err := list.Output()
	require.NoError(t, err)
	var packages []listedPackage
	for decoder := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listedPackage
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else {
			require.NoError(t, err)
		}
		_, err := os.ReadDir(p.Dir) // or go test would take an earlier result for one of changed files
		require.NoError(t, err)
		packages = append(packages, p)
	}
	require.Greater(t, len(packages), 30)
	return packages
}

// wrongImports returns a sentence for each package in no layer, and for each
// import of a package that is not in a lower layer.
func wrongImports(packages []listedPackage) []string {
	var wrong []string
	for _, p := range packages {
		from, layer := layerOf(p.ImportPath)
		if from == "" {
			wrong = append(wrong, shortPath(p.ImportPath)+" is in no layer: add it to the table layers in internal/imports/imports_test.go, above all that it imports")
			continue
		}
		for _, path := range p.Imports {
			to, below := layerOf(path)
			if to == "" || below < layer || from == to && strings.HasSuffix(from, "/...") || slices.Contains(withinLayer[from], to) {
				continue
			}
			wrong = append(wrong, shortPath(p.ImportPath)+" imports "+cmp.Or(shortPath(path), module)+
				": imports run down only; see the table layers in internal/imports/imports_test.go")
		}
	}
	return wrong
}

// staleEntries returns a sentence for each entry of the table that matches no
// package.
func staleEntries(packages []listedPackage) []string {
	used := map[string]bool{}
	for _, p := range packages {
		entry, _ := layerOf(p.ImportPath)
		used[entry] = true
	}
	var stale []string
	for _, entry := range slices.Concat(layers...) {
		if !used[entry] {
			stale = append(stale, entry+" is in the table layers in internal/imports/imports_test.go, but there is no such package")
		}
	}
	return stale
}

// layerOf returns the entry of the table that matches a package, and its layer.
// The entry is empty for a package in no layer, for instance one of another
// module.
func layerOf(path string) (entry string, layer int) {
	for layer, entries := range layers {
		for _, entry := range entries {
			below, all := strings.CutSuffix(entry, "/...")
			if path == importPath(below) || all && strings.HasPrefix(path, importPath(below)+"/") {
				return entry, layer
			}
		}
	}
	return "", 0
}

func importPath(short string) string {
	if short == "." {
		return module
	}
	return module + "/" + short
}

func shortPath(path string) string { return strings.TrimPrefix(strings.TrimPrefix(path, module), "/") }
