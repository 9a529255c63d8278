package starlimit_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.starlark.net/starlark"
	"go.starlark.net/starlarkstruct"
	"go.starlark.net/syntax"

	"github.com/x/pygent/internal/starlimit"
)

var dialect = &syntax.FileOptions{Set: true, TopLevelControl: true, GlobalReassign: true}

// run runs a program and returns its global variables.
func run(ctx context.Context, source string, l starlimit.Limits) (starlark.StringDict, error) {
	extra := starlark.StringDict{}
	program, err := starlimit.Compile(dialect, "a.star", []byte(source), extra)
	if err != nil {
		return nil, err
	}
	var globals starlark.StringDict
	thread := &starlark.Thread{Print: func(*starlark.Thread, string) {}}
	err = starlimit.Do(ctx, thread, l, func() (err error) {
		globals, err = program.Init(thread, starlimit.Environment(extra))
		return err
	})
	return globals, err
}

var usual = starlimit.Limits{Steps: 1_000_000, Time: 20 * time.Second, Memory: 64 << 20}

// Programs do within limits what they do in Starlark itself.
func TestProgramsAreTheSame(t *testing.T) {
	for _, source := range []string{
		"r = 1 + 2 * 3 - 4 // 2 % 3",
		"r = 7 / 2, -7 // 2, 1 << 10, 1 >> 1, 6 & 3, 6 | 3, 6 ^ 3, ~5, -5, +5",
		"r = 1 == 1.0, 1 != 2, 'a' < 'b', [1] <= [1], 2 in [1, 2], 3 not in [1, 2], 'a' in 'abc'",
		"r = True and 0 or 'x', not 1",
		"r = 'a' * 3 + 'b', 3 * [1], (1,) + (2,), b'a' + b'b'",
		"r = '%s is %d' % ('a', 1), '%(x)s' % {'x': 1}, '{} {a}'.format(1, a = 2)",
		"r = {'a': 1} | {'b': 2}, set([1, 2]) - set([2]), set([1]) | set([2])",
		"x = 1\nx += 2\nx *= 3\nr = x",
		"x = [1]\ny = x\nx += [2]\nr = x, y",
		"x = [[1]]\nx[0] += [2]\nd = {'a': 1}\nd['a'] += 1\nd['a' + 'b'] = 2\nr = x, d",
		"d = {'k': {'n': 1}}\nd['k']['n'] |= 2\nr = d",
		"def f(a, b = 1 + 1, *c, **d):\n    return (a, b, c, d)\nr = f(1), f(*[1, 2, 3], **{'x': 1 + 1}), f(a = 1 + 1)",
		"def f(a, *, b):\n    return a + b\nr = f(1, b = 2)",
		"r = [x * 2 for x in range(5) if x % 2 == 0], {x: x + 1 for x in (1, 2)}",
		"r = (lambda x, y = 1 + 2: x + y)(1)",
		"r = [1, 2, 3][1:], 'abc'[::-1], (1, 2)[:1], 'abc'[0 + 1]",
		"r = ','.join(['a', 'b']), 'a-b'.replace('-', '+'), 'a b'.split(), 'a,b'.split(','), 'Ab'.upper(), ' a '.strip()",
		"f = 'x'.join\nr = f(['a', 'b']), getattr('a', 'upper')(), getattr(1, 'no', 3), hasattr('a', 'join')",
		"d = {'a': 1}\nd.update(b = 2)\nr = d.items(), d.keys(), d.values(), d.get('a'), d.pop('b')",
		"l = [3, 1]\nl.extend([2])\nl.append(0)\nl.insert(0, 9)\nl.remove(3)\nr = l, l.index(1), sorted(l), reversed(l), len(l), max(l), min(l, key = lambda x: -x)",
		"r = list(range(3)), tuple([1]), dict(a = 1), dict([(1, 2)]), str([1, 'a']), repr('a'), int('12'), int('ff', 16), bytes('a'), zip([1], [2]), enumerate(['a']), any([0]), all([1]), hash('a')",
		"s = struct(join = 1, format = [2])\nr = s.join, s.format, s",
		"r = json.encode({'a': [1, None]}), json.decode('{\"a\": [1, 2.5, \"\\\\u00e9\"]}'), json.decode('x', None)",
		"x, (y, z) = 1, (2, 3)\n[a, b] = [4, 5]\nfor i, j in [(1, 2)]:\n    x += i + j\nr = x, y, z, a, b",
		"x = 0\nfor i in range(10):\n    if i == 3:\n        continue\n    elif i > 5:\n        break\n    else:\n        x += i\nr = x",
		"r = 1 if 1 + 1 == 2 else 0",
		"def f():\n    'doc'\n    return None\nr = str(f)",
		"def f(*a):\n    'doc'\n    return a\nr = f(1, 2), f(), (lambda *a, **k: (a, k))(1, (2, 3), b = 4), (lambda *a: a)()",
		"t = (1, (2, 3))\nt += (4,)\nr = t * 2, {t: 1}[t], {(1, i): i for i in range(3)}, {1: 2}.popitem(), zip([(1, 2)], 'ab'.elems())",
		"r = list('a\u00e9'.codepoints()), ['%d' % c for c in 'a\u00e9'.codepoint_ords()], list(b'ab'.elems()), type('a'.codepoints()), str('a'.codepoints())",
		"r = ','.join('ab'.codepoints()), zip('ab'.codepoints(), [1, 2]), sorted([3, 1], key = lambda x: (x, -x), reverse = True), max(1, 2, key = lambda x: -x)",
		"r = struct(a = (1, 2)) + struct(b = 3), struct(a = 1) == struct(a = 1), {struct(a = 1): 2}",
	} {
		t.Run(source, func(t *testing.T) {
			own, err := run(t.Context(), source, usual)
			require.NoError(t, err)
			predeclared := starlark.StringDict{"struct": starlark.NewBuiltin("struct", starlarkstruct.Make), "json": starlimit.Environment(nil)["json"]}
			plain, err := starlark.ExecFileOptions(dialect, &starlark.Thread{}, "a.star", source, predeclared)
			require.NoError(t, err)
			require.Equal(t, plain["r"].String(), own["r"].String())
		})
	}
}

