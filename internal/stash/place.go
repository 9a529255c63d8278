package stash

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"

	"github.com/x/pygent/internal/numeral"
	"github.com/x/pygent/internal/safecall"
	"github.com/x/pygent/internal/tree"
	"github.com/x/pygent/internal/workspace"
)

// Limits of what is copied at once.
const (
	maxBytes   = 1 << 30 // of data, without holes
	maxEntries = 100_000 // files, directories and links
)

// Place is a workspace from which and to which files are copied.
type Place struct {
	// Workspace returns the path of the workspace as its commands see it, or ""
	// if that is unknown.
	Workspace func(ctx context.Context) string
	// Pack calls take with the archive of a file or directory.
	Pack func(ctx context.Context, path string, take func(io.Reader) error) error
	// Unpack copies the archive into the workspace, and returns where the copy
	// is. A file becomes dest, or goes into dest if that is a directory. The
	// content of a directory goes below dest.
	Unpack func(ctx context.Context, dest string, in *tree.Reader) (at string, placed tree.Placed, err error)
}

// Copied says what was copied into a place.
type Copied struct {
	At       string // where it is
	Files    int    // files and links
	Replaced int    // files and links that were there, and in whose place something else is now; or [Unknown]
	Bytes    int64  // of data, without holes
}

// Words says how much was copied: "2 files (12 bytes), one of which replaced an existing file".
func (c Copied) Words() string {
	said := fmt.Sprintf("%s (%s)", numeral.Count(c.Files, "file"), numeral.Count(c.Bytes, "byte"))
	switch {
	case c.Replaced <= 0:
		return said
	case c.Files == 1:
		return said + ", which replaced an existing one"
	case c.Replaced == c.Files:
		return said + ", which replaced existing ones"
	case c.Replaced == 1:
		return said + ", one of which replaced an existing file"
	}
	return said + fmt.Sprintf(", %s of which replaced existing files", numeral.Grouped(c.Replaced))
}

// Unknown is how many files a runtime has replaced that cannot tell.
const Unknown = -1

// Copier copies files and directories of a workspace from and to paths of this
// machine. It is for runtimes that offer nothing else.
type Copier interface {
	ExportFile(ctx context.Context, src, dest string) error
	UploadFile(ctx context.Context, src, dest string) error
}

// ByPath returns the place of a [Copier]. The copier gets only paths in
// temporary directories of its own, in which nothing can mislead it.
func ByPath(c Copier, workspace func(ctx context.Context) string) Place {
	return Place{
		Workspace: workspace,
		Pack: func(ctx context.Context, path string, take func(io.Reader) error) error {
			return packByPath(ctx, c, path, take)
		},
		Unpack: func(ctx context.Context, dest string, in *tree.Reader) (string, tree.Placed, error) {
			placed, err := unpackByPath(ctx, c, in, dest)
			return dest, placed, err
		},
	}
}

// CopyTo writes the archive of a file or directory of the place to w.
func (p Place) CopyTo(ctx context.Context, w io.Writer, name string) error {
	return p.Pack(ctx, name, func(r io.Reader) error {
		in, err := tree.NewReader(r, newBudget())
		if err != nil {
			return err
		}
		return tree.Copy(w, in, path.Base(path.Clean(filepath.ToSlash(name)))) // the archive's own name for it is not used
	})
}

// CopyFrom copies the content of an archive into the place, below dest.
func (p Place) CopyFrom(ctx context.Context, r io.Reader, dest string) (Copied, error) {
	budget := newBudget()
	in, err := tree.NewReader(r, budget)
	if err != nil {
		return Copied{}, err
	}
	at, placed, err := p.Unpack(ctx, dest, in)
	if err != nil {
		return Copied{}, err
	}
	// The numbers may be the word of a guest. There are no more files than were
	// sent to it.
	sent := int(budget.Entries())
	c := Copied{At: at, Files: min(max(placed.Files, 0), sent), Replaced: placed.Replaced, Bytes: budget.Bytes()}
	if c.Replaced != Unknown {
		c.Replaced = min(max(c.Replaced, 0), sent)
	}
	return c, nil
}

// errStopped tells an export that nobody reads on.
var errStopped = errors.New("the copy has stopped")

