package starlimit

import (
	"fmt"
	"slices"
	"strings"

	"go.starlark.net/lib/json"
	"go.starlark.net/starlark"
	"go.starlark.net/starlarkstruct"
	"go.starlark.net/syntax"

	"github.com/x/pygent/internal/starlimit/hush"
)

func init() { hush.End() } // the interpreter is initialized by now

// cost is what a call of a function makes, in bytes.
type cost func(thread *starlark.Thread, args starlark.Tuple, kwargs []starlark.Tuple) (int64, error)

// limited are the functions that a program calls instead of Starlark's own.
var limited = limitedFunctions()

func limitedFunctions() starlark.StringDict {
	all := starlark.StringDict{
		copyName:  starlark.NewBuiltin(copyName, copied),
		dotName:   starlark.NewBuiltin(dotName, dot),
		dictName:  starlark.NewBuiltin(dictName, newDict),
		keyName:   starlark.NewBuiltin(keyName, key),
		namesName: starlark.NewBuiltin(namesName, keywords),
		tupleName: starlark.NewBuiltin(tupleName, weighed),
		"range":   starlark.NewBuiltin("range", limitedRange),
		"getattr": starlark.NewBuiltin("getattr", limitedGetattr),
		"json":    jsonModule,
		"struct":  weighing(starlark.NewBuiltin("struct", starlarkstruct.Make)),
	}
	for _, op := range []syntax.Token{
		syntax.PLUS, syntax.MINUS, syntax.STAR, syntax.SLASH, syntax.SLASHSLASH, syntax.PERCENT, syntax.AMP, syntax.PIPE, syntax.CIRCUMFLEX,
		syntax.LTLT, syntax.GTGT, syntax.IN, syntax.NOT_IN, syntax.EQL, syntax.NEQ, syntax.LT, syntax.LE, syntax.GT, syntax.GE,
	} {
		all[opPrefix+op.String()] = operator(op)
		all[augPrefix+op.String()] = augmented(op)
	}
	for name, cost := range functionCosts {
		f := starlark.Universe[name].(*starlark.Builtin)
		if name == "set" || name == "dict" {
			f = clashing(f, nil, name == "dict")
		}
		all[name] = within(f, cost)
	}
	for _, name := range []string{"tuple", "zip", "enumerate"} {
		all[name] = weighing(all[name].(*starlark.Builtin))
	}
	for _, name := range []string{"sorted", "max", "min"} {
		all[name] = keyed(all[name].(*starlark.Builtin))
	}
	return all
}

var functionCosts = map[string]cost{
	"bytes": elements, "dict": entries, "enumerate": pairs, "list": elements, "reversed": elements, "set": entries,
	"sorted": compared, "tuple": elements, "zip": pairs, "max": compared, "min": compared, "all": elements, "any": elements,
	"str": texts, "repr": quoted, "print": texts, "fail": texts, "int": digits, "hash": elements,
}

// within wraps a function in its cost.
func within(f *starlark.Builtin, c cost) *starlark.Builtin {
	return starlark.NewBuiltin(f.Name(), func(thread *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
		n, err := c(thread, args, kwargs)
		if err == nil {
			err = Charge(thread, n)
		}
		if err != nil {
			return nil, err
		}
		return f.CallInternal(thread, args, kwargs)
	})
}

// each adds up what f says of all arguments.
func each(f func(starlark.Value) int64) cost {
	return func(_ *starlark.Thread, args starlark.Tuple, kwargs []starlark.Tuple) (n int64, err error) {
		for _, arg := range args {
			n = plus(n, f(arg))
		}
		for _, pair := range kwargs {
			n = plus(n, f(pair[1]))
		}
		return n, nil
	}
}

var (
	elements = each(flat)
	entries  = each(func(v starlark.Value) int64 { return plus(tableSize, times(int64(length(v)), entrySize)) })
	pairs    = each(func(v starlark.Value) int64 { return times(int64(length(v)), 4*elemSize) })
)

// compared is for functions that compare elements.
func compared(thread *starlark.Thread, args starlark.Tuple, kwargs []starlark.Tuple) (int64, error) {
	if err := look(thread, args...); err != nil {
		return 0, err
	}
	return elements(thread, args, kwargs)
}

// keyed wraps a function that compares what its argument key returns of elements.
func keyed(f *starlark.Builtin) *starlark.Builtin {
	return starlark.NewBuiltin(f.Name(), func(thread *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
		own := slices.Clone(kwargs)
		for i, pair := range own {
			if of, ok := pair[1].(starlark.Callable); ok && pair[0] == starlark.String("key") {
				own[i] = starlark.Tuple{pair[0], looking(of)}
			}
		}
		return f.CallInternal(thread, args, own)
	})
}

