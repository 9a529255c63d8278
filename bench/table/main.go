// Command table prints every figure that pygent has a goal for, beside the goal, and each
// against its peer in the same run:
//
//	go run ./bench/table
//	go run ./bench/table -only 'HTTP|size'
//
// It runs the other programs below bench and the benchmarks of package bench one after
// the other, which takes about ten minutes, and collects what they print. It needs what
// they need: a Docker Engine on this machine with the images of scripts/images.sh, the
// docker command, and the go command in a checkout of the module. The machine should have
// nothing else to do. The exit code is 1 if a part could not be measured.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"syscall"
	"time"

	"github.com/x/pygent/bench/figure"
)

func main() {
	if err := start(); err != nil {
		fmt.Fprintln(os.Stderr, "table:", err)
		os.Exit(1)
	}
}

func start() error {
	pattern := flag.String("only", "", "measure only the parts that match: "+partNames())
	flag.Parse()
	only, err := regexp.Compile(*pattern)
	if err != nil {
		return fmt.Errorf("-only: %w", err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	root, err := figure.ModuleRoot(ctx)
	if err != nil {
		return err
	}
	var failed error
	begun := time.Now()
	for _, p := range parts {
		if !only.MatchString(p.name) || ctx.Err() != nil {
			continue
		}
		fmt.Fprintf(os.Stderr, "table: measuring %s\n", p.name)
		rows, err := p.measure(ctx, root)
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s: %w", p.name, err))
			continue
		}
		fmt.Printf("\n# %s\n", p.name)
		if err := figure.Print(os.Stdout, rows); err != nil {
			return err
		}
	}
	fmt.Printf("\n%s\n", time.Since(begun).Round(time.Second))
	return errors.Join(failed, ctx.Err())
}
