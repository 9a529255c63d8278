// Command weight measures what a program costs that embeds pygent, before it runs: the
// modules that the go command fetches for it, and the processor time that the first
// build takes. It does the same with a program that uses openai-go and the Docker
// client alone:
//
//	go run ./bench/weight
//
// The go command works in empty caches, which are removed at the end, so it fetches about
// 80 MiB from the module proxy.
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
	"time"
)

func main() {
	if err := start(); err != nil {
		fmt.Fprintln(os.Stderr, "weight:", err)
		os.Exit(1)
	}
}

func start() error {
	build := flag.Bool("build", true, "also build the programs, which takes minutes")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	dir, err := os.MkdirTemp("", "pygent-weight-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	g := gopher{dir: dir}
	if err := g.look(ctx); err != nil {
		return err
	}
	var weights []weight
	for _, p := range programs {
		fmt.Fprintln(os.Stderr, "weight: "+p.name)
		w := weight{program: p}
		if err := g.weigh(ctx, &w, *build); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		weights = append(weights, w)
	}
	return report(os.Stdout, weights)
}

var programs = []program{
	{"openai-go and the Docker client alone", "bench/embed/alone", true},
	{"the smallest embedder", "bench/embed/pygent", true},
	{"the command pygent", "cmd/pygent", false},
}

// program is a program of this module.
type program struct {
	name, dir string
	outside   bool // it could be one of another module
}

// weight is what a program costs.
type weight struct {
	program
	got, tidied fetched // by go get, and by go mod tidy after it, together
	packages    int
	processor   time.Duration // of the first build; 0 if it was not built
}

// fetched is what is in a module cache.
type fetched struct {
	modules int
	bytes   int64 // as they are fetched, compressed
}

func (f fetched) String() string {
	if f == (fetched{}) {
		return "-"
	}
	return fmt.Sprintf("%.1f MiB, %d modules", float64(f.bytes)/(1<<20), f.modules)
}

func report(w io.Writer, weights []weight) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "program\tgo get\tand go mod tidy\tpackages\tprocessor time of the first build")
	for _, p := range weights {
		took := "-"
		if p.processor > 0 {
			took = p.processor.Round(time.Second).String()
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%s\n", p.name, p.got, p.tidied, p.packages, took)
	}
	return t.Flush()
}
