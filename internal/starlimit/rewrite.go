package starlimit

import (
	"fmt"
	"slices"
	"strconv"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
)

// Compile parses a program, and rewrites it so that it stays within limits.
// The program must be run with [Environment] of predeclared.
func Compile(opts *syntax.FileOptions, filename string, source []byte, predeclared starlark.StringDict) (*starlark.Program, error) {
	file, err := opts.Parse(filename, source, 0)
	if err != nil {
		return nil, err
	}
	var w rewriter
	w.block(file.Stmts)
	if w.err != nil {
		return nil, w.err
	}
	env := Environment(predeclared)
	return starlark.FileProgram(file, env.Has)
}

// Names of what a program is made to call. No program can have them.
const (
	opPrefix  = "$op "  // and the operator
	augPrefix = "$aug " // and the operator without "="
	copyName  = "$copy"
	dotName   = "$dot"
	dictName  = "$dict"
	keyName   = "$key"
	namesName = "$names"
	tupleName = "$tuple"
)

// IsHidden reports whether name is that of a function which a rewritten program
// calls, and which no backtrace should show.
func IsHidden(name string) bool { return len(name) > 0 && name[0] == '$' }

// rewriter changes a syntax tree in place.
type rewriter struct{ err error }

func (w *rewriter) block(stmts []syntax.Stmt) {
	for _, stmt := range stmts {
		w.stmt(stmt)
	}
}

func (w *rewriter) stmt(stmt syntax.Stmt) {
	switch s := stmt.(type) {
	case *syntax.AssignStmt:
		s.RHS = w.expr(s.RHS)
		if s.Op != syntax.EQ {
			s.RHS = call(augPrefix+binaryOf[s.Op].String(), s.OpPos, w.again(s.LHS), s.RHS)
		}
		w.target(s.LHS)
	case *syntax.DefStmt:
		w.params(s.Params)
		w.block(s.Body)
		if rest := restOf(s.Params); rest != nil {
			s.Body = slices.Insert(s.Body, afterDoc(s.Body), syntax.Stmt(&syntax.ExprStmt{X: call(tupleName, rest.NamePos, rest)}))
		}
	case *syntax.ExprStmt:
		s.X = w.expr(s.X)
	case *syntax.ForStmt:
		w.target(s.Vars)
		s.X = w.expr(s.X)
		w.block(s.Body)
	case *syntax.WhileStmt:
		s.Cond = w.expr(s.Cond)
		w.block(s.Body)
	case *syntax.IfStmt:
		s.Cond = w.expr(s.Cond)
		w.block(s.True)
		w.block(s.False)
	case *syntax.ReturnStmt:
		s.Result = w.expr(s.Result)
	}
}

// binaryOf is the operator of an augmented assignment.
var binaryOf = map[syntax.Token]syntax.Token{
	syntax.PLUS_EQ: syntax.PLUS, syntax.MINUS_EQ: syntax.MINUS, syntax.STAR_EQ: syntax.STAR, syntax.SLASH_EQ: syntax.SLASH,
	syntax.SLASHSLASH_EQ: syntax.SLASHSLASH, syntax.PERCENT_EQ: syntax.PERCENT, syntax.AMP_EQ: syntax.AMP, syntax.PIPE_EQ: syntax.PIPE,
	syntax.CIRCUMFLEX_EQ: syntax.CIRCUMFLEX, syntax.LTLT_EQ: syntax.LTLT, syntax.GTGT_EQ: syntax.GTGT,
}

// again copies the target of an augmented assignment, which is looked at once more
// for its size. To call a function twice would not do.
func (w *rewriter) again(e syntax.Expr) syntax.Expr {
	switch e := e.(type) {
	case *syntax.Ident:
		return &syntax.Ident{NamePos: e.NamePos, Name: e.Name}
	case *syntax.Literal:
		return e
	case *syntax.ParenExpr:
		return w.again(e.X)
	case *syntax.DotExpr:
		return &syntax.DotExpr{X: w.again(e.X), Dot: e.Dot, NamePos: e.NamePos, Name: e.Name}
	case *syntax.IndexExpr:
		return &syntax.IndexExpr{X: w.again(e.X), Lbrack: e.Lbrack, Y: w.again(e.Y), Rbrack: e.Rbrack}
	case *syntax.BinaryExpr:
		return call(opPrefix+e.Op.String(), e.OpPos, w.again(e.X), w.again(e.Y))
	case *syntax.UnaryExpr:
		return &syntax.UnaryExpr{OpPos: e.OpPos, Op: e.Op, X: w.again(e.X)}
	}
	start, _ := e.Span()
	if w.err == nil {
		w.err = syntax.Error{Pos: start, Msg: "too complicated for an assignment that changes a value: assign this to a variable first"}
	}
	return e
}

// target rewrites what is within the target of an assignment.
func (w *rewriter) target(e syntax.Expr) {
	switch e := e.(type) {
	case *syntax.ParenExpr:
		w.target(e.X)
	case *syntax.TupleExpr:
		for _, one := range e.List {
			w.target(one)
		}
	case *syntax.ListExpr:
		for _, one := range e.List {
			w.target(one)
		}
	case *syntax.DotExpr:
		e.X = w.expr(e.X)
	case *syntax.IndexExpr:
		e.X, e.Y = w.expr(e.X), w.expr(e.Y)
	}
}

// params rewrites the defaults of parameters.
func (w *rewriter) params(params []syntax.Expr) {
	for _, p := range params {
		if named, ok := p.(*syntax.BinaryExpr); ok {
			named.Y = w.expr(named.Y)
		}
	}
}

