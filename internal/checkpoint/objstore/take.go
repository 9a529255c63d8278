package objstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"path"
	"strings"
	"time"

	"github.com/x/pygent/internal/pathname"
	"github.com/x/pygent/internal/tempname"
	"github.com/x/pygent/internal/tree"
	"github.com/x/pygent/internal/treedir"
)

// TakeOptions are the options of [Store.Take].
type TakeOptions struct {
	// Limits limit the tree, without what is left out; the defaults are those
	// of package tree. A tree that exceeds them is not taken.
	Limits tree.Limits
	// Now is the clock by which files of the source get their times; default
	// is the clock of this machine.
	Now func() time.Time
	// Changed are the names that were changed since Take returned the cache, if the
	// caller knows them all; nil if it does not. Take then looks at the directories
	// that they are in, and at those above, of a source that is a [Lister].
	// What others have changed elsewhere is found by the next Take.
	Changed []string
}

// Report says what Take did.
type Report struct {
	Files   int      // files, directories and links of the tree
	Bytes   int64    // of its files
	Read    int      // files that were read, because they are new or may have changed
	Stored  int64    // bytes by which the store has grown
	LeftOut []Left   // the first of them, in the order of the tree
	More    int      // how many more were left out
	Torn    []string // files that changed each time they were read, stored as they were read last
}

// Left is something that was left out of a tree.
type Left struct {
	Name string
	Why  string
}

const (
	maxLeft        = 1000    // of a report
	maxIgnored     = 1 << 20 // bytes of an ignored file that is taken nevertheless
	maxReadings    = 3       // of a file that changes while it is read
	maxNames       = 256 << 20
	defaultBytes   = 64 << 30
	defaultEntries = 1_000_000
)

// Take stores a tree, and returns its name. c, which may be nil, is what Take
// returned in it for the same source before: unchanged files are not read again.
//
// The counter that [progress.With] has put into ctx counts what is in the tree, once
// that is known.
//
// Files that change or vanish in the meantime are read again or left out, so
// that each file is one that was there, but two files need not be of the same
// moment. Nothing is collected until the tree is in a [Log], or until
// [Store.Forget] or Close. After an error nothing has changed.
func (s *Store) Take(ctx context.Context, src Source, c *Cache, o TakeOptions) (Tree, Report, error) {
	release, err := s.hold(ctx)
	if err != nil {
		return Tree{}, Report{}, err
	}
	if c == nil {
		c = new(Cache)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	t, scan := s.newTaker(ctx, src, c, o), src.Scan
	part := rescanOf(t, o.Changed)
	if part != nil {
		scan = part.scan
	}
	root, err := t.take(scan)
	if err != nil && part != nil { // perhaps others change it, too: look at all of it
		t = s.newTaker(ctx, src, c, o)
		root, err = t.take(src.Scan)
	}
	if err != nil {
		release()
		return Tree{}, Report{}, fmt.Errorf("store tree: %w", err)
	}
	c.items, c.of, c.generation = t.items, s, t.generation
	s.keep(Tree{root}, release)
	return Tree{root}, t.report, nil
}

func (s *Store) newTaker(ctx context.Context, src Source, c *Cache, o TakeOptions) *taker {
	t := &taker{ctx: ctx, s: s, src: src, old: c.items, start: o.Now().UnixNano(), pack: s.newPack(), levels: []level{{}}, items: make([]taken, 0, len(c.items)+64)}
	t.blobs.pack = t.pack
	t.generation = s.generation()
	t.stored = c.of == s && c.generation == t.generation
	t.left = tree.Limits{Bytes: orDefault(o.Limits.Bytes, defaultBytes), Entries: orDefault(o.Limits.Entries, defaultEntries)}
	return t
}

func orDefault(n, otherwise int64) int64 {
	if n == 0 {
		return otherwise
	}
	return n
}

// taker is one run of Take.
type taker struct {
	ctx        context.Context
	s          *Store
	src        Source
	old        []taken // of the cache, from where the scan is on
	stored     bool    // the content of those is stored
	generation int     // of the store, at the start
	start      int64
	pack       *packWriter
	blobs      blobWriter // of the pack, for directories
	left       tree.Limits
	items      []taken
	names      int     // bytes of names and targets
	levels     []level // the directories on the way to the last entry
	read       []int   // indexes of items to be read
	failed     error   // of a Read during the scan
	report     Report
}

// take stores what a scan of the source tells.
func (t *taker) take(scan func(context.Context, func(Entry) error) error) (root hash, err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, t.pack.abort())
		}
	}()
	if err := scan(t.ctx, t.entry); err != nil {
		return hash{}, err
	}
	if err := t.readAll(); err != nil {
		return hash{}, err
	}
	rest := t.items
	root, err = t.node("", &rest)
	if err != nil {
		return hash{}, err
	}
	if len(rest) > 0 {
		return hash{}, fmt.Errorf("%w: %q is in no directory", ErrSource, rest[0].Name)
	}
	if err := context.Cause(t.ctx); err != nil {
		return hash{}, err
	}
	t.report.Stored, err = t.pack.commit()
	return root, err
}

