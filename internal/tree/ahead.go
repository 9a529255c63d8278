package tree

import (
	"errors"
	"runtime"
	"sync"
)

// Bounds of what is listed before it is visited.
const (
	maxListers = 4    // goroutines of a walk
	maxAhead   = 32   // directories, each of which is open
	namesAhead = 8192 // names in them, but for those that the listers are reading
)

// ahead lists directories before a walk comes to them. A walk waits for the kernel
// to describe one file after the other; with this it waits for several at once.
//
// The goroutine of the walk visits everything, in the same order as without. The
// listers only read, and what they cannot do the walk tries again in its turn: so
// nothing fails, or is left out, because of them. They end with the walk.
type ahead struct {
	listers sync.WaitGroup

	mu      sync.Mutex // guards what follows, and all folders
	room    *sync.Cond // for the listers: there may be something to list, or the end
	listed  *sync.Cond // for the walk: a lister has finished
	next    *folder    // those that the walk has not come to, in its order
	running bool       // the listers are
	ended   bool
	open    int // folders of next that a lister has begun with
	names   int // in them
}

// folder is a directory that the walk has not come to yet, in the listing of its
// parent.
type folder struct {
	Entry
	depth   int // of what is in it
	next    *folder
	state   folderState
	skipped bool     // the walk does not go into it
	listing *listing // of a known one, until the walk has it
}

type folderState int

const (
	waiting folderState = iota
	begun               // a lister is at work on it
	known               // the folder has its listing
	refused             // it could not be listed
)

func newAhead() *ahead {
	a := &ahead{}
	a.room, a.listed = sync.NewCond(&a.mu), sync.NewCond(&a.mu)
	return a
}

// end stops the listers, waits for them, and closes what they have opened.
func (a *ahead) end() {
	a.mu.Lock()
	a.ended = true
	a.room.Broadcast()
	a.mu.Unlock()
	a.listers.Wait()
	for ; a.next != nil; a.next = a.next.next {
		a.next.drop()
	}
}

// add makes folders of the directories in a listing that the walk begins with. They
// are the first that it comes to.
func (a *ahead) add(l *listing) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.insert(&a.next, l)
	if a.next != nil && !a.running {
		a.running = true
		for range min(runtime.GOMAXPROCS(0), maxListers) {
			a.listers.Go(a.list)
		}
	}
}

// take returns the listing of the folder that the walk has come to, which is the
// first of all, or nil. The caller closes it.
func (a *ahead) take(f *folder) *listing {
	if f == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for f.state == begun {
		a.listed.Wait()
	}
	a.remove(f)
	l := f.listing
	f.listing = nil // the parent's listing has f until its end
	return l
}

// skip gives up the folder that the walk has come to, and all below it.
func (a *ahead) skip(f *folder) {
	if f == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.remove(f)
	f.drop()
	for a.next != nil && a.next.depth > f.depth {
		below := a.next
		a.remove(below)
		below.drop()
	}
}

// remove takes the first folder out. The caller holds mu.
func (a *ahead) remove(f *folder) {
	a.next, f.next = f.next, nil
	if f.state == waiting {
		return
	}
	a.open--
	if f.listing != nil {
		a.names -= len(f.listing.names)
	}
	a.room.Signal()
}

// drop closes the folder, now or once the lister has finished. The caller holds mu.
func (f *folder) drop() {
	f.skipped = true
	if f.listing != nil {
		f.listing.close()
		f.listing = nil
	}
}

// list is a lister.
func (a *ahead) list() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for !a.ended {
		f := a.claim()
		if f == nil {
			a.room.Wait()
			continue
		}
		a.mu.Unlock()
		l, err := listFolder(f)
		a.mu.Lock()
		a.finish(f, l, err)
	}
}

// claim returns the next folder to be listed, or nil. The caller holds mu.
func (a *ahead) claim() *folder {
	if a.open >= maxAhead || a.names >= namesAhead {
		return nil
	}
	for f := a.next; f != nil; f = f.next {
		if f.state == waiting {
			f.state = begun
			a.open++
			return f
		}
	}
	return nil
}

// finish notes what a lister has found. The caller holds mu.
func (a *ahead) finish(f *folder, l *listing, err error) {
	switch {
	case err != nil:
		f.state = refused
	case f.skipped:
		l.close()
	default:
		f.state, f.listing = known, l
		a.names += len(l.names)
		a.insert(&f.next, l)
	}
	a.listed.Signal()
}

// insert makes folders of the directories in a listing, and puts them before what
// is at a place. The caller holds mu.
func (a *ahead) insert(at **folder, l *listing) {
	first, last := l.folders()
	if first == nil {
		return
	}
	last.next, *at = *at, first
	a.room.Broadcast()
}

// errReplaced says that there is no directory any more.
var errReplaced = errors.New("something else is in its place")

// listFolder opens and lists the directory of an entry.
func listFolder(f *folder) (*listing, error) {
	sub, err := openDir(f.Entry)
	if err == nil && sub == nil {
		err = errReplaced
	}
	if err != nil {
		return nil, err
	}
	l, err := list(sub, f.Name, f.depth)
	if err != nil {
		return nil, errors.Join(err, sub.Close())
	}
	return l, nil
}
