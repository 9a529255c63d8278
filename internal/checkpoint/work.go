package checkpoint

import (
	"context"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/x/pygent/internal/checkpoint/objstore"
	"github.com/x/pygent/internal/checkpoint/writewatch"
	"github.com/x/pygent/internal/treedir"
)

// Work is what the agent did since the files were looked at before. The zero Work is
// none: all that differs was changed by others.
type Work struct {
	Ran bool // a call ran, or a command in the background
	// Only are the paths that it may have changed, if that is known; relative to the
	// workspace.
	Only []string
	// Apart says that it wrote files through a mount of its own alone, so that what a
	// watch tells was written by others, and Watch that it is going to.
	Apart, Watch bool
}

// maxNamed is how many files an entry names that others have changed. Where there are
// more, all that differs counts as theirs.
const maxNamed = 5000

// Look notes how the files are before or after a call, in a turn, if they differ from
// how they were before that. Work is what has gone on since. large says that they are so
// many, or have so much in them, that a look takes a while on any machine.
func (b *Book) Look(ctx context.Context, w Workspace, work Work) (large bool, err error) {
	unlock, err := b.lock()
	if err != nil {
		return false, err
	}
	defer unlock()
	if b.pending() {
		return false, ErrUnfinished
	}
	e := Entry{Note: Note{Kind: call, Work: &work}}
	if err := b.read(ctx, w, &e, nil); err != nil {
		return false, err
	}
	if at := b.latest(); at < 0 || b.seen[at].Tree == e.Tree {
		b.store.Forget(e.Tree)
		return b.large, nil
	}
	if _, err = b.add(ctx, e); err != nil {
		b.store.Forget(e.Tree)
	}
	return b.large, err
}

// A workspace with more is large.
const (
	largeFiles = 5000
	largeBytes = 256 << 20
)

// others knows what others write beside the agent's commands. The caller of its methods
// holds the book's mu.
type others struct {
	watch *writewatch.Watch // nil for none
	deaf  bool              // there can be none

	since  writewatch.Files // what was written since the last look began
	missed int              // in how many looks from now on it is not known what was written

	dir    string // that is watched
	doubts []doubt
}

// doubt is a file that differs in an entry, as the agent's, although a program had it open
// for writing then. It is others' if the watch tells of it later. If the program closes it,
// and the watch does not, it is the agent's.
type doubt struct {
	entry      int64
	name, path string
	inode      uint64
}

// begin watches a directory, where the system can do that.
func (o *others) begin(dir string) {
	if o.watch != nil && o.dir != dir {
		o.end()
	}
	if o.watch != nil || o.deaf {
		return
	}
	var err error
	o.watch, err = writewatch.Open(dir)
	o.dir = dir
	o.deaf = err != nil // it would fail again
}

// end ends the watch.
func (o *others) end() {
	if o.watch != nil {
		_ = o.watch.Close() // it was only read
	}
	*o = others{deaf: o.deaf}
}

// look is called before files are looked at, and looked after that. What is written
// meanwhile belongs to what was before and to what comes after, since nobody knows
// whether the look has seen it.
func (o *others) look() {
	if o.watch == nil {
		return
	}
	o.since = joined(o.since, o.watch.Written())
}

// looked returns what is known to be written since the look before the last one began.
func (o *others) looked() writewatch.Files {
	if o.watch == nil {
		return nil
	}
	during := o.watch.Written()
	files := joined(o.since, during)
	o.since = during
	if o.missed = max(0, o.missed-1); o.watch.Missed() {
		o.missed = 2 // as what is written during a look, it may belong to what comes after
	}
	return files
}

// joined returns what is in either. An inode may be in both, of a file that is gone and of a
// newer one, which counts.
func joined(older, newer writewatch.Files) writewatch.Files {
	files := writewatch.Files{}
	maps.Copy(files, older)
	maps.Copy(files, newer)
	return files
}

// maxLate is how many files are looked at for writers that are at work still.
const maxLate = 1000

// late returns those of some files that others turn out to have written, too, and those
// that may turn out so. There are none without a watch.
func (o *others) late(names []string, full func(name string) string) (late, open writewatch.Files) {
	if len(names) == 0 || len(names) > maxLate {
		return nil, nil
	}
	var paths []string
	for _, name := range names {
		paths = append(paths, full(name))
	}
	late, open = o.watch.Late(paths)
	maps.Copy(o.since, late)
	return late, open
}

// settle makes those files others' of which a watch has told since they were in doubt.
func (b *Book) settle(ctx context.Context, written writewatch.Files) error {
	theirs := map[int64][]string{}
	b.others.doubts = slices.DeleteFunc(b.others.doubts, func(d doubt) bool {
		is := written.Has(d.path, d.inode)
		if is {
			theirs[d.entry] = append(theirs[d.entry], d.name)
		}
		return is
	})
	if len(theirs) == 0 {
		return nil
	}
	return b.rewrite(ctx, b.seen, func(e *Entry) {
		if names := theirs[e.N]; names != nil && !e.Others {
			e.setNot(append(names, e.Not...))
		}
	})
}

// betweenTurns settles what is in doubt, before files are looked at while no turn goes on.
// The watch goes on as long as there is something.
func (b *Book) betweenTurns(ctx context.Context) error {
	o := &b.others
	if o.watch == nil {
		return nil
	}
	closed := map[string]bool{}
	for _, d := range o.doubts {
		closed[d.path] = !o.watch.IsOpen(d.path)
	}
	err := b.settle(ctx, o.watch.Written()) // which has those that were closed
	o.doubts = slices.DeleteFunc(o.doubts, func(d doubt) bool { return closed[d.path] })
	if o.since = nil; len(o.doubts) == 0 {
		o.end()
	}
	return err
}

