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

// compare measures the embedder and the program without pygent. It builds them in dir.
func compare(ctx context.Context, dir string) (*report, error) {
	ours, err := measure(ctx, dir, embedder)
	if err != nil {
		return nil, err
	}
	theirs, err := measure(ctx, dir, alone)
	if err != nil {
		return nil, err
	}
	return &report{embedder: ours.stripped, alone: theirs.stripped, packages: weights(ours.packages, theirs.packages)}, nil
}

// compareOthers adds the other programs to a report. It builds them in dir.
func (r *report) compareOthers(ctx context.Context, dir string) error {
	for _, p := range others {
		m, err := measure(ctx, dir, p)
		if err != nil {
			return err
		}
		r.others = append(r.others, m.stripped)
	}
	return nil
}

// weights returns what packages take in the embedder's program.
func weights(ours, theirs map[string]int64) []weight {
	var list []weight
	for name, size := range ours {
		list = append(list, weight{name, size, theirs[name]})
	}
	slices.SortFunc(list, func(a, b weight) int {
		return cmp.Or(cmp.Compare(b.embedder, a.embedder), cmp.Compare(a.name, b.name))
	})
	return list
}

// measured are the sizes of a program, in bytes.
type measured struct {
	stripped int64            // its file without symbols
	packages map[string]int64 // the code and data of each package in its file
}

// measure builds a program with its symbols, and measures it. Of the file, a stripped one
// lacks the symbols and their names.
func measure(ctx context.Context, dir string, p program) (*measured, error) {
	path, err := build(ctx, dir, p)
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(path)
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
	m := &measured{stripped: info.Size(), packages: map[string]int64{}}
	for _, section := range []string{".symtab", ".strtab"} {
		m.stripped -= int64(file.Section(section).FileSize)
	}
	for _, s := range symbols {
		if name := packageOf(s.Name); name != "" && inFile(file, s.Section) {
			m.packages[name] += int64(s.Size)
		}
	}
	return m, nil
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

// build builds a program, the same way on every machine and without what only debuggers
// read, and returns its path.
func build(ctx context.Context, dir string, p program) (string, error) {
	path := filepath.Join(dir, filepath.Base(p.dir))
	c := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-w", "-o", path, module+"/"+p.dir)
	c.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64", "GOAMD64=v1", "GOFLAGS=")
	if out, err := c.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w: %s", p.name, err, out)
	}
	return path, nil
}
