package starlimit_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
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

func TestProgramsStayWithinLimits(t *testing.T) {
	for name, source := range map[string]string{
		"a loop":                  "for i in range(1000000):\n    for j in range(1000000):\n        pass",
		"a long text":             "x = 'a' * 1000000000",
		"a long list":             "x = [0] * (1 << 29)",
		"from the left":           "x = (1 << 29) * [0]",
		"doubled":                 "x = 'a'\nfor i in range(60):\n    x = x + x",
		"doubled in place":        "x = 'a'\nfor i in range(60):\n    x += x",
		"doubled list":            "x = [1]\nfor i in range(60):\n    x += x",
		"doubled by extend":       "x = [1]\nfor i in range(60):\n    x.extend(x)",
		"doubled by a slice":      "x = [1]\nfor i in range(60):\n    x[:].extend(x)\n    x = x[:] + x",
		"kept slices":             "x = [0] * 100000\ny = [x[:] for i in range(10000)]",
		"a wide range":            "x = list(range(1000000000))",
		"a range to look at":      "x = max(range(1 << 60))",
		"join":                    "x = 'a' * 100000\ny = ','.join([x for i in range(100000)])",
		"a separator":             "x = ('a' * 100000).join(['b'] * 100000)",
		"replace":                 "x = ('a' * 100000).replace('a', 'b' * 100000)",
		"replace by getattr":      "x = getattr('a' * 100000, 'replace')('a', 'b' * 100000)",
		"format":                  "x = ('{0}' * 10000).format('a' * 100000)",
		"percent":                 "x = '%s' % [['a' * 100000] * 1000]",
		"percent by name":         "x = ('%(a)s' * 10000) % {'a': 'b' * 100000}",
		"numbers":                 "x = 10\nfor i in range(100):\n    x = x * x",
		"numbers in place":        "x = 10\nfor i in range(100):\n    x *= x",
		"shifts":                  "x = 1\nfor i in range(100000):\n    x = x << 500",
		"a long number":           "x = int('9' * 1000000)",
		"nested text":             "x = ['a']\nfor i in range(60):\n    x = [x, x]\ny = str(x)",
		"nested JSON":             "x = ['a']\nfor i in range(60):\n    x = [x, x]\ny = json.encode(x)",
		"nested comparison":       "x, y = ['a'], ['a']\nfor i in range(9):\n    x, y = [x] * 1000, [y] * 1000\nz = x == y",
		"nested membership":       "x, y = ['a'], ['a']\nfor i in range(9):\n    x, y = [x] * 1000, [y] * 1000\nz = x in [y]",
		"nested order":            "x = ['a']\nfor i in range(60):\n    x = [x, x]\ny = sorted([x, x])",
		"print":                   "x = ['a']\nfor i in range(60):\n    x = [x, x]\nprint(x)",
		"fail":                    "x = ['a']\nfor i in range(60):\n    x = [x, x]\nfail(x)",
		"a deep value":            "x = []\nfor i in range(100000):\n    x = [x]\ny = str(x)",
		"a value in itself":       "x = []\nx.append(x)\ny = json.encode(x)",
		"deep JSON":               "x = json.decode('[' * 4000000)",
		"a long number in one":    "x = json.decode('9' * 4000000)",
		"split":                   "x = [('a ' * 1000000).split(' ') for i in range(100)]",
		"items":                   "d = {i: i for i in range(10000)}\nx = [d.items() for i in range(100000)]",
		"unions":                  "d = {i: i for i in range(10000)}\nx = [d | d for i in range(100000)]",
		"copied arguments":        "def f(*a):\n    return a\nl = [0] * 100000\nx = [f(*l) for i in range(100000)]",
		"many small ones":         "x = [{} for i in range(1000000)]",
		"zip":                     "l = [0] * 1000000\nx = zip(l, l, l, l, l, l, l, l)",
		"structs":                 "s = struct(a = 1)\nfor i in range(60):\n    s = struct(a = s, b = s)\nx = str(s)",
		"bytes":                   "x = b'a' * (1 << 29)",
		"tuples":                  "x = (1,) * (1 << 29)",
		"keys of a sort":          wide + "z = sorted([0, 1], key = lambda n: [x, y][n])",
		"keys of a maximum":       wide + "z = max(0, 1, key = lambda n: [x, y][n])",
		"nested structs":          wide + "z = struct(a = x) == struct(a = y)",
		"nested tuples":           nested,
		"tuples of a function":    "def f(*a):\n    return a\nt = 1\nfor i in range(60):\n    t = f(t, t)",
		"tuples of a lambda":      "f = lambda *a: a\nt = 1\nfor i in range(60):\n    t = f(t, t)",
		"tuples of lists":         "t = 1\nfor i in range(60):\n    t = tuple([t, t])",
		"tuples added":            "t = (1,)\nfor i in range(60):\n    t = (t,) + (t,)",
		"tuples added in place":   "t = (1,)\nfor i in range(60):\n    t = (t,)\n    t += t",
		"a repeated tuple":        "t = ((1,) * 1000,) * 1000\nx = {(t,) * 1000: 1}",
		"tuples repeated":         "t = (1,)\nfor i in range(6):\n    t = (t,) * 1000",
		"tuples of zip":           "t = 1\nfor i in range(60):\n    t = zip([t], [t])[0]",
		"tuples of items":         "t = 1\nfor i in range(60):\n    t = {t: t}.items()[0]",
		"hashes of structs":       "t = 1\nfor i in range(60):\n    t = struct(a = t, b = t)\nd = {t: 1}",
		"structs added":           "t = struct(a = 1)\nfor i in range(60):\n    t = struct(a = t) + struct(b = t)",
		"deep tuples":             "t = 1\nfor i in range(1000):\n    t = (t,)",
		"a key in an error":       "s = 'a' * 100000\nt = ((s,) * 1000,) * 1000\nx = {}[t]",
		"a long key":              "s = '\\0' * (50 << 20)\nx = {}[s]",
		"a long argument":         "s = 'a' * (1 << 20)\nstruct(**{s: 1})\nsorted(**{s: 1})",
		"codepoints":              "s = 'a' * (60 << 20)\nl = list(s.codepoints())",
		"codepoints by getattr":   "s = 'a' * (60 << 20)\nl = list(getattr(s, 'codepoint_ords')())",
		"a separator of them":     "s = 'a' * (1 << 20)\nl = s.join(s.codepoints())",
		"codepoints as arguments": "s = 'a' * (60 << 20)\ndef f(*a):\n    return a\nl = f(*s.codepoints())",
		"codepoints zipped":       "s = 'a' * (16 << 20)\nl = zip(s.codepoints(), s.codepoints())",
		"a list of them":          "s = 'a' * (60 << 20)\nl = []\nl.extend(s.codepoints())",
		"bytes of bytes":          "s = b'a' * (60 << 20)\nl = list(s.elems())",
		"dicts of JSON":           "l = json.decode('[' + '{},' * 600000 + '{}]')",
		"lists of JSON":           "l = json.decode('[' + '[],' * 900000 + '[]]')",
		"JSON with escapes":       "l = json.encode('\\0' * (40 << 20))",
		"a quoted text":           "l = repr('\\0' * (40 << 20))",
		"a text in quotes":        "l = '%r' % ('\\0' * (40 << 20))",
		"a format with quotes":    "l = '{!r}'.format('\\0' * (40 << 20))",
		"a long number by name":   "x = int(x = '9' * (1 << 20))",
		"dicts":                   "l = []\nfor i in range(50):\n    l.append([" + strings.Repeat("{},", 10000) + "])",
		"dicts of entries":        "l = []\nfor i in range(50):\n    l.append([" + strings.Repeat("{a: a for a in [1]},", 3000) + "])",
		"sets":                    "l = [[" + strings.Repeat("set(),", 10000) + "] for i in range(50)]",
		"many lambdas":            strings.Repeat("f = lambda x: [x] * 1000\n", 1) + "x = [f(i) for i in range(1000000)]",
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := run(t.Context(), source, usual)
			runtime.ReadMemStats(&after)
			require.Error(t, err)
			require.Less(t, len(err.Error()), 1<<20)
			if limit := (*starlimit.LimitError)(nil); !errors.As(err, &limit) {
				require.Contains(t, err.Error(), "nested too deeply")
			}
			require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(600<<20))
		})
	}
}

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

