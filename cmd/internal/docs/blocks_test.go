package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/cmd/internal/cli"
	"github.com/x/pygent/internal/slash"
	"github.com/x/pygent/script"
)

// block is a fenced block of code in a document. Declare has what the comment before it,
// <!-- go: … -->, declares for it: the names that the text around it is about.
type block struct {
	file, language, declare, text string
	line                          int
}

// documents are all documents that people read, from the root of the module.
func documents(t *testing.T) (names []string) {
	for _, name := range []string{"README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "examples/README.md"} {
		if _, err := os.Stat(filepath.Join(root, name)); err == nil {
			names = append(names, name)
		}
	}
	err := filepath.WalkDir(filepath.Join(root, "docs"), func(path string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() && (d.Name() == "node_modules" || d.Name() == ".vitepress") {
			return fs.SkipDir
		}
		if filepath.Ext(path) == ".md" {
			name, _ := filepath.Rel(root, path)
			names = append(names, filepath.ToSlash(name))
		}
		return err
	})
	require.NoError(t, err)
	return names
}

var (
	fence   = regexp.MustCompile("^( *)(```+)([a-z]*).*$")
	declare = regexp.MustCompile(`^<!-- go: (.*?)(?: -->)?$`)
)

// blocksOf returns the blocks of a document.
func blocksOf(t *testing.T, name string) (blocks []block) {
	data, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
	require.NoError(t, err)
	var open *block
	end, declared, commenting := "", "", false
	for i, line := range strings.Split(string(data), "\n") {
		m := fence.FindStringSubmatch(line)
		switch {
		case open != nil && strings.TrimSpace(line) == end:
			blocks = append(blocks, *open)
			open = nil
		case open != nil:
			open.text += line + "\n"
		case commenting:
			before, _, ends := strings.Cut(line, "-->")
			declared += "\n" + before
			commenting = !ends
		case m != nil:
			open, end = &block{name, m[3], declared, "", i + 1}, m[2]
			declared = ""
		case declare.MatchString(line):
			declared = declare.FindStringSubmatch(line)[1]
			commenting = !strings.HasSuffix(line, "-->")
		}
	}
	require.Nil(t, open, "%s: a block of code does not end", name)
	return blocks
}

// Every block of code in the documentation compiles, parses or loads, by its language. Other
// blocks are text.
func TestCodeInTheDocumentation(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles")
	}
	t.Parallel()
	checks := map[string]func(t *testing.T, b block) error{
		"go": checkGo, "sh": checkShell, "toml": checkTOML, "python": checkScript, "json": checkJSON, "text": nil,
	}
	for _, name := range documents(t) {
		for _, b := range blocksOf(t, name) {
			t.Run(fmt.Sprintf("%s:%d", b.file, b.line), func(t *testing.T) {
				t.Parallel()
				check, ok := checks[b.language]
				require.True(t, ok, "say what this is: ```go, sh, toml, python, json or text")
				if check != nil {
					require.NoError(t, check(t, b))
				}
			})
		}
	}
}

// packagesOf are the packages whose names a fragment may use without an import.
var packagesOf = sync.OnceValues(func() (map[string]string, error) {
	out, err := exec.Command("go", "list", "-f", "{{.Name}} {{.ImportPath}}", "github.com/x/pygent/...").Output()
	if err != nil {
		return nil, err
	}
	packages := map[string]string{"slog": "log/slog", "http": "net/http", "filepath": "path/filepath", "json": "encoding/json", "exec": "os/exec", "rand": "math/rand/v2", "signal": "os/signal", "sql": "database/sql"}
	for _, name := range []string{"bytes", "cmp", "context", "errors", "fmt", "io", "log", "maps", "os", "slices", "strings", "sync", "testing", "time"} {
		packages[name] = name
	}
	packages["require"] = "github.com/stretchr/testify/require"
	for line := range strings.Lines(string(out)) {
		name, path, _ := strings.Cut(strings.TrimSpace(line), " ")
		if name != "main" && !strings.Contains(path, "internal") {
			packages[name] = path
		}
	}
	return packages, nil
})

// exported returns the file of what a package exports, for the type checker.
var exported = sync.OnceValues(func() (map[string]string, error) {
	packages, err := packagesOf()
	if err != nil {
		return nil, err
	}
	args := []string{"list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}"}
	for _, path := range packages {
		args = append(args, path)
	}
	out, err := exec.Command("go", args...).Output()
	if err != nil {
		return nil, err
	}
	files := map[string]string{}
	for line := range strings.Lines(string(out)) {
		path, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		files[path] = file
	}
	return files, nil
})

var use = regexp.MustCompile(`\b([a-z]\w*)\.[A-Z]`)

