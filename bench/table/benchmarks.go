package main

import (
	"bufio"
	"bytes"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/x/pygent/bench/figure"
)

// measured has what benchmarks report, by the name of the benchmark, without "Benchmark"
// and the number of processors, and the unit. Of several runs it is the least.
type measured map[string]map[string]float64

// get returns NaN for what was not measured.
func (m measured) get(name, unit string) float64 {
	if v, ok := m[name][unit]; ok {
		return v
	}
	return math.NaN()
}

// benchmarks are those of which figures are made.
var benchmarks = []string{"LoopStep", "RequestBody", "HistoryAppend", "FirstRequest", "CommandRun", "TasksAtRest", "RequestPrefix"}

func benchmarkPattern() string { return "^Benchmark(" + strings.Join(benchmarks, "|") + ")$" }

// benchmarkRows makes figures of what go test prints.
func benchmarkRows(output []byte) ([]figure.Row, error) {
	m, err := readBenchmarks(output)
	if err != nil {
		return nil, err
	}
	return figure.Rows(m.figures()), nil
}

const (
	few, many = "/history=10", "/history=10000"
	ns        = "ns/op"
)

func (m measured) figures() []figure.Figure {
	return []figure.Figure{
		{Name: "loop: a step with a scripted model, after 10 messages", Value: m.get("LoopStep"+few, ns) / 1e3, Reach: 30, Show: figure.ShowMicros},
		{Name: "loop: the same after 10,000 messages", Value: m.get("LoopStep"+many, ns) / 1e3, Reach: 30, Show: figure.ShowMicros},
		{Name: "a whole call without the network, its body made of 10,000 messages", Value: m.get("RequestBody"+many, ns) / 1e6, Reach: 1, Show: figure.ShowMillis},
		{Name: "  allocated for that, against a body of 10 messages", Value: m.get("RequestBody"+many, "B/op") / m.get("RequestBody"+few, "B/op"), Reach: 1.2, Show: figure.Times},
		{Name: "an append to a history in a file, at 10,000 messages against at 10", Value: m.get("HistoryAppend"+many, ns) / m.get("HistoryAppend"+few, ns), Reach: 1.2, Show: figure.Times},
		{Name: "an agent's first request, in Docker more than locally", Value: (m.get("FirstRequest/docker", ns) - m.get("FirstRequest/local", ns)) / 1e6, Reach: 10, Show: figure.ShowMillis},
		{Name: "pygent run, to its first request, in Docker more than locally", Value: m.get("CommandRun", "docker-first-ms") - m.get("CommandRun", "local-first-ms"), Reach: 10, Show: figure.ShowMillis},
		{Name: "  locally", Value: m.get("CommandRun", "local-first-ms"), Reach: math.NaN(), Show: figure.ShowMillis},
		{Name: "  in Docker", Value: m.get("CommandRun", "docker-first-ms"), Reach: math.NaN(), Show: figure.ShowMillis},
		{Name: "  in Docker, with an image of which nothing is known", Value: m.get("CommandRun", "new-first-ms"), Reach: math.NaN(), Show: figure.ShowMillis},
		{Name: "  from the model's last answer to the words on the screen", Value: m.get("CommandRun", "docker-words-ms"), Reach: math.NaN(), Show: figure.ShowMillis},
		{Name: "  from there to the end, with the container removed", Value: m.get("CommandRun", "docker-end-ms"), Reach: math.NaN(), Show: figure.ShowMillis},
		{Name: "1,000 finished tasks, each", Value: m.get("TasksAtRest", "KiB/task") * 1024, Reach: 64 << 10, Show: figure.ShowBytes},
		{Name: "  closing them all", Value: m.get("TasksAtRest", "s/close") * 1e3, Reach: math.NaN(), Show: figure.ShowMillis},
		{Name: "what comes before the conversation in each request, in bytes", Value: m.get("RequestPrefix", "bytes"), Reach: 10_000, Show: figure.Count},
	}
}

// processors is what go test adds to the name of a benchmark.
var processors = regexp.MustCompile(`-\d+$`)

// readBenchmarks reads the format of https://go.dev/design/14313-benchmark-format.
func readBenchmarks(output []byte) (measured, error) {
	m := measured{}
	lines := bufio.NewScanner(bytes.NewReader(output))
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 4 || !strings.HasPrefix(fields[0], "Benchmark") {
			continue
		}
		name := processors.ReplaceAllString(strings.TrimPrefix(fields[0], "Benchmark"), "")
		if m[name] == nil {
			m[name] = map[string]float64{}
		}
		for pair := range slices.Chunk(fields[2:], 2) {
			v, err := strconv.ParseFloat(pair[0], 64)
			if err != nil || len(pair) < 2 {
				return nil, fmt.Errorf("read the benchmark %q: it is not number, value and unit", lines.Text())
			}
			if least, ok := m[name][pair[1]]; !ok || v < least {
				m[name][pair[1]] = v
			}
		}
	}
	return m, lines.Err()
}
