package objstore_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/x/pygent/internal/checkpoint/objstore"
	"github.com/x/pygent/internal/guest"
)

// runChild works until it is killed.
func runChild(base string) {
	if err := work(base); err != nil {
		fmt.Fprintln(os.Stderr, "child:", err)
	}
	os.Exit(1)
}

func work(base string) error {
	ctx := context.Background()
	s, err := objstore.Open(filepath.Join(base, "store"))
	if err != nil {
		return err
	}
	dir := filepath.Join(base, "work")
	l, err := openTree(dir)
	if err != nil {
		return err
	}
	log, err := s.OpenLog("child")
	if err != nil {
		return err
	}
	w := worker{ctx: ctx, s: s, l: l, log: log, dir: dir}
	if refs := log.Refs(); len(refs) > 0 {
		w.n = refs[len(refs)-1].N
	}
	for {
		err := w.turn()
		if errors.Is(err, guest.ErrClosed) {
			err = w.renew()
		}
		if err != nil {
			return err
		}
	}
}

// place is a directory as a source and as a target.
type place interface {
	objstore.Source
	objstore.Target
}

// openTree opens a directory, or starts a guest there that is killed soon.
func openTree(dir string) (place, error) {
	l, err := objstore.OpenLocal(dir)
	if err != nil || os.Getenv("PYGENT_STORE_GUEST") == "" {
		return l, err
	}
	c, err := guest.StartLocal(context.Background(), os.Environ(), guest.Config{Workspace: l.ID()})
	if err != nil {
		return nil, err
	}
	r, err := c.Run(context.Background(), guest.Command{Script: "cut -d' ' -f4 /proc/$PPID/stat"})
	if err != nil {
		return nil, err
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(r.Head)))
	if err != nil {
		return nil, err
	}
	p, err := os.FindProcess(pid)
	if err != nil {
		return nil, err
	}
	time.AfterFunc(time.Duration(rand.Int64N(int64(100*time.Millisecond))), func() { _ = p.Kill() })
	return guest.Tree{Client: c, Name: l.ID()}, l.Close()
}

// renew goes on with another guest.
func (w *worker) renew() (err error) {
	if w.l, err = openTree(w.dir); err != nil {
		return err
	}
	conflicts, _, err := w.s.Recover(w.ctx, w.l)
	switch {
	case errors.Is(err, guest.ErrClosed):
		return w.renew()
	case len(conflicts) > 0:
		return errors.Join(err, fmt.Errorf("conflicts: %v", conflicts))
	}
	return err
}

type worker struct {
	ctx context.Context
	s   *objstore.Store
	l   place
	log *objstore.Log
	dir string
	c   objstore.Cache
	n   int64
}

func (w *worker) turn() error {
	before, err := w.checkpoint()
	if err != nil {
		return err
	}
	if err := w.edit(); err != nil {
		return err
	}
	after, err := w.checkpoint()
	if err != nil {
		return err
	}
	for _, way := range [][2]objstore.Tree{{after, before}, {before, after}} {
		if conflicts, err := w.s.Apply(w.ctx, w.l, way[0], way[1], objstore.ApplyOptions{}); err != nil || len(conflicts) > 0 {
			return errors.Join(err, fmt.Errorf("conflicts: %v", conflicts))
		}
	}
	if refs := w.log.Refs(); len(refs) > 12 {
		if err := w.log.Replace(w.ctx, refs[6:]); err != nil {
			return err
		}
	}
	if _, err = w.s.Collect(w.ctx, nil); errors.Is(err, objstore.ErrInUse) {
		return nil // another test's process
	}
	return err
}

func (w *worker) checkpoint() (objstore.Tree, error) {
	tree, _, err := w.s.Take(w.ctx, w.l, &w.c, objstore.TakeOptions{})
	if err != nil {
		return tree, err
	}
	w.n++
	if err := w.log.Append(w.ctx, objstore.Ref{N: w.n, Tree: tree}); err != nil {
		return tree, err
	}
	_, err = fmt.Println(w.n)
	return tree, err
}

func (w *worker) edit() error {
	for range 8 {
		i := rand.IntN(60)
		name := filepath.Join(w.dir, fmt.Sprintf("d%d/f%d", i%7, i))
		switch rand.IntN(4) {
		case 0:
			_ = os.Remove(name)
		case 1:
			_ = os.Chmod(name, 0o600|fs.FileMode(rand.IntN(0o100)))
		default:
			if err := os.WriteFile(name, []byte(strings.Repeat(strconv.Itoa(rand.Int()), 100)), 0o644); err != nil {
				return err
			}
		}
	}
	f, err := os.OpenFile(filepath.Join(w.dir, "large"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = io.WriteString(f, "a line\n")
	return errors.Join(err, f.Close())
}

// fill writes some small files and a large one.
func fill(t *testing.T, dir string) {
	for i := range 60 {
		write(t, dir, files{fmt.Sprintf("d%d/f%d", i%7, i): strings.Repeat(fmt.Sprintln(i), 300)})
	}
	write(t, dir, files{"large": strings.Repeat("0123456789abcdef", 150_000)})
}