// looking returns of with a look at what it returns.
func looking(of starlark.Callable) *starlark.Builtin {
	return starlark.NewBuiltin(of.Name(), func(thread *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
		v, err := starlark.Call(thread, of, args, kwargs)
		if err == nil {
			err = look(thread, v)
		}
		return v, err
	})
}

// The costs of functions that make texts of values, with quotes or without.
var (
	texts  = textCost(false)
	quoted = textCost(true)
)

func textCost(quotes bool) cost {
	return func(_ *starlark.Thread, args starlark.Tuple, kwargs []starlark.Tuple) (n int64, err error) {
		add := func(v starlark.Value) {
			size, bad := textSize(v, quotes)
			n = plus(n, size)
			if err == nil {
				err = bad
			}
		}
		for _, arg := range args {
			add(arg)
		}
		for _, pair := range kwargs {
			add(pair[1])
		}
		return n, err
	}
}

// maxDigits bounds the text of a number.
const maxDigits = 4096

func digits(_ *starlark.Thread, args starlark.Tuple, kwargs []starlark.Tuple) (int64, error) {
	for _, v := range allOf(args, kwargs) {
		if s, ok := v.(starlark.String); ok && len(s) > maxDigits {
			return 0, &LimitError{fmt.Sprintf("a number of more than %d digits", maxDigits)}
		}
	}
	return 0, nil
}

// allOf are the arguments of a call, with names and without.
func allOf(args starlark.Tuple, kwargs []starlark.Tuple) []starlark.Value {
	values := args[:len(args):len(args)]
	for _, pair := range kwargs {
		values = append(values, pair[1])
	}
	return values
}

// maxRange bounds a range, since all of it can be walked through in a single step.
const maxRange = 1 << 20

func limitedRange(thread *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	v, err := starlark.Universe["range"].(*starlark.Builtin).CallInternal(thread, args, kwargs)
	if err == nil && length(v) > maxRange {
		return nil, &LimitError{fmt.Sprintf("a range of more than %d numbers", maxRange)}
	}
	return v, err
}

// newDict returns its argument, a new dictionary, whose entries were reckoned as steps.
func newDict(thread *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
	return args[0], Charge(thread, tableSize)
}

// copied returns its argument, after the cost of a copy.
func copied(thread *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
	return args[0], Charge(thread, flat(args[0]))
}

// jsonModule is Starlark's module json, without the functions that indent.
var jsonModule = &starlarkstruct.Module{Name: "json", Members: starlark.StringDict{
	"encode": within(json.Module.Members["encode"].(*starlark.Builtin), quoted),
	"decode": within(json.Module.Members["decode"].(*starlark.Builtin), jsonCost),
}}

// maxJSON bounds a text that is decoded, in bytes.
const maxJSON = 4 << 20

func jsonCost(_ *starlark.Thread, args starlark.Tuple, kwargs []starlark.Tuple) (int64, error) {
	var n int64
	for _, v := range allOf(args, kwargs) {
		if s, ok := v.(starlark.String); ok {
			n += 16*int64(len(s)) + listSize*int64(strings.Count(string(s), "[")) + (tableSize+entrySize)*int64(strings.Count(string(s), "{"))
			if len(s) > maxJSON {
				return 0, &LimitError{fmt.Sprintf("a JSON text of more than %d MiB", maxJSON>>20)}
			}
			if depth(string(s)) > maxDepth {
				return 0, errDeep
			}
		}
	}
	return n, nil
}

// depth is how deep the brackets of a JSON text are nested, or more.
func depth(s string) (deepest int) {
	open, digits, quoted := 0, 0, false
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '[' || c == '{':
			open++
			deepest = max(deepest, open)
		case c == ']' || c == '}':
			open--
		case '0' <= c && c <= '9':
			if digits++; digits > maxDigits {
				return maxDepth + 1 // a number like this takes too long to read
			}
			continue
		}
		digits = 0
	}
	return deepest
}

// methodCosts are the methods that make something large.
var methodCosts = map[string]func(recv starlark.Value, thread *starlark.Thread, args starlark.Tuple, kwargs []starlark.Tuple) (int64, error){
	"join": joined, "replace": replaced, "format": formatted, "split": divided, "rsplit": divided, "splitlines": divided,
	"upper": copies, "lower": copies, "title": copies, "capitalize": copies, "partition": copies, "rpartition": copies,
	"strip": copies, "lstrip": copies, "rstrip": copies, "elems": copies, "codepoints": copies, "elem_ords": copies, "codepoint_ords": copies,
	"extend": copies, "items": paired, "keys": copies, "values": copies, "update": paired, "union": paired, "intersection": paired,
	"difference": paired, "symmetric_difference": paired, "index": searched, "remove": searched, "count": searched, "issubset": paired, "issuperset": paired,
	"isdisjoint": paired, "intersection_update": paired, "difference_update": paired, "symmetric_difference_update": paired, "popitem": copies,
}

