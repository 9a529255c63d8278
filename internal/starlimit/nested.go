package starlimit

import (
	"fmt"
	"unicode/utf8"

	"go.starlark.net/starlark"
	"go.starlark.net/starlarkstruct"
)

// A weight reckons tuples and structs that are nested in each other. Starlark
// hashes, freezes and prints such a value as often as it is reached: with
// x = (x, x), sixty times, that never ends. So none is made that is too heavy. Other
// values count as one: they cannot be hashed, and know that they are frozen.
type weight struct {
	nodes int64
	text  int64 // at least the length of the text
}

func (w *weight) add(v starlark.Value, depth int) error {
	w.nodes++
	if depth > maxDepth {
		return errDeep
	}
	if w.nodes > maxNodes {
		return errParts
	}
	switch v := v.(type) {
	case starlark.String:
		w.text = plus(w.text, quotedSize(int64(len(v))))
	case starlark.Bytes:
		w.text = plus(w.text, quotedSize(int64(len(v))))
	case starlark.Tuple:
		for _, part := range v {
			if err := w.add(part, depth+1); err != nil {
				return err
			}
		}
	case *starlarkstruct.Struct:
		for _, name := range v.AttrNames() {
			if part, err := v.Attr(name); err == nil {
				if err := w.add(part, depth+1); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// weigh refuses a value that holds the tuples and structs among values, each of
// them a number of times, if it would be too heavy. It charges the steps of looking.
func weigh(thread *starlark.Thread, count int64, values ...starlark.Value) error {
	var w weight
	for _, v := range values {
		switch v.(type) {
		case starlark.Tuple, *starlarkstruct.Struct:
			err := w.add(v, 0)
			thread.Steps += uint64(w.nodes / 4)
			if err != nil {
				return err
			}
		}
	}
	if times(w.nodes, count) > maxNodes {
		return errParts
	}
	if a := accountOf(thread); a != nil && a.limited && times(w.text, count) > a.limits.Memory {
		return a.tooMuch()
	}
	return nil
}

// weighed returns its argument, a new tuple.
func weighed(thread *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
	return args[0], weigh(thread, 1, args[0])
}

// weighing wraps a function that makes a tuple, a list of tuples, or a struct.
func weighing(f *starlark.Builtin) *starlark.Builtin {
	return starlark.NewBuiltin(f.Name(), func(thread *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
		v, err := f.CallInternal(thread, args, kwargs)
		if err != nil {
			return nil, err
		}
		list, ok := v.(*starlark.List)
		if !ok {
			return v, weigh(thread, 1, v)
		}
		for i := range list.Len() {
			if err := weigh(thread, 1, list.Index(i)); err != nil {
				return nil, err
			}
		}
		return v, nil
	})
}

// key returns its argument, a key that is looked up. A key that is not found is part
// of the error.
func key(thread *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
	if s, ok := args[0].(starlark.String); ok && len(s) > longKey {
		return s, Charge(thread, 2*quotedSize(int64(len(s))))
	}
	return args[0], nil
}

// keywords returns its argument, the keyword arguments of a call, whose names are
// part of its errors.
func keywords(thread *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
	if dict, ok := args[0].(*starlark.Dict); ok {
		for _, name := range dict.Keys() {
			if s, ok := name.(starlark.String); ok && len(s) > longKey {
				return nil, &LimitError{fmt.Sprintf("the name of an argument has more than %d bytes", longKey)}
			}
		}
	}
	return args[0], Charge(thread, flat(args[0]))
}

// longKey is how long a key may be that costs nothing, in bytes.
const longKey = 4096

// sized is an iterable that Starlark does not tell the length of.
type sized struct {
	starlark.Iterable
	n int
}

// Len implements [starlark.Sequence].
func (s sized) Len() int { return s.n }

// measured wraps a method that returns an iterable, the parts of its receiver.
func measured(f *starlark.Builtin) *starlark.Builtin {
	return starlark.NewBuiltin(f.Name(), func(thread *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, kwargs []starlark.Tuple) (starlark.Value, error) {
		v, err := f.CallInternal(thread, args, kwargs)
		it, ok := v.(starlark.Iterable)
		if err != nil || !ok || starlark.Len(v) >= 0 {
			return v, err
		}
		switch recv := f.Receiver().(type) {
		case starlark.String:
			return sized{it, utf8.RuneCountInString(string(recv))}, nil
		case starlark.Bytes:
			return sized{it, len(recv)}, nil
		}
		return v, nil
	})
}
