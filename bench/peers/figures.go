package main

import (
	"fmt"
	"math"

	"github.com/x/pygent/bench/figure"
)

// figures compares the medians of pygent's agent with those of the others.
func (b *bench) figures() []figure.Figure {
	var list []figure.Figure
	for _, t := range b.tables {
		for i, p := range b.peers {
			if p.name == ours {
				continue
			}
			list = append(list, figure.Figure{
				Name:  fmt.Sprintf("%s, streamed, against %s", t.what, p.name),
				Value: b.usual(t, ours) / quantile(t.rows[i], 0.5, sample.seconds),
				Reach: t.reach(p.name), Show: figure.Times,
			})
		}
	}
	return list
}

// usual is the median time of the peer of a name, or NaN if it was not measured.
func (b *bench) usual(t table, name string) float64 {
	for i, p := range b.peers {
		if p.name == name {
			return quantile(t.rows[i], 0.5, sample.seconds)
		}
	}
	return math.NaN()
}

// reach is what the agent may take, against a peer: no more than what else a program
// would use, and not much more than the least that can be done. A chunk has 0.6 of the
// least one's speed.
func (t table) reach(peer string) float64 {
	switch {
	case peer == modelByHandName:
		return math.NaN() // what of a step is the agent's
	case peer != bareName:
		return 1
	case t.unit == "chunk":
		return 1 / 0.6
	default:
		return 1.5
	}
}