func copies(recv starlark.Value, thread *starlark.Thread, args starlark.Tuple, kwargs []starlark.Tuple) (int64, error) {
	n, err := elements(thread, args, kwargs)
	return plus(n, flat(recv)), err
}

func paired(recv starlark.Value, thread *starlark.Thread, args starlark.Tuple, kwargs []starlark.Tuple) (int64, error) {
	n, err := entries(thread, args, kwargs)
	return plus(n, times(int64(length(recv)), entrySize)), err
}

func searched(recv starlark.Value, thread *starlark.Thread, args starlark.Tuple, _ []starlark.Tuple) (int64, error) {
	return 0, look(thread, append(starlark.Tuple{recv}, args...)...)
}

func joined(recv starlark.Value, _ *starlark.Thread, args starlark.Tuple, _ []starlark.Tuple) (int64, error) {
	if len(args) != 1 {
		return 0, nil // an error of the call
	}
	list, ok := args[0].(starlark.Iterable)
	if !ok {
		return 0, nil
	}
	n := times(int64(length(list)), flat(recv))
	it := list.Iterate()
	defer it.Done()
	for v := starlark.Value(nil); it.Next(&v); {
		n = plus(n, flat(v))
	}
	return n, nil
}

func replaced(recv starlark.Value, _ *starlark.Thread, args starlark.Tuple, _ []starlark.Tuple) (int64, error) {
	s, _ := recv.(starlark.String)
	if len(args) < 2 {
		return 0, nil
	}
	old, _ := args[0].(starlark.String)
	return plus(int64(len(s)), times(int64(strings.Count(string(s), string(old))), flat(args[1]))), nil
}

func formatted(recv starlark.Value, thread *starlark.Thread, args starlark.Tuple, kwargs []starlark.Tuple) (int64, error) {
	s, _ := recv.(starlark.String)
	n, err := textCost(strings.Contains(string(s), "!r"))(thread, args, kwargs)
	return plus(int64(len(s)), times(int64(strings.Count(string(s), "{")), n)), err
}

func divided(recv starlark.Value, _ *starlark.Thread, args starlark.Tuple, _ []starlark.Tuple) (int64, error) {
	s, _ := recv.(starlark.String)
	parts := len(s)/2 + 1
	if len(args) > 0 {
		if sep, ok := args[0].(starlark.String); ok && sep != "" {
			parts = strings.Count(string(s), string(sep)) + 1
		}
	}
	return times(int64(parts), 2*elemSize), nil
}

// dot is x.name for the names of methodCosts.
func dot(thread *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
	name := string(args[1].(starlark.String))
	v, err := attr(args[0], name)
	if err != nil || v != nil {
		return v, err
	}
	return nil, fmt.Errorf("%s has no .%s field or method", args[0].Type(), name)
}

// attr returns a field or method of a value, or nil if it has none of that name.
func attr(x starlark.Value, name string) (starlark.Value, error) {
	has, ok := x.(starlark.HasAttrs)
	if !ok {
		return nil, nil
	}
	v, err := has.Attr(name)
	f, isMethod := v.(*starlark.Builtin)
	if err != nil || !isMethod || f.Receiver() == nil {
		return v, err
	}
	c, ok := methodCosts[name]
	if !ok {
		return v, nil
	}
	recv := f.Receiver()
	switch name {
	case "items", "popitem":
		f = weighing(f)
	case "elems", "codepoints", "codepoint_ords":
		f = measured(f)
	case "update", "union", "intersection", "difference", "symmetric_difference", "issubset", "issuperset":
		_, isDict := recv.(*starlark.Dict)
		f = clashing(f, recv, isDict)
	}
	return within(f, func(thread *starlark.Thread, args starlark.Tuple, kwargs []starlark.Tuple) (int64, error) {
		return c(recv, thread, args, kwargs)
	}), nil
}

func limitedGetattr(thread *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
	var x, otherwise starlark.Value
	var name string
	if err := starlark.UnpackPositionalArgs("getattr", args, kwargs, 2, &x, &name, &otherwise); err != nil {
		return nil, err
	}
	v, err := attr(x, name)
	switch {
	case v != nil && err == nil:
		return v, nil
	case otherwise != nil:
		return otherwise, nil
	case err != nil:
		return nil, err
	}
	return nil, fmt.Errorf("getattr: %s has no .%s field or method", x.Type(), name)
}
