package sandbox

import (
	"context"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/x/pygent/internal/guest"
)

// maxListed is how many files a listing can have.
const maxListed = 100_000

// ListFiles describes what is in a directory, and in those below it as far as
// depth says: 1 for the directory alone, negative for everything. Symbolic links
// are not followed. Names are paths relative to the workspace. more says that the
// limit has left files out.
func (r *Sandbox) ListFiles(ctx context.Context, dir string, depth, limit int) (files []guest.FileInfo, more bool, err error) {
	ctx, done, err := r.begin(ctx)
	if err != nil {
		return nil, false, err
	}
	defer done()
	if limit <= 0 || limit > maxListed {
		limit = maxListed
	}
	rel, err := r.dir.Tree.Rel(dir)
	if err == nil {
		files, more, err = listBelow(ctx, r.files, rel, depth, limit)
	} else {
		err = fmt.Errorf("%s: %w", dir, err)
	}
	if err != nil {
		return nil, false, r.errorAt(ctx, "list", dir, err)
	}
	slices.SortFunc(files, func(a, b guest.FileInfo) int { return strings.Compare(a.Name, b.Name) })
	return files, more, nil
}

// listBelow lists level by level, so that a limit leaves out what is deepest.
func listBelow(ctx context.Context, from Files, dir string, depth, limit int) (files []guest.FileInfo, more bool, err error) {
	level := []string{dir}
	for ; depth != 0 && len(level) > 0; depth-- {
		var below []string
		for _, d := range level {
			if err := ctx.Err(); err != nil {
				return nil, false, err
			}
			list, cut, err := from.List(ctx, d, limit+1-len(files)) // one more than fits, to know of it
			if err != nil && d != dir {                             // it has gone meanwhile, or cannot be read
				continue
			}
			if err != nil {
				return nil, false, err
			}
			more = more || cut
			for _, f := range list {
				if strings.Contains(f.Name, "/") || f.Name == "." || f.Name == ".." {
					continue // no name: the guest is not honest
				}
				if len(files) == limit {
					return files, true, nil
				}
				f.Name = path.Join(d, f.Name)
				files = append(files, f)
				if f.Mode.IsDir() {
					below = append(below, f.Name)
				}
			}
		}
		level = below
	}
	return files, more, nil
}

// StatFile describes a file. A symbolic link is not followed.
func (r *Sandbox) StatFile(ctx context.Context, name string) (guest.FileInfo, error) {
	ctx, done, err := r.begin(ctx)
	if err != nil {
		return guest.FileInfo{}, err
	}
	defer done()
	info, err := r.files.Lstat(ctx, name)
	if err != nil {
		return guest.FileInfo{}, r.errorAt(ctx, "look at", name, err)
	}
	info.Name, _ = r.dir.Tree.Rel(name)
	return info, nil
}

// RemoveFile removes a file or an empty directory; with all, also a directory with
// its content. The workspace itself is only emptied.
func (r *Sandbox) RemoveFile(ctx context.Context, name string, all bool) error {
	ctx, done, err := r.begin(ctx)
	if err != nil {
		return err
	}
	defer done()
	if err := r.files.Remove(ctx, name, all); err != nil {
		return r.errorAt(ctx, "remove", name, err)
	}
	return nil
}

// ReadFileTo copies a file from offset on to w.
func (r *Sandbox) ReadFileTo(ctx context.Context, name string, offset int64, w io.Writer) (int64, error) {
	ctx, done, err := r.begin(ctx)
	if err != nil {
		return 0, err
	}
	defer done()
	n, err := r.filesWith(name).ReadTo(ctx, name, offset, w)
	if err != nil {
		err = r.errorAt(ctx, "read", name, err)
	}
	return n, err
}

// WriteFileFrom creates or replaces a file by what r has.
func (r *Sandbox) WriteFileFrom(ctx context.Context, name string, in io.Reader) error {
	ctx, done, err := r.begin(ctx)
	if err != nil {
		return err
	}
	defer done()
	if err := r.files.WriteFrom(ctx, name, in); err != nil {
		return r.errorAt(ctx, "write", name, err)
	}
	return nil
}

// readerUntil reads until a context ends.
type readerUntil struct {
	ctx context.Context
	r   io.Reader
}

// Read implements io.Reader.
func (r readerUntil) Read(p []byte) (int, error) {
	if r.ctx.Err() != nil {
		return 0, context.Cause(r.ctx)
	}
	return r.r.Read(p)
}

// writerUntil writes until a context ends.
type writerUntil struct {
	ctx context.Context
	w   io.Writer
}

// Write implements io.Writer.
func (w writerUntil) Write(p []byte) (int, error) {
	if w.ctx.Err() != nil {
		return 0, context.Cause(w.ctx)
	}
	return w.w.Write(p)
}

// countingWriter counts what it passes on, and keeps the error of w apart from
// those of the file.
type countingWriter struct {
	w   io.Writer
	n   int64
	err error
}

// Write implements io.Writer.
func (c *countingWriter) Write(p []byte) (n int, err error) {
	n, c.err = c.w.Write(p)
	c.n += int64(n)
	return n, c.err
}
