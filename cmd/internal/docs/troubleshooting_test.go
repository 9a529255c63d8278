package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// quoted matches the message that a row of a table or a heading of the page begins with.
var quoted = regexp.MustCompile("(?m)^(?:\\| |#+ )`([^`]+)`")

// People find a message on the page of troubleshooting by its words, so a message that was
// reworded has to be reworded there. "…" stands for what differs from case to case.
func TestTroubleshootingQuotesTheSources(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join(root, "docs", "troubleshooting.md"))
	require.NoError(t, err)
	messages := quoted.FindAllStringSubmatch(string(page), -1)
	require.Greater(t, len(messages), 30)
	literals := literalsOfTheSources(t)
	for _, m := range messages {
		if !saysOne(literals, m[1]) {
			t.Errorf("docs/troubleshooting.md: no string of the sources says %q", m[1])
		}
	}
}

// saysOne reports whether one of some texts has all parts of a message in their order.
func saysOne(texts []string, message string) bool {
	for _, rest := range texts {
		has := true
		for part := range strings.SplitSeq(message, "…") {
			at := strings.Index(rest, part)
			if has = at >= 0; !has {
				break
			}
			rest = rest[at+len(part):]
		}
		if has {
			return true
		}
	}
	return false
}

func TestAMessageIsFoundByItsParts(t *testing.T) {
	t.Parallel()
	texts := []string{"the image %q is for %s", "no engine answers"}
	for message, want := range map[string]bool{
		"no engine": true, "the image … is for …": true, "image … answers": false, "is for … the image": false, "No engine": false,
	} {
		require.Equal(t, want, saysOne(texts, message), message)
	}
}

// literalsOfTheSources are the strings in the sources of the programs and the library,
// each as it stands in an expression.
func literalsOfTheSources(t *testing.T) (all []string) {
	others := map[string]bool{".git": true, ".build": true, "bench": true, "docs": true, "e2e": true, "examples": true, "node_modules": true, "testdata": true, "testkit": true}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() && others[d.Name()] {
			return fs.SkipDir
		}
		if filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if e, ok := n.(ast.Expr); ok {
				if text, is := textOf(e); is {
					all = append(all, text)
				}
			}
			return true
		})
		return nil
	})
	require.NoError(t, err)
	return all
}

// textOf returns the text of a string or of a sum of strings. What is no literal in it is a
// gap.
func textOf(e ast.Expr) (text string, is bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		return text, e.Kind == token.STRING && err == nil
	case *ast.BinaryExpr:
		if e.Op != token.ADD {
			return "", false
		}
		left, isLeft := textOf(e.X)
		right, isRight := textOf(e.Y)
		if !isLeft {
			left = "\x00"
		}
		if !isRight {
			right = "\x00"
		}
		return left + right, isLeft || isRight
	}
	return "", false
}
