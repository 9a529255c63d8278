package objstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/x/pygent/internal/filelock"
	"github.com/x/pygent/internal/treedir"
)

// A pack is written anew without what is not needed of it if that is more than a
// quarter of it, or if there are many small packs.
const (
	smallPack = 4 << 20
	manyPacks = 32
	batch     = 64 << 20 // bytes that are written before the packs that they come from are removed
)

// Collect removes the blobs of trees that are in no log, not in keep, and not
// part of an interrupted change, and what killed processes left. It returns by
// how many bytes the store has shrunk. It does not wait: the error is ErrInUse
// while anybody, this Store included, takes or reads a tree, or has taken one
// that is in no log yet. If something that is needed is damaged or missing,
// nothing is removed.
func (s *Store) Collect(ctx context.Context, keep iter.Seq[Tree]) (freed int64, err error) {
	s.locking.Lock()
	defer s.locking.Unlock()
	if s.holds > 0 {
		return 0, fmt.Errorf("collect: the store is %w", ErrInUse)
	}
	if err := filelock.Lock(s.lock); err != nil {
		return 0, fmt.Errorf("collect: %w", err)
	}
	defer func() { err = errors.Join(err, filelock.Unlock(s.lock)) }()
	if err := s.refresh(); err != nil {
		return 0, fmt.Errorf("collect: %w", err)
	}
	before, _ := s.Size()
	if err := s.collect(ctx, keep); err != nil {
		return 0, fmt.Errorf("collect: %w", err)
	}
	after, _ := s.Size()
	return before - after, nil
}

func (s *Store) collect(ctx context.Context, keep iter.Seq[Tree]) error {
	m := marker{ctx: ctx, s: s, live: map[hash]bool{}}
	if err := m.logs(); err != nil {
		return err
	}
	if err := m.intents(); err != nil {
		return err
	}
	if keep != nil {
		for t := range keep {
			if err := m.tree(t); err != nil {
				return err
			}
		}
	}
	if err := s.removeTemporary(); err != nil {
		return err
	}
	return s.sweep(ctx, m.live)
}

// marker finds the blobs that are needed.
type marker struct {
	ctx  context.Context
	s    *Store
	live map[hash]bool
}

func (m *marker) logs() error {
	names, err := m.s.Logs()
	if err != nil {
		return err
	}
	for _, name := range names {
		refs, err := m.s.ReadLog(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue // it was removed just now
		}
		if err != nil {
			return err
		}
		for _, ref := range refs {
			if err := m.tree(ref.Tree); err != nil {
				return fmt.Errorf("log %q: checkpoint %d: %w", name, ref.N, err)
			}
		}
	}
	return nil
}

func (m *marker) intents() error {
	all, err := m.s.intents(m.s.dropLost)
	for _, i := range all {
		err = errors.Join(err, m.tree(i.From), m.tree(i.To))
	}
	return err
}

func (m *marker) tree(t Tree) error {
	if t.IsZero() {
		return nil
	}
	return m.dir(t.root)
}

func (m *marker) dir(name hash) error {
	if m.live[name] {
		return nil
	}
	if err := context.Cause(m.ctx); err != nil {
		return err
	}
	m.live[name] = true
	raw, err := m.s.blob(kindNode, name)
	if err != nil {
		return err
	}
	if len(raw) > 0 && raw[0] == nodeParts {
		if err := m.parts(raw[1:]); err != nil {
			return err
		}
	}
	children, err := m.s.children(name)
	if err != nil {
		return err
	}
	for _, c := range children {
		if err := m.child(c); err != nil {
			return err
		}
	}
	return nil
}

func (m *marker) child(c child) error {
	switch {
	case c.Kind == Dir:
		return m.dir(c.Content)
	case c.Kind != File || m.live[c.Content]:
		return nil
	case !m.s.has(c.Content):
		return fmt.Errorf("%q: %w", c.name, ErrMissing)
	}
	m.live[c.Content] = true
	if c.Size <= ChunkSize {
		return nil
	}
	list, err := m.s.blob(treedir.KindList, c.Content)
	if err == nil {
		err = m.parts(list)
	}
	return err
}

func (m *marker) parts(list []byte) error {
	names, err := parseList(list)
	for _, name := range names {
		if !m.s.has(name) {
			return fmt.Errorf("a part of a file: %w", ErrMissing)
		}
		m.live[name] = true
	}
	return err
}

