package starlimit

import (
	"fmt"
	"strings"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
)

// operator is x op y, after its cost.
func operator(op syntax.Token) *starlark.Builtin {
	compares := op == syntax.EQL || op == syntax.NEQ || op == syntax.LT || op == syntax.LE || op == syntax.GT || op == syntax.GE
	return starlark.NewBuiltin(opPrefix+op.String(), func(thread *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
		x, y := args[0], args[1]
		if compares {
			if err := look(thread, x, y); err != nil {
				return nil, err
			}
			ok, err := starlark.Compare(op, x, y)
			return starlark.Bool(ok), err
		}
		if err := charge(thread, op, x, y); err != nil {
			return nil, err
		}
		return starlark.Binary(op, x, y)
	})
}

// augmented returns y of x op= y, after the cost of x op y.
func augmented(op syntax.Token) *starlark.Builtin {
	return starlark.NewBuiltin(augPrefix+op.String(), func(thread *starlark.Thread, _ *starlark.Builtin, args starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
		x, y := args[0], args[1]
		if _, grows := x.(*starlark.List); grows && op == syntax.PLUS { // in place
			return y, Charge(thread, flat(y))
		}
		return y, charge(thread, op, x, y)
	})
}

func charge(thread *starlark.Thread, op syntax.Token, x, y starlark.Value) error {
	n, err := operatorCost(thread, op, x, y)
	if err == nil && (op == syntax.PLUS || op == syntax.STAR) {
		err = weigh(thread, copiesOf(op, x, y), x, y)
	}
	if err == nil {
		err = Charge(thread, n)
	}
	if err == nil && (op == syntax.PIPE || op == syntax.AMP || op == syntax.CIRCUMFLEX || op == syntax.MINUS) {
		err = clash(thread, false, x, y)
	}
	return err
}

// maxBits bounds the numbers that are multiplied, or shifted.
const maxBits = 1 << 16

func operatorCost(thread *starlark.Thread, op syntax.Token, x, y starlark.Value) (int64, error) {
	a, xInt := x.(starlark.Int)
	b, yInt := y.(starlark.Int)
	if xInt && yInt {
		n := intSize(a) + intSize(b)
		if n > maxBits/8 && (op == syntax.STAR || op == syntax.LTLT) {
			return 0, &LimitError{fmt.Sprintf("a number of more than %d bits", maxBits)}
		}
		return n, nil
	}
	switch op {
	case syntax.IN, syntax.NOT_IN:
		return 0, look(thread, x, y)
	case syntax.STAR:
		if xInt {
			return repeated(y, a), nil
		}
		if yInt {
			return repeated(x, b), nil
		}
	case syntax.PERCENT:
		if s, ok := x.(starlark.String); ok {
			return interpolated(s, y)
		}
	case syntax.PIPE, syntax.AMP, syntax.CIRCUMFLEX, syntax.MINUS:
		return times(int64(length(x))+int64(length(y)), entrySize), nil
	}
	return plus(flat(x), flat(y)), nil
}

// copiesOf is how often x op y holds what is in x and y.
func copiesOf(op syntax.Token, x, y starlark.Value) int64 {
	if op == syntax.PLUS {
		return 1
	}
	for _, v := range []starlark.Value{x, y} {
		if n, ok := v.(starlark.Int); ok {
			if count, ok := n.Int64(); ok {
				return count
			}
		}
	}
	return 1 // an error, of Starlark itself
}

// repeated is the size of v, n times.
func repeated(v starlark.Value, n starlark.Int) int64 {
	count, ok := n.Int64()
	if !ok {
		return 0 // refused by Starlark itself
	}
	return times(flat(v), count)
}

// interpolated is the size of s % y.
func interpolated(s starlark.String, y starlark.Value) (int64, error) {
	n, err := textSize(y, strings.Contains(string(s), "%r"))
	if err != nil {
		return 0, err
	}
	if _, named := y.(starlark.Mapping); named { // whose values may be there many times
		n = times(n, int64(strings.Count(string(s), "%")))
	}
	return plus(int64(len(s)), n), nil
}
