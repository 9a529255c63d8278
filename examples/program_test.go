package examples_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// programs is a directory for what the tests build.
var programs string

func TestMain(m *testing.M) {
	var err error
	if programs, err = os.MkdirTemp("", "examples"); err != nil {
		panic(err)
	}
	code := m.Run()
	os.RemoveAll(programs)
	os.Exit(code)
}

// needsPrograms skips a test that links programs where only short ones are wanted.
func needsPrograms(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("links programs")
	}
}

// buildProgram builds a program, without what only debuggers read: most of the time of
// these tests is the linker's.
func buildProgram(args ...string) *exec.Cmd {
	return exec.Command("go", append([]string{"build", "-ldflags=-s -w"}, args...)...)
}

// faces are the examples that import a face, which nothing else may have in its program.
var faces = []string{"terminal", "web_users"}

// withoutFaces and withFaces are two programs with all examples that are not modules of
// their own. To link each example by itself would take half a minute of processor time.
var (
	withoutFaces = sync.OnceValues(func() (string, error) {
		var names []string
		for _, name := range exampleNames() {
			if !slices.Contains(faces, name) {
				names = append(names, name)
			}
		}
		return link("without_faces", names)
	})
	withFaces = sync.OnceValues(func() (string, error) { return link("with_faces", faces) })
)

// exampleNames returns the examples that belong to pygent's module.
func exampleNames() []string {
	mains, _ := filepath.Glob("*/main.go") // the pattern is right
	var names []string
	for _, main := range mains {
		name := filepath.Dir(main)
		if _, err := os.Stat(filepath.Join(name, "go.mod")); err != nil {
			names = append(names, name)
		}
	}
	return names
}

// example prepares a run of an example that ends with ctx.
func example(ctx context.Context, t *testing.T, name string) *exec.Cmd {
	t.Helper()
	needsPrograms(t)
	program := withoutFaces
	if slices.Contains(faces, name) {
		program = withFaces
	}
	path, err := program()
	require.NoError(t, err)
	cmd := exec.CommandContext(ctx, path)
	cmd.Args[0] = name
	return cmd
}

// link links examples to one program, which is the example by whose name it is called.
// For that, the compiler sees each example's main as a function Main of a package.
func link(program string, names []string) (path string, err error) {
	dir := filepath.Join(programs, program)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return "", err
	}
	here, err := os.Getwd()
	if err != nil {
		return "", err
	}
	overlay := map[string]string{filepath.Join(here, program, "main.go"): filepath.Join(dir, "main.go")}
	imports, cases := "", ""
	for _, name := range names {
		source := filepath.Join(here, name, "main.go")
		copied := filepath.Join(dir, name+".go")
		if err := copyAsPackage(copied, source, name); err != nil {
			return "", err
		}
		overlay[source] = copied
		imports += fmt.Sprintf("import %q\n", "github.com/x/pygent/examples/"+name)
		cases += fmt.Sprintf("case %q: %s.Main()\n", name, name)
	}
	main := "package main\nimport \"os\"\n" + imports + "func main() {\nswitch os.Args[0] {\n" + cases + "default: panic(os.Args[0])\n}\n}\n"
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(main), 0o600); err != nil {
		return "", err
	}
	replaced, err := json.Marshal(map[string]any{"Replace": overlay})
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(dir, "overlay.json"), replaced, 0o600); err != nil {
		return "", err
	}
	path = filepath.Join(dir, program)
	out, err := buildProgram("-overlay", filepath.Join(dir, "overlay.json"), "-o", path, "./"+program).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build the examples: %w\n%s", err, out)
	}
	return path, nil
}

// copyAsPackage copies the source of an example, with the name of its package and of its
// main function changed.
func copyAsPackage(copied, source, name string) error {
	text, err := os.ReadFile(source)
	if err != nil {
		return err
	}
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, source, text, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	main := slices.IndexFunc(file.Decls, func(d ast.Decl) bool {
		f, ok := d.(*ast.FuncDecl)
		return ok && f.Recv == nil && f.Name.Name == "main"
	})
	if file.Name.Name != "main" || main < 0 {
		return fmt.Errorf("%s is no program", source)
	}
	var b bytes.Buffer
	at := 0
	for _, change := range []struct {
		name *ast.Ident
		to   string
	}{{file.Name, name}, {file.Decls[main].(*ast.FuncDecl).Name, "Main"}} {
		begin := files.Position(change.name.Pos()).Offset
		b.Write(text[at:begin])
		b.WriteString(change.to)
		at = begin + len(change.name.Name)
	}
	b.Write(text[at:])
	return os.WriteFile(copied, b.Bytes(), 0o600)
}
