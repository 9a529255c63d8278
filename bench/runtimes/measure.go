package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/x/pygent/bench/figure"
)

// Sizes of the measurements.
const (
	fastBlock = 20 // commands in a row before the next way's turn
	slowBlock = 4
	atOnce    = 40
	floodSize = 1 << 30
)

// samples are repeated measurements of one duration.
type samples []time.Duration

// quantile returns the duration that the fraction q of the samples does not
// exceed.
func (s samples) quantile(q float64) time.Duration {
	if len(s) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(s))
	return sorted[min(int(float64(len(sorted))*q), len(sorted)-1)]
}

func (s samples) median() time.Duration { return s.quantile(0.5) }

// time measures f and appends how long it takes.
func (s *samples) time(f func() error) error {
	start := time.Now()
	err := f()
	*s = append(*s, time.Since(start))
	return err
}

// rotated returns the ways in an order that changes with each round, so that
// each of them comes first in turn.
func (b *bench) rotated(round int) []way {
	n := round % len(b.ways)
	return append(slices.Clone(b.ways[n:]), b.ways[:n]...)
}

// latencies measures commands one after the other, and many at once.
func (b *bench) latencies(ctx context.Context, r *report) (err error) {
	places, closeAll, err := b.openAll(ctx)
	defer func() {
		if closed := closeAll(); err == nil {
			err = closed
		}
	}()
	if err != nil {
		return err
	}
	b.log("latency: %d rounds", b.rounds)
	for round := range b.rounds {
		for _, w := range b.rotated(round) {
			block := fastBlock
			if w.slow {
				block = slowBlock
			}
			for range block {
				if err := r.row(w.key).latency.time(func() error { return places[w.key].run(ctx, "true") }); err != nil {
					return fmt.Errorf("%s: %w", w.name, err)
				}
			}
		}
	}
	b.log("%d at once: %d rounds", atOnce, b.rounds)
	for round := range b.rounds {
		for _, w := range b.rotated(round) {
			if w.slow && round%3 != 0 {
				continue // it takes seconds
			}
			if err := r.row(w.key).atOnce.time(func() error { return many(ctx, places[w.key]) }); err != nil {
				return fmt.Errorf("%s, %d at once: %w", w.name, atOnce, err)
			}
		}
	}
	return nil
}

func many(ctx context.Context, p place) error {
	var all sync.WaitGroup
	errs := make([]error, atOnce)
	for i := range errs {
		all.Go(func() { errs[i] = p.run(ctx, "true") })
	}
	all.Wait()
	return errors.Join(errs...)
}

// openAll opens every way and warms it up. closeAll may always be called.
func (b *bench) openAll(ctx context.Context) (places map[string]place, closeAll func() error, err error) {
	places = map[string]place{}
	closeAll = func() (err error) {
		for _, p := range places {
			if closed := p.close(); err == nil {
				err = closed
			}
		}
		return err
	}
	for _, w := range b.ways {
		p, err := w.open(ctx)
		if err == nil {
			places[w.key] = p
			err = p.run(ctx, "true")
		}
		if err != nil {
			return places, closeAll, fmt.Errorf("%s: %w", w.name, err)
		}
	}
	return places, closeAll, nil
}

// coldStarts measures the time from nothing to the first command's result, and from there
// until nothing is left.
func (b *bench) coldStarts(ctx context.Context, r *report) error {
	rounds := max(b.rounds/2, 1)
	b.log("cold start: %d rounds", rounds)
	ways := b.rotated
	bridge := way{name: "docker run", key: keyRunBridge, cold: func(ctx context.Context) error {
		return command(ctx, "docker", "run", "--rm", b.image, "true")
	}}
	if err := bridge.cold(ctx); err != nil {
		b.log("not measured, as this engine has no network: %v", err)
	} else {
		ways = func(round int) []way { return append(b.rotated(round), bridge) }
	}
	for round := range rounds {
		for _, w := range ways(round) {
			if err := w.start(ctx, r.row(w.key)); err != nil {
				return fmt.Errorf("%s, cold start: %w", w.name, err)
			}
		}
	}
	return nil
}

// start measures one cold start. docker run --rm returns when the container is removed, so
// what it takes is the same with and without the end.
func (w way) start(ctx context.Context, r *row) error {
	if w.cold != nil {
		err := r.cold.time(func() error { return w.cold(ctx) })
		r.whole = append(r.whole, r.cold[len(r.cold)-1])
		return err
	}
	return r.whole.time(func() error {
		var p place
		err := r.cold.time(func() (err error) {
			if p, err = w.open(ctx); err != nil {
				return err
			}
			return p.run(ctx, "true")
		})
		if p != nil {
			if closed := p.close(); err == nil {
				err = closed
			}
		}
		return err
	})
}

// floods measures a command that prints a GiB. Each one runs in a new process,
// whose memory is measured.
func (b *bench) floods(ctx context.Context, r *report) error {
	rounds := max(b.rounds/10, 1)
	b.log("%d MiB of output: %d rounds", floodSize>>20, rounds)
	for round := range rounds {
		for _, w := range b.rotated(round) {
			var f flood
			if err := b.child(ctx, &f, "flood", w.key); err != nil {
				return fmt.Errorf("%s, flood: %w", w.name, err)
			}
			row := r.row(w.key)
			row.flood = append(row.flood, f.Took)
			row.growth = append(row.growth, f.Growth)
		}
	}
	return nil
}

// idleAgents measures the cost of agents that do nothing.
func (b *bench) idleAgents(ctx context.Context, r *report) error {
	for _, k := range idleKinds {
		b.log("%d idle agents: %s", k.count, k.name)
		var m idle
		if err := b.child(ctx, &m, "idle", k.key); err != nil {
			return fmt.Errorf("idle agents, %s: %w", k.name, err)
		}
		b.log("closing them, one after the other: %s", m.Closing.Round(time.Millisecond))
		r.idle = append(r.idle, m)
	}
	return nil
}

// command measures the command pygent.
func (b *bench) command(ctx context.Context, r *report) error {
	b.log("the command")
	root, err := figure.ModuleRoot(ctx)
	if err != nil {
		return err
	}
	if err := goBuild(ctx, root, b.path("pygent"), "./cmd/pygent"); err != nil {
		return err
	}
	for range b.rounds {
		if err := r.version.time(func() error { return command(ctx, b.path("pygent"), "version") }); err != nil {
			return err
		}
	}
	return nil
}

func goBuild(ctx context.Context, root, program, pkg string) error {
	_, err := output(ctx, "go", "build", "-C", root, "-trimpath", "-ldflags", "-s -w", "-o", program, pkg)
	return err
}