// mayChange reports whether a path is one that was changed, or a directory on the way
// there.
func (w *Work) mayChange(name string) bool {
	return slices.ContainsFunc(w.Only, func(only string) bool { return only == name || strings.HasPrefix(only, name+"/") })
}

// attribute notes who has changed what differs from the entry before.
func (b *Book) attribute(ctx context.Context, e *Entry) error {
	written := b.others.looked()
	if err := b.settle(ctx, written); err != nil {
		return err
	}
	at := b.latest()
	switch {
	case e.On != "" || at < 0 || b.seen[at].Tree.IsZero() || b.seen[at].Dir != e.Dir:
		return nil // nobody else reaches a volume
	case !e.Work.Ran, e.Work.Only == nil && b.others.missed > 0:
		e.Others = true // perhaps, and what is perhaps others' stays
		return nil
	}
	changed, rest, not, seemed := map[string]bool{}, false, []string(nil), []string(nil)
	full := func(name string) string { return filepath.Join(e.Dir, filepath.FromSlash(name)) }
	for c, err := range b.store.Diff(ctx, b.seen[at].Tree, e.Tree) {
		switch {
		case err != nil:
			return err
		case e.Work.Only != nil:
			changed[c.Name] = true
			rest = rest || !e.Work.mayChange(c.Name)
		case !e.Work.Apart || b.others.watch == nil:
			e.Unsure = true
			return nil
		case c.New.Kind != treedir.File:
			e.Unsure = true
		case written.Has(full(c.Name), b.cache.Inode(c.Name)):
			not = append(not, c.Name)
		default:
			seemed = append(seemed, c.Name)
		}
	}
	late, open := b.others.late(seemed, full)
	for _, name := range seemed { // the agent's, as far as it was known
		d := doubt{b.next + 1, name, full(name), b.cache.Inode(name)} // the entry is going to be added
		if late.Has(d.path, d.inode) {
			not = append(not, name)
			continue
		}
		if e.Unsure = true; open.Has(d.path, d.inode) && len(b.others.doubts) < maxNamed {
			b.others.doubts = append(b.others.doubts, d)
		}
	}
	if rest {
		e.Only = e.Work.Only
		if slices.ContainsFunc(e.Only, func(name string) bool { return !changed[name] }) { // it has another name in the tree
			e.Only, e.Unsure = nil, true
		}
	}
	e.setNot(not)
	return nil
}

// setNot notes the files that others have written.
func (e *Entry) setNot(names []string) {
	slices.Sort(names)
	if e.Not = slices.Compact(names); len(e.Not) > maxNamed {
		e.Not, e.Others = nil, true
	}
}

// RelativeTo returns paths of a workspace, which has some names, as a tree has them; nil
// if one of them is not in it.
func RelativeTo(dirs, paths []string) (all []string) {
	for _, p := range paths {
		p = path.Clean(p)
		for _, dir := range dirs {
			if rest, ok := strings.CutPrefix(p, strings.TrimSuffix(dir, "/")+"/"); ok && dir != "" {
				p = rest
				break
			}
		}
		if !fs.ValidPath(p) {
			return nil
		}
		all = append(all, p)
	}
	return all
}

// withoutCalls returns the entries without those of calls that need not be there: as much
// is known of what differs before them as of what differs after them, and nothing of it is
// others'. The entries of the last turn stay.
func (b *Book) withoutCalls() []Entry {
	plain := func(e *Entry) bool { return !e.Others && e.Only == nil && e.Not == nil }
	last := b.before(len(b.seen))
	var all []Entry
	for at := range b.seen {
		e := &b.seen[at]
		if next := at + 1; e.Kind == call && at < last && plain(e) && b.seen[next].hasFiles() && plain(&b.seen[next]) &&
			e.Unsure == b.seen[next].Unsure && b.seen[next].Kind != Restored {
			continue
		}
		all = append(all, *e)
	}
	return all
}

// unsure returns the names of the files that a restore takes back, on the way from one
// checkpoint to another, although nobody knows who changed them. These are all if the
// checkpoints in between were dropped.
func (b *Book) unsure(ctx context.Context, from, to int) ([]string, error) {
	names := map[string]bool{}
	top := b.ancestor(from, to)
	if top < 0 {
		err := b.filesOf(ctx, to, from, names)
		return slices.Sorted(maps.Keys(names)), err
	}
	for at := from; at != top; at = b.parent(at) {
		if parent := b.parent(at); b.seen[at].Unsure && b.byAgent(parent, at) {
			if err := b.filesOf(ctx, parent, at, names); err != nil {
				return nil, err
			}
		}
	}
	return slices.Sorted(maps.Keys(names)), nil
}

// filesOf adds the names of the files and links of an entry that differ from another one,
// but for those that others have written.
func (b *Book) filesOf(ctx context.Context, before, at int, names map[string]bool) error {
	for c, err := range b.store.Diff(ctx, b.seen[before].Tree, b.seen[at].Tree) {
		if err != nil {
			return err
		}
		_, theirs := slices.BinarySearch(b.seen[at].Not, c.Name)
		if !theirs && !objstore.OfGit(c.Name) && (c.New.Kind == treedir.File || c.New.Kind == treedir.Link) && len(names) < maxNamed {
			names[c.Name] = true
		}
	}
	return nil
}
