package imports_test

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// figure is something that the root package has too much of. It may only fall: new
// functionality goes into a package above the root, as ARCHITECTURE.md says.
type figure struct {
	name  string
	most  int
	slack int // how far it may be below most before that has to be lowered; at least 1
}

// figures are what the root has at most. Lower a number when the test says so, and never
// raise one.
var figures = []figure{
	{"files", 33, 1},
	{"lines", 20000, 200},
	{"methods of Agent", 66, 1},
	{"fields of Agent", 31, 1},
	{"fields of run", 36, 1},
	{"fields of options", 56, 1},
	{"exported names", 552, 5},
	{"pairs of files that use each other's unexported names", 259, 10},
}

func TestTheRootOnlyShrinks(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles what the root imports")
	}
	t.Parallel()
	is := measure(t)
	require.Len(t, is, len(figures))
	for _, f := range figures {
		require.Contains(t, is, f.name)
		if complaint := f.complaint(is[f.name]); complaint != "" {
			t.Error(complaint)
		}
	}
}

func TestARatchetGivesNeitherWay(t *testing.T) {
	t.Parallel()
	f := figure{"files", 97, 2}
	require.Empty(t, f.complaint(97))
	require.Empty(t, f.complaint(96))
	require.Equal(t, "the root has 98 files, at most 97: new functionality goes into a package above the root", f.complaint(98))
	require.Equal(t, "the root has 95 files: lower the figure from 97 in internal/imports/ratchet_test.go", f.complaint(95))
}

func (f figure) complaint(is int) string {
	switch {
	case is > f.most:
		return fmt.Sprintf("the root has %d %s, at most %d: new functionality goes into a package above the root", is, f.name, f.most)
	case is <= f.most-f.slack:
		return fmt.Sprintf("the root has %d %s: lower the figure from %d in internal/imports/ratchet_test.go", is, f.name, f.most)
	}
	return ""
}

// measure returns the figures of the root, by name.
func measure(t *testing.T) map[string]int {
	t.Helper()
	names, err := filepath.Glob("../../*.go")
	require.NoError(t, err)
	is := map[string]int{}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		is["files"]++
		is["lines"] += bytes.Count(text, []byte("\n"))
	}
	root, pkg, uses := checkRoot(t)
	agent := pkg.Scope().Lookup("Agent").Type().(*types.Named)
	is["methods of Agent"] = agent.NumMethods()
	for _, name := range []string{"Agent", "run", "options"} {
		is["fields of "+name] = pkg.Scope().Lookup(name).Type().Underlying().(*types.Struct).NumFields()
	}
	is["exported names"] = exportedNames(pkg)
	is["pairs of files that use each other's unexported names"] = crossings(root, pkg, uses)
	return is
}

// checkRoot type-checks the root as it is built for this system.
func checkRoot(t *testing.T) (*token.FileSet, *types.Package, map[*ast.Ident]types.Object) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-export", "-deps", "-f", `{{.ImportPath}} {{.Export}}`, module).Output()
	require.NoError(t, err)
	exports := map[string]string{}
	for line := range strings.Lines(string(out)) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		exports[path] = file
	}
	out, err = exec.CommandContext(t.Context(), "go", "list", "-f", `{{join .GoFiles "\n"}}`, module).Output()
	require.NoError(t, err)
	set := token.NewFileSet()
	var files []*ast.File
	for _, name := range strings.Fields(string(out)) {
		file, err := parser.ParseFile(set, filepath.Join("../..", name), nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		files = append(files, file)
	}
	uses := map[*ast.Ident]types.Object{}
	config := types.Config{Importer: importer.ForCompiler(set, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })}
	pkg, err := config.Check(module, set, files, &types.Info{Uses: uses})
	require.NoError(t, err)
	return set, pkg, uses
}

// exportedNames counts what a package exports: names, and the exported methods of types.
func exportedNames(pkg *types.Package) (n int) {
	for _, name := range pkg.Scope().Names() {
		if !token.IsExported(name) {
			continue
		}
		n++
		object, isType := pkg.Scope().Lookup(name).(*types.TypeName)
		if !isType {
			continue
		}
		if named, ok := object.Type().(*types.Named); ok {
			for method := range named.Methods() {
				if method.Exported() {
					n++
				}
			}
		}
	}
	return n
}

// crossings counts the pairs of files of which one uses an unexported name of the other:
// a function, a type, a variable, a constant, a method or a field.
func crossings(set *token.FileSet, pkg *types.Package, uses map[*ast.Ident]types.Object) int {
	pairs := map[[2]string]bool{}
	for ident, object := range uses {
		if object.Pkg() != pkg || object.Exported() || !isOfPackage(object) {
			continue
		}
		a, b := set.Position(ident.Pos()).Filename, set.Position(object.Pos()).Filename
		if a != b {
			pairs[[2]string{min(a, b), max(a, b)}] = true
		}
	}
	return len(pairs)
}

// isOfPackage reports whether a name is not one of a function's own.
func isOfPackage(object types.Object) bool {
	switch o := object.(type) {
	case *types.Var:
		return o.IsField() || o.Parent() == o.Pkg().Scope()
	case *types.Func:
		return true
	}
	return object.Parent() == object.Pkg().Scope()
}
