package screen

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// elsewhere are the directories that the test leaves out: their programs do not
// write to a user's terminal, or are no part of the library and its command.
var elsewhere = []string{
	"internal/screen",                                               // this
	"internal/guest/cmd",                                            // runs in the container
	"internal/guest/confine/enter",                                  // the same program, before it takes commands: its output is a pipe
	"internal/guest/supervise",                                      // likewise
	"internal/testkit",                                              // runs tests
	"cmd/internal/docs", "cmd/internal/man", "cmd/internal/notices", // programs for developers
	"bench", "scripts", "e2e", "examples", "testdata", ".git", ".ci",
}

// In the library and its command, only this package may name the standard
// streams or call functions that write to them.
func TestNothingElseWritesToTheTerminal(t *testing.T) {
	top := filepath.Join("..", "..")
	var read int
	err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(top, path)
		for _, dir := range elsewhere {
			if d.IsDir() && filepath.ToSlash(rel) == dir {
				return fs.SkipDir
			}
		}
		if d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		read++
		for _, found := range writers(t, path) {
			t.Errorf("%s: use internal/screen", found)
		}
		return nil
	})
	require.NoError(t, err)
	require.Greater(t, read, 100)
}

func TestWritersAreFound(t *testing.T) {
	require.Len(t, writers(t, filepath.Join("testdata", "writers.go")), 7)
}

// writers returns where a file writes to the standard streams.
func writers(t *testing.T, path string) (found []string) {
	t.Helper()
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution|parser.ParseComments)
	require.NoError(t, err)
	if len(file.Comments) > 0 && strings.HasPrefix(file.Comments[0].List[0].Text, "//go:build ignore") {
		return nil // a program for developers
	}
	ast.Inspect(file, func(n ast.Node) bool {
		name := ""
		switch n := n.(type) {
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok {
				name = x.Name + "." + n.Sel.Name
			}
		case *ast.CallExpr:
			if f, ok := n.Fun.(*ast.Ident); ok && (f.Name == "print" || f.Name == "println") {
				name = f.Name
			}
		}
		switch {
		case name == "os.Stdout", name == "os.Stderr", name == "syscall.Stdout", name == "syscall.Stderr", name == "print", name == "println",
			strings.HasPrefix(name, "fmt.Print"),
			strings.HasPrefix(name, "log.Print"), strings.HasPrefix(name, "log.Fatal"), strings.HasPrefix(name, "log.Panic"):
			found = append(found, files.Position(n.Pos()).String()+": "+name)
		}
		return true
	})
	return found
}