// entry takes what the scan tells next.
func (t *taker) entry(e Entry) error {
	if err := context.Cause(t.ctx); err != nil {
		return err
	}
	if tempname.Is(path.Base(e.Name)) {
		if e.Mode.IsDir() {
			return fs.SkipDir
		}
		return nil
	}
	if last := len(t.items) - 1; last >= 0 && e.Err != nil && e.Mode.IsDir() && t.items[last].Name == e.Name && t.items[last].item.Kind == Dir {
		t.items[last].item = Item{Kind: LeftOut} // its content cannot be listed
		t.items[last].Err = e.Err
		t.levels = t.levels[:len(t.levels)-1]
		t.leave(e.Name, treedir.Reason(e.Err))
		return nil
	}
	if err := t.place(e); err != nil {
		return err
	}
	item, why := t.itemOf(e)
	if t.failed != nil {
		return t.failed
	}
	if why != "" {
		t.leave(e.Name, why)
		item, e.Err = Item{Kind: LeftOut}, errors.New(why)
	}
	if t.left.Entries--; t.left.Entries < 0 {
		return fmt.Errorf("%w: too many files", tree.ErrTooLarge)
	}
	if t.names += len(e.Name) + len(e.Target); t.names > maxNames {
		return fmt.Errorf("%w: the names of the files alone exceed %d MiB", tree.ErrTooLarge, maxNames>>20)
	}
	t.items = append(t.items, taken{Entry: e, item: item})
	switch {
	case item.Kind == File:
		return t.file(&t.items[len(t.items)-1])
	case item.Kind == Dir:
		t.levels = append(t.levels, level{dir: e.Name})
	case e.Mode.IsDir():
		return fs.SkipDir
	}
	return nil
}

// place checks that an entry comes where it belongs, and leaves the levels that
// it is not in.
func (t *taker) place(e Entry) error {
	if n := len(t.items); n > 0 && byPath(t.items[n-1].Name, e.Name) >= 0 || !treedir.ValidBase(path.Base(e.Name)) || path.IsAbs(e.Name) {
		return fmt.Errorf("%w: %q", ErrSource, e.Name)
	}
	dir := treedir.DirOf(e.Name)
	for t.levels[len(t.levels)-1].dir != dir {
		if t.levels = t.levels[:len(t.levels)-1]; len(t.levels) == 0 {
			return fmt.Errorf("%w: %q is in no directory", ErrSource, e.Name)
		}
	}
	if e.Ignores {
		t.levels[len(t.levels)-1].ignores = true
	}
	if len(t.levels) > tree.MaxDepth {
		return fmt.Errorf("%w: %q is too deep", ErrSource, e.Name[:min(len(e.Name), 200)])
	}
	return nil
}

// itemOf returns what is stored of an entry, but for the content of a file, or
// why nothing is.
func (t *taker) itemOf(e Entry) (item Item, why string) {
	switch typ := e.Mode.Type(); {
	case e.Err != nil:
		return item, treedir.Reason(e.Err)
	case typ == fs.ModeDir:
		item = Item{Kind: Dir, Mode: e.Mode.Perm()}
		why = t.ignoredDir(e.Name)
	case typ == fs.ModeSymlink && treedir.ValidTarget(e.Target):
		item = Item{Kind: Link, Target: e.Target}
	case typ == 0:
		item = Item{Kind: File, Mode: e.Mode.Perm(), Size: e.Size, ModTime: e.ModTime}
		if e.Size < 0 || e.Size > MaxFile {
			why = "larger than any file that is kept"
		} else if e.Size > maxIgnored && t.ignored(e.Name, false) {
			why = "ignored, and larger than 1 MiB"
		}
	default:
		why = "neither a file nor a directory nor a link"
	}
	return item, why
}