// lostAfter is after how long an unfinished change is given up whose target is not
// there: a volume that has gone with its process, or a removed directory.
const lostAfter = 7 * 24 * time.Hour

// dropLost removes an unfinished change that nobody can finish, and reports whether
// it has. Nobody changes anything now.
func (s *Store) dropLost(file string, in intent) bool {
	info, err := s.root.Lstat(file)
	if err != nil || time.Since(info.ModTime()) < lostAfter {
		return false
	}
	if filepath.IsAbs(in.Target) {
		if _, err := os.Lstat(in.Target); !errors.Is(err, fs.ErrNotExist) {
			return false
		}
	}
	return s.root.Remove(file) == nil
}

// removeTemporary removes what processes left that were killed. Nobody else
// writes now.
func (s *Store) removeTemporary() error {
	var errs error
	for _, dir := range []string{packsDir, logsDir} {
		entries, err := fs.ReadDir(s.root.FS(), dir)
		for _, e := range entries {
			if strings.HasPrefix(e.Name(), "new-") {
				err = errors.Join(err, s.root.Remove(path.Join(dir, e.Name())))
			}
		}
		errs = errors.Join(errs, err)
	}
	return errors.Join(errs, s.removeLocks())
}

// removeLocks removes the locks of targets that nothing is unfinished of. Nobody has
// one open, because that takes a hold.
func (s *Store) removeLocks() error {
	locks, err := fs.Glob(s.root.FS(), path.Join(intentsDir, "*"+intentLock))
	for _, lock := range locks {
		_, unfinished := s.root.Lstat(strings.TrimSuffix(lock, intentLock) + intentSuffix)
		if errors.Is(unfinished, fs.ErrNotExist) {
			err = errors.Join(err, s.root.Remove(lock))
		}
	}
	return err
}

// sweep removes packs of which nothing is needed, and writes those anew of which
// little is.
func (s *Store) sweep(ctx context.Context, live map[hash]bool) error {
	var dead, worn, small []*pack
	for _, p := range s.packs {
		needed := s.needed(p, live)
		blobs := p.blobs()
		switch {
		case needed == 0:
			dead = append(dead, p)
		case needed < blobs-blobs/4:
			worn = append(worn, p)
		case blobs < smallPack:
			small = append(small, p)
		}
	}
	if err := s.removePacks(dead); err != nil {
		return err
	}
	if len(small) > manyPacks {
		worn = append(worn, small...)
	}
	return s.rewrite(ctx, worn, live)
}

// needed returns the bytes of the blobs of a pack that are needed, and are not
// in another pack.
func (s *Store) needed(p *pack, live map[hash]bool) (n int64) {
	for _, r := range p.rows {
		if live[r.name] && s.index[r.name].pack == p {
			n += int64(r.stored) + 1
		}
	}
	return n
}

// rewrite copies what is needed of packs to new ones, and removes them.
func (s *Store) rewrite(ctx context.Context, packs []*pack, live map[hash]bool) error {
	for len(packs) > 0 {
		w := s.newPack()
		var copied []*pack
		for len(packs) > 0 && w.at < batch {
			if err := s.copyPack(ctx, w, packs[0], live); err != nil {
				return errors.Join(err, w.abort())
			}
			copied = append(copied, packs[0])
			packs = packs[1:]
		}
		if _, err := w.commit(); err != nil {
			return err
		}
		if err := s.removePacks(copied); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) copyPack(ctx context.Context, w *packWriter, p *pack, live map[hash]bool) error {
	for _, r := range p.rows {
		if !live[r.name] || s.index[r.name].pack != p {
			continue
		}
		if err := context.Cause(ctx); err != nil {
			return err
		}
		stored, err := s.stored(p, r)
		if err != nil {
			return fmt.Errorf("pack %s: %w", p.name, err)
		}
		if err := w.write(r, stored); err != nil {
			return err
		}
	}
	return nil
}

// removePacks removes packs, unless one of them was written anew just now with
// the same content.
func (s *Store) removePacks(packs []*pack) error {
	gone := map[string]bool{}
	_ = s.closePacks() // they were only read; Windows removes no open file
	for _, p := range packs {
		if s.packs[p.name] != p {
			continue
		}
		if err := s.root.Remove(path.Join(packsDir, p.name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		gone[p.name] = true
	}
	s.drop(func(name string) bool { return gone[name] })
	if len(gone) == 0 {
		return nil
	}
	return treedir.SyncDir(s.root, packsDir)
}
