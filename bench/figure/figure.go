// Package figure has what the programs below bench have in common: a figure is a
// measured number beside its goal. Each program prints its own as a table, or as lines
// of JSON, of which bench/table makes one table.
package figure

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"text/tabwriter"
	"time"
)

// Figure is a measured number and its goal.
type Figure struct {
	// Name says what was measured, and against what.
	Name string
	// Value is what was measured; NaN if it was not.
	Value float64
	// Reach is the goal: the most that Value may be, or the least if AtLeast is set. NaN
	// means that there is none.
	Reach   float64
	AtLeast bool
	// Show writes a value with its unit.
	Show func(float64) string
}

// Row is a figure in words. It is the JSON that programs print.
type Row struct {
	Name     string `json:"name"`
	Measured string `json:"measured"`
	Goal     string `json:"goal"`    // with its sign; empty if there is none
	Verdict  string `json:"verdict"` // Reached or Missed; empty if there is no goal
}

// The verdicts about a figure with a goal.
const (
	Reached = "reached"
	Missed  = "NOT REACHED"
)

// Row returns the figure in words, and false if it was not measured.
func (f Figure) Row() (Row, bool) {
	if math.IsNaN(f.Value) {
		return Row{}, false
	}
	row := Row{Name: f.Name, Measured: f.Show(f.Value)}
	if math.IsNaN(f.Reach) {
		return row, true
	}
	sign, reached := "≤", f.Value <= f.Reach
	if f.AtLeast {
		sign, reached = "≥", f.Value >= f.Reach
	}
	row.Goal, row.Verdict = sign+" "+f.Show(f.Reach), Missed
	if reached {
		row.Verdict = Reached
	}
	return row, true
}

// Rows returns those of the figures that were measured.
func Rows(figures []Figure) []Row {
	var rows []Row
	for _, f := range figures {
		if row, ok := f.Row(); ok {
			rows = append(rows, row)
		}
	}
	return rows
}

// Print writes rows as a table.
func Print(w io.Writer, rows []Row) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "figure\tmeasured\tgoal\t")
	for _, r := range rows {
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\n", r.Name, r.Measured, r.Goal, r.Verdict)
	}
	return t.Flush()
}

// Encode writes rows as lines of JSON.
func Encode(w io.Writer, rows []Row) error {
	e := json.NewEncoder(w)
	for _, r := range rows {
		if err := e.Encode(r); err != nil {
			return err
		}
	}
	return nil
}

// Decode reads what Encode has written.
func Decode(r io.Reader) ([]Row, error) {
	var rows []Row
	for d := json.NewDecoder(r); ; {
		var row Row
		switch err := d.Decode(&row); err {
		case nil:
			rows = append(rows, row)
		case io.EOF:
			return rows, nil
		default:
			return nil, fmt.Errorf("read figures: %w", err)
		}
	}
}

// Millis returns a duration in milliseconds, or NaN for none.
func Millis(d time.Duration) float64 {
	if d == 0 {
		return math.NaN()
	}
	return float64(d) / 1e6
}

// ShowMillis writes milliseconds, and "-" for NaN.
func ShowMillis(v float64) string {
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

// ShowMicros writes microseconds.
func ShowMicros(v float64) string { return fmt.Sprintf("%.1f µs", v) }

// ShowBytes writes bytes as KiB or MiB.
func ShowBytes(v float64) string {
	if v < 1<<20 {
		return fmt.Sprintf("%.0f KiB", v/(1<<10))
	}
	return fmt.Sprintf("%.1f MiB", v/(1<<20))
}

// Times writes a ratio.
func Times(v float64) string { return fmt.Sprintf("%.2f×", v) }

// Faster writes how many times faster something is.
func Faster(v float64) string { return fmt.Sprintf("%.1f× faster", v) }

// Count writes a whole number.
func Count(v float64) string { return fmt.Sprintf("%.0f", v) }
