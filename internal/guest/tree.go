package guest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"strings"

	"github.com/x/pygent/internal/guest/wire"
	"github.com/x/pygent/internal/treedir"
)

// Tree is the workspace of a guest as a store takes it and changes it. What it
// tells is the guest's word, and not to be trusted.
type Tree struct {
	Client *Client
	Name   string // the ID as a target
}

var (
	_ treedir.Source = Tree{}
	_ treedir.Target = Tree{}
)

// ID implements [treedir.Target].
func (t Tree) ID() string { return t.Name }

// Scan implements [treedir.Source].
func (t Tree) Scan(ctx context.Context, yield func(treedir.Entry) error) error {
	return t.ScanBelow(ctx, "", yield)
}

// ScanBelow is Scan for what is in a directory of the workspace.
func (t Tree) ScanBelow(ctx context.Context, dir string, yield func(treedir.Entry) error) error {
	x, err := t.Client.open(ctx, wire.KindScan, &wire.Path{Name: dir})
	if err == nil {
		defer x.close()
		err = x.scan(dir, yield)
	}
	if err != nil {
		return fmt.Errorf("list the workspace: %w", err)
	}
	return nil
}

func (x *exchange) scan(dir string, yield func(treedir.Entry) error) error {
	if err := wire.ReadReply(x.stream, nil); err != nil {
		return x.check(err)
	}
	x.watch.pause()
	in := wire.NewListReader(wire.NewBodyReader(body{x}))
	skipped := ""
	for n := int64(0); ; n++ {
		e, err := in.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return x.check(err)
		}
		if dir != "" && !strings.HasPrefix(e.Name, dir+"/") {
			return fmt.Errorf("%w: %q is not in %q", wire.ErrMalformed, e.Name, dir)
		}
		if skipped != "" && (e.Name == skipped || strings.HasPrefix(e.Name, skipped+"/")) {
			continue // it was on its way already
		}
		err = yield(e)
		if errors.Is(err, fs.SkipDir) && e.Mode.IsDir() {
			skipped = e.Name
			err = wire.WriteFrame(body{x}, wire.KindSkip, &wire.Skip{Entry: n})
			if err != nil {
				return x.check(err)
			}
		}
		if err != nil {
			return err
		}
	}
}

// Read implements [treedir.Source].
func (t Tree) Read(ctx context.Context, names iter.Seq[string], yield func(string, treedir.Opened, error) error) error {
	var some []string
	size := 0
	fetch := func() error {
		defer func() { some, size = some[:0], 0 }()
		for rest := some; len(rest) > 0; {
			done, err := t.fetch(ctx, rest, yield)
			if err != nil {
				return err
			}
			rest = rest[done:]
		}
		return nil
	}
	for name := range names {
		if len(name) > wire.MaxTreeName || strings.ContainsRune(name, 0) {
			return fmt.Errorf("read a file with a name of %d bytes: %w", len(name), fs.ErrInvalid)
		}
		some = append(some, name)
		if size += len(name); len(some) == wire.MaxFetch || size > wire.MaxTreeName {
			if err := fetch(); err != nil {
				return err
			}
		}
	}
	return fetch()
}

// fetch calls yield with files, and returns with how many.
func (t Tree) fetch(ctx context.Context, names []string, yield func(string, treedir.Opened, error) error) (done int, err error) {
	x, err := t.Client.open(ctx, wire.KindFetch, &wire.Names{Names: names})
	if err != nil {
		return 0, fmt.Errorf("read files: %w", err)
	}
	defer x.close()
	if err := wire.ReadReply(x.stream, nil); err != nil {
		return 0, fmt.Errorf("read files: %w", x.check(err))
	}
	x.watch.pause()
	in := wire.NewListReader(wire.NewBodyReader(body{x}))
	for _, name := range names {
		f := &fetched{x: x, in: in}
		f.entry, err = in.Next()
		if err == nil && (f.entry.Name != name || f.entry.Size < 0) {
			err = fmt.Errorf("%w: %q was not asked for", wire.ErrMalformed, f.entry.Name)
		}
		if err != nil {
			return done, fmt.Errorf("read %q: %w", name, x.check(atOnce(err)))
		}
		if failed := f.entry.Err; failed != nil {
			err = yield(name, nil, failed)
		} else if err = yield(name, f, nil); err == nil {
			err = f.finish()
		}
		done++
		if err != nil || f.cut {
			return done, err
		}
	}
	return done, nil
}

