package pygent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"syscall"

	"github.com/x/pygent/internal/guest"
	"github.com/x/pygent/internal/workspace"
)

// files are the files of a workspace, as a runtime's methods see them. Paths
// are slash-separated, relative to the workspace or absolute inside it, and
// never lead out of it. Implementations are safe for concurrent use.
type files interface {
	readFile(ctx context.Context, name string, limit int64) ([]byte, error)
	readRange(ctx context.Context, name string, offset, limit int64) ([]byte, int64, error)
	writeFile(ctx context.Context, name string, data []byte) error
	// isDir reports whether name is a directory; links are followed inside the
	// workspace.
	isDir(ctx context.Context, name string) (bool, error)
	// pack has take read the archive of a file or directory, and unpack unpacks
	// the one that fill writes below a directory: see package tree.
	pack(ctx context.Context, name string, take func(io.Reader) error) error
	unpack(ctx context.Context, dir string, fill func(io.Writer) error) error
	// directory returns a directory's path relative to the workspace.
	directory(ctx context.Context, name string) (string, error)
}

// hostFiles are files in a directory of this machine.
type hostFiles struct{ tree *workspace.Tree }

func (h hostFiles) readFile(_ context.Context, name string, limit int64) ([]byte, error) {
	return h.tree.ReadFile(name, limit)
}

func (h hostFiles) readRange(_ context.Context, name string, offset, limit int64) ([]byte, int64, error) {
	return h.tree.ReadRange(name, offset, limit)
}

func (h hostFiles) writeFile(_ context.Context, name string, data []byte) error {
	return h.tree.WriteFile(name, data)
}

func (h hostFiles) isDir(_ context.Context, name string) (bool, error) {
	info, err := h.tree.Stat(name)
	return err == nil && info.IsDir(), err
}

func (h hostFiles) pack(ctx context.Context, name string, take func(io.Reader) error) error {
	return h.tree.Pack(ctx, name, take)
}

func (h hostFiles) unpack(ctx context.Context, dir string, fill func(io.Writer) error) error {
	return h.tree.Unpack(ctx, dir, fill)
}

func (h hostFiles) directory(_ context.Context, name string) (string, error) {
	dir, err := h.tree.Rel(name)
	if err != nil || dir == "." {
		return dir, err
	}
	info, err := h.tree.Stat(dir)
	if err == nil && !info.IsDir() {
		err = fmt.Errorf("%s: not a directory", name)
	}
	return dir, err
}

// guestFiles are files where the guest runs. The guest is the confinement: a
// link that leads out of the workspace leads nowhere.
type guestFiles struct {
	client *guest.Client
	tree   *workspace.Tree // knows which absolute paths lie inside
}

// rel returns name as the guest knows it.
func (g guestFiles) rel(name string) (string, error) {
	rel, err := g.tree.Rel(name)
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	return rel, nil
}

// errorAt names the path as the caller wrote it, and puts the guest's error in
// the same words as that of a file of this machine.
func (g guestFiles) errorAt(name string, err error) error {
	if err == nil {
		return nil
	}
	for _, known := range []struct{ is, say error }{
		{guest.ErrEscapes, ErrOutsideWorkspace},
		{fs.ErrNotExist, syscall.ENOENT},
		{fs.ErrPermission, syscall.EACCES},
		{fs.ErrExist, syscall.EEXIST},
		{guest.ErrNotRegular, guest.ErrNotRegular},
	} {
		if errors.Is(err, known.is) {
			return fmt.Errorf("%s: %w", name, known.say)
		}
	}
	return fmt.Errorf("%s: %w", name, err)
}

func (g guestFiles) readFile(ctx context.Context, name string, limit int64) ([]byte, error) {
	data, size, err := g.readRange(ctx, name, 0, limit+1)
	if err == nil && size > limit {
		err = fmt.Errorf("%s: %w: %d bytes, more than %d", name, ErrFileTooLarge, size, limit)
	}
	if err != nil {
		return nil, err
	}
	return data, nil
}

func (g guestFiles) readRange(ctx context.Context, name string, offset, limit int64) ([]byte, int64, error) {
	if offset < 0 || limit < 0 {
		return nil, 0, fmt.Errorf("%s: offset and limit must not be negative", name)
	}
	rel, err := g.rel(name)
	if err != nil {
		return nil, 0, err
	}
	var b bytes.Buffer
	info, err := g.client.ReadFile(ctx, rel, &b, offset, limit)
	if err != nil {
		return nil, 0, g.errorAt(name, err)
	}
	return b.Bytes(), info.Size, nil
}

func (g guestFiles) writeFile(ctx context.Context, name string, data []byte) error {
	rel, err := g.rel(name)
	if err != nil {
		return err
	}
	return g.errorAt(name, g.client.WriteFile(ctx, rel, bytes.NewReader(data), 0))
}

func (g guestFiles) directory(ctx context.Context, name string) (string, error) {
	rel, err := g.rel(name)
	if err != nil || rel == "." {
		return rel, err
	}
	if _, _, err := g.client.List(ctx, rel); err != nil {
		return "", g.errorAt(name, err)
	}
	return rel, nil
}

func (g guestFiles) isDir(ctx context.Context, name string) (bool, error) {
	rel, err := g.rel(name)
	if err != nil {
		return false, err
	}
	info, err := g.client.Stat(ctx, rel)
	if err == nil && info.Mode&fs.ModeSymlink != 0 {
		_, _, notDir := g.client.List(ctx, rel)
		return notDir == nil, nil
	}
	return err == nil && info.Mode.IsDir(), g.errorAt(name, err)
}

func (g guestFiles) pack(ctx context.Context, name string, take func(io.Reader) error) error {
	rel, err := g.rel(name)
	if err != nil {
		return err
	}
	return g.errorAt(name, g.client.Pack(ctx, rel, take))
}

func (g guestFiles) unpack(ctx context.Context, dir string, fill func(io.Writer) error) error {
	rel, err := g.rel(dir)
	if err != nil {
		return err
	}
	return g.errorAt(dir, g.client.Unpack(ctx, rel, fill))
}
