package denylist

import (
	"fmt"
	"slices"

	"mvdan.cc/sh/v3/syntax"
)

// stdin is the source of a command's input.
type stdin struct {
	piped bool
	doc   *syntax.Word // a here-document or a here-string
}

// walk checks all commands and words of a script.
func (c *checker) walk(file *syntax.File) error {
	var failed error
	in := map[*syntax.CallExpr]stdin{}
	syntax.Walk(file, func(n syntax.Node) bool {
		if failed != nil {
			return false
		}
		switch n := n.(type) {
		case *syntax.BinaryCmd:
			if n.Op == syntax.Pipe || n.Op == syntax.PipeAll {
				feed(in, n.Y, stdin{piped: true})
			}
		case *syntax.Stmt:
			feedRedirected(in, n)
		case *syntax.CallExpr:
			failed = c.run(wordsOf(n.Args), in[n])
		case *syntax.Word:
			failed = c.mention(wordOf(n))
		}
		return failed == nil
	})
	return failed
}

// feed records the input of the commands within a statement. Walk visits the
// inner statements later, so the innermost input is the one that remains.
func feed(in map[*syntax.CallExpr]stdin, stmt *syntax.Stmt, from stdin) {
	syntax.Walk(stmt, func(n syntax.Node) bool {
		if call, ok := n.(*syntax.CallExpr); ok {
			in[call] = from
		}
		_, substitution := n.(*syntax.CmdSubst)
		return !substitution
	})
}

func feedRedirected(in map[*syntax.CallExpr]stdin, stmt *syntax.Stmt) {
	for _, r := range stmt.Redirs {
		switch r.Op {
		case syntax.Hdoc, syntax.DashHdoc:
			feed(in, stmt, stdin{doc: r.Hdoc})
		case syntax.WordHdoc:
			feed(in, stmt, stdin{doc: r.Word})
		case syntax.RdrIn, syntax.RdrInOut:
			_, substitution := firstPart(r.Word).(*syntax.ProcSubst)
			feed(in, stmt, stdin{piped: substitution})
		}
	}
}

func firstPart(w *syntax.Word) syntax.WordPart {
	if w == nil || len(w.Parts) == 0 {
		return nil
	}
	return w.Parts[0]
}

// mention refuses a word that names a banned program.
func (c *checker) mention(w word) error {
	if name, known := w.program(); known && slices.Contains(c.list.programs, name) {
		return fmt.Errorf("the application %q is banned here", name)
	}
	return nil
}
