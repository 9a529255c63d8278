package pygent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/x/pygent/internal/guest"
	"github.com/x/pygent/internal/guest/archive"
	"github.com/x/pygent/internal/workspace"
)

// files are the files of a workspace, as a runtime's methods see them. Paths
// are slash-separated, relative to the workspace or absolute inside it, and
// never lead out of it. Implementations are safe for concurrent use.
type files interface {
	readFile(ctx context.Context, name string, limit int64) ([]byte, error)
	readRange(ctx context.Context, name string, offset, limit int64) ([]byte, int64, error)
	writeFile(ctx context.Context, name string, data []byte) error
	upload(ctx context.Context, src, name string) error
	export(ctx context.Context, name, dest string) error
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

func (h hostFiles) upload(ctx context.Context, src, name string) error {
	return h.tree.Upload(ctx, src, name)
}

func (h hostFiles) export(ctx context.Context, name, dest string) error {
	return h.tree.Export(ctx, name, dest)
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

func (g guestFiles) upload(ctx context.Context, src, name string) error {
	abs, err := filepath.Abs(src)
	if err != nil {
		return err
	}
	info, err := os.Stat(abs)
	if err != nil {
		return err
	}
	base := filepath.Base(abs)
	if name == "" {
		name = base
	}
	rel, err := g.rel(name)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return g.uploadDir(ctx, abs, rel)
	}
	at, err := g.client.Stat(ctx, rel)
	if errors.Is(err, guest.ErrClosed) {
		return g.errorAt(name, err)
	}
	if strings.HasSuffix(name, "/") || err == nil && at.Mode.IsDir() {
		rel = path.Join(rel, base)
	}
	f, err := os.Open(abs)
	if err != nil {
		return err
	}
	defer f.Close()
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s: not a regular file", src)
	}
	return g.errorAt(name, g.client.WriteFile(ctx, rel, f, info.Mode().Perm()))
}

func (g guestFiles) uploadDir(ctx context.Context, dir, rel string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	return g.errorAt(rel, g.client.Upload(ctx, root, ".", rel))
}

func (g guestFiles) export(ctx context.Context, name, dest string) error {
	rel, err := g.rel(name)
	if err != nil {
		return err
	}
	base := path.Base(rel)
	if rel == "." {
		base = filepath.Base(g.tree.Dir())
	}
	if dest == "" {
		dest = base
	}
	info, err := g.client.Stat(ctx, rel)
	if err != nil {
		return g.errorAt(name, err)
	}
	if info.Mode.IsDir() {
		return g.exportDir(ctx, rel, dest)
	}
	if at, err := os.Stat(dest); strings.HasSuffix(filepath.ToSlash(dest), "/") || err == nil && at.IsDir() {
		dest = filepath.Join(dest, base)
	}
	return g.exportFile(ctx, rel, dest, info.Mode.Perm())
}

func (g guestFiles) exportDir(ctx context.Context, rel, dest string) error {
	if err := os.MkdirAll(dest, 0o777); err != nil {
		return err
	}
	root, err := os.OpenRoot(dest)
	if err != nil {
		return err
	}
	defer root.Close()
	return g.errorAt(rel, g.client.Export(ctx, rel, root, archive.Limits{}))
}

// exportFile puts the file in place when it is complete.
func (g guestFiles) exportFile(ctx context.Context, rel, dest string, mode fs.FileMode) error {
	dir := filepath.Dir(dest)
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	return workspace.ReplaceFile(root, filepath.Base(dest), 0o600, func(f *os.File) error {
		info, err := g.client.ReadFile(ctx, rel, f, 0, -1)
		if err == nil && mode == 0o777 { // a link's own mode says nothing
			mode = info.Mode.Perm()
		}
		return errors.Join(g.errorAt(rel, err), f.Chmod(mode))
	})
}
