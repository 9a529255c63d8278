package sandbox

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"iter"
	"os"
	"strings"

	"github.com/x/pygent/internal/guest"
	"github.com/x/pygent/internal/treedir"
)

// WorkTree is the workspace of a sandbox as package objstore takes it and changes
// it. Files in a directory of this machine are read and changed there, and
// through the guest where this process may not. Files in a volume are the
// guest's. Only one goroutine at a time may use it, and each [WorkTree.Reader].
type WorkTree struct {
	box    *Sandbox
	local  hostTree
	inside func(ctx context.Context, start bool) (guestTree, error)
	synced bool // no step was made through the guest since the last Sync
}

var (
	_ treedir.Sharer = (*WorkTree)(nil)
	_ treedir.Target = (*WorkTree)(nil)
)

// hostTree is a [treedir.Local], and guestTree a [guest.Tree].
type (
	hostTree interface {
		treedir.Sharer
		treedir.Target
		lister
		Close() error
	}
	guestTree interface {
		treedir.Source
		treedir.Target
		lister
	}
	lister interface {
		ScanBelow(ctx context.Context, dir string, yield func(treedir.Entry) error) error
	}
)

// Mover are [Files] that may move from this machine into a volume.
type Mover interface {
	// Volume names the volume with the files; it is empty while they are in the
	// directory of this machine.
	Volume() string
	// Stay keeps the files where they are until leave is called.
	Stay() (leave func())
}

// Starter is a [Commander] whose guest may not run yet.
type Starter interface {
	// Running returns the guest that runs, or nil. It starts and waits for nothing.
	Running() *guest.Client
	// User is whom commands run as, "user", "uid", "user:group" or "uid:gid"; empty for
	// root, and where it is not known because the image is not there yet. It pulls
	// nothing.
	User(ctx context.Context) string
}

// OpenWorkTree opens the workspace as a store takes it and changes it. The caller
// must close it before Cleanup.
func (r *Sandbox) OpenWorkTree() (*WorkTree, error) {
	local, err := treedir.OpenLocal(r.Dir())
	if err != nil {
		return nil, err
	}
	return &WorkTree{box: r, local: local, inside: r.guestTree, synced: true}, nil
}

// guestTree returns the workspace as the guest sees it. If start is not set and no
// guest runs, that is none.
func (r *Sandbox) guestTree(ctx context.Context, start bool) (guestTree, error) {
	if s, ok := r.commands.(Starter); ok && !start {
		client := s.Running()
		if client == nil {
			return nil, nil
		}
		return guest.Tree{Client: client}, nil
	}
	client, err := r.commands.Guest(ctx)
	if err != nil {
		return nil, err
	}
	return guest.Tree{Client: client}, nil
}

// volume names the volume with the files; "" means that they are on this machine.
func (r *Sandbox) volume() string {
	if m, ok := r.files.(Mover); ok {
		return m.Volume()
	}
	return ""
}

// stay keeps the files where they are until leave is called.
func (r *Sandbox) stay() (leave func()) {
	if m, ok := r.files.(Mover); ok {
		return m.Stay()
	}
	return func() {}
}

// Close releases the directory.
func (w *WorkTree) Close() error { return w.local.Close() }

// Dir is the path of the workspace on this machine, also while its files are in a
// volume: they came from there, and go back there in the end.
func (w *WorkTree) Dir() string { return w.local.ID() }

// ID implements [treedir.Target]: the path of the workspace, unless the files are
// in a volume, which nobody finds again after this sandbox.
func (w *WorkTree) ID() string {
	if v := w.box.volume(); v != "" {
		return "volume " + v
	}
	return w.local.ID()
}

// Scan implements [treedir.Source].
func (w *WorkTree) Scan(ctx context.Context, yield func(treedir.Entry) error) error {
	return w.ScanBelow(ctx, "", yield)
}

// ScanBelow is Scan for what is in a directory of the workspace. One that this process may
// not list is an error.
func (w *WorkTree) ScanBelow(ctx context.Context, dir string, yield func(treedir.Entry) error) error {
	ctx, done, err := w.box.begin(ctx)
	if err != nil {
		return err
	}
	defer done()
	if w.box.volume() != "" {
		g, err := w.inside(ctx, true)
		if err == nil {
			err = g.ScanBelow(ctx, dir, yield)
		}
		return w.box.errorOf(ctx, err)
	}
	last := ""
	return w.box.errorOf(ctx, w.local.ScanBelow(ctx, dir, func(e treedir.Entry) error {
		unlisted := e.Name == last && errors.Is(e.Err, fs.ErrPermission)
		if last = e.Name; unlisted {
			return w.scanInside(ctx, e, yield)
		}
		return yield(e)
	}))
}