// ignoredDir returns why a directory is left out, if it is.
func (t *taker) ignoredDir(name string) string {
	base := path.Base(name)
	switch {
	case OfGit(name):
		return ""
	case dependencies[base] || base == pathname.Target && t.isBuilt(name):
		return "other programs fill it"
	case t.ignored(name, true):
		return "ignored"
	}
	return ""
}

// isBuilt reports whether there is a file that a build with this output has.
func (t *taker) isBuilt(name string) (found bool) {
	beside := func(yield func(string) bool) {
		for _, base := range pathname.BuildFiles {
			if !yield(path.Join(treedir.DirOf(name), base)) {
				return
			}
		}
	}
	t.failed = t.src.Read(t.ctx, beside, func(_ string, _ Opened, err error) error {
		found = found || err == nil
		return nil
	})
	return found
}

// ignored reports whether a .gitignore file names something. None says anything of
// what git has for itself.
func (t *taker) ignored(name string, dir bool) bool {
	if OfGit(name) {
		return false
	}
	for i := range t.levels {
		if l := &t.levels[i]; l.ignores && !l.loaded {
			l.loaded = true
			l.patterns = t.patterns(path.Join(l.dir, ignoreFile))
		}
	}
	return ignored(t.levels, name, dir)
}

// patterns reads a .gitignore file. One that cannot be read ignores nothing.
func (t *taker) patterns(name string) (patterns []pattern) {
	t.failed = t.src.Read(t.ctx, one(name), func(_ string, f Opened, err error) error {
		if err != nil {
			return nil
		}
		text, err := io.ReadAll(io.LimitReader(f, maxIgnoreFile))
		if err == nil {
			patterns = parseIgnore(string(text))
		}
		return nil
	})
	return patterns
}

func one(name string) iter.Seq[string] { return func(yield func(string) bool) { yield(name) } }

// file finds a file in the cache, or notes that it must be read.
func (t *taker) file(f *taken) error {
	if err := t.charge(f.Name, f.Size); err != nil {
		return err
	}
	for len(t.old) > 0 && byPath(t.old[0].Name, f.Name) < 0 {
		t.old = t.old[1:]
	}
	if len(t.old) > 0 {
		old, same := t.old[0], f.item
		same.Content = old.item.Content
		if old.trusted && old.Name == f.Name && old.Unchanged(f.Entry) && (t.stored || t.s.hasAll(same)) {
			f.item, f.trusted = same, true
			return nil
		}
	}
	t.read = append(t.read, len(t.items)-1)
	return nil
}

// charge takes the bytes of a file from those that all may have.
func (t *taker) charge(name string, bytes int64) error {
	if t.left.Bytes -= bytes; t.left.Bytes < 0 {
		return fmt.Errorf("%w: %q exceeds the limit of all files", tree.ErrTooLarge, name)
	}
	return nil
}

// node stores a directory, whose content is at the front of rest, and takes
// that off. A directory below that has the name of its content is stored.
func (t *taker) node(dir string, rest *[]taken) (hash, error) {
	entries := bytes.NewBuffer([]byte{nodeWhole})
	var scratch []byte
	for len(*rest) > 0 && treedir.DirOf((*rest)[0].Name) == dir {
		f := &(*rest)[0]
		*rest = (*rest)[1:]
		if f.item.Kind == None {
			continue
		}
		switch {
		case f.item.Kind == Dir && f.item.Content != hash{}:
			for len(*rest) > 0 && strings.HasPrefix((*rest)[0].Name, f.Name) && (*rest)[0].Name[len(f.Name)] == '/' {
				t.count(&(*rest)[0])
				*rest = (*rest)[1:]
			}
		case f.item.Kind == Dir:
			var err error
			if f.item.Content, err = t.node(f.Name, rest); err != nil {
				return hash{}, err
			}
		}
		t.count(f)
		scratch = appendChild(scratch[:0], child{path.Base(f.Name), f.item})
		entries.Write(scratch)
	}
	return addNode(entries.Bytes(), t.blobs.add)
}

// count counts a file, directory or link of the tree.
func (t *taker) count(f *taken) {
	if f.item.Kind != None && f.item.Kind != LeftOut {
		t.report.Files++
		t.report.Bytes += f.item.Size
	}
}

func (t *taker) leave(name, why string) {
	if len(t.report.LeftOut) < maxLeft {
		t.report.LeftOut = append(t.report.LeftOut, Left{name, why})
		return
	}
	t.report.More++
}
