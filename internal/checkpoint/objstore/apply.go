package objstore

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/x/pygent/internal/filelock"
	"github.com/x/pygent/internal/treedir"
)

// ApplyOptions are the options of [Store.Apply].
type ApplyOptions struct {
	// Leave are names, such as ".git", of files and directories that stay as
	// they are, with their content, wherever they are.
	Leave []string
	// But are paths of such directories that do not stay: they are changed as a whole.
	But []string
	// Only are the paths that are changed at most, with the directories that they are
	// in; nil for all.
	Only []string
	// Not are paths that stay as they are.
	Not []string
	// Times gives files the times that they had, instead of the current one. It
	// is for trees that are restored as a whole.
	Times bool
}

// Apply changes a target from one tree to another: it makes the changes that
// Diff tells. From the zero Tree it restores a tree. A file that is neither as
// in the first tree nor as in the second stays as it is, and is returned as a
// conflict. So is one that may not be changed.
//
// The changes are not made at once. If this process is killed in between, or if
// there is an error, [Store.Recover] makes the rest; until then another Apply on
// the same target is refused with ErrUnfinished. The error is ErrInUse while
// another process changes the target.
func (s *Store) Apply(ctx context.Context, dst Target, from, to Tree, o ApplyOptions) ([]Conflict, error) {
	in := intent{ID: rand.Text(), Target: dst.ID(), From: from, To: to, Leave: o.Leave, But: o.But, Only: o.Only, Not: o.Not, Times: o.Times}
	conflicts, err := s.withIntents(ctx, dst, func(file string) ([]Conflict, error) {
		if _, err := s.root.Lstat(file); err == nil {
			return nil, ErrUnfinished
		}
		something := false
		err := s.diff(ctx, from, to, func(Change) error { something = true; return errStopped })
		if !something {
			return nil, err
		}
		if err := s.writeIntent(file, in); err != nil {
			return nil, err
		}
		return s.carryOut(ctx, dst, in, file, false)
	})
	if err != nil {
		return conflicts, fmt.Errorf("change %s: %w", dst.ID(), err)
	}
	return conflicts, nil
}

// Recover makes the rest of an Apply that was interrupted, if there was one on
// this target. found says so. It belongs before the next Take of the same
// directory. A file that was changed since is a conflict.
func (s *Store) Recover(ctx context.Context, dst Target) (conflicts []Conflict, found bool, err error) {
	conflicts, err = s.withIntents(ctx, dst, func(file string) ([]Conflict, error) {
		in, err := s.readIntent(file)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		found = true
		if err != nil {
			return nil, err
		}
		return s.carryOut(ctx, dst, in, file, true)
	})
	if err != nil {
		err = fmt.Errorf("finish the change of %s: %w", dst.ID(), err)
	}
	return conflicts, found, err
}

// intent says what Apply does, until it is done.
type intent struct {
	ID     string   `json:"id"`
	Target string   `json:"target"`
	From   Tree     `json:"from"`
	To     Tree     `json:"to"`
	Leave  []string `json:"leave,omitempty"`
	But    []string `json:"but,omitempty"`
	Only   []string `json:"only,omitempty"`
	Not    []string `json:"not,omitempty"`
	Times  bool     `json:"times,omitempty"`
}

const (
	intentSuffix = ".json"
	intentLock   = ".lock"
)

// withIntents calls do with the name of the intent of a target, while nobody
// else changes it or collects.
func (s *Store) withIntents(ctx context.Context, dst Target, do func(file string) ([]Conflict, error)) (conflicts []Conflict, err error) {
	release, err := s.hold(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	id := sha256.Sum256([]byte(dst.ID()))
	name := path.Join(intentsDir, hex.EncodeToString(id[:16]))
	lock, err := s.root.OpenFile(name+intentLock, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, filelock.Close(lock)) }()
	if err := filelock.Lock(lock); err != nil {
		return nil, err
	}
	return do(name + intentSuffix)
}

func (s *Store) writeIntent(file string, in intent) error {
	data, err := json.Marshal(in)
	if err != nil {
		return err
	}
	temp := file + ".new"
	f, err := s.root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	if _, err = f.Write(data); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = s.root.Rename(temp, file)
	}
	if err != nil {
		return errors.Join(err, s.root.Remove(temp))
	}
	return treedir.SyncDir(s.root, intentsDir)
}