// scanInside has a guest list a directory that this process may not list.
func (w *WorkTree) scanInside(ctx context.Context, dir treedir.Entry, yield func(treedir.Entry) error) error {
	g, err := w.inside(ctx, false)
	if err != nil || g == nil {
		return yield(dir)
	}
	told := false
	err = g.ScanBelow(ctx, dir.Name, func(e treedir.Entry) error {
		told = true
		return yield(e)
	})
	if err != nil && !told {
		return yield(dir)
	}
	return err
}

// Read implements [treedir.Source].
func (w *WorkTree) Read(ctx context.Context, names iter.Seq[string], yield func(string, treedir.Opened, error) error) error {
	return w.read(ctx, w.local, names, yield)
}

// read reads files of this machine with local.
func (w *WorkTree) read(ctx context.Context, local treedir.Reader, names iter.Seq[string], yield func(string, treedir.Opened, error) error) error {
	ctx, done, err := w.box.begin(ctx)
	if err != nil {
		return err
	}
	defer done()
	if w.box.volume() != "" {
		g, err := w.inside(ctx, true)
		if err == nil {
			err = g.Read(ctx, names, yield)
		}
		return w.box.errorOf(ctx, err)
	}
	return w.box.errorOf(ctx, local.Read(ctx, names, func(name string, f treedir.Opened, err error) error {
		if errors.Is(err, fs.ErrPermission) {
			if g, failed := w.inside(ctx, false); failed == nil && g != nil {
				return g.Read(ctx, func(yield func(string) bool) { yield(name) }, yield)
			}
		}
		return yield(name, f, err)
	}))
}

// Reader implements [treedir.Sharer]. Files in a volume come one after the other.
func (w *WorkTree) Reader() treedir.Reader {
	if w.box.volume() != "" {
		return nil
	}
	return workReader{w, w.local.Reader()}
}

// workReader reads files of a WorkTree in another goroutine.
type workReader struct {
	*WorkTree
	local treedir.Reader
}

// Read implements [treedir.Reader].
func (r workReader) Read(ctx context.Context, names iter.Seq[string], yield func(string, treedir.Opened, error) error) error {
	return r.read(ctx, r.local, names, yield)
}

// Make implements [treedir.Target]. It starts the guest if need be.
func (w *WorkTree) Make(ctx context.Context, s treedir.Step, content io.Reader) error {
	ctx, done, err := w.box.begin(ctx)
	if err != nil {
		return err
	}
	defer done()
	again, err := w.makeHere(ctx, s, content)
	if !again {
		return w.box.errorOf(ctx, err)
	}
	g, failed := w.inside(ctx, true)
	if errors.Is(failed, ErrNoGuest) && err != nil {
		return err
	}
	if failed == nil {
		s.Again = s.Again || err != nil
		w.synced = false
		failed = g.Make(ctx, s, content)
	}
	return w.box.errorOf(ctx, failed)
}

// makeHere makes a step where this process can. again says that the guest has to
// make it; content then is at its beginning.
func (w *WorkTree) makeHere(ctx context.Context, s treedir.Step, content io.Reader) (again bool, err error) {
	defer w.box.stay()()
	if w.box.volume() != "" || w.box.asAnother(ctx) {
		return true, nil
	}
	err = w.local.Make(ctx, s, content)
	if !errors.Is(err, fs.ErrPermission) || !w.box.inContainer() {
		return false, err
	}
	if content != nil {
		from, ok := content.(io.Seeker)
		if !ok {
			return false, err
		}
		if _, failed := from.Seek(0, io.SeekStart); failed != nil {
			return false, errors.Join(err, failed)
		}
	}
	return true, err
}

// asAnother reports whether commands run as a user who is neither root nor the one
// that this process is. The files that we made would not be theirs to change.
func (r *Sandbox) asAnother(ctx context.Context) bool {
	s, ok := r.commands.(Starter)
	if !ok {
		return false
	}
	if client := s.Running(); client != nil {
		uid := client.Info().UID
		return uid != 0 && uid != os.Geteuid()
	}
	user, _, _ := strings.Cut(s.User(ctx), ":")
	return user != "" && user != "0" && user != "root"
}

// inContainer reports whether commands may have other rights than this process.
func (r *Sandbox) inContainer() bool {
	_, ok := r.commands.(Starter)
	return ok
}

// Sync implements [treedir.Target].
func (w *WorkTree) Sync(ctx context.Context) error {
	ctx, done, err := w.box.begin(ctx)
	if err != nil {
		return err
	}
	defer done()
	err = w.local.Sync(ctx)
	if !w.synced {
		g, failed := w.inside(ctx, true)
		if failed == nil {
			failed = g.Sync(ctx)
		}
		w.synced = failed == nil
		err = errors.Join(err, failed)
	}
	return w.box.errorOf(ctx, err)
}
