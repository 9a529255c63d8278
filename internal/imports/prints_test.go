package imports

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// mayPrint are where a program's own output is written: commands, faces, the guest's
// programs, and what only tests use.
var mayPrint = []string{
	"bench", "cmd", "e2e", "examples", "internal/guest/confine/enter", "internal/guest/supervise", "internal/starlimit/hush",
	"internal/testkit", "internal/screen", "terminal",
}

// printers are what writes to the streams or the log of the whole process.
var printers = map[string][]string{
	"fmt": {"Print", "Printf", "Println"},
	"log": {"Print", "Printf", "Println", "Fatal", "Fatalf", "Fatalln", "Panic", "Panicf", "Panicln", "SetOutput", "SetFlags", "Default"},
	"os":  {"Stdout", "Stderr"},
}

// A program that embeds an agent owns its standard output, its standard error and its
// log.
func TestALibraryPrintsNothing(t *testing.T) {
	t.Parallel()
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(root, path)
		rel = filepath.ToSlash(rel)
		switch {
		case err != nil:
			return err
		case d.IsDir() && rel != "." && (slices.Contains(mayPrint, rel) || strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata"):
			return fs.SkipDir
		case d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, nil, 0)
		require.NoError(t, err)
		if file.Name.Name == "main" {
			return nil
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if s, ok := n.(*ast.SelectorExpr); ok {
				if pkg, ok := s.X.(*ast.Ident); ok && pkg.Obj == nil && slices.Contains(printers[pkg.Name], s.Sel.Name) {
					t.Errorf("%s: %s.%s: a library prints nothing", files.Position(n.Pos()), pkg.Name, s.Sel.Name)
				}
			}
			if call, ok := n.(*ast.CallExpr); ok {
				if f, ok := call.Fun.(*ast.Ident); ok && f.Obj == nil && (f.Name == "print" || f.Name == "println") {
					t.Errorf("%s: %s: a library prints nothing", files.Position(n.Pos()), f.Name)
				}
			}
			return true
		})
		return nil
	})
	require.NoError(t, err)
}
