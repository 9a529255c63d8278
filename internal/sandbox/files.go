package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/x/pygent/internal/guest"
	"github.com/x/pygent/internal/tree"
	"github.com/x/pygent/internal/workspace"
)

// Files are the files of a workspace, as a sandbox's methods see them. Paths
// are slash-separated, relative to the workspace or absolute inside it, and
// never lead out of it. Implementations are safe for concurrent use.
type Files interface {
	ReadFile(ctx context.Context, name string, limit int64) ([]byte, error)
	ReadRange(ctx context.Context, name string, offset, limit int64) ([]byte, int64, error)
	WriteFile(ctx context.Context, name string, data []byte) error
	// ReadTo copies a file from offset on to w. WriteFrom writes what r has.
	ReadTo(ctx context.Context, name string, offset int64, w io.Writer) (int64, error)
	WriteFrom(ctx context.Context, name string, r io.Reader) error
	// Lstat describes a file, and does not follow links. List describes what is in
	// a directory, without the targets of links: the first by name, at most limit;
	// more says that it is not all.
	Lstat(ctx context.Context, name string) (guest.FileInfo, error)
	List(ctx context.Context, name string, limit int) (files []guest.FileInfo, more bool, err error)
	// Remove removes a file or an empty directory; with all, any directory.
	Remove(ctx context.Context, name string, all bool) error
	// isDir reports whether name is a directory; links are followed inside the
	// workspace.
	IsDir(ctx context.Context, name string) (bool, error)
	// Pack calls take with an archive of a file or directory to read. Unpack calls
	// fill to write an archive, and unpacks it below a directory. See package tree.
	Pack(ctx context.Context, name string, take func(io.Reader) error) error
	Unpack(ctx context.Context, dir string, fill func(io.Writer) error) (tree.Placed, error)
	// directory returns a directory's path relative to the workspace.
	Directory(ctx context.Context, name string) (string, error)
}

// Near are [Files] that may be on this machine. Then it copies them itself, without
// an archive. If done is false, they have to be copied in the other way.
type Near interface {
	// CopyIn copies into a directory; a file gets the name as there.
	CopyIn(ctx context.Context, src *workspace.Source, dir, as string) (done bool, err error)
	// CopyOut copies a file or directory.
	CopyOut(ctx context.Context, name string, to *workspace.Destination, limits tree.Limits) (done bool, err error)
}

// HostFiles are files in a directory of this machine.
type HostFiles struct{ Tree *workspace.Tree }

func (h HostFiles) ReadFile(_ context.Context, name string, limit int64) ([]byte, error) {
	return h.Tree.ReadFile(name, limit)
}

func (h HostFiles) ReadRange(_ context.Context, name string, offset, limit int64) ([]byte, int64, error) {
	return h.Tree.ReadRange(name, offset, limit)
}

func (h HostFiles) WriteFile(_ context.Context, name string, data []byte) error {
	return h.Tree.WriteFile(name, data)
}

func (h HostFiles) ReadTo(ctx context.Context, name string, offset int64, w io.Writer) (int64, error) {
	return h.Tree.ReadTo(name, offset, writerUntil{ctx, w})
}

func (h HostFiles) WriteFrom(ctx context.Context, name string, r io.Reader) error {
	return h.Tree.WriteFrom(name, readerUntil{ctx, r})
}

func (h HostFiles) Lstat(_ context.Context, name string) (guest.FileInfo, error) {
	info, target, err := h.Tree.Lstat(name)
	if err != nil {
		return guest.FileInfo{}, err
	}
	f := fileInfo(info)
	f.Target = target
	return f, nil
}

func (h HostFiles) List(_ context.Context, name string, limit int) (files []guest.FileInfo, more bool, err error) {
	infos, more, err := h.Tree.List(name, limit)
	for _, info := range infos {
		files = append(files, fileInfo(info))
	}
	return files, more, err
}

func fileInfo(info fs.FileInfo) guest.FileInfo {
	return guest.FileInfo{Name: info.Name(), Size: info.Size(), Mode: info.Mode(), ModTime: info.ModTime()}
}

func (h HostFiles) Remove(_ context.Context, name string, all bool) error {
	return h.Tree.Remove(name, all)
}

