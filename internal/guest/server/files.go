package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/yamux"

	"github.com/x/pygent/internal/guest/ownership"
	"github.com/x/pygent/internal/guest/wire"
	"github.com/x/pygent/internal/tree"
	"github.com/x/pygent/internal/treedir"
)

// answerFile handles a request about files. All access goes through the
// workspace's os.Root, so that no path and no symbolic link leads out of it.
func (s *Server) answerFile(ctx context.Context, st *state, stream *fileStream, kind wire.Kind, payload []byte) error {
	switch kind {
	case wire.KindRead:
		return st.readRequest(stream, s.out, payload)
	case wire.KindWrite:
		defer stream.body(s.in)()
		return st.write(stream, payload)
	case wire.KindStat:
		return pathReply(st, stream, payload, func(name string, _ *wire.Path) (wire.Message, error) { return st.stat(name) })
	case wire.KindList:
		return pathReply(st, stream, payload, func(name string, _ *wire.Path) (wire.Message, error) { return st.list(name) })
	case wire.KindMkdir:
		return pathReply(st, stream, payload, func(name string, _ *wire.Path) (wire.Message, error) {
			return &wire.Empty{}, st.mkdirAll(name)
		})
	case wire.KindRemove:
		return pathReply(st, stream, payload, func(name string, m *wire.Path) (wire.Message, error) {
			return &wire.Empty{}, st.remove(name, m.All)
		})
	case wire.KindOwn:
		return pathReply(st, stream, payload, func(name string, _ *wire.Path) (wire.Message, error) {
			return &wire.Empty{}, st.own(name)
		})
	case wire.KindTarIn:
		defer stream.body(s.in)()
		return pathReply(st, stream, payload, func(name string, m *wire.Path) (wire.Message, error) {
			return st.tarIn(stream, name, m)
		})
	case wire.KindTarOut:
		defer stream.body(s.out)()
		return pathRequest(st, payload, func(name string, _ *wire.Path) error { return st.tarOut(stream, name) })
	case wire.KindScan:
		defer stream.body(s.out)()
		return st.scan(ctx, stream, payload)
	case wire.KindFetch:
		defer stream.body(s.out)()
		return st.fetch(ctx, stream, payload)
	case wire.KindMake:
		defer stream.body(s.in)()
		return st.step(ctx, stream, payload)
	case wire.KindSync:
		return request(stream, payload, func(*wire.Empty) (*wire.Empty, error) {
			return &wire.Empty{}, st.trees.do(func(t *treedir.Local) error { return t.Sync(ctx) })
		})
	default:
		return fmt.Errorf("%w: kind %d as a request", wire.ErrMalformed, kind)
	}
}

// pathRequest decodes a request about a path and handles it.
func pathRequest(st *state, payload []byte, handle func(name string, m *wire.Path) error) error {
	m := &wire.Path{}
	if err := wire.Decode(payload, m); err != nil {
		return err
	}
	name, err := st.local(m.Name)
	if err != nil {
		return err
	}
	return handle(name, m)
}

// pathReply decodes a request about a path, handles it and sends the answer.
func pathReply(st *state, w io.Writer, payload []byte, handle func(name string, m *wire.Path) (wire.Message, error)) error {
	return pathRequest(st, payload, func(name string, m *wire.Path) error {
		reply, err := handle(name, m)
		if err != nil {
			return err
		}
		return wire.WriteFrame(w, wire.KindReply, reply)
	})
}

// local returns a path relative to the workspace.
func (st *state) local(name string) (string, error) {
	if strings.ContainsRune(name, 0) {
		return "", fmt.Errorf("%q: %w", name, fs.ErrInvalid)
	}
	p := filepath.FromSlash(name)
	if filepath.IsAbs(p) {
		rel, err := filepath.Rel(st.workspace, p)
		if err != nil {
			return "", fmt.Errorf("%s: %w", name, wire.ErrEscapes)
		}
		p = rel
	}
	if p = filepath.Clean(p); !filepath.IsLocal(p) {
		return "", fmt.Errorf("%s: %w", name, wire.ErrEscapes)
	}
	return p, nil
}

// openRegular opens a regular file for reading. It does not block on a named
// pipe.
func openRegular(root *os.Root, name string) (*os.File, error) {
	file, err := root.OpenFile(name, os.O_RDONLY|nonblock, 0)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s: %w", name, wire.ErrNotRegular)
	}
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	return file, nil
}

