package starlimit

import (
	"errors"
	"math"

	"go.starlark.net/starlark"
	"go.starlark.net/starlarkstruct"
)

// What values take, in bytes.
const (
	elemSize  = 16
	entrySize = 96
	listSize  = 96  // of a list without elements
	tableSize = 640 // of a dict or a set without entries
	maxCost   = math.MaxInt64 / 4
)

// times multiplies without an overflow.
func times(a, b int64) int64 {
	if a <= 0 || b <= 0 {
		return 0
	}
	if a > maxCost/b {
		return maxCost
	}
	return a * b
}

func plus(a, b int64) int64 { return min(a+b, maxCost) }

// flat is the size of a copy of v that shares the elements.
func flat(v starlark.Value) int64 {
	switch v := v.(type) {
	case starlark.String:
		return int64(len(v))
	case starlark.Bytes:
		return int64(len(v))
	case starlark.Int:
		return intSize(v)
	case starlark.Iterable:
		return times(int64(length(v)), elemSize)
	}
	return 0
}

// length is the number of elements; 0 for what has none.
func length(v starlark.Value) int { return max(starlark.Len(v), 0) }

func intSize(i starlark.Int) int64 {
	if _, small := i.Int64(); small {
		return 0
	}
	return int64(i.BigInt().BitLen()/8) + 16
}

// A walk visits a value with all that is in it, which may be far more than it takes
// in memory: x = [x, x], again and again.
type walk struct {
	nodes int64 // visited
	text  int64 // at least the length of its text
}

// Bounds of a value that is looked through as a whole.
const (
	maxNodes = 1 << 20
	maxDepth = 100
)

var errParts = &LimitError{"the value has too many parts"}

var errDeep = errors.New("the value is nested too deeply, or contains itself")

func (w *walk) visit(v starlark.Value, depth int) error {
	w.nodes++
	if w.nodes > maxNodes {
		return errParts
	}
	if depth > maxDepth {
		return errDeep
	}
	switch v := v.(type) {
	case starlark.String:
		w.text = plus(w.text, quotedSize(int64(len(v))))
	case starlark.Bytes:
		w.text = plus(w.text, quotedSize(int64(len(v))))
	case starlark.Int:
		w.text += 3*intSize(v) + 20
	case starlark.IterableMapping:
		w.text += 4
		for _, item := range v.Items() {
			for _, part := range item {
				if err := w.visit(part, depth+1); err != nil {
					return err
				}
			}
		}
	case *starlarkstruct.Struct:
		w.text += 32
		for _, name := range v.AttrNames() {
			w.text += int64(len(name)) + 4
			if field, err := v.Attr(name); err == nil && field != nil {
				if err := w.visit(field, depth+1); err != nil {
					return err
				}
			}
		}
	case starlark.Iterable:
		w.text += 4
		it := v.Iterate()
		defer it.Done()
		for part := starlark.Value(nil); it.Next(&part); {
			w.text += 2
			if err := w.visit(part, depth+1); err != nil {
				return err
			}
		}
	default:
		w.text += 64
	}
	return nil
}

// quotedSize is the most that n bytes take when they are quoted, as Starlark does it
// or in JSON.
func quotedSize(n int64) int64 { return plus(times(6, n), 3) }

// textSize is about the length of str(v), or more; of repr(v) with quotes.
func textSize(v starlark.Value, quotes bool) (int64, error) {
	if s, ok := v.(starlark.String); ok && !quotes {
		return int64(len(s)), nil
	}
	var w walk
	err := w.visit(v, 0)
	return w.text, err
}

// look charges the steps that it takes to look through values, as to compare them.
func look(thread *starlark.Thread, values ...starlark.Value) error {
	for _, v := range values {
		switch v.(type) {
		case starlark.Iterable, *starlarkstruct.Struct: // with parts
			var w walk
			err := w.visit(v, 0)
			thread.Steps += uint64(w.nodes)
			if err != nil {
				return err
			}
		}
	}
	return nil
}