func (h HostFiles) IsDir(_ context.Context, name string) (bool, error) {
	info, err := h.Tree.Stat(name)
	return err == nil && info.IsDir(), err
}

func (h HostFiles) Pack(ctx context.Context, name string, take func(io.Reader) error) error {
	return h.Tree.Pack(ctx, name, take)
}

func (h HostFiles) Unpack(ctx context.Context, dir string, fill func(io.Writer) error) (tree.Placed, error) {
	return h.Tree.Unpack(ctx, dir, fill)
}

// CopyIn implements [Near].
func (h HostFiles) CopyIn(ctx context.Context, src *workspace.Source, dir, as string) (bool, error) {
	return true, h.Tree.CopyIn(ctx, src, dir, as, tree.ExtractOptions{})
}

// CopyOut implements [Near].
func (h HostFiles) CopyOut(ctx context.Context, name string, to *workspace.Destination, limits tree.Limits) (bool, error) {
	return true, h.Tree.CopyOut(ctx, name, to, limits)
}

func (h HostFiles) Directory(_ context.Context, name string) (string, error) {
	dir, err := h.Tree.Rel(name)
	if err != nil || dir == "." {
		return dir, err
	}
	info, err := h.Tree.Stat(dir)
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s: not a directory", name)
	}
	return dir, err
}

// GuestFiles are files where the guest runs. The guest is the confinement: a
// link that leads out of the workspace leads nowhere.
type GuestFiles struct {
	Client *guest.Client
	Tree   *workspace.Tree // knows which absolute paths lie inside; nil where any may be named
}

// rel returns name as the guest knows it.
func (g GuestFiles) rel(name string) (string, error) {
	if g.Tree == nil {
		return name, nil
	}
	rel, err := g.Tree.Rel(name)
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	return rel, nil
}

// errorAt names the path as the caller wrote it, and puts the guest's error in
// the same words as that of a file of this machine.
func (g GuestFiles) errorAt(name string, err error) error {
	if err == nil {
		return nil
	}
	for _, known := range []struct{ is, say error }{
		{guest.ErrEscapes, workspace.ErrOutside},
		{fs.ErrNotExist, syscall.ENOENT},
		{fs.ErrPermission, syscall.EACCES},
		{fs.ErrExist, syscall.EEXIST},
		{guest.ErrNotRegular, guest.ErrNotRegular},
	} {
		if errors.Is(err, known.is) {
			return fmt.Errorf("%s: %w", name, known.say)
		}
	}
	return g.toldAt(name, err)
}

// toldAt names the path as the caller wrote it, before the guest's own words.
func (g GuestFiles) toldAt(name string, err error) error {
	rel, _ := g.rel(name)
	return fmt.Errorf("%s: %w", name, &shortError{text: withoutPath(err.Error(), rel), err: err})
}

// shortError is an error whose text does not name its file.
type shortError struct {
	text string
	err  error
}

func (e *shortError) Error() string { return e.text }
func (e *shortError) Unwrap() error { return e.err }

// withoutPath removes what was being done, such as "openat name: ", from the
// beginning of an error's text.
func withoutPath(text, name string) string {
	for {
		doing, rest, found := strings.Cut(text, " "+name+": ")
		if !found || strings.ContainsAny(doing, " :") {
			return text
		}
		text = rest
	}
}

// filesWith returns the files that have a path: those of the workspace, or those
// with the long outputs of commands, which the guest keeps outside of it.
func (r *Sandbox) filesWith(name string) Files {
	if client := r.outputsOn.Load(); client != nil {
		if dir := client.Info().Spill; dir != "" && path.Dir(filepath.ToSlash(name)) == filepath.ToSlash(dir) {
			return GuestFiles{Client: client}
		}
	}
	return r.files
}

func (g GuestFiles) ReadFile(ctx context.Context, name string, limit int64) ([]byte, error) {
	data, size, err := g.ReadRange(ctx, name, 0, limit+1)
	if err == nil && size > limit {
		err = fmt.Errorf("%s: %w: %d bytes, more than %d", name, workspace.ErrTooLarge, size, limit)
	}
	if err != nil {
		return nil, err
	}
	return data, nil
}

