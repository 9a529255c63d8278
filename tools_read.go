package pygent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/x/pygent/internal/filetext"
	"github.com/x/pygent/internal/spelling"
)

type downloadInput struct {
	Path   string `json:"path" jsonschema:"relative to the workspace, or as a result names it"`
	Line   int    `json:"line,omitempty" jsonschema:"first line, from 1; -1 is the last one"`
	Count  int    `json:"count,omitempty" jsonschema:"how many lines"`
	Offset int64  `json:"offset,omitempty" jsonschema:"byte to begin at instead, in a very long line"`
}

func downloadFile(ctx context.Context, rt Runtime, in downloadInput) (*ToolResult, error) {
	in.Path = cmp.Or(in.Path, ".")
	piece, err := filetext.Read(ctx, sourceOf(rt, in.Path), filetext.Request{Name: in.Path, Line: in.Line, Count: in.Count, Offset: in.Offset}, maxToolResult)
	if err != nil {
		var listed bool
		if piece, listed = listing(ctx, rt, in.Path, err); !listed {
			return nil, withNearName(ctx, rt, in.Path, err)
		}
	}
	return &ToolResult{Content: piece.Text, Display: "read " + piece.Title, Locations: []Location{{Path: in.Path, Line: piece.Line}}}, nil
}

// sourceOf reads a file, even if the runtime can only read whole files: then it is
// read once.
func sourceOf(rt Runtime, name string) filetext.Source {
	if rr, ok := RuntimeAs[RangeReader](rt); ok {
		return func(ctx context.Context, offset, limit int64) ([]byte, int64, error) {
			return rr.ReadFileRange(ctx, name, offset, limit)
		}
	}
	var whole filetext.Source
	return func(ctx context.Context, offset, limit int64) ([]byte, int64, error) {
		if whole == nil {
			data, err := rt.ReadFile(ctx, name)
			if err != nil {
				return nil, 0, err
			}
			whole = filetext.OfBytes(data)
		}
		return whole(ctx, offset, limit)
	}
}

// readRange reads a piece of a file.
func readRange(ctx context.Context, rt Runtime, name string, offset, limit int64) ([]byte, int64, error) {
	return sourceOf(rt, name)(ctx, offset, limit)
}

// Bounds of looking through directories.
const (
	maxListed   = 1000 // files of a listing
	searched    = 2000 // files among which one of the same name is looked for
	searchDepth = 5
	searchTime  = 2 * time.Second
)

// listing shows a directory, if that is why it could not be read as a file.
func listing(ctx context.Context, rt Runtime, name string, unread error) (piece filetext.Piece, ok bool) {
	for _, other := range []error{fs.ErrNotExist, fs.ErrPermission, ErrOutsideWorkspace, ErrRuntimeClosed} {
		if errors.Is(unread, other) {
			return piece, false
		}
	}
	lister, ok := RuntimeAs[FileLister](rt)
	if !ok {
		return bareListing(ctx, rt, name)
	}
	files, more, err := lister.ListFiles(ctx, name, 1, maxListed)
	entries := make([]filetext.Entry, len(files))
	for i, f := range files {
		entries[i] = filetext.Entry{Name: path.Base(f.Path), Size: f.Size, Mode: f.Mode}
	}
	return filetext.Listing(name, entries, more, maxToolResult), err == nil
}

// bareListing lists a directory of a runtime that has only commands.
func bareListing(ctx context.Context, rt Runtime, name string) (piece filetext.Piece, ok bool) {
	if !filepath.IsLocal(filepath.FromSlash(name)) {
		return piece, false
	}
	quoted := "'./" + strings.ReplaceAll(name, "'", `'\''`) + "'"
	res, err := rt.Bash(ctx, "cd "+quoted+" && ls -Ap", BashTimeout(searchTime))
	if err != nil || res.ExitCode != 0 || res.TimedOut {
		return piece, false
	}
	var entries []filetext.Entry
	for line := range strings.Lines(res.Output) {
		entry, isDir := strings.CutSuffix(strings.TrimSuffix(line, "\n"), "/")
		if entries = append(entries, filetext.Entry{Name: entry, Size: -1}); isDir {
			entries[len(entries)-1].Mode = fs.ModeDir
		}
	}
	return filetext.Listing(name, entries, res.Truncated, maxToolResult), true
}

// withNearName adds to the error for a file that does not exist which one may have
// been meant.
func withNearName(ctx context.Context, rt Runtime, name string, err error) error {
	lister, ok := RuntimeAs[FileLister](rt)
	if !ok || !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, searchTime)
	defer cancel()
	dir, base := path.Split(path.Clean(filepath.ToSlash(name)))
	files, _, _ := lister.ListFiles(ctx, cmp.Or(dir, "."), 1, maxListed)
	names := make([]string, len(files))
	for i, f := range files {
		names[i] = path.Base(f.Path)
	}
	if near := spelling.Nearest(base, names); near != "" {
		return fmt.Errorf("%w; there is %s", err, path.Join(dir, near))
	}
	files, _, _ = lister.ListFiles(ctx, ".", searchDepth, searched)
	var same []string
	for _, f := range files {
		if path.Base(f.Path) == base && len(same) < 3 {
			same = append(same, f.Path)
		}
	}
	if len(same) > 0 {
		return fmt.Errorf("%w; there is %s", err, strings.Join(same, ", "))
	}
	return err
}
