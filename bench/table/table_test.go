package main

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/bench/figure"
)

const printed = `goos: linux
BenchmarkLoopStep/history=10-2         	   37404	     31000 ns/op	    6424 B/op	      83 allocs/op
BenchmarkLoopStep/history=10-2         	   37404	     29000 ns/op	    6500 B/op	      83 allocs/op
BenchmarkLoopStep/history=10000-2      	   37404	     40000 ns/op
BenchmarkTasksAtRest-16   	       1	        48.00 KiB/task	         0.8000 s/close
PASS
`

func TestFiguresAreMadeOfBenchmarks(t *testing.T) {
	m, err := readBenchmarks([]byte(printed))
	require.NoError(t, err)
	require.InDelta(t, 29000, m.get("LoopStep/history=10", "ns/op"), 0, "the least of several")
	require.InDelta(t, 6424, m.get("LoopStep/history=10", "B/op"), 0)
	require.True(t, math.IsNaN(m.get("LoopStep/history=11", "ns/op")))
	rows, err := benchmarkRows([]byte(printed))
	require.NoError(t, err)
	require.Contains(t, rows, figure.Row{Name: "loop: a step with a scripted model, after 10 messages", Measured: "29.0 µs", Goal: "≤ 30.0 µs", Verdict: figure.Reached})
	require.Contains(t, rows, figure.Row{Name: "loop: the same after 10,000 messages", Measured: "40.0 µs", Goal: "≤ 30.0 µs", Verdict: figure.Missed})
	require.Contains(t, rows, figure.Row{Name: "1,000 finished tasks, each", Measured: "48 KiB", Goal: "≤ 64 KiB", Verdict: figure.Reached})
	require.Len(t, rows, 4, "what was not measured has no row")
	_, err = benchmarkRows([]byte("BenchmarkX-2 1 many ns/op"))
	require.ErrorContains(t, err, "it is not number, value and unit")
}

// A benchmark that is renamed would be missing in the table.
func TestTheBenchmarksExist(t *testing.T) {
	files, err := filepath.Glob("../*_test.go")
	require.NoError(t, err)
	var source strings.Builder
	for _, name := range files {
		data, err := os.ReadFile(name)
		require.NoError(t, err)
		source.Write(data)
	}
	for _, name := range benchmarks {
		require.Contains(t, source.String(), "func Benchmark"+name+"(b *testing.B)")
	}
}

func TestAPartThatFailsSaysWhy(t *testing.T) {
	root, err := figure.ModuleRoot(t.Context())
	require.NoError(t, err)
	_, err = part{dir: "bench/table", args: []string{"run", "./nothing"}, read: decode}.measure(t.Context(), root)
	require.ErrorContains(t, err, "go run ./nothing: ")
	_, err = part{dir: ".", args: []string{"env", "GONOSUCHVARIABLE"}, read: func([]byte) ([]figure.Row, error) { return nil, nil }}.measure(t.Context(), root)
	require.ErrorContains(t, err, "it printed no figures")
}