// checkGo checks the types of a program, of declarations, or of statements. Those are in a
// function with a context and an agent.
func checkGo(t *testing.T, b block) error {
	source := b.text
	if !strings.HasPrefix(strings.TrimSpace(source), "package ") {
		packages, err := packagesOf()
		if err != nil {
			return err
		}
		var head strings.Builder
		head.WriteString("package main\n")
		body := source
		for strings.HasPrefix(strings.TrimSpace(body), "import ") {
			line, rest, _ := strings.Cut(strings.TrimLeft(body, "\n"), "\n")
			if head.WriteString(line + "\n"); strings.HasSuffix(line, "(") {
				group, after, _ := strings.Cut(rest, "\n)\n")
				head.WriteString(group + "\n)\n")
				rest = after
			}
			body = rest
		}
		imported := map[string]bool{}
		for _, m := range use.FindAllStringSubmatch(b.declare+body, -1) {
			if path, ok := packages[m[1]]; ok && !imported[m[1]] && !strings.Contains(head.String(), `"`+path+`"`) {
				imported[m[1]] = true
				fmt.Fprintf(&head, "import %q\n", path)
			}
		}
		declarations := head.String() + b.declare + "\n"
		source = declarations + body
		if _, err := parser.ParseFile(token.NewFileSet(), "", source, 0); err != nil {
			if !strings.Contains(declarations, `"context"`) {
				declarations = strings.Replace(declarations, "package main\n", "package main\nimport \"context\"\n", 1)
			}
			if !strings.Contains(declarations, `"`+packages["pygent"]+`"`) {
				declarations = strings.Replace(declarations, "package main\n", "package main\nimport \"github.com/x/pygent\"\n", 1)
			}
			source = declarations + "func _(ctx context.Context, agent *pygent.Agent) {\n{\n" + body + "\n}\n}\n"
		}
	}
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "block.go", source, parser.SkipObjectResolution)
	if err != nil {
		return fmt.Errorf("%w\n%s", err, source)
	}
	files, err := exported()
	if err != nil {
		return err
	}
	var faults []string
	config := types.Config{
		Importer: importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) {
			name := files[path]
			if name == "" {
				return nil, fmt.Errorf("%s: not a package that the documentation uses", path)
			}
			return os.Open(name)
		}),
		Error: func(err error) {
			for _, fragment := range []string{"declared and not used", "missing function body", "missing return"} {
				if strings.Contains(err.Error(), fragment) && source != b.text {
					return
				}
			}
			faults = append(faults, err.Error())
		},
	}
	_, _ = config.Check("main", fset, []*ast.File{file}, nil)
	if faults != nil {
		return fmt.Errorf("%s\n%s", strings.Join(faults, "\n"), source)
	}
	return nil
}

// assignment is a variable before a command.
var assignment = regexp.MustCompile(`^[A-Z_]+=`)

// checkShell checks the calls of pygent, make and go run in a shell script.
func checkShell(_ *testing.T, b block) error {
	for line := range strings.SplitSeq(strings.ReplaceAll(b.text, "\\\n", " "), "\n") {
		line, _, _ = strings.Cut(" "+line, " #")
		for _, command := range regexp.MustCompile(`\|\|?|&&|;`).Split(line, -1) {
			words, err := slash.Fields(command)
			if err != nil {
				return fmt.Errorf("%s: %w", command, err)
			}
			for len(words) > 0 && (assignment.MatchString(words[0]) || words[0] == "sudo" || words[0] == "$") {
				words = words[1:]
			}
			if at := slices.IndexFunc(words, func(w string) bool { return w == ">" || w == "<" || w == "2>&1" }); at >= 0 {
				words = words[:at]
			}
			if len(words) == 0 {
				continue
			}
			switch words[0] {
			case "pygent", "pygent-ui":
				err = cli.Check(words[1:])
			case "make":
				err = checkTarget(words[1:])
			case "go":
				err = checkGoCommand(words[1:])
			}
			if err != nil {
				return fmt.Errorf("%s: %w", strings.TrimSpace(command), err)
			}
		}
	}
	return nil
}

// checkTarget checks that a target of the Makefile exists.
func checkTarget(args []string) error {
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		return err
	}
	for _, arg := range args {
		if !strings.ContainsAny(arg, "=-") && !bytes.Contains(makefile, []byte("\n"+arg+":")) {
			return fmt.Errorf("the Makefile has no target %s", arg)
		}
	}
	return nil
}

// checkGoCommand checks that the directories of packages exist.
func checkGoCommand(args []string) error {
	for _, arg := range args {
		dir := strings.TrimSuffix(arg, "/...")
		if !strings.HasPrefix(arg, "./") {
			continue
		}
		if _, err := os.Stat(filepath.Join(root, dir)); err != nil {
			return err
		}
	}
	return nil
}

// checkTOML loads a file of settings.
func checkTOML(t *testing.T, b block) error {
	path := filepath.Join(t.TempDir(), "settings.toml")
	if err := os.WriteFile(path, []byte(b.text), 0o600); err != nil {
		return err
	}
	_, err := pygent.ConfigSources{NoFiles: true, Files: []string{path}, Lookup: func(string) (string, bool) { return "", false }}.Load()
	return err
}

// checkScript loads a start-up script.
func checkScript(t *testing.T, b block) error {
	path := filepath.Join(t.TempDir(), "config.star")
	if err := os.WriteFile(path, []byte(b.text), 0o600); err != nil {
		return err
	}
	_, err := script.Load(t.Context(), path)
	return err
}

// checkJSON reads one value, or one a line.
func checkJSON(_ *testing.T, b block) error {
	for d := json.NewDecoder(strings.NewReader(b.text)); ; {
		var v any
		switch err := d.Decode(&v); err {
		case nil:
		case io.EOF:
			return nil
		default:
			return err
		}
	}
}
