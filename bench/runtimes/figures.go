package main

import "fmt"

// figure is a measured number with its goal.
type figure struct {
	name    string
	value   float64 // NaN if it was not measured
	reach   float64 // the goal
	atLeast bool    // whether more is better
	show    func(float64) string
}

// figures returns all figures, with what was measured.
func (r *report) figures() []figure {
	list := append(r.commandFigures(), r.floodFigures()...)
	list = append(list, r.endFigures()...)
	return append(list, r.weightFigures()...)
}

func (r *report) commandFigures() []figure {
	fork, docker, local := r.row(keyFork), r.row(keyGuestDocker), r.row(keyGuestLocal)
	forkBash, small := r.row(keyForkBash), r.row(keyGuestSh)
	api, cli, bridge := r.row(keyExecAPI), r.row(keyExecCLI), r.row(keyRunBridge)
	return []figure{
		{name: "a command in the container, sh against local fork+exec of sh", value: ratio(small.latency, fork.latency), reach: 2, show: times},
		{name: "a command in the container, bash against local fork+exec of bash", value: ratio(docker.latency, forkBash.latency), reach: 2, show: times},
		{name: "a command in the container, bash against local fork+exec of sh", value: ratio(docker.latency, fork.latency), reach: 2, show: times},
		{name: "a command of the local guest, bash against local fork+exec of bash", value: ratio(local.latency, forkBash.latency), reach: 2, show: times},
		{name: "a command in the container, sh against docker exec of sh by API", value: ratio(api.latency, small.latency), reach: 25, atLeast: true, show: faster},
		{name: "a command in the container, bash against docker exec of sh by API", value: ratio(api.latency, docker.latency), reach: 25, atLeast: true, show: faster},
		{name: fmt.Sprintf("%d commands at once in one container", atOnce), value: millis(docker.atOnce.median()), reach: 60, show: showMillis},
		{name: "cold start against docker run --rm --network none", value: ratio(docker.cold, cli.cold), reach: 1.3, show: times},
		{name: "cold start against docker run --rm", value: ratio(docker.cold, bridge.cold), reach: 1.3, show: times},
	}
}

func (r *report) floodFigures() []figure {
	var list []figure
	for _, g := range []struct{ name, key string }{{"in the container", keyGuestDocker}, {"of the local guest", keyGuestLocal}} {
		if row := r.row(g.key); len(row.growth) > 0 {
			list = append(list, figure{name: "1 GiB of output " + g.name + ": growth of our memory", value: float64(row.grown()), reach: 8 << 20, show: showBytes})
		}
	}
	return list
}

func (r *report) endFigures() []figure {
	var list []figure
	for _, d := range r.deadlines {
		list = append(list,
			figure{name: d.name + ": deadline, after the grace", value: millis(d.overrun.median()), reach: 100, show: showMillis},
			figure{name: fmt.Sprintf("%s: of %d processes that fled, alive", d.name, d.before), value: float64(d.after), show: count})
	}
	for _, k := range r.killed {
		list = append(list, figure{name: "host killed, " + k.name + " gone (the longest of all)", value: millis(k.left.quantile(1)), reach: 1000, show: showMillis})
	}
	return list
}

func (r *report) weightFigures() []figure {
	var list []figure
	for _, m := range r.idle {
		name := fmt.Sprintf("%d idle agents, %s: resident each, guests counted (heap and stacks %s)", m.Count, m.Name, showBytes(float64(m.Heap)))
		list = append(list, figure{name: name, value: float64(m.Resident), reach: 64 << 10, show: showBytes})
	}
	return append(list, figure{name: "pygent version, whole process", value: millis(r.version.median()), reach: 30, show: showMillis})
}

// ratio divides medians. It is NaN if one of them was not measured.
func ratio(a, b samples) float64 { return millis(a.median()) / millis(b.median()) }
