package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

const module = "github.com/x/pygent"

// gopher runs the go command with caches of its own.
type gopher struct {
	dir  string // for everything that it makes
	root string // of this module's source
}

// look finds the module's source.
func (g *gopher) look(ctx context.Context) error {
	out, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return fmt.Errorf("go env: %w", err)
	}
	file := strings.TrimSpace(string(out))
	if filepath.Base(file) != "go.mod" {
		return errors.New("this is no checkout of the module: run it in one")
	}
	g.root = filepath.Dir(file)
	return nil
}

// weigh measures a program.
func (g *gopher) weigh(ctx context.Context, w *weight, build bool) (err error) {
	if w.outside {
		if err := g.fetch(ctx, w); err != nil {
			return err
		}
	}
	list, _, err := g.run(ctx, g.root, nil, "list", "-deps", "./"+w.dir)
	if err != nil {
		return err
	}
	w.packages = bytes.Count(list, []byte("\n"))
	if !build {
		return nil
	}
	cache := filepath.Join(g.dir, "build")
	defer os.RemoveAll(cache)
	_, w.processor, err = g.run(ctx, g.root, []string{"GOCACHE=" + cache}, "build", "-o", filepath.Join(g.dir, "program"), "./"+w.dir)
	return err
}

// fetch measures what is fetched for a program, as if it were one of another module
// that gets this one.
func (g *gopher) fetch(ctx context.Context, w *weight) error {
	user, cache := filepath.Join(g.dir, "user"), filepath.Join(g.dir, "modules")
	defer os.RemoveAll(user)
	defer os.RemoveAll(cache)
	if err := g.writeUser(user, w.dir); err != nil {
		return err
	}
	env := []string{
		"GOMODCACHE=" + cache, "GOFLAGS=-modcacherw", "GOWORK=off", "GOTOOLCHAIN=local",
		"GOSUMDB=off", // go.sum has the sums, but not of what only tidy looks at
	}
	for _, step := range []struct {
		args []string
		to   *fetched
	}{
		{[]string{"get", "."}, &w.got},
		{[]string{"mod", "tidy"}, &w.tidied},
	} {
		if _, _, err := g.run(ctx, user, env, step.args...); err != nil {
			return err
		}
		var err error
		if *step.to, err = inCache(os.DirFS(cache)); err != nil {
			return err
		}
	}
	return nil
}

// writeUser makes a module of a program of this one.
func (g *gopher) writeUser(dir, program string) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	mod := fmt.Sprintf("module example.com/user\n\ngo 1.26.0\n\nrequire %s v0.0.0\n\nreplace %s => %s\n", module, module, g.root)
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte(mod), 0o644); err != nil {
		return err
	}
	for name, from := range map[string]string{"go.sum": "go.sum", "main.go": program + "/main.go"} {
		data, err := os.ReadFile(filepath.Join(g.root, filepath.FromSlash(from)))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), data, 0o644)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// inCache returns what is in a module cache.
func inCache(cache fs.FS) (f fetched, err error) {
	err = fs.WalkDir(cache, "cache/download", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(name, ".zip") {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		f.modules++
		f.bytes += info.Size()
		return nil
	})
	return f, err
}

// run runs the go command in a directory, and returns its output and the processor time
// that it took, with all that it ran.
func (g *gopher) run(ctx context.Context, dir string, env []string, args ...string) ([]byte, time.Duration, error) {
	c := exec.CommandContext(ctx, "go", args...)
	c.Dir = dir
	c.Env = append(append(os.Environ(), "CGO_ENABLED=0"), env...)
	var out, words bytes.Buffer
	c.Stdout, c.Stderr = &out, &words
	if err := c.Run(); err != nil {
		return nil, 0, fmt.Errorf("go %s: %w: %s", strings.Join(args, " "), err, words.String())
	}
	return out.Bytes(), c.ProcessState.UserTime() + c.ProcessState.SystemTime(), nil
}