func (g GuestFiles) ReadRange(ctx context.Context, name string, offset, limit int64) ([]byte, int64, error) {
	if offset < 0 || limit < 0 {
		return nil, 0, fmt.Errorf("%s: offset and limit must not be negative", name)
	}
	rel, err := g.rel(name)
	if err != nil {
		return nil, 0, err
	}
	var b bytes.Buffer
	info, err := g.Client.ReadFile(ctx, rel, &b, offset, limit)
	if err != nil {
		return nil, 0, g.errorAt(name, err)
	}
	return b.Bytes(), info.Size, nil
}

func (g GuestFiles) WriteFile(ctx context.Context, name string, data []byte) error {
	rel, err := g.rel(name)
	if err != nil {
		return err
	}
	return g.errorAt(name, g.Client.WriteFile(ctx, rel, bytes.NewReader(data), 0))
}

func (g GuestFiles) ReadTo(ctx context.Context, name string, offset int64, w io.Writer) (int64, error) {
	if offset < 0 {
		return 0, fmt.Errorf("%s: negative offset", name)
	}
	rel, err := g.rel(name)
	if err != nil {
		return 0, err
	}
	counted := &countingWriter{w: w}
	_, err = g.Client.ReadFile(ctx, rel, counted, offset, -1)
	if counted.err != nil {
		return counted.n, counted.err
	}
	return counted.n, g.errorAt(name, err)
}

func (g GuestFiles) WriteFrom(ctx context.Context, name string, r io.Reader) error {
	rel, err := g.rel(name)
	if err != nil {
		return err
	}
	return g.errorAt(name, g.Client.WriteFile(ctx, rel, readerUntil{ctx, r}, 0))
}

func (g GuestFiles) Lstat(ctx context.Context, name string) (guest.FileInfo, error) {
	rel, err := g.rel(name)
	if err != nil {
		return guest.FileInfo{}, err
	}
	info, err := g.Client.Stat(ctx, rel)
	return info, g.errorAt(name, err)
}

func (g GuestFiles) List(ctx context.Context, name string, limit int) ([]guest.FileInfo, bool, error) {
	rel, err := g.rel(name)
	if err != nil {
		return nil, false, err
	}
	files, more, err := g.Client.List(ctx, rel)
	if len(files) > limit { // which are sorted, if the guest is honest
		files, more = files[:limit], true
	}
	return files, more, g.errorAt(name, err)
}

func (g GuestFiles) Remove(ctx context.Context, name string, all bool) error {
	rel, err := g.rel(name)
	if err != nil {
		return err
	}
	return g.errorAt(name, g.Client.Remove(ctx, rel, all))
}

func (g GuestFiles) Directory(ctx context.Context, name string) (string, error) {
	rel, err := g.rel(name)
	if err != nil || rel == "." {
		return rel, err
	}
	if _, _, err := g.Client.List(ctx, rel); err != nil {
		return "", g.errorAt(name, err)
	}
	return rel, nil
}

func (g GuestFiles) IsDir(ctx context.Context, name string) (bool, error) {
	rel, err := g.rel(name)
	if err != nil {
		return false, err
	}
	info, err := g.Client.Stat(ctx, rel)
	if err == nil && info.Mode&fs.ModeSymlink != 0 {
		_, _, notDir := g.Client.List(ctx, rel)
		return notDir == nil, nil
	}
	return err == nil && info.Mode.IsDir(), g.errorAt(name, err)
}

func (g GuestFiles) Pack(ctx context.Context, name string, take func(io.Reader) error) error {
	rel, err := g.rel(name)
	if err != nil {
		return err
	}
	return g.errorAt(name, g.Client.Pack(ctx, rel, take))
}

func (g GuestFiles) Unpack(ctx context.Context, dir string, fill func(io.Writer) error) (tree.Placed, error) {
	rel, err := g.rel(dir)
	if err != nil {
		return tree.Placed{}, err
	}
	placed, err := g.Client.Unpack(ctx, rel, fill)
	if errors.Is(err, fs.ErrExist) {
		return placed, g.toldAt(dir, err) // the guest says which of the files is in the way
	}
	return placed, g.errorAt(dir, err)
}