// readRequest answers a request to read a file: of the workspace, or one with the
// output of a command.
func (st *state) readRequest(stream *fileStream, out *bodies, payload []byte) error {
	m := &wire.Path{}
	if err := wire.Decode(payload, m); err != nil {
		return err
	}
	if file, err := st.spills.open(m.Name); file != nil || err != nil {
		return st.read(stream, out, file, err, m)
	}
	name, err := st.local(m.Name)
	if err != nil {
		return err
	}
	file, err := openRegular(st.root, name)
	return st.read(stream, out, file, err, m)
}

// read sends the description of a file and then the requested part of its
// content, and closes the file. A long part needs a place in out.
func (st *state) read(stream *fileStream, out *bodies, file *os.File, err error, m *wire.Path) error {
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if err := wire.WriteFrame(stream, wire.KindReply, describe(info)); err != nil {
		return nil
	}
	defer abandon(stream.Stream)()
	limit := m.Limit
	if limit < 0 {
		limit = 1<<63 - 1 - max(m.Offset, 0)
	}
	if min(limit, info.Size()-max(m.Offset, 0)) > shortBody {
		defer stream.body(out)()
	}
	body := wire.NewBodyWriter(stream)
	_, err = io.Copy(body, io.NewSectionReader(file, max(m.Offset, 0), limit))
	_ = body.Finish(err)
	return nil
}

// abandon makes writes to the stream fail once the host has closed it. The
// returned function must be called when everything is written.
func abandon(stream *yamux.Stream) (done func()) {
	return watch(stream, func(r io.Reader) error {
		var b [1]byte
		_, err := r.Read(b[:])
		return err
	})
}

// watch is abandon for a stream on which the host may send something meanwhile.
// listen reads that until there is an error.
func watch(stream *yamux.Stream, listen func(io.Reader) error) (done func()) {
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		if err := listen(stream); !errors.Is(err, yamux.ErrTimeout) {
			_ = stream.SetWriteDeadline(time.Unix(1, 0))
		}
	}()
	return func() {
		_ = stream.SetReadDeadline(time.Unix(1, 0))
		<-watched
	}
}

// write replaces a file by the body that follows. The file is replaced as a
// whole or not at all.
func (st *state) write(stream *fileStream, payload []byte) error {
	m := &wire.Write{}
	if err := wire.Decode(payload, m); err != nil {
		return err
	}
	name, err := st.local(m.Name)
	if err != nil {
		return err
	}
	if name, err = st.target(name); err != nil {
		return err
	}
	if err := st.replace(name, m.Mode, wire.NewBodyReader(stream)); err != nil {
		return err
	}
	return wire.WriteFrame(stream, wire.KindReply, nil)
}

// target follows symbolic links in the last element of a path, so that writing
// to a link changes the file that it names.
func (st *state) target(name string) (string, error) {
	for range 16 {
		info, err := st.root.Lstat(name)
		if err != nil || info.Mode()&fs.ModeSymlink == 0 {
			return name, nil // the caller finds out that it does not exist
		}
		to, err := st.root.Readlink(name)
		if err != nil {
			return "", err
		}
		if !filepath.IsAbs(to) {
			to = filepath.Join(filepath.Dir(name), to)
		}
		if name, err = st.local(to); err != nil {
			return "", err
		}
	}
	return "", fmt.Errorf("%s: too many symbolic links: %w", name, fs.ErrInvalid)
}

