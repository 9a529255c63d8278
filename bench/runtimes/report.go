package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"text/tabwriter"
	"time"
)

// report is everything that was measured.
type report struct {
	rows      map[string]*row
	deadlines []deadline
	killed    []killed
	idle      []idle
	version   samples
}

// row is what was measured of one way.
type row struct {
	latency, atOnce, cold, flood, in, out samples
	growth                                []int64 // of this program's memory during the flood
}

func (r *report) row(key string) *row {
	if r.rows == nil {
		r.rows = map[string]*row{}
	}
	if r.rows[key] == nil {
		r.rows[key] = &row{}
	}
	return r.rows[key]
}

// grown returns the largest growth of memory.
func (r *row) grown() int64 { return slices.Max(append(r.growth, 0)) }

func (r *report) print(w io.Writer, ways []way) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "\tmedian\tp99\tcommands\t%d at once\tcold start\t1 GiB out\tour memory\t100 MiB in\tout\t\n", atOnce)
	for _, w := range ways {
		x := r.row(w.key)
		fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%s\t%s\t%s\t+%s\t%s\t%s\t\n", w.name,
			ms(x.latency.median()), ms(x.latency.quantile(0.99)), len(x.latency), ms(x.atOnce.median()),
			ms(x.cold.median()), ms(x.flood.median()), mib(x.grown()), ms(x.in.median()), ms(x.out.median()))
	}
	t.Flush()
	fmt.Fprintf(w, "\nMedians, but for p99 and our memory (the most of %d runs: VmHWM of a fresh process,\n"+
		"reset before the command, less VmRSS before). The cold start of docker exec by CLI is\n"+
		"docker run --rm --network none IMAGE true.\n\n", len(r.row(keyGuestDocker).growth))

	t = tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "figure\tmeasured\treach\t")
	for _, f := range r.figures() {
		if math.IsNaN(f.value) {
			continue // not measured
		}
		verdict, sign, reached := "NOT REACHED", "≤", f.value <= f.reach
		if f.atLeast {
			sign, reached = "≥", f.value >= f.reach
		}
		if reached {
			verdict = "reached"
		}
		fmt.Fprintf(t, "%s\t%s\t%s %s\t%s\n", f.name, f.show(f.value), sign, f.show(f.reach), verdict)
	}
	t.Flush()
}

// millis returns a duration in milliseconds, or NaN if it was not measured.
func millis(d time.Duration) float64 {
	if d == 0 {
		return math.NaN()
	}
	return float64(d) / 1e6
}

func ms(d time.Duration) string { return showMillis(millis(d)) }

func showMillis(v float64) string {
	switch {
	case math.IsNaN(v):
		return "-"
	case v < 10:
		return fmt.Sprintf("%.2f ms", v)
	case v < 100:
		return fmt.Sprintf("%.1f ms", v)
	default:
		return fmt.Sprintf("%.0f ms", v)
	}
}

func mib(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }

func showBytes(v float64) string {
	if v < 1<<20 {
		return fmt.Sprintf("%.0f KiB", v/(1<<10))
	}
	return mib(int64(v))
}

func times(v float64) string { return fmt.Sprintf("%.2f×", v) }

func faster(v float64) string { return fmt.Sprintf("%.1f× faster", v) }

func count(v float64) string { return fmt.Sprintf("%.0f", v) }
