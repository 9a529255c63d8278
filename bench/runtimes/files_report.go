package main

import (
	"fmt"
	"io"
	"math"
	"text/tabwriter"
	"time"

	"github.com/x/pygent/bench/figure"
)

// printFiles prints how long files were copied.
func (r *report) printFiles(w io.Writer) {
	if len(r.sites) == 0 {
		return
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprint(t, "files\t")
	for _, l := range loads {
		fmt.Fprintf(t, "%s in\tout\tour memory\t", l.name)
	}
	fmt.Fprintln(t)
	for _, s := range r.sites {
		for i, c := range s.site.ways() {
			fmt.Fprintf(t, "%s, %s\t", s.site.name, c.name)
			for _, l := range loads {
				x, memory := s.times[c.name][l.name], ""
				if i == 0 {
					memory = "+" + mib(s.growth[l.name])
				}
				fmt.Fprintf(t, "%s\t%s\t%s\t", x.in, x.out, memory)
			}
			fmt.Fprintln(t)
		}
	}
	t.Flush()
	fmt.Fprint(w, "\nThe shortest time, the median, and in brackets the least processor time of all processes\n"+
		"that take part; of our memory, VmHWM of a fresh process, reset before both copies, less\nVmRSS before.\n\n")
}

func (t times) String() string {
	return fmt.Sprintf("%s, %s (%s)", ms(t.clock.quantile(0)), ms(t.clock.median()), ms(t.processor.quantile(0)))
}

// fileFigures compares our copies with those of the fastest peer.
func (r *report) fileFigures() (list []figure.Figure) {
	for _, s := range r.sites {
		for _, l := range loads {
			list = append(list,
				s.figure(l, "in", func(c *carried) times { return c.in }),
				s.figure(l, "out", func(c *carried) times { return c.out }),
				figure.Figure{
					Name:  fmt.Sprintf("files, %s: %s in and out: growth of our memory", s.site.name, l.name),
					Value: float64(s.growth[l.name]), Reach: 8 << 20, Show: figure.ShowBytes,
				})
		}
	}
	return list
}

// figure compares the copies of a load in one direction.
func (s siteReport) figure(l load, direction string, of func(*carried) times) figure.Figure {
	against := func(value func(times) time.Duration) float64 {
		best := math.Inf(1)
		for _, p := range s.site.peers {
			best = min(best, figure.Millis(value(of(s.times[p.name][l.name]))))
		}
		return figure.Millis(value(of(s.times[s.site.ours.name][l.name]))) / best
	}
	return figure.Figure{
		Name: fmt.Sprintf("files, %s: %s %s against the fastest of the others (shortest times: %s; processor: %s)",
			s.site.name, l.name, direction,
			figure.Times(against(func(t times) time.Duration { return t.clock.quantile(0) })),
			figure.Times(against(func(t times) time.Duration { return t.processor.quantile(0) }))),
		Value: against(func(t times) time.Duration { return t.clock.median() }), Reach: 1, Show: figure.Times,
	}
}