// restOf returns the parameter *args, a tuple that a call makes, or nil.
func restOf(params []syntax.Expr) *syntax.Ident {
	for _, p := range params {
		if star, ok := p.(*syntax.UnaryExpr); ok && star.Op == syntax.STAR && star.X != nil {
			name := star.X.(*syntax.Ident)
			return &syntax.Ident{NamePos: name.NamePos, Name: name.Name}
		}
	}
	return nil
}

// afterDoc is the index of the statement after the doc string of a function.
func afterDoc(body []syntax.Stmt) int {
	if expr, ok := body[0].(*syntax.ExprStmt); ok {
		if text, ok := expr.X.(*syntax.Literal); ok && text.Token == syntax.STRING {
			return 1
		}
	}
	return 0
}

func startOf(e syntax.Expr) syntax.Position {
	start, _ := e.Span()
	return start
}

func (w *rewriter) exprs(list []syntax.Expr) {
	for i := range list {
		list[i] = w.expr(list[i])
	}
}

func (w *rewriter) expr(e syntax.Expr) syntax.Expr {
	switch e := e.(type) {
	case *syntax.BinaryExpr:
		return w.binary(e)
	case *syntax.CallExpr:
		e.Fn = w.expr(e.Fn)
		w.args(e.Args)
	case *syntax.DotExpr:
		e.X = w.expr(e.X)
		if _, ok := methodCosts[e.Name.Name]; ok {
			name := &syntax.Literal{Token: syntax.STRING, TokenPos: e.NamePos, Raw: strconv.Quote(e.Name.Name), Value: e.Name.Name}
			return call(dotName, e.Dot, e.X, name)
		}
	case *syntax.SliceExpr:
		e.X, e.Lo, e.Hi, e.Step = call(copyName, e.Lbrack, w.expr(e.X)), w.expr(e.Lo), w.expr(e.Hi), w.expr(e.Step)
	case *syntax.IndexExpr:
		e.X, e.Y = w.expr(e.X), w.expr(e.Y)
		if _, fixed := e.Y.(*syntax.Literal); !fixed {
			e.Y = call(keyName, e.Lbrack, e.Y)
		}
	case *syntax.ParenExpr:
		e.X = w.expr(e.X)
	case *syntax.UnaryExpr:
		e.X = w.expr(e.X)
	case *syntax.CondExpr:
		e.Cond, e.True, e.False = w.expr(e.Cond), w.expr(e.True), w.expr(e.False)
	case *syntax.ListExpr:
		w.exprs(e.List)
	case *syntax.TupleExpr:
		w.exprs(e.List)
		return call(tupleName, startOf(e), e)
	case *syntax.DictExpr:
		w.exprs(e.List)
		return call(dictName, e.Lbrace, e)
	case *syntax.DictEntry:
		e.Key, e.Value = w.expr(e.Key), w.expr(e.Value)
	case *syntax.LambdaExpr:
		w.params(e.Params)
		e.Body = w.expr(e.Body)
		if rest := restOf(e.Params); rest != nil {
			one := &syntax.Literal{Token: syntax.INT, TokenPos: rest.NamePos, Raw: "1", Value: int64(1)}
			looked := &syntax.BinaryExpr{X: call(tupleName, rest.NamePos, rest), OpPos: rest.NamePos, Op: syntax.OR, Y: one} // true
			e.Body = &syntax.CondExpr{If: rest.NamePos, Cond: looked, True: e.Body, ElsePos: rest.NamePos, False: one}
		}
	case *syntax.Comprehension:
		w.comprehension(e)
		if e.Curly {
			return call(dictName, e.Lbrack, e)
		}
	}
	return e
}

func (w *rewriter) comprehension(e *syntax.Comprehension) {
	e.Body = w.expr(e.Body)
	for _, clause := range e.Clauses {
		switch c := clause.(type) {
		case *syntax.ForClause:
			w.target(c.Vars)
			c.X = w.expr(c.X)
		case *syntax.IfClause:
			c.Cond = w.expr(c.Cond)
		}
	}
}

func (w *rewriter) binary(e *syntax.BinaryExpr) syntax.Expr {
	e.X, e.Y = w.expr(e.X), w.expr(e.Y)
	if e.Op == syntax.AND || e.Op == syntax.OR {
		return e
	}
	return call(opPrefix+e.Op.String(), e.OpPos, e.X, e.Y)
}

// args rewrites the arguments of a call: x, name=x, *x and **x.
func (w *rewriter) args(args []syntax.Expr) {
	for i, arg := range args {
		switch arg := arg.(type) {
		case *syntax.BinaryExpr:
			if arg.Op == syntax.EQ {
				arg.Y = w.expr(arg.Y)
				continue
			}
		case *syntax.UnaryExpr:
			if arg.Op == syntax.STAR {
				arg.X = call(copyName, arg.OpPos, w.expr(arg.X))
				continue
			}
			if arg.Op == syntax.STARSTAR {
				arg.X = call(namesName, arg.OpPos, w.expr(arg.X))
				continue
			}
		}
		args[i] = w.expr(arg)
	}
}

func call(name string, at syntax.Position, args ...syntax.Expr) *syntax.CallExpr {
	return &syntax.CallExpr{Fn: &syntax.Ident{NamePos: at, Name: name}, Lparen: at, Args: args, Rparen: at}
}

// Environment returns predeclared with the functions that rewritten programs call,
// and with those built-in functions of Starlark that are limited.
func Environment(predeclared starlark.StringDict) starlark.StringDict {
	env := make(starlark.StringDict, len(predeclared)+len(limited))
	for name, v := range limited {
		env[name] = v
	}
	for name, v := range predeclared {
		if IsHidden(name) {
			panic(fmt.Sprintf("starlimit: the name %q is taken", name))
		}
		env[name] = v
	}
	return env
}
