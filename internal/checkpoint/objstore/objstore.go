package objstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/x/pygent/internal/filelock"
	"github.com/x/pygent/internal/owner"
	"github.com/x/pygent/internal/treedir"
)

// Names in the directory of a store.
const (
	packsDir   = "packs"
	logsDir    = "logs"
	intentsDir = "unfinished"
	lockName   = "lock"
	packSuffix = ".pack"
)

// Store is an open store. Its methods are safe for concurrent use, and so are
// several stores of one directory, in this process and in others.
type Store struct {
	root   *os.Root
	create func(name string) (packFile, error) // tests replace it

	locking sync.Mutex // guards holds, pending and the state of lock; acquired before mu
	lock    *os.File
	holds   int
	pending map[Tree]bool // trees that were taken and are in no log yet; each is a hold

	mu      sync.Mutex // guards what follows
	packs   map[string]*pack
	damaged map[string]error
	index   map[hash]place
	open    map[string]*os.File // some packs
	closed  bool
	dropped int // how often packs have gone
}

// pack is what is known of a pack.
type pack struct {
	name string
	rows []row
}

// place is where a blob is: the index of its row in a pack.
type place struct {
	pack *pack
	row  int
}

// Open opens the store in a directory of this user, and makes it if there is
// none. Packs that are damaged are left alone; see [Store.Damaged].
func Open(dir string) (*Store, error) {
	root, err := owner.OpenPrivate(dir)
	if err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	s := &Store{
		root: root, pending: map[Tree]bool{}, packs: map[string]*pack{}, damaged: map[string]error{},
		index: map[hash]place{}, open: map[string]*os.File{},
	}
	s.create = func(name string) (packFile, error) {
		return root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	}
	if err := s.setUp(); err != nil {
		return nil, errors.Join(fmt.Errorf("open store %s: %w", dir, err), s.Close())
	}
	return s, nil
}

func (s *Store) setUp() (err error) {
	for _, dir := range []string{packsDir, logsDir, intentsDir} {
		if err := s.root.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	s.lock, err = s.root.OpenFile(lockName, os.O_RDWR|os.O_CREATE, 0o600)
	return err
}

// Close releases the store. Trees that are in no log may be collected then.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	err := s.closePacks()
	if s.lock != nil {
		err = errors.Join(err, filelock.Close(s.lock))
	}
	return errors.Join(err, s.root.Close())
}

func (s *Store) closePacks() (err error) {
	for name, f := range s.open {
		err = errors.Join(err, f.Close())
		delete(s.open, name)
	}
	return err
}

