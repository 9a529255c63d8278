package settings

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Text is the value of an environment variable, in which everything is text. In
// a file, where numbers and strings differ, a value must have the right type.
type Text string

// Var is a [Value] that sets a variable, in place of its earlier content.
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

// Checked is a variable that accepts only what check has nothing against. The error of
// check is shown after the name of the setting; see [Want].
func Checked[T any](value *Var[T], check func(T) error) *Var[T] {
	return &Var[T]{value.at, func(given any) (T, error) {
		parsed, err := value.parse(given)
		if err == nil {
			err = check(parsed)
		}
		return parsed, err
	}}
}

// Func is a [Value] that calls a function.
type Func func(given any) error

// Set implements [Value].
func (f Func) Set(given any) error { return f(given) }

// valueError is the error for a value that a setting does not accept.
type valueError struct {
	path   string // the part that is wrong, as ".name" or "[2].name"; empty for the whole value
	want   string // what is accepted
	got    any
	hidden bool // whether got is a secret

	err   error  // if set, shown instead of want and got
	field string // the key, if err is about an unknown one
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

// Unwrap returns the error that was given to [At].
func (e *valueError) Unwrap() error { return e.err }

// Want returns the error for a value that a setting does not accept.
func Want(what string, got any) error { return &valueError{want: what, got: got} }

// At adds to an error where in a larger value it is: "[2]" in an array, ".name"
// in a table.
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

// show formats a value for an error: short, and never a whole table.
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

// fields sets the values of a small table that has a fixed set of names.
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
