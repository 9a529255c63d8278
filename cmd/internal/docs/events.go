package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"github.com/x/pygent"
)

// eventsPage has the types of events and the fields of an event, as the comments of the
// code describe them.
func eventsPage(dir string) (string, error) {
	files, err := parseRoot(dir)
	if err != nil {
		return "", err
	}
	p := newPage("Events", "An agent emits an event for everything that happens in it. `Agent.Subscribe` and `Agent.Events` deliver them to a Go program; `pygent run --json` prints each as one line of JSON; the web UI's API streams them.\n\n"+
		"The JSON of an event has only the fields that its type calls for. Unknown types and fields must be ignored: later versions add some. Durations are seconds, in fields whose names end in `_seconds`.")
	p.section(2, "Types")
	var rows [][]string
	fields := map[string]string{} // comments by field of Event
	inspect := func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GenDecl:
			for _, spec := range n.Specs {
				v, ok := spec.(*ast.ValueSpec)
				if !ok {
					continue
				}
				if kind, ok := v.Type.(*ast.Ident); ok && kind.Name == "EventType" {
					value, _ := strconv.Unquote(v.Values[0].(*ast.BasicLit).Value)
					about := goComment(v.Comment, v.Doc, n.Doc)
					rows = append(rows, []string{code(value), code(v.Names[0].Name), strings.TrimPrefix(about, v.Names[0].Name+" is ")})
				}
			}
		case *ast.TypeSpec:
			if s, ok := n.Type.(*ast.StructType); ok && n.Name.Name == "Event" {
				for _, f := range s.Fields.List {
					fields[f.Names[0].Name] = goComment(f.Comment, f.Doc)
				}
			}
		}
		return true
	}
	for _, file := range files {
		ast.Inspect(file, inspect)
	}
	p.table([]string{"Type", "In Go", "Meaning, and the fields of the event"}, rows)
	p.section(2, "Fields")
	rows = nil
	for _, f := range reflect.VisibleFields(reflect.TypeFor[pygent.Event]()) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		rows = append(rows, []string{code(name), code(f.Name), code(strings.ReplaceAll(f.Type.String(), "pygent.", "")), fields[f.Name]})
	}
	p.table([]string{"JSON", "In Go", "Type", "Meaning"}, rows)
	p.WriteString("\nThe [package documentation](https://pkg.go.dev/github.com/x/pygent#Event) describes the types of the fields.\n")
	return p.String(), nil
}

// parseRoot parses the files of the package pygent.
func parseRoot(dir string) (files []*ast.File, err error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	fset := token.NewFileSet()
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(fset, name, nil, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	return files, nil
}

var docLink = regexp.MustCompile(`\[\*?([A-Za-z][\w.]*)\]`)

// goComment returns the text of a comment in Markdown.
func goComment(groups ...*ast.CommentGroup) string {
	for _, g := range groups {
		if g != nil {
			return docLink.ReplaceAllString(strings.TrimSpace(g.Text()), "`$1`")
		}
	}
	return ""
}
