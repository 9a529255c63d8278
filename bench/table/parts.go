package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/x/pygent/bench/figure"
)

// part is a program that measures some of the figures.
type part struct {
	name string
	dir  string   // where it runs, from the module's root
	args []string // of the go command
	// read makes the figures of what it prints.
	read func(output []byte) ([]figure.Row, error)
}

var parts = []part{
	{"commands and files", ".", []string{"run", "./bench/runtimes", "-figures"}, decode},
	{"HTTP", "bench/peers", []string{"run", ".", "-figures"}, decode},
	{"agents", ".", []string{"test", "-run", "^$", "-bench", benchmarkPattern(), "-benchmem", "-count", "3", "./bench"}, benchmarkRows},
	{"size", ".", []string{"run", "./bench/size", "-figures"}, decode},
}

func partNames() string {
	var names []string
	for _, p := range parts {
		names = append(names, p.name)
	}
	return strings.Join(names, ", ")
}

func decode(output []byte) ([]figure.Row, error) { return figure.Decode(bytes.NewReader(output)) }

// measure runs the part, whose progress is seen on standard error.
func (p part) measure(ctx context.Context, root string) ([]figure.Row, error) {
	c := exec.CommandContext(ctx, "go", p.args...)
	c.Dir, c.Stderr = filepath.Join(root, p.dir), os.Stderr
	c.Cancel = func() error { return c.Process.Signal(os.Interrupt) } // it has containers to remove
	out, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("go %s: %w\n%s", strings.Join(p.args, " "), err, out)
	}
	rows, err := p.read(out)
	if err == nil && len(rows) == 0 {
		err = errors.New("it printed no figures")
	}
	return rows, err
}
