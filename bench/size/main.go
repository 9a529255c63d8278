// Command size measures how large stripped programs are that embed pygent, and
// compares them with one that uses openai-go and the Docker client alone:
//
//	go run ./bench/size
//
// It then lists the packages that most of an embedder's program is made of. It
// needs the go command in a checkout of the module.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"text/tabwriter"

	"github.com/x/pygent/bench/figure"
)

// reach is how large an embedder's program may be, against one without pygent.
const reach = 1.15

func main() {
	if err := start(); err != nil {
		fmt.Fprintln(os.Stderr, "size:", err)
		os.Exit(1)
	}
}

func start() error {
	most := flag.Int("n", 25, "packages to list")
	figures := flag.Bool("figures", false, "print the figure as a line of JSON, and nothing else")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	dir, err := os.MkdirTemp("", "pygent-size-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	fmt.Fprintln(os.Stderr, "size: building and linking the programs")
	r, err := compare(ctx, dir)
	if err != nil {
		return err
	}
	if *figures {
		return figure.Encode(os.Stdout, figure.Rows([]figure.Figure{r.figure()}))
	}
	if err := r.compareOthers(ctx, dir); err != nil {
		return err
	}
	r.print(os.Stdout, *most)
	return nil
}

// The programs that are compared.
var (
	embedder = program{"the smallest embedder", "bench/embed/pygent"}
	alone    = program{"openai-go and the Docker client alone", "bench/embed/alone"}
	others   = []program{
		{"an embedder that runs a template", "bench/embed/template"},
		{"the command pygent", "cmd/pygent"},
	}
)

// program is a program of this module.
type program struct{ name, dir string }

// report is everything that was measured, in bytes.
type report struct {
	embedder, alone int64
	others          []int64
	packages        []weight // the heaviest first
}

// weight is the code and data of a package in two programs, in bytes.
type weight struct {
	name            string
	embedder, alone int64
}

// ratio is the embedder's size against that without pygent.
func (r *report) ratio() float64 { return float64(r.embedder) / float64(r.alone) }

func (r *report) figure() figure.Figure {
	return figure.Figure{Name: embedder.name + ", stripped, against " + alone.name, Value: r.ratio(), Reach: reach, Show: figure.Times}
}

func (r *report) print(w io.Writer, most int) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "stripped, linux/amd64\tMB\tratio\n")
	row := func(name string, size int64) {
		fmt.Fprintf(t, "%s\t%.2f\t%.2f×\n", name, float64(size)/1e6, float64(size)/float64(r.alone))
	}
	row(alone.name, r.alone)
	row(embedder.name, r.embedder)
	for i, p := range others {
		row(p.name, r.others[i])
	}
	t.Flush()
	line, _ := r.figure().Row()
	fmt.Fprintf(w, "\n%s: %s, %s, %s\n\n", line.Name, line.Measured, line.Goal, line.Verdict)
	fmt.Fprintf(t, "code and data of\tkB\twithout pygent\n")
	for _, p := range r.packages[:min(most, len(r.packages))] {
		fmt.Fprintf(t, "%s\t%.0f\t%.0f\n", p.name, float64(p.embedder)/1e3, float64(p.alone)/1e3)
	}
	t.Flush()
	fmt.Fprintln(w, "\nTables of functions, types and strings are left out. They add about as much again as code takes.")
}
