package main

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/x/pygent/bench/figure"
)

// report is everything that was measured.
type report struct {
	rows      map[string]*row
	deadlines []deadline
	silent    samples // how late the results of a container were that does not answer
	killed    []killed
	idle      []idle
	sites     []siteReport
	version   samples
}

// row is what was measured of one way.
type row struct {
	latency, atOnce, flood samples
	cold, whole            samples // to the first result, and until nothing is left
	growth                 []int64 // of this program's memory during the flood
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

func (r *report) print(w io.Writer, ways []way) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(t, "\tmedian\tp99\tcommands\t%d at once\tcold start\tand end\t1 GiB out\tour memory\t\n", atOnce)
	for _, w := range ways {
		x := r.row(w.key)
		fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%s\t%s\t%s\t%s\t+%s\t\n", w.name,
			ms(x.latency.median()), ms(x.latency.quantile(0.99)), len(x.latency), ms(x.atOnce.median()),
			ms(x.cold.median()), ms(x.whole.median()), ms(x.flood.median()), mib(x.grown()))
	}
	t.Flush()
	fmt.Fprintf(w, "\nMedians, but for p99 and our memory (the most of %d runs: VmHWM of a fresh process,\n"+
		"reset before the command, less VmRSS before). The cold start of docker exec by CLI is\n"+
		"docker run --rm --network none IMAGE true.\n\n", len(r.row(keyGuestDocker).growth))

	r.printFiles(w)
	return figure.Print(w, figure.Rows(r.figures()))
}

func ms(d time.Duration) string { return figure.ShowMillis(figure.Millis(d)) }

func mib(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }
