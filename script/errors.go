package script

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.starlark.net/resolve"
	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"github.com/x/pygent/internal/starlimit"
)

// Error is a mistake in a script, or what went wrong while it ran.
type Error struct {
	File         string // empty if the error is of no place
	Line, Column int    // from 1
	Msg          string
	Backtrace    []string // who called whom, the outermost first: "file:line:col: in function"; none for a mistake in the text
	Err          error    // what was wrong
}

// Error has the form of a compiler's message. The backtrace follows if the error is
// in a function that another one called.
func (e *Error) Error() string {
	text := e.Short()
	if len(e.Backtrace) > 1 {
		text += "\n  called by:\n    " + strings.Join(e.Backtrace[:len(e.Backtrace)-1], "\n    ")
	}
	return text
}

// Short is the error without its backtrace.
func (e *Error) Short() string {
	if e.File == "" {
		return e.Msg
	}
	return fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Column, e.Msg)
}

// Unwrap returns what was wrong.
func (e *Error) Unwrap() error { return e.Err }

// located returns err as an [*Error] that says where it happened.
func located(err error) error {
	var known *Error
	if err == nil || errors.As(err, &known) {
		return err
	}
	e := &Error{Msg: err.Error(), Err: err}
	var bad syntax.Error
	var unresolved resolve.ErrorList
	var failed *starlark.EvalError
	switch {
	case errors.As(err, &bad):
		e.at(bad.Pos, bad.Msg)
	case errors.As(err, &unresolved) && len(unresolved) > 0:
		e.at(unresolved[0].Pos, unresolved[0].Msg)
		if more := len(unresolved) - 1; more > 0 {
			e.Msg += fmt.Sprintf(" (and %d more)", more)
		}
	case errors.As(err, &failed):
		e.Msg = strings.TrimPrefix(e.Msg, "Starlark computation cancelled: ")
		e.trace(failed.CallStack)
	}
	return e
}

func (e *Error) at(pos syntax.Position, msg string) {
	e.File, e.Line, e.Column, e.Msg = pos.Filename(), int(pos.Line), max(int(pos.Col), 1), msg
}

// trace says where the error happened: in the innermost function of the script.
func (e *Error) trace(stack starlark.CallStack) {
	inner := ""
	for _, frame := range stack {
		if frame.Pos.Filename() == builtinFile {
			inner = frame.Name
			continue
		}
		inner = ""
		e.at(frame.Pos, e.Msg)
		e.Backtrace = append(e.Backtrace, fmt.Sprintf("%s:%d:%d: in %s", frame.Pos.Filename(), frame.Pos.Line, frame.Pos.Col, frame.Name))
	}
	if inner != "" && !starlimit.IsHidden(inner) && !strings.HasPrefix(e.Msg, inner) && !slices.Contains(speaking, inner) {
		e.Msg = inner + ": " + e.Msg
	}
}

// builtinFile is the file of functions that are none of a script.
const builtinFile = "<builtin>"

// speaking are functions whose errors are said by the script itself.
var speaking = []string{"fail", "json.decode"}
