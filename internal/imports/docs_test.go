package imports_test

import (
	"cmp"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// source is what documents may name of this repository.
type source struct {
	paths    map[string]bool              // of files and directories, and the ends of these paths
	declared map[string]bool              // what any Go file declares, fields and methods too, and the texts of its strings
	public   map[string]map[string]bool   // by the path of a package that others may import: its names, and Type.Member
	imported map[string]map[string]string // by the path of a public package: by their names, the paths of what its files import
	docs     []comments                   // of the public packages
}

// comments are those of a file of a public package.
type comments struct {
	dir   string
	files *token.FileSet
	file  *ast.File
}

// A document that names what is not there any more misleads whoever looks for it.
func TestTheArchitectureNamesWhatIsThere(t *testing.T) {
	t.Parallel()
	s := readSource(t)
	text, err := os.ReadFile("../../ARCHITECTURE.md")
	require.NoError(t, err)
	for name := range quotedNames(string(text)) {
		if !s.has(name) {
			t.Errorf("ARCHITECTURE.md names %s, which nothing in the repository is called", name)
		}
	}
}

// Links and examples in the documentation of a package are as good as what they lead to.
func TestDocumentationNamesWhatIsThere(t *testing.T) {
	t.Parallel()
	s := readSource(t)
	for _, c := range s.docs {
		for _, group := range c.file.Comments {
			for _, name := range s.misleading(group.Text(), c.dir) {
				t.Errorf("%s: %s leads nowhere", c.files.Position(group.Pos()), name)
			}
		}
	}
	for _, name := range []string{"README.md", "SECURITY.md", "docs/providers.md", "docs/guides/script.md", "examples/README.md"} {
		text, err := os.ReadFile("../../" + name)
		require.NoError(t, err)
		for _, use := range inCode.FindAllStringSubmatch(string(text), -1) {
			if names := s.public[dirOf(use[1])]; names != nil && !names[use[2]] {
				t.Errorf("%s: %s leads nowhere", name, use[0])
			}
		}
	}
}

func TestMisleadingDocumentationIsFound(t *testing.T) {
	t.Parallel()
	s := &source{
		public:   map[string]map[string]bool{".": {"New": true, "Agent": true, "Agent.Close": true}, "chat": {"Attach": true}, "snapshot": {"Load": true}},
		imported: map[string]map[string]string{"snapshot": {"pygent": module}},
	}
	for text, want := range map[string][]string{
		"[pygent.New] and [pygent.Agent.Close] do that.":               nil,
		"[pygent.Agent.Open] does that.":                               {"pygent.Agent.Open"},
		"[chat.Attach] is of a package that is not imported.":          {"chat.Attach"},
		"[DONE] ends a stream, and [Agent] is of another package.":     {"Agent"},
		"So:\n\n\ta := pygent.New(chat.Attach(name), b.Text())":        nil,
		"So:\n\n\ta := pygent.New(chat.Detach(name))":                  {"chat.Detach"},
		"# Where to look\n\n\tfiles    New, Attach, package a, chat.B": {"chat.B", "Attach"},
	} {
		dir := "snapshot"
		if strings.HasPrefix(text, "#") {
			dir = "."
		}
		require.Equal(t, want, s.misleading(text, dir), text)
	}
}

var (
	quoted  = regexp.MustCompile("`([^`\n]+)`")
	aName   = regexp.MustCompile(`^[A-Za-z][\w./]*$`)
	docLink = regexp.MustCompile(`\[\*?((?:[a-z]+\.)?[A-Z]\w*[a-z]\w*(?:\.[A-Z]\w*)?)\]`)
	inCode  = regexp.MustCompile(`\b([a-z]+)\.([A-Z]\w*)`)
	tagKey  = regexp.MustCompile(`(\w+):"`)
	column  = regexp.MustCompile(`^\t\S.*\S {2,}(\S.*)`)
)

// quotedNames returns the names and paths in the code spans of a text. Commands, values, ends of
// names and spans that hold more than a name are none.
func quotedNames(text string) map[string]bool {
	found := map[string]bool{}
	for _, span := range quoted.FindAllStringSubmatch(text, -1) {
		if aName.MatchString(span[1]) {
			found[strings.TrimSuffix(span[1], "/")] = true
		}
	}
	return found
}

// misleading returns the names in a comment of a package that lead nowhere: links, names of
// packages of ours in its code, and those in the right column of the root's table.
func (s *source) misleading(text, dir string) (found []string) {
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "\t") { // else it is code
			for _, link := range docLink.FindAllStringSubmatch(line, -1) {
				if to, name, ok := s.target(link[1], dir); !ok || s.public[to] != nil && !s.public[to][name] {
					found = append(found, link[1])
				}
			}
			continue
		}
		for _, use := range inCode.FindAllStringSubmatch(line, -1) {
			if names := s.public[dirOf(use[1])]; names != nil && !names[use[2]] {
				found = append(found, use[0])
			}
		}
		if row := column.FindStringSubmatch(line); row != nil && strings.Contains(text, "# Where to look") {
			for name := range strings.SplitSeq(row[1], ", ") {
				if token.IsExported(name) && !s.public[dir][name] {
					found = append(found, name)
				}
			}
		}
	}
	return found
}

