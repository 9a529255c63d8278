package objstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"sync"

	"github.com/x/pygent/internal/progress"
	"github.com/x/pygent/internal/treedir"
)

// Bounds of what is read at the same time.
const (
	maxReaders = 4  // goroutines, each with a few MiB of buffers; also where there are fewer processors, since a disk has to be waited for
	fewFiles   = 64 // that one of them reads, before it looks for others
	fewBytes   = 4 << 20
)

// readAll reads the files that must be read. It reads those again that change
// meanwhile.
func (t *taker) readAll() error {
	t.report.Read = len(t.read)
	progress.Counter(t.ctx)(int64(len(t.items) - len(t.read))) // told with the total, and not after it
	progress.Expect(t.ctx, int64(len(t.items)))
	for n := 1; len(t.read) > 0; n++ {
		r := reading{t: t, which: t.read, last: n == maxReadings}
		if err := r.run(); err != nil {
			return err
		}
		t.read = r.again
	}
	return nil
}

// reading reads some files of a tree once. If the source can be shared, several
// goroutines do; each has the items of its files for itself.
type reading struct {
	t    *taker
	last bool // a file counts even if it has changed meanwhile
	ctx  context.Context
	end  context.CancelCauseFunc

	mu    sync.Mutex // guards what follows, and what is left of the taker's limits
	which []int      // indexes of the items that nobody reads yet
	again []int      // those that changed meanwhile
	torn  []int      // those that did so the last time
	left  []unread
}

// unread is an item that could not be read.
type unread struct {
	at  int
	why string
}

func (r *reading) run() error {
	r.ctx, r.end = context.WithCancelCause(r.t.ctx)
	defer r.end(nil)
	var team sync.WaitGroup
	others := r.others()
	for _, from := range others {
		team.Go(func() { r.readWith(from, r.few) })
	}
	claim := r.few
	if len(others) == 0 {
		claim = r.rest
	}
	r.readWith(r.t.src, claim)
	team.Wait()
	if err := context.Cause(r.ctx); err != nil {
		return err
	}
	slices.Sort(r.again)
	slices.Sort(r.torn)
	slices.SortFunc(r.left, func(a, b unread) int { return cmp.Compare(a.at, b.at) })
	for _, at := range r.torn {
		r.t.report.Torn = append(r.t.report.Torn, r.t.items[at].Name)
	}
	for _, u := range r.left {
		r.t.items[u.at].Err = errors.New(u.why)
		r.t.leave(r.t.items[u.at].Name, u.why)
	}
	return nil
}

// others returns what other goroutines read with, if there is enough to read.
func (r *reading) others() (others []treedir.Reader) {
	shared, ok := r.t.src.(treedir.Sharer)
	if !ok {
		return nil
	}
	var bytes int64
	for _, at := range r.which {
		bytes += r.t.items[at].Size
	}
	wanted := max(int64(len(r.which))/fewFiles, min(bytes/fewBytes, int64(len(r.which))-1))
	for range min(wanted, maxReaders-1) {
		if other := shared.Reader(); other != nil {
			others = append(others, other)
		}
	}
	return others
}

// readWith reads files until there are none any more, or an error ends all.
func (r *reading) readWith(from treedir.Reader, claim func() []int) {
	w := fileReader{reading: r, blobs: blobWriter{pack: r.t.pack}, buf: make([]byte, ChunkSize), done: progress.Counter(r.ctx)}
	for r.ctx.Err() == nil {
		some := claim()
		if len(some) == 0 {
			return
		}
		if err := w.readSome(from, some); err != nil {
			r.end(err)
		}
	}
}

// few takes the next files, no more than few.
func (r *reading) few() []int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for bytes := int64(0); n < min(fewFiles, len(r.which)) && bytes < fewBytes; n++ {
		bytes += r.t.items[r.which[n]].Size
	}
	return r.take(n)
}

// rest takes all files: a source that one goroutine reads may ask for many at once.
func (r *reading) rest() []int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.take(len(r.which))
}

// take takes the next files. The caller holds mu.
func (r *reading) take(n int) []int {
	some := r.which[:n]
	r.which = r.which[n:]
	return some
}

// fileReader is one of the goroutines.
type fileReader struct {
	*reading
	blobs blobWriter
	buf   []byte        // of ChunkSize bytes
	done  func(n int64) // counts files
}

// readSome reads some files.
func (w *fileReader) readSome(from treedir.Reader, which []int) error {
	next := 0
	names := func(yield func(string) bool) {
		for _, i := range which {
			if !yield(w.t.items[i].Name) {
				return
			}
		}
	}
	err := from.Read(w.ctx, names, func(name string, f Opened, err error) error {
		if next == len(which) || w.t.items[which[next]].Name != name {
			return fmt.Errorf("%w: %q was not asked for", ErrSource, name)
		}
		at := which[next]
		next++
		if err := w.content(at, f, err); err != nil {
			return fmt.Errorf("%q: %w", name, err)
		}
		w.done(1)
		return context.Cause(w.ctx)
	})
	if err == nil && next < len(which) {
		err = fmt.Errorf("%w: %d files were not read", ErrSource, len(which)-next)
	}
	return err
}

// content reads one file. The only errors are those of the store, and that of a file
// that is now, or that a source says is now, larger than all files together may be.
func (w *fileReader) content(at int, r Opened, failed error) error {
	f := &w.t.items[at]
	before, failed := statOf(r, failed)
	if failed == nil {
		most := min(before.Size, MaxFile)
		if err := w.charge(f.Name, max(most-f.Size, 0)); err != nil {
			return err
		}
		in := &readErr{r: io.LimitReader(r, most)}
		var err error
		f.item.Content, f.item.Size, err = treedir.Split(in, w.buf, w.add)
		if err != nil && in.err == nil {
			return err
		}
		failed = in.err
	}
	var after Entry
	after, failed = statOf(r, failed)
	switch {
	case errors.Is(failed, fs.ErrNotExist):
		f.item = Item{} // it has gone
		return nil
	case failed != nil:
		f.item = Item{Kind: LeftOut}
		w.leave(at, treedir.Reason(failed))
		return nil
	}
	steady := before.Unchanged(after) && f.item.Size == after.Size
	after.Name = f.Name
	f.Entry = after
	f.item.Mode, f.item.ModTime = after.Mode.Perm(), after.ModTime
	f.trusted = steady && w.t.start-after.ChangeTime >= int64(settled)
	if !steady {
		w.changed(at)
	}
	return nil
}

// charge takes more bytes of a file from those that all may have.
func (r *reading) charge(name string, bytes int64) error {
	if bytes == 0 {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.t.charge(name, bytes)
}

func (r *reading) leave(at int, why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.left = append(r.left, unread{at, why})
}

// changed notes that a file changed while it was read.
func (r *reading) changed(at int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last {
		r.torn = append(r.torn, at)
	} else {
		r.again = append(r.again, at)
	}
}

// add stores a part of a file.
func (w *fileReader) add(kind byte, raw []byte) (hash, error) {
	if err := context.Cause(w.ctx); err != nil {
		return hash{}, err
	}
	return w.blobs.add(kind, raw)
}

func statOf(f Opened, failed error) (Entry, error) {
	if failed != nil {
		return Entry{}, failed
	}
	return f.Stat()
}

// readErr keeps the error of a reader apart from those of its consumer.
type readErr struct {
	r   io.Reader
	err error
}

func (r *readErr) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		r.err = err
	}
	return n, err
}