func TestErrorsHaveTheirPlaces(t *testing.T) {
	for source, want := range map[string]string{
		"def f(x):\n    return 1 + x\nf('a')": "a.star:2:14: unknown binary op: int + string",
		"x = [1]\nx.joint":                    "a.star:2:2: list has no .joint field or method",
		"x = 1\nx.join":                       "a.star:2:2: int has no .join field or method",
		"'a'.join(1)":                         "a.star:1:9: join: for parameter 1: got int, want iterable",
		"x = 1\nx += 'a'":                     "a.star:2:3: unknown binary op: int + string",
		"y = [\n  1,\n  2 < 'a',\n]":          "a.star:3:5: int < string not implemented",
		"def f():\n    return f()\nx = f()":   "a.star:2:12: function f called recursively",
		"load('b.star', 'x')":                 "a.star:1:1: load not implemented by this application",
		"d = {}\nd[str(1)] += 1":              "a.star:2:3: too complicated for an assignment that changes a value: assign this to a variable first",
		"x = (":                               "a.star:1:6: got end of file, want primary expression",
		"print(nope)":                         "a.star:1:7: undefined: nope",
		"x = 'a'[1:2:0]":                      "a.star:1:8: zero is not a valid slice step",
		"fail('no', 1)":                       "a.star:1:5: fail: no 1",
		"while True:\n    pass":               "a.star:1:1: this Starlark dialect does not support while loops",
		"x = range(1, 5)\nx[9]":               "a.star:2:2: range index 9 out of range [-4:3]",
		"json.decode('[')":                    "a.star:1:12: json.decode: at offset 1, unexpected end of file",
		"getattr('a', 'x')":                   "a.star:1:8: getattr: string has no .x field or method",
		"x = struct(a = 1)\nx.a += 1":         "a.star:2:2: can't assign to .a field of struct",
		"'%s' % (1, 2)":                       "a.star:1:6: too many arguments for format string",
	} {
		t.Run(source, func(t *testing.T) {
			_, err := run(t.Context(), source, usual)
			require.Error(t, err)
			got := err.Error()
			if failed := (*starlark.EvalError)(nil); errors.As(err, &failed) {
				for _, frame := range failed.CallStack {
					if frame.Pos.Filename() == "a.star" {
						got = frame.Pos.String() + ": " + err.Error()
					}
				}
			}
			require.Contains(t, got, want)
		})
	}
}

const (
	nested = "t = ('a',)\nfor i in range(60):\n    t = (t, t)\n"
	wide   = "x, y = ['a'], ['a']\nfor i in range(7):\n    x, y = [x] * 1000, [y] * 1000\n"
)

func TestAProgramEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	program := "for i in range(1000000):\n    for j in range(1000000):\n        pass"
	time.AfterFunc(10*time.Millisecond, func() { cancel(why) })
	_, err := run(ctx, program, starlimit.Limits{})
	require.ErrorIs(t, err, why)
	require.Equal(t, "enough", err.Error())
}

func TestTheClockStandsWhileTheHostWorks(t *testing.T) {
	thread := &starlark.Thread{}
	err := starlimit.Do(t.Context(), thread, starlimit.Limits{Time: time.Second}, func() error {
		resume := starlimit.Pause(thread)
		time.Sleep(1100 * time.Millisecond) // more than the whole time
		resume()
		_, err := starlark.Call(thread, starlark.Universe["len"], starlark.Tuple{starlark.String("a")}, nil)
		return err
	})
	require.NoError(t, err)
}

func TestTheTimeIsLimited(t *testing.T) {
	_, err := run(t.Context(), "for i in range(1000000):\n    for j in range(1000000):\n        pass", starlimit.Limits{Time: 20 * time.Millisecond})
	require.EqualError(t, err, "it took more than 20ms")
}

// A single step may take longer than a program has, also if it is the last one.
func TestAStepThatTakesTooLong(t *testing.T) {
	_, err := run(t.Context(), "x = sorted(range(300000), reverse = True)", starlimit.Limits{Time: time.Nanosecond})
	require.EqualError(t, err, "it took more than 1ns")
}

// Whatever the text, a program neither panics nor leaves its limits.
func FuzzRun(f *testing.F) {
	for _, source := range []string{
		"x = 'a' * 100", "def f(ctx, a = 1):\n    return ctx.b[a:] + [1]\nf(1)", "x = [y for y in range(10) if y]", "a[1] += b.c", "load('x', 'y')",
		"x = {1: 2}\nx[1] |= 3\nfor i in x.items():\n    print(i)", "lambda *a, **k: f(*a, **k)", "x = '%s' % (1,)", "json.decode('[[')",
		"x = -~+1 << 3 in [1] == 2", "((x)), [y] = 1, (2,)", "struct(a=1).a",
	} {
		f.Add(source)
	}
	f.Fuzz(func(t *testing.T, source string) {
		if len(source) > 1<<12 {
			return
		}
		_, _ = run(t.Context(), source, starlimit.Limits{Steps: 10_000, Time: time.Second, Memory: 1 << 20})
	})
}
