package server

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/x/pygent/internal/guest/wire"
	"github.com/x/pygent/internal/treedir"
)

// trees is the workspace as a store takes it and changes it.
type trees struct {
	mu     sync.Mutex // held while a step is made
	target *treedir.Local
}

func newTrees(root *os.Root, o *owner) *trees {
	var give func(*os.Root, string)
	if o != nil {
		give = func(dir *os.Root, base string) { _ = dir.Lchown(base, o.UID, o.GID) }
	}
	return &trees{target: treedir.New(root, give)}
}

// scan tells what is in a directory.
func (st *state) scan(ctx context.Context, stream *fileStream, payload []byte) error {
	m := &wire.Path{}
	if err := wire.Decode(payload, m); err != nil {
		return err
	}
	if err := wire.WriteFrame(stream, wire.KindReply, nil); err != nil {
		return nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := &scanner{skip: map[int64]bool{}}
	defer watch(stream.Stream, s.listen)()
	body := wire.NewBodyWriter(stream)
	s.out = wire.NewListWriter(body)
	_ = body.Finish(treedir.New(st.root, nil).ScanBelow(ctx, m.Name, s.entry))
	return nil
}

// scanner sends what a scan finds. The host does not wait for it, nor it for the
// host: what is already on its way when the host skips a directory is sent in vain.
type scanner struct {
	out  *wire.ListWriter
	sent int64
	way  []sentDir // the directories on the way to the last entry

	mu   sync.Mutex // guards skip
	skip map[int64]bool
}

// sentDir is a directory, and its number among the entries.
type sentDir struct {
	name  string
	entry int64
}

// listen notes what the host skips.
func (s *scanner) listen(r io.Reader) error {
	for {
		kind, payload, err := wire.ReadFrame(r, 64)
		if err != nil {
			return err
		}
		m := &wire.Skip{}
		if err := wire.Decode(payload, m); err != nil || kind != wire.KindSkip {
			return errors.Join(wire.ErrMalformed, err)
		}
		s.mu.Lock()
		s.skip[m.Entry] = true
		s.mu.Unlock()
	}
}

func (s *scanner) entry(e treedir.Entry) error {
	e.Err = withoutPath(e.Err)
	for n := len(s.way); n > 0 && !strings.HasPrefix(e.Name, s.way[n-1].name+"/"); n-- {
		s.way = s.way[:n-1]
	}
	if s.skipped() {
		if e.Mode.IsDir() {
			return filepath.SkipDir
		}
		return nil
	}
	if e.Mode.IsDir() && e.Err == nil {
		s.way = append(s.way, sentDir{e.Name, s.sent})
	}
	s.sent++
	return s.out.Write(e)
}

// skipped reports whether the host skips one of the directories on the way.
func (s *scanner) skipped() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.skip) > 0 && slices.ContainsFunc(s.way, func(d sentDir) bool { return s.skip[d.entry] })
}

// fetch sends files.
func (st *state) fetch(ctx context.Context, stream *fileStream, payload []byte) error {
	m := &wire.Names{}
	if err := wire.Decode(payload, m); err != nil {
		return err
	}
	if err := wire.WriteFrame(stream, wire.KindReply, nil); err != nil {
		return nil
	}
	defer abandon(stream.Stream)()
	body := wire.NewBodyWriter(stream)
	f := fetcher{body: body, out: wire.NewListWriter(body), buf: make([]byte, wire.MaxPiece)}
	_ = body.Finish(treedir.New(st.root, nil).Read(ctx, slices.Values(m.Names), f.file))
	return nil
}

type fetcher struct {
	body io.Writer
	out  *wire.ListWriter
	buf  []byte
}

// file sends a file, as much of it as it had when it was opened.
func (f *fetcher) file(name string, file treedir.Opened, err error) error {
	var e treedir.Entry
	if err == nil {
		e, err = file.Stat()
	}
	if err != nil {
		return f.out.Write(treedir.Entry{Name: name, Err: withoutPath(err)})
	}
	if err := f.out.Write(e); err != nil {
		return err
	}
	content := io.LimitReader(file, e.Size)
	for err == nil {
		var n int
		n, err = content.Read(f.buf)
		if n > 0 {
			if err := wire.WritePiece(f.body, f.buf[:n]); err != nil {
				return err
			}
		}
	}
	if werr := wire.WritePiece(f.body, nil); werr != nil {
		return werr
	}
	if errors.Is(err, io.EOF) {
		e, err = file.Stat()
	}
	if err != nil {
		e = treedir.Entry{Name: name, Err: withoutPath(err)}
	}
	return f.out.Write(e)
}

// withoutPath returns an error for the host, which knows the path.
func withoutPath(err error) error {
	if err == nil {
		return nil
	}
	f := wire.AsFailure(err)
	f.Text = treedir.Reason(err)
	return f
}

// step makes a step with the content that follows.
func (st *state) step(ctx context.Context, stream *fileStream, payload []byte) error {
	m := &wire.Step{}
	if err := wire.Decode(payload, m); err != nil {
		return err
	}
	reply := &wire.Made{}
	err := st.trees.do(func(t *treedir.Local) error { return t.Make(ctx, m.Step, wire.NewBodyReader(stream)) })
	var conflict *treedir.ConflictError
	if errors.As(err, &conflict) {
		*reply, err = wire.Made{Conflict: true, Why: conflict.Why, Kept: conflict.Kept}, nil
	}
	if err != nil {
		return err
	}
	return wire.WriteFrame(stream, wire.KindReply, reply)
}

// do uses the target, and leaves nothing of it open: commands may move the
// directories before the next step.
func (t *trees) do(f func(*treedir.Local) error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return errors.Join(f(t.target), t.target.Leave())
}
