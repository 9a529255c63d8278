package settings

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Text is the value of a variable: everything is text there, while a file
// tells strings from numbers and is held to the difference.
type Text string

// Var is a [Value] that replaces a variable.
type Var[T any] struct {
	at    *T
	parse func(given any) (T, error)
}

// Set implements [Value].
func (v *Var[T]) Set(given any) error {
	value, err := v.parse(given)
	if err == nil {
		*v.at = value
	}
	return err
}

// Func is a [Value] that calls a function.
type Func func(given any) error

// Set implements [Value].
func (f Func) Set(given any) error { return f(given) }

// valueError is a value that a setting does not take.
type valueError struct {
	path   string // where in the value, as ".name" or "[2].name"; empty for all of it
	want   string // what is accepted
	got    any
	hidden bool // got is a secret

	err   error  // is told instead when the fault is not the value's kind
	field string // a name that err calls unknown
}

// Error says what is accepted and, unless it is a secret, what came instead.
func (e *valueError) Error() string {
	if e.err != nil {
		return e.err.Error()
	}
	if e.hidden {
		return "want " + e.want
	}
	return "want " + e.want + ", not " + show(e.got)
}

// Unwrap returns the error that was placed by [At].
func (e *valueError) Unwrap() error { return e.err }

// Want is the error for a value that is not what a setting takes.
func Want(what string, got any) error { return &valueError{want: what, got: got} }

// At says where in a larger value an error is: "[2]" of an array, ".name" of a
// table.
func At(path string, err error) error {
	bad := (*valueError)(nil)
	if !errors.As(err, &bad) {
		return &valueError{path: path, err: err}
	}
	moved := *bad
	moved.path = path + bad.path
	return &moved
}

// item is At for an element of an array.
func item(i int, err error) error { return At(fmt.Sprintf("[%d]", i), err) }

// entry is At for an entry of a table.
func entry(name string, err error) error { return At("."+quoteKey(name), err) }

// show is a value as an error quotes it: short, and never a whole table.
func show(v any) string {
	switch v := v.(type) {
	case Text:
		return quote(string(v))
	case string:
		return quote(v)
	case map[string]any:
		return "a table"
	case []any:
		return "an array"
	case nil:
		return "nothing"
	}
	return fmt.Sprint(v)
}

func quote(s string) string {
	const most = 60
	if runes := []rune(s); len(runes) > most {
		s = string(runes[:most]) + "…"
	}
	return strconv.Quote(s)
}

// fields applies each entry of a small table with a fixed set of names.
func fields(table map[string]any, known map[string]Value) error {
	for _, name := range slices.Sorted(maps.Keys(table)) {
		field, ok := known[name]
		if !ok {
			err := errors.New("unknown key; a table here has " + strings.Join(slices.Sorted(maps.Keys(known)), ", "))
			return &valueError{path: "." + quoteKey(name), err: err, field: name}
		}
		if err := field.Set(table[name]); err != nil {
			return entry(name, err)
		}
	}
	return nil
}