func (s *Store) readIntent(file string) (in intent, err error) {
	data, err := s.root.ReadFile(file)
	if err == nil && json.Unmarshal(data, &in) != nil {
		err = fmt.Errorf("%s: %w", file, ErrDamaged)
	}
	return in, err
}

// intents returns what is unfinished, but for what drop returns true of.
func (s *Store) intents(drop func(file string, in intent) bool) (all []intent, err error) {
	entries, err := fs.ReadDir(s.root.FS(), intentsDir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), intentSuffix) {
			continue
		}
		file := path.Join(intentsDir, e.Name())
		in, err := s.readIntent(file)
		if err != nil {
			return nil, err
		}
		if !drop(file, in) {
			all = append(all, in)
		}
	}
	return all, nil
}

// carryOut makes the changes of an intent, and removes it.
func (s *Store) carryOut(ctx context.Context, dst Target, in intent, file string, again bool) ([]Conflict, error) {
	a := applier{ctx: ctx, s: s, dst: dst, intent: in, again: again}
	err := a.all()
	if err == nil {
		err = dst.Sync(ctx)
	}
	if err != nil {
		return a.conflicts, err
	}
	return a.conflicts, errors.Join(s.root.Remove(file), treedir.SyncDir(s.root, intentsDir))
}

// applier is one run of Apply or Recover.
type applier struct {
	ctx       context.Context
	s         *Store
	dst       Target
	intent    intent
	again     bool
	conflicts []Conflict
	dirs      []Change // whose mode comes last, because it may forbid to change them
}

// all removes first, so that there is room for what is new.
func (a *applier) all() error {
	for _, pass := range []func(Change) error{a.remove, a.add} {
		err := a.s.diff(a.ctx, a.intent.From, a.intent.To, func(c Change) error {
			if a.leaves(c.Name) {
				return nil
			}
			return pass(c)
		})
		if err != nil {
			return err
		}
	}
	for _, c := range slices.Backward(a.dirs) {
		if err := a.step(c); err != nil {
			return err
		}
	}
	return nil
}

// leaves reports whether something stays as it is.
func (a *applier) leaves(name string) bool {
	in := func(dir string) bool { return name == dir || strings.HasPrefix(name, dir+"/") }
	above := func(of string) bool { return name == of || strings.HasPrefix(of, name+"/") }
	switch {
	case slices.Contains(a.intent.Not, name):
		return true
	case slices.ContainsFunc(a.intent.But, in):
		return false
	case a.intent.Only != nil && !slices.ContainsFunc(a.intent.Only, above):
		return true
	}
	for element := range strings.SplitSeq(name, "/") {
		if slices.Contains(a.intent.Leave, element) {
			return true
		}
	}
	return false
}

func (a *applier) remove(c Change) error {
	if c.New.Kind != None {
		return nil
	}
	return a.step(c)
}

// ownerAll are the permissions with which this process can change a directory.
const ownerAll fs.FileMode = 0o700

func (a *applier) add(c Change) error {
	if c.New.Kind == None {
		return nil
	}
	if c.New.Kind == Dir && c.New.Mode&ownerAll != ownerAll {
		open := c
		open.New.Mode |= ownerAll
		a.dirs = append(a.dirs, Change{Name: c.Name, Old: open.New, New: c.New})
		c = open
	}
	return a.step(c)
}

// step makes one change. What is only in the way of this change is a conflict.
func (a *applier) step(c Change) error {
	if err := context.Cause(a.ctx); err != nil {
		return err
	}
	aside := sha256.Sum256([]byte(a.intent.ID + "\x00" + c.Name))
	step := Step{Change: c, Times: a.intent.Times, Aside: ".pygent-" + hex.EncodeToString(aside[:12]), Again: a.again}
	var data io.Reader
	if c.New.Kind == File {
		content, err := a.s.content(c.New)
		if err != nil {
			return fmt.Errorf("%q: %w", c.Name, err)
		}
		data = content.reader()
	}
	err := a.dst.Make(a.ctx, step, data)
	var conflict *ConflictError
	switch {
	case err == nil:
	case errors.As(err, &conflict):
		a.conflicts = append(a.conflicts, Conflict{Name: c.Name, Why: conflict.Why, Kept: conflict.Kept})
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.ENAMETOOLONG), errors.Is(err, fs.ErrInvalid):
		a.conflicts = append(a.conflicts, Conflict{Name: c.Name, Why: treedir.Reason(err)})
	default:
		return fmt.Errorf("%q: %w", c.Name, err)
	}
	return nil
}
