package main

import (
	"fmt"
	"math"

	"github.com/x/pygent/bench/figure"
)

// figures returns all figures, with what was measured.
func (r *report) figures() []figure.Figure {
	list := append(r.commandFigures(), r.floodFigures()...)
	list = append(list, r.fileFigures()...)
	list = append(list, r.endFigures()...)
	return append(list, r.weightFigures()...)
}

func (r *report) commandFigures() []figure.Figure {
	fork, docker, local := r.row(keyFork), r.row(keyGuestDocker), r.row(keyGuestLocal)
	forkBash, small := r.row(keyForkBash), r.row(keyGuestSh)
	api, cli, bridge := r.row(keyExecAPI), r.row(keyExecCLI), r.row(keyRunBridge)
	return []figure.Figure{
		{Name: "a command in the container, sh against local fork+exec of sh", Value: ratio(small.latency, fork.latency), Reach: 2, Show: figure.Times},
		{Name: "a command in the container, bash against local fork+exec of bash", Value: ratio(docker.latency, forkBash.latency), Reach: 2, Show: figure.Times},
		{Name: "a command in the container, bash against local fork+exec of sh", Value: ratio(docker.latency, fork.latency), Reach: 2, Show: figure.Times},
		{Name: "a command of the local guest, bash against local fork+exec of bash", Value: ratio(local.latency, forkBash.latency), Reach: 2, Show: figure.Times},
		{Name: "a command in the container, sh against docker exec of sh by API", Value: ratio(api.latency, small.latency), Reach: 25, AtLeast: true, Show: figure.Faster},
		{Name: "a command in the container, bash against docker exec of sh by API", Value: ratio(api.latency, docker.latency), Reach: 25, AtLeast: true, Show: figure.Faster},
		{Name: fmt.Sprintf("%d commands at once in one container", atOnce), Value: figure.Millis(docker.atOnce.median()), Reach: 60, Show: figure.ShowMillis},
		{Name: "cold start to the first result, and the end, against docker run --rm --network none", Value: ratio(docker.whole, cli.whole), Reach: 1.2, Show: figure.Times},
		{Name: "the same against docker run --rm", Value: ratio(docker.whole, bridge.whole), Reach: 1.2, Show: figure.Times},
		{Name: "  without the end, against docker run --rm --network none with it", Value: ratio(docker.cold, cli.whole), Reach: math.NaN(), Show: figure.Times},
	}
}

func (r *report) floodFigures() []figure.Figure {
	var list []figure.Figure
	for _, g := range []struct{ name, key string }{{"in the container", keyGuestDocker}, {"of the local guest", keyGuestLocal}} {
		if row := r.row(g.key); len(row.growth) > 0 {
			list = append(list, figure.Figure{Name: "1 GiB of output " + g.name + ": growth of our memory", Value: float64(row.grown()), Reach: 8 << 20, Show: figure.ShowBytes})
		}
	}
	return list
}

func (r *report) endFigures() []figure.Figure {
	var list []figure.Figure
	for _, d := range r.deadlines {
		list = append(list,
			figure.Figure{Name: d.name + ": deadline, after the grace", Value: figure.Millis(d.overrun.median()), Reach: 100, Show: figure.ShowMillis},
			figure.Figure{Name: fmt.Sprintf("%s: of %d processes that fled, alive", d.name, d.before), Value: float64(d.after), Show: figure.Count})
	}
	list = append(list, figure.Figure{Name: "a container that does not answer: the result, after time limit and grace (the longest of all)", Value: figure.Millis(r.silent.quantile(1)), Reach: 5000, Show: figure.ShowMillis})
	for _, k := range r.killed {
		list = append(list, figure.Figure{Name: "host killed, " + k.name + " gone (the longest of all)", Value: figure.Millis(k.left.quantile(1)), Reach: 1000, Show: figure.ShowMillis})
	}
	return list
}

func (r *report) weightFigures() []figure.Figure {
	var list []figure.Figure
	for _, m := range r.idle {
		name := fmt.Sprintf("%d idle agents, %s: resident each, guests counted (heap and stacks %s)", m.Count, m.Name, figure.ShowBytes(float64(m.Heap)))
		list = append(list, figure.Figure{Name: name, Value: float64(m.Resident), Reach: 64 << 10, Show: figure.ShowBytes})
	}
	return append(list, figure.Figure{Name: "pygent version, whole process", Value: figure.Millis(r.version.median()), Reach: 30, Show: figure.ShowMillis})
}

// ratio divides medians. It is NaN if one of them was not measured.
func ratio(a, b samples) float64 { return figure.Millis(a.median()) / figure.Millis(b.median()) }