// replace writes a new file in the same directory and renames it to name.
func (st *state) replace(name string, mode fs.FileMode, body io.Reader) error {
	if mode = mode.Perm(); mode == 0 {
		mode = 0o644
	}
	owner, old := st.owner, false
	switch info, err := st.root.Lstat(name); {
	case err == nil && !info.Mode().IsRegular():
		return fmt.Errorf("%s: %w", name, wire.ErrNotRegular)
	case err == nil:
		old, mode = true, info.Mode().Perm()
		if o := ownerOfInfo(info); o != nil && os.Getuid() == 0 {
			owner = o
		}
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if err := st.mkdirAll(filepath.Dir(name)); err != nil {
		return err
	}
	// math/rand is seeded by the kernel, and O_EXCL refuses a name that exists.
	// So crypto/rand would only make the program larger.
	temp := filepath.Join(filepath.Dir(name), ".pygent-"+strconv.FormatUint(rand.Uint64(), 36)+strconv.FormatUint(rand.Uint64(), 36))
	file, err := st.root.OpenFile(temp, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	_, err = io.CopyBuffer(onlyWriter{file}, body, make([]byte, 64<<10))
	if old && err == nil {
		err = file.Chmod(mode)
	}
	if err = errors.Join(err, file.Close()); err == nil {
		st.give(temp, owner)
		err = st.root.Rename(temp, name)
	}
	if err != nil {
		_ = st.root.Remove(temp)
	}
	return err
}

// onlyWriter hides the file's ReadFrom method, so that io.CopyBuffer uses the
// given buffer.
type onlyWriter struct{ io.Writer }

// mkdirAll makes a directory and its parents, and gives the new directories to
// the owner.
func (st *state) mkdirAll(name string) error {
	if name == "." {
		return nil
	}
	err := st.root.Mkdir(name, 0o755)
	if errors.Is(err, fs.ErrNotExist) && filepath.Dir(name) != name {
		if err = st.mkdirAll(filepath.Dir(name)); err == nil {
			err = st.root.Mkdir(name, 0o755)
		}
	}
	if err == nil {
		st.give(name, st.owner)
		return nil
	}
	if info, statErr := st.root.Stat(name); statErr == nil && info.IsDir() {
		return nil
	}
	return err
}

// give changes the owner of a new file. If that is not allowed, the file keeps
// the guest's user.
func (st *state) give(name string, o *owner) {
	if o != nil {
		_ = st.root.Lchown(name, o.UID, o.GID)
	}
}

// own gives a file, or a directory and everything below it, to the owner of the
// workspace.
func (st *state) own(name string) error {
	o := st.owner
	if o == nil {
		o = ownerOf(st.root)
	}
	if o == nil {
		return nil
	}
	info, err := st.root.Lstat(name)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return st.root.Lchown(name, o.UID, o.GID)
	}
	dir, err := st.root.OpenFile(name, os.O_RDONLY|nonblock, 0)
	if err != nil {
		return err
	}
	defer dir.Close()
	return ownership.Tree(dir, o.UID, o.GID, st.since)
}

// stat describes a file without following a symbolic link.
func (st *state) stat(name string) (*wire.Info, error) {
	info, err := st.root.Lstat(name)
	if err != nil {
		return nil, err
	}
	m := describe(info)
	if info.Mode()&fs.ModeSymlink != 0 {
		m.Target, _ = st.root.Readlink(name)
	}
	return m, nil
}

func describe(info fs.FileInfo) *wire.Info {
	return &wire.Info{Name: info.Name(), Size: info.Size(), Mode: info.Mode(), ModTime: info.ModTime()}
}

// maxListed is the largest total size of the names in a listing, in bytes, so
// that the listing fits into a reply.
const maxListed = 4 << 20

// list describes the content of a directory, sorted by name.
func (st *state) list(name string) (*wire.Infos, error) {
	dir, err := st.root.OpenFile(name, os.O_RDONLY|nonblock, 0)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	m, size := &wire.Infos{}, 0
	for !m.More {
		entries, err := dir.ReadDir(1024)
		for _, entry := range entries {
			size += len(entry.Name()) + 64
			if len(m.Infos) == wire.MaxList || size > maxListed {
				m.More = true
				break
			}
			if info, err := entry.Info(); err == nil {
				m.Infos = append(m.Infos, *describe(info))
			}
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
	}
	slices.SortFunc(m.Infos, func(a, b wire.Info) int { return strings.Compare(a.Name, b.Name) })
	return m, nil
}

// remove removes a file or an empty directory; with all, a directory and its
// content. The workspace itself is only emptied.
func (st *state) remove(name string, all bool) error {
	switch {
	case name == "." && all:
		return tree.Empty(st.root, name)
	case name == ".":
		return fmt.Errorf("remove the workspace: %w", fs.ErrInvalid)
	case all:
		return tree.Remove(st.root, name)
	default:
		return st.root.Remove(name)
	}
}

// tarIn unpacks the archive that follows into a directory.
func (st *state) tarIn(stream *fileStream, name string, m *wire.Path) (wire.Message, error) {
	options := tree.ExtractOptions{Limits: tree.Limits{Bytes: m.Limit, Entries: m.Entries}, Into: name, Open: true}
	if st.owner != nil {
		options.Owner = &tree.Owner{UID: st.owner.UID, GID: st.owner.GID}
	}
	placed, err := tree.Extract(wire.NewBodyReader(stream), st.root, options)
	return &wire.Placed{Files: int64(placed.Files), Replaced: int64(placed.Replaced)}, err
}

// tarOut sends an archive of a file or directory.
func (st *state) tarOut(stream *fileStream, name string) error {
	if _, err := st.root.Stat(name); err != nil {
		return err
	}
	if err := wire.WriteFrame(stream, wire.KindReply, nil); err != nil {
		return nil
	}
	defer abandon(stream.Stream)()
	body := wire.NewBodyWriter(stream)
	_ = body.Finish(tree.Pack(body, st.root, name, tree.PackOptions{}))
	return nil
}
