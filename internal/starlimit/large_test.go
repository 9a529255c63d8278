//go:build !race

// These tests compute much in one goroutine: the race detector would see nothing in them, and
// make them about ten times as slow.

package starlimit_test

import (
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/starlimit"
)

func TestProgramsStayWithinLimits(t *testing.T) {
	if testing.Short() {
		t.Skip("computes for seconds")
	}
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

// Keys may be chosen so that a table looks at all of them for each.
func TestKeysThatClash(t *testing.T) {
	if testing.Short() {
		t.Skip("computes for seconds")
	}
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