// fetched is a file while it is sent.
type fetched struct {
	x     *exchange
	in    *wire.ListReader
	entry treedir.Entry // first, how it was, and in the end how it is
	told  bool          // Stat has told how it was
	got   int64
	piece int  // what is left of one
	ended bool // entry is that of the end
	cut   bool // the rest is not worth waiting for
	err   error
}

// maxUnread is how much of a file is received without need, in bytes, rather than
// asking anew for those after it.
const maxUnread = 1 << 20

// Read implements io.Reader.
func (f *fetched) Read(p []byte) (int, error) {
	n, err := f.read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		f.err = f.x.check(err)
		err = f.err
	}
	return n, err
}

func (f *fetched) read(p []byte) (int, error) {
	switch {
	case f.err != nil:
		return 0, f.err
	case f.ended:
		return 0, io.EOF
	case f.piece == 0:
		n, err := f.in.Length(wire.MaxPiece)
		if err != nil {
			return 0, atOnce(err)
		}
		if n == 0 {
			return 0, f.end()
		}
		if f.got += int64(n); f.got > f.entry.Size {
			return 0, fmt.Errorf("%w: a file of %d bytes has more", wire.ErrMalformed, f.entry.Size)
		}
		f.piece = n
	}
	n, err := f.in.Read(p[:min(len(p), f.piece)])
	f.piece -= n
	return n, atOnce(err)
}

// end reads how the file is at its end.
func (f *fetched) end() error {
	name := f.entry.Name
	e, err := f.in.Next()
	if err == nil && e.Name != name {
		err = fmt.Errorf("%w: %q was not asked for", wire.ErrMalformed, e.Name)
	}
	if err != nil {
		return atOnce(err)
	}
	f.ended, f.entry = true, e
	return io.EOF
}

// finish receives the rest of the file, unless it is long.
func (f *fetched) finish() error {
	if f.err == nil && !f.ended && f.entry.Size-f.got > maxUnread {
		f.cut = true
		return nil
	}
	_, err := io.Copy(io.Discard, f)
	return err
}

// Stat implements [treedir.Opened]. The second time, it receives the rest of the
// file.
func (f *fetched) Stat() (treedir.Entry, error) {
	first := !f.told
	f.told = true
	if !first {
		if _, err := io.Copy(io.Discard, f); err != nil {
			return treedir.Entry{}, err
		}
	}
	return f.entry, f.entry.Err
}

// atOnce returns an error for the end of a body where it does not belong.
func atOnce(err error) error {
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: the files end too early", wire.ErrMalformed)
	}
	return err
}

// Make implements [treedir.Target].
func (t Tree) Make(ctx context.Context, s treedir.Step, content io.Reader) error {
	if content == nil {
		content = strings.NewReader("")
	}
	m := &wire.Made{}
	err := t.Client.upload(ctx, wire.KindMake, &wire.Step{Step: s}, m, func(w io.Writer) error {
		_, err := io.Copy(w, content)
		return err
	})
	switch {
	case err != nil:
		return fmt.Errorf("change %q: %w", s.Name, err)
	case m.Conflict:
		return &treedir.ConflictError{Why: m.Why, Kept: m.Kept}
	}
	return nil
}

// Sync implements [treedir.Target].
func (t Tree) Sync(ctx context.Context) error {
	if err := t.Client.call(ctx, wire.KindSync, &wire.Empty{}, nil); err != nil {
		return fmt.Errorf("sync the workspace: %w", err)
	}
	return nil
}