// Keys may be chosen so that a table looks at all of them for each.
func TestKeysThatClash(t *testing.T) {
	for name, source := range map[string]string{
		"a set":        "x = set([i << 32 for i in range(100000)])",
		"of a range":   "x = set(range(0, 100000 << 32, 1 << 32))",
		"of a bucket":  "x = set([i << 18 for i in range(100000)])",
		"of fractions": "x = set([(i << 32) + 0.0 for i in range(100000)])",
		"of tuples":    "x = set([(i << 32, 1) for i in range(100000)])",
		"a dict":       "x = dict([(i << 32, 1) for i in range(100000)])",
		"an update":    "x = {}\nx.update([(i << 32, 1) for i in range(100000)])",
		"by getattr":   "x = set()\ny = getattr(x, 'union')([i << 32 for i in range(100000)])",
		"a union":      "x, y = set(), [i << 32 for i in range(100000)]\nz = x.union(y)",
		"a symmetric":  "x, y = set([1]), [i << 32 for i in range(100000)]\nz = x.symmetric_difference(y)",
		"an operator":  "x = [set([(100 * i + k) << 32 for k in range(100)]) for i in range(100)]\nfor y in x[1:]:\n    x[0] |= y",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := run(t.Context(), source, starlimit.Limits{Steps: 3_000_000, Memory: 256 << 20})
			limit := (*starlimit.LimitError)(nil)
			require.ErrorAs(t, err, &limit)
		})
	}
	for _, source := range []string{
		"x = len(set([1 << 32] * 100000))", "x = len(set(range(100000))) ", "x = len(dict([(i * 7, 1) for i in range(30000)]))",
		"x = len(set([str(i) for i in range(50000)]) | set(range(50000)))", "x = len(set([i << 32 for i in range(500)]))",
	} {
		globals, err := run(t.Context(), source, usual)
		require.NoError(t, err, source)
		require.NotNil(t, globals["x"])
	}
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
