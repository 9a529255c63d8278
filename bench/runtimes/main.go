// Command runtimes measures what commands and files cost in pygent's runtimes and
// in other ways to run commands, and compares that with the goals in figures.go:
//
//	go run ./bench/runtimes
//
// All ways take turns in small blocks, so that other work on the machine affects
// each of them. It needs a Docker Engine on this machine, the docker command, and
// the go command in a checkout of the module.
package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/x/pygent/bench/figure"
)

// bench is one run of the measurements.
type bench struct {
	image  string
	small  string         // an image without bash
	rounds int            // of each measurement; slow ones have fewer
	only   *regexp.Regexp // matches the names of the steps to take
	dir    string         // temporary files
	// figures prints the figures alone, for bench/table.
	figures bool
	ways    []way
	log     func(format string, args ...any) // progress
	copied  int                              // copies of files that were made
}

func main() {
	if err := start(); err != nil {
		fmt.Fprintln(os.Stderr, "runtimes:", err)
		os.Exit(1)
	}
}

func start() (err error) {
	b := bench{log: progress}
	image := cmp.Or(os.Getenv("PYGENT_TEST_IMAGE"), "pygent.invalid/debian:latest")
	flag.StringVar(&b.image, "image", image, "image of the containers")
	small := cmp.Or(os.Getenv("PYGENT_TEST_BUSYBOX_IMAGE"), "pygent.invalid/busybox:latest")
	flag.StringVar(&b.small, "small", small, "image that has sh but no bash")
	flag.IntVar(&b.rounds, "rounds", 30, "rounds of the latencies; what is slow takes fewer")
	only := flag.String("only", "", "take only the steps that match: "+b.stepNames())
	flag.BoolVar(&b.figures, "figures", false, "print the figures as lines of JSON, and nothing else")
	flag.Parse()
	if b.only, err = regexp.Compile(*only); err != nil {
		return fmt.Errorf("-only: %w", err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	b.ways = ways(b.image, b.small)
	if flag.Arg(0) == "child" {
		return child(ctx, b.ways, b.image, flag.Args()[1:])
	}
	return b.run(ctx)
}

func progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "runtimes: "+format+"\n", args...)
}

// run measures everything and prints the tables.
func (b *bench) run(ctx context.Context) (err error) {
	if b.dir, err = os.MkdirTemp("", "pygent-bench-"); err != nil {
		return err
	}
	defer os.RemoveAll(b.dir)
	start, load := time.Now(), loadAverage()
	r := &report{}
	for _, s := range b.steps() {
		if !b.only.MatchString(s.name) {
			continue
		}
		if err := s.measure(ctx, r); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	if b.figures {
		return figure.Encode(os.Stdout, figure.Rows(r.figures()))
	}
	fmt.Printf("%s, %d CPUs, %s/%s, %s; load average %s before, %s after; %s\n\n",
		time.Now().Format(time.DateTime), runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version(),
		load, loadAverage(), time.Since(start).Round(time.Second))
	return r.print(os.Stdout, b.ways)
}

// step is one of the measurements.
type step struct {
	name    string
	measure func(context.Context, *report) error
}

func (b *bench) steps() []step {
	list := []step{
		{"latency", b.latencies},
		{"cold", b.coldStarts},
		{"flood", b.floods},
		{"deadline", b.deadlines},
		{"silent", b.silences},
		{"killed", b.killedHosts},
		{"idle", b.idleAgents},
		{"command", b.command},
	}
	for _, s := range sites(b.image) {
		list = append(list, step{"files-" + s.key, func(ctx context.Context, r *report) error { return b.copies(ctx, r, s) }})
	}
	return list
}

func (b *bench) stepNames() string {
	var names []string
	for _, s := range b.steps() {
		names = append(names, s.name)
	}
	return strings.Join(names, ", ")
}

// loadAverage returns how busy the machine is.
func loadAverage() string {
	data, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	one, _, _ := strings.Cut(string(data), " ")
	return one
}

func (b *bench) path(name string) string { return filepath.Join(b.dir, name) }