// target returns the directory of the package to which a link in another one leads, which may
// be none of this module, and the name there. As for go doc, a link leads only to what some
// file of the package imports.
func (s *source) target(link, dir string) (to, name string, ok bool) {
	if token.IsExported(link) {
		return dir, link, true
	}
	pkg, name, _ := strings.Cut(link, ".")
	imported, ok := s.imported[dir][pkg]
	if !ok && pkg == path.Base(dir) {
		return dir, name, true
	}
	return cmp.Or(strings.TrimPrefix(strings.TrimPrefix(imported, module), "/"), "."), name, ok
}

func dirOf(pkg string) string {
	if pkg == "pygent" {
		return "."
	}
	return pkg
}

// has reports whether something is called so, or lies at the path.
func (s *source) has(name string) bool {
	if s.paths[name] || s.declared[name] {
		return true
	}
	if strings.Contains(name, "/") {
		return false
	}
	parts := strings.Split(name, ".") // pkg.Name, Type.member
	return !slices.ContainsFunc(parts, func(part string) bool { return !s.declared[part] && !s.paths[part] })
}

// readSource reads the repository.
func readSource(t *testing.T) *source {
	t.Helper()
	s := &source{paths: map[string]bool{}, declared: map[string]bool{}, public: map[string]map[string]bool{}, imported: map[string]map[string]string{}}
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	err = filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, file)
		rel = filepath.ToSlash(rel)
		if rel != "." && d.IsDir() && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || d.Name() == "node_modules") {
			return fs.SkipDir
		}
		for end := rel; end != ""; _, end, _ = strings.Cut(end, "/") {
			s.paths[end], s.paths[strings.TrimSuffix(end, ".go")] = true, true
		}
		if strings.HasSuffix(rel, ".go") {
			s.readGo(t, file, rel)
		}
		if path.Dir(rel) == "scripts" || rel == "Makefile" {
			text, err := os.ReadFile(file)
			for _, word := range regexp.MustCompile(`\w+`).FindAllString(string(text), -1) {
				s.declared[word] = true
			}
			return err
		}
		return err
	})
	require.NoError(t, err)
	return s
}

func (s *source) readGo(t *testing.T, file, rel string) {
	t.Helper()
	files := token.NewFileSet()
	f, err := parser.ParseFile(files, file, nil, parser.ParseComments|parser.SkipObjectResolution)
	require.NoError(t, err)
	dir := path.Dir(rel)
	ofOthers := strings.HasSuffix(rel, "_test.go") || f.Name.Name == "main" || strings.HasPrefix(dir, "internal") || strings.Contains(dir, "/")
	if !ofOthers {
		s.docs = append(s.docs, comments{dir, files, f})
		if s.public[dir] == nil {
			s.public[dir], s.imported[dir] = map[string]bool{}, map[string]string{}
		}
		maps.Copy(s.public[dir], exportedOf(f))
		for _, spec := range f.Imports {
			if imported := strings.Trim(spec.Path.Value, `"`); spec.Name == nil {
				s.imported[dir][path.Base(imported)] = imported
			}
		}
	}
	s.declared[f.Name.Name] = true
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			s.declared[n.Name.Name] = true
		case *ast.TypeSpec:
			s.declared[n.Name.Name] = true
		case *ast.ValueSpec:
			s.declare(n.Names)
		case *ast.StructType:
			s.declareFields(n.Fields)
		case *ast.InterfaceType:
			s.declareFields(n.Methods)
		case *ast.BasicLit:
			s.declared[strings.Trim(n.Value, "\"`")] = true
		}
		return true
	})
}

func (s *source) declareFields(fields *ast.FieldList) {
	for _, field := range fields.List {
		s.declare(field.Names)
		if field.Tag != nil {
			for _, key := range tagKey.FindAllStringSubmatch(field.Tag.Value, -1) {
				s.declared[key[1]] = true
			}
		}
	}
}

func (s *source) declare(names []*ast.Ident) {
	for _, name := range names {
		s.declared[name.Name] = true
	}
}

// exportedOf returns the exported names of a file, and the members of its types.
func exportedOf(f *ast.File) map[string]bool {
	names := map[string]bool{}
	for _, decl := range f.Decls {
		switch d := decl.(type) {
		case *ast.FuncDecl:
			of := ""
			if d.Recv != nil {
				ast.Inspect(d.Recv.List[0].Type, func(n ast.Node) bool {
					if id, ok := n.(*ast.Ident); ok && of == "" {
						of = id.Name + "."
					}
					return true
				})
			}
			names[of+d.Name.Name] = true
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch sp := spec.(type) {
				case *ast.ValueSpec:
					for _, name := range sp.Names {
						names[name.Name] = true
					}
				case *ast.TypeSpec:
					names[sp.Name.Name] = true
					ast.Inspect(sp.Type, func(n ast.Node) bool {
						if field, ok := n.(*ast.Field); ok {
							for _, name := range field.Names {
								names[sp.Name.Name+"."+name.Name] = true
							}
						}
						return true
					})
				}
			}
		}
	}
	return names
}
