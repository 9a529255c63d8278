package main

import (
	"cmp"
	"context"
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

const module = "github.com/x/pygent"

// compare measures all programs. It builds them in dir.
func compare(ctx context.Context, dir string) (*report, error) {
	r := &report{others: make([]int64, len(others))}
	sizes := map[program]*int64{embedder: &r.embedder, alone: &r.alone}
	for i, p := range others {
		sizes[p] = &r.others[i]
	}
	for p, size := range sizes {
		var err error
		if *size, err = stripped(ctx, dir, p); err != nil {
			return nil, err
		}
	}
	var err error
	r.packages, err = weights(ctx, dir)
	return r, err
}

// stripped returns the size of a program without symbols.
func stripped(ctx context.Context, dir string, p program) (int64, error) {
	path, err := build(ctx, dir, p, "-s -w")
	if err != nil {
		return 0, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// weights returns what packages take in the embedder's program.
func weights(ctx context.Context, dir string) ([]weight, error) {
	ours, err := packages(ctx, dir, embedder)
	if err != nil {
		return nil, err
	}
	theirs, err := packages(ctx, dir, alone)
	if err != nil {
		return nil, err
	}
	var list []weight
	for name, size := range ours {
		list = append(list, weight{name, size, theirs[name]})
	}
	slices.SortFunc(list, func(a, b weight) int {
		return cmp.Or(cmp.Compare(b.embedder, a.embedder), cmp.Compare(a.name, b.name))
	})
	return list, nil
}

// packages returns the bytes of each package's code and data in a program's file.
func packages(ctx context.Context, dir string, p program) (map[string]int64, error) {
	path, err := build(ctx, dir, p, "-w")
	if err != nil {
		return nil, err
	}
	file, err := elf.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	symbols, err := file.Symbols()
	if err != nil {
		return nil, fmt.Errorf("symbols of %s: %w", p.name, err)
	}
	sizes := map[string]int64{}
	for _, s := range symbols {
		if name := packageOf(s.Name); name != "" && inFile(file, s.Section) {
			sizes[name] += int64(s.Size)
		}
	}
	return sizes, nil
}

// inFile reports whether a section takes room in the file.
func inFile(file *elf.File, section elf.SectionIndex) bool {
	return int(section) < len(file.Sections) && file.Sections[section].Type == elf.SHT_PROGBITS
}

// packageOf returns the package of a function or variable; empty for what the
// linker makes for all packages together.
func packageOf(symbol string) string {
	if strings.HasPrefix(symbol, "go:") || strings.HasPrefix(symbol, "type:") {
		return ""
	}
	if rest, ok := strings.CutPrefix(symbol, "vendor/"); ok {
		return "vendor/" + packageOf(rest)
	}
	if i := strings.IndexAny(symbol, "[("); i >= 0 { // type arguments, or a receiver
		symbol = symbol[:i]
	}
	host := strings.IndexByte(symbol, '/') + 1 // the only element of a path in which a point is one
	dot := strings.IndexByte(symbol[host:], '.')
	if dot < 0 {
		return ""
	}
	return symbol[:host+dot]
}

// build builds a program, the same way on every machine, and returns its path.
func build(ctx context.Context, dir string, p program, ldflags string) (string, error) {
	path := filepath.Join(dir, filepath.Base(p.dir))
	c := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", ldflags, "-o", path, module+"/"+p.dir)
	c.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64", "GOAMD64=v1", "GOFLAGS=")
	if out, err := c.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w: %s", p.name, err, out)
	}
	return path, nil
}