// hold keeps everybody from collecting until release is called. It waits while
// somebody collects.
func (s *Store) hold(ctx context.Context) (release func(), err error) {
	for {
		err := s.tryHold()
		if err == nil {
			return sync.OnceFunc(s.release), nil
		}
		if !errors.Is(err, ErrInUse) {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for the store to be collected: %w", context.Cause(ctx))
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func (s *Store) tryHold() error {
	s.locking.Lock()
	defer s.locking.Unlock()
	if s.holds == 0 {
		if err := filelock.Share(s.lock); err != nil {
			return err
		}
	}
	if err := s.refresh(); err != nil {
		if s.holds == 0 {
			err = errors.Join(err, filelock.Unlock(s.lock))
		}
		return err
	}
	s.holds++
	return nil
}

func (s *Store) release() {
	s.locking.Lock()
	defer s.locking.Unlock()
	if s.holds--; s.holds == 0 {
		_ = filelock.Unlock(s.lock) // closing the file unlocks it too
	}
}

// keep makes a hold last until the tree is in a log, or is forgotten.
func (s *Store) keep(t Tree, release func()) {
	s.locking.Lock()
	kept := s.pending[t]
	s.pending[t] = true
	s.locking.Unlock()
	if kept {
		release()
	}
}

// Forget says that a tree which was taken goes into no log. Until one or the
// other nothing is collected.
func (s *Store) Forget(t Tree) {
	s.locking.Lock()
	kept := s.pending[t]
	delete(s.pending, t)
	s.locking.Unlock()
	if kept {
		s.release()
	}
}

// refresh learns of packs that others have written or removed.
func (s *Store) refresh() error {
	dir, err := s.root.Open(packsDir)
	if err != nil {
		return err
	}
	names, err := dir.Readdirnames(-1)
	if err = errors.Join(err, dir.Close()); err != nil {
		return err
	}
	there := make(map[string]bool, len(names))
	for _, name := range names {
		if !strings.HasSuffix(name, packSuffix) {
			continue
		}
		there[name] = true
		if err := s.load(name); err != nil {
			return err
		}
	}
	s.drop(func(name string) bool { return !there[name] })
	return nil
}

// load reads the index of a pack that is new.
func (s *Store) load(name string) error {
	s.mu.Lock()
	_, known := s.packs[name]
	known = known || s.damaged[name] != nil
	s.mu.Unlock()
	if known {
		return nil
	}
	rows, err := s.readPack(name)
	if errors.Is(err, ErrDamaged) {
		s.mu.Lock()
		s.damaged[name] = fmt.Errorf("pack %s: %w", name, err)
		s.mu.Unlock()
		return nil
	}
	if err != nil {
		return fmt.Errorf("pack %s: %w", name, err)
	}
	s.learn(name, rows)
	return nil
}

func (s *Store) readPack(name string) ([]row, error) {
	f, err := s.root.Open(path.Join(packsDir, name))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	return readIndex(f, info.Size())
}

// learn adds a pack to what is known.
func (s *Store) learn(name string, rows []row) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.packs[name] = &pack{name, rows}
	s.find(s.packs[name])
}

// find enters the blobs of a pack into the index.
func (s *Store) find(p *pack) {
	for i, r := range p.rows {
		s.index[r.name] = place{p, i}
	}
}

// drop forgets packs that are gone.
func (s *Store) drop(gone func(name string) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	dropped := false
	for name := range s.packs {
		if gone(name) {
			delete(s.packs, name)
			dropped = true
		}
	}
	for name := range s.damaged {
		if gone(name) {
			delete(s.damaged, name)
		}
	}
	if !dropped {
		return
	}
	s.dropped++
	_ = s.closePacks() // they were only read
	clear(s.index)
	for _, p := range s.packs {
		s.find(p)
	}
}

// Damaged returns what is wrong with packs that cannot be read. Their blobs are
// stored anew when they are taken again.
func (s *Store) Damaged() (errs []error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, err := range s.damaged {
		errs = append(errs, err)
	}
	return errs
}

// Size returns the bytes and the number of the packs that this store knows.
func (s *Store) Size() (bytes int64, packs int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.packs {
		bytes += p.size()
	}
	return bytes, len(s.packs)
}

func (p *pack) size() int64 {
	return int64(len(packHead)) + p.blobs() + int64(len(p.rows))*rowSize + tailSize
}

// blobs returns the bytes of the blobs of a pack.
func (p *pack) blobs() (n int64) {
	for _, r := range p.rows {
		n += int64(r.stored)
	}
	return n
}

// generation changes when something that was stored may not be there any more. The
// caller holds the store.
func (s *Store) generation() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.dropped
}

func (s *Store) has(name hash) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.index[name]
	return ok
}

// blob returns a blob of the given kind. The caller holds the store.
func (s *Store) blob(kind byte, name hash) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, ok := s.index[name]
	if !ok {
		return nil, fmt.Errorf("blob %x: %w", name[:8], ErrMissing)
	}
	r := p.pack.rows[p.row]
	raw, err := s.read(p.pack, r)
	if err == nil && (r.kind&^compressed != kind || treedir.NameOf(kind, raw) != name) {
		err = fmt.Errorf("%w: it is not what its name says", ErrDamaged)
	}
	if err != nil {
		return nil, fmt.Errorf("blob %x of pack %s: %w", name[:8], p.pack.name, err)
	}
	return raw, nil
}

// read returns the bytes of a blob, which are not checked yet.
func (s *Store) read(p *pack, r row) ([]byte, error) {
	stored, err := s.stored(p, r)
	if err != nil || r.kind&compressed == 0 {
		return stored, err
	}
	raw, err := decompress(r.kind&compressed, stored, int(r.raw))
	if err != nil {
		return nil, fmt.Errorf("%w: it does not decompress to %d bytes: %w", ErrDamaged, r.raw, err)
	}
	return raw, nil
}

// maxOpen is how many packs are kept open.
const maxOpen = 32

// stored returns a blob as it is in its pack.
func (s *Store) stored(p *pack, r row) ([]byte, error) {
	f := s.open[p.name]
	if f == nil {
		if len(s.open) >= maxOpen {
			_ = s.closePacks() // they were only read
		}
		var err error
		if f, err = s.root.Open(path.Join(packsDir, p.name)); err != nil {
			return nil, err
		}
		s.open[p.name] = f
	}
	b := make([]byte, r.stored)
	return b, readFull(f, b, r.offset)
}