// Receive copies the archive that export writes into the place. If export fails,
// its error is returned.
func (p Place) Receive(ctx context.Context, export func(w io.Writer) error, dest string) (Copied, error) {
	r, w := io.Pipe()
	var wg sync.WaitGroup
	var exported error
	wg.Go(func() {
		_, exported = safecall.Catch(func() (struct{}, error) { return struct{}{}, export(w) }) // the runtime may be a user's
		w.CloseWithError(exported)
	})
	c, err := safecall.Catch(func() (Copied, error) { return p.CopyFrom(ctx, r, dest) })
	r.CloseWithError(errStopped) // unblocks export
	wg.Wait()
	if err != nil && errors.Is(exported, errStopped) {
		exported = nil // the place is the reason, and not the file that was being sent
	}
	return c, sayRemedy(cmp.Or(exported, err))
}

// Rel returns a path of the place relative to its workspace.
func (p Place) Rel(ctx context.Context, name string) (string, error) {
	if name == "" {
		return "", errors.New("the path is empty")
	}
	clean := path.Clean(filepath.ToSlash(name))
	if path.IsAbs(clean) {
		top := p.Workspace(ctx)
		if top == "" {
			return "", fmt.Errorf("%s: %w", name, workspace.ErrOutside)
		}
		top = path.Clean(filepath.ToSlash(top))
		if clean == top {
			return ".", nil
		}
		rest, ok := strings.CutPrefix(clean, strings.TrimSuffix(top, "/")+"/")
		if !ok {
			return "", fmt.Errorf("%s: %w", name, workspace.ErrOutside)
		}
		clean = rest
	}
	if !filepath.IsLocal(filepath.FromSlash(clean)) {
		return "", fmt.Errorf("%q: %w", name, workspace.ErrOutside)
	}
	return clean, nil
}

// SamePath returns the default destination of a file from another workspace:
// the same path. If that path is not in this workspace, because the two have
// different names, it is the base name.
func (p Place) SamePath(ctx context.Context, name string) (string, error) {
	rel, err := p.Rel(ctx, name)
	if clean := path.Clean(filepath.ToSlash(name)); err != nil && path.IsAbs(clean) && clean != "/" {
		return path.Base(clean), nil
	}
	return rel, err
}

// newBudget returns the budget for the files of one delegation or collection.
func newBudget() *tree.Budget {
	return tree.NewBudget(tree.Limits{Bytes: maxBytes, Entries: maxEntries})
}

// sayRemedy adds to an error about files that are too large what can be done
// about it.
func sayRemedy(err error) error {
	if errors.Is(err, tree.ErrTooLarge) {
		return fmt.Errorf("%w; name only the files that are needed, or pack them smaller", err)
	}
	return err
}

func packByPath(ctx context.Context, c Copier, p string, take func(io.Reader) error) (err error) {
	dir, err := workspace.MakeTemp(false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, workspace.RemoveTemp(dir)) }()
	base := path.Base(path.Clean(filepath.ToSlash(p)))
	if base == "." || base == "/" || base == ".." {
		base = "workspace"
	}
	if err := c.ExportFile(ctx, p, filepath.Join(dir, base)); err != nil {
		return err
	}
	src, err := workspace.OpenSourceIn(dir, base)
	if err != nil {
		return err
	}
	defer src.Close()
	limits := tree.Limits{Bytes: maxBytes, Entries: maxEntries}
	return workspace.Pipe(ctx, func(w io.Writer) error { return src.Pack(w, base, limits) }, take)
}

// unpackByPath refuses links, because the copier might follow them.
func unpackByPath(ctx context.Context, c Copier, in *tree.Reader, dest string) (placed tree.Placed, err error) {
	dir, err := workspace.MakeTemp(false)
	if err != nil {
		return placed, err
	}
	defer func() { err = errors.Join(err, workspace.RemoveTemp(dir)) }()
	if placed, err = unpackHere(dir, in); err != nil {
		return placed, err
	}
	placed.Replaced = Unknown
	if in.IsDir() && path.Clean(dest) != "." {
		return placed, c.UploadFile(ctx, dir, dest)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return placed, err
	}
	for _, entry := range entries {
		to := entry.Name()
		if !in.IsDir() {
			to = dest
		}
		if err := c.UploadFile(ctx, filepath.Join(dir, entry.Name()), to); err != nil {
			return placed, err
		}
	}
	return placed, nil
}

func unpackHere(dir string, in *tree.Reader) (tree.Placed, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return tree.Placed{}, err
	}
	defer root.Close()
	staged, err := in.Stage(root, tree.ExtractOptions{NoLinks: true})
	if err != nil {
		return tree.Placed{}, fmt.Errorf("copy to a runtime of this kind: %w", err)
	}
	return staged.Commit()
}
