package pygent

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/x/pygent/internal/edit"
	"github.com/x/pygent/internal/escape"
	"github.com/x/pygent/internal/filetext"
	"github.com/x/pygent/internal/numeral"
	"github.com/x/pygent/internal/spelling"
)

type writeInput struct {
	Path    string `json:"path" jsonschema:"relative to the workspace"`
	Content string `json:"content"`
	Append  bool   `json:"append,omitempty" jsonschema:"add content to the end"`
}

// errNoPath is the error of tools that change a file, and were given none.
var errNoPath = errors.New("path is empty; name the file")

func writeFile(ctx context.Context, rt Runtime, in writeInput) (*ToolResult, error) {
	if in.Path == "" {
		return nil, errNoPath
	}
	if err := checkWritable(ctx, rt, in.Path); err != nil {
		return nil, err
	}
	if in.Append {
		return appendFile(ctx, rt, in)
	}
	former := readFormer(ctx, rt, in.Path)
	if err := refuseElided(ctx, in, former); err != nil {
		return nil, err
	}
	if err := rt.WriteFile(ctx, in.Path, []byte(in.Content)); err != nil {
		return nil, withOtherPath(ctx, rt, in.Path, err)
	}
	return written(ctx, in.Path, former, in.Content, former.replacedBy(in.Path, in.Content)), nil
}

// appendFile writes the file anew with more at its end, since that is what every
// runtime can do.
func appendFile(ctx context.Context, rt Runtime, in writeInput) (*ToolResult, error) {
	var said string
	former, after, err := rewrite(ctx, rt, in.Path, func(former formerText) (after string, err error) {
		after, said, err = in.appended(former)
		return after, err
	})
	if errors.Is(err, ErrFileTooLarge) {
		return nil, fmt.Errorf("%s is too long to be written anew; append with cat >> in bash", in.Path)
	}
	if err != nil {
		return nil, withOtherPath(ctx, rt, in.Path, err)
	}
	return written(ctx, in.Path, former, after, said), nil
}

// appended returns the text of a file after the call, and what to say of it. What
// is added gets the line ends of the file.
func (in writeInput) appended(former formerText) (after, said string, err error) {
	encoding := filetext.CharsetOf(former.data)
	text := encoding.Decode(former.data)
	added := edit.LineEndsOf(text, in.Content)
	data, err := encoding.Append(former.data, added)
	if err != nil {
		return "", "", fmt.Errorf("%s: %w", in.Path, err)
	}
	after = string(data)
	if former.missing {
		return after, fmt.Sprintf("created %s with %s", in.Path, filetext.Extent(after)), nil
	}
	said = fmt.Sprintf("appended %s to %s, which now has %s", numeral.Count(len(data)-len(former.data), "byte"), in.Path, filetext.Extent(after))
	if encoding.Known && !encoding.IsUTF8() {
		said += ", in " + encoding.Name
	}
	if text != "" && !strings.HasSuffix(text, "\n") {
		said += "; it had no newline at its end, so that the text goes on in the last line"
	}
	return after, said, nil
}

// written is the result of a call that has changed a file.
func written(ctx context.Context, path string, former formerText, after, said string) *ToolResult {
	if former.again {
		said += "; something else changed it at the same moment, which is kept"
	}
	change := former.becomes(path, after)
	result := &ToolResult{Content: said, Locations: []Location{{Path: path}}, Changes: []FileChange{change}}
	if isShown(ctx) {
		result.Display = withDiff(said, change)
	}
	return result
}

type editInput struct {
	Path string `json:"path" jsonschema:"relative to the workspace"`
	edit.Input
}

func (in editInput) check() error {
	if in.Path == "" {
		return errNoPath
	}
	return in.Input.Check()
}

func editFile(ctx context.Context, rt Runtime, in editInput) (*ToolResult, error) {
	if err := in.check(); err != nil {
		return nil, err
	}
	if err := checkWritable(ctx, rt, in.Path); err != nil {
		return nil, err
	}
	var edited edit.Applied
	former, _, err := rewrite(ctx, rt, in.Path, func(former formerText) (after string, err error) {
		if former.missing {
			return "", former.absent
		}
		edited, err = in.apply(former.data)
		return edited.Text, err
	})
	if errors.Is(err, ErrFileTooLarge) {
		return nil, fmt.Errorf("%s is too long for edit_file; change it with sed or a script in bash", in.Path)
	}
	if err != nil {
		return nil, withOtherPath(ctx, rt, in.Path, err)
	}
	said := fmt.Sprintf("edited %s %s", in.Path, edited.Where)
	if edited.Count > 1 {
		said = fmt.Sprintf("edited %s: %s, %s", in.Path, numeral.Count(edited.Count, "replacement"), edited.Where)
	}
	for _, note := range edited.Notes {
		said += "; " + note
	}
	result := written(ctx, in.Path, former, edited.Text, said)
	result.Content += "\n" + edited.Shown
	result.Locations[0].Line = edited.Line
	return result, nil
}

// apply makes the edits in a file's content.
func (in editInput) apply(data []byte) (edit.Applied, error) {
	edited, err := edit.InFile(data, in.All())
	if err != nil {
		return edited, fmt.Errorf("%s: %w", in.Path, err)
	}
	return edited, nil
}

type imageInput struct {
	Path string `json:"path" jsonschema:"relative to the workspace"`
}

func readImage(ctx context.Context, rt Runtime, in imageInput) (*ToolResult, error) {
	data, size, err := readRange(ctx, rt, in.Path, 0, maxImage+1)
	if err != nil {
		return nil, err
	}
	if size > maxImage {
		return nil, fmt.Errorf("%s has %d bytes, more than the %d that can be shown; make a smaller copy", in.Path, size, maxImage)
	}
	kind := http.DetectContentType(data)
	switch kind {
	case "image/png", "image/jpeg", "image/gif", "image/webp":
	default:
		return nil, fmt.Errorf("%s is not a PNG, JPEG, GIF or WebP image (%s)", in.Path, kind)
	}
	return &ToolResult{
		Content: fmt.Sprintf("the image %s (%s, %d bytes) follows", in.Path, kind, size),
		Images:  []string{"data:" + kind + ";base64," + base64.StdEncoding.EncodeToString(data)},
	}, nil
}

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
			return nil, withOtherWay(withOtherPath(ctx, rt, in.Path, err), in.Path)
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

// withOtherPath adds to the error for a file that does not exist, or that lies
// outside the workspace, which one may have been meant.
func withOtherPath(ctx context.Context, rt Runtime, name string, err error) error {
	lister, ok := RuntimeAs[FileLister](rt)
	missing := errors.Is(err, fs.ErrNotExist)
	if !ok || !missing && !errors.Is(err, ErrOutsideWorkspace) {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, searchTime)
	defer cancel()
	info, statErr := lister.StatFile(ctx, name)
	var others []string
	switch {
	case missing && statErr == nil && info.Mode&fs.ModeSymlink != 0:
		return fmt.Errorf("%w: it is a symbolic link to %s, which does not exist", err, escape.Name(info.Target))
	case missing:
		others = nearPaths(ctx, lister, name)
	case statErr == nil && info.Mode&fs.ModeSymlink != 0:
		return fmt.Errorf("%w: it is a symbolic link to %s", err, escape.Name(info.Target))
	default:
		if other := filetext.WithoutRoot(name, func(p string) bool {
			info, err := lister.StatFile(ctx, p)
			return err == nil && info.Mode&fs.ModeSymlink == 0
		}); other != "" {
			others = []string{other}
		}
	}
	for i, other := range others {
		others[i] = escape.Name(other)
	}
	if len(others) > 0 {
		return fmt.Errorf("%w; there is %s", err, strings.Join(others, ", "))
	}
	return err
}

// nearPaths returns the paths of files that may be meant by one of which there is
// none: one of nearly the same name beside it, or some of the same name elsewhere.
func nearPaths(ctx context.Context, lister FileLister, name string) []string {
	dir, base := path.Split(path.Clean(filepath.ToSlash(name)))
	files, _, _ := lister.ListFiles(ctx, cmp.Or(dir, "."), 1, maxListed)
	names := make([]string, len(files))
	for i, f := range files {
		names[i] = path.Base(f.Path)
		if escape.Seen(names[i]) == escape.Seen(base) {
			return []string{path.Join(dir, names[i])}
		}
	}
	if near := spelling.Nearest(base, names); near != "" {
		return []string{path.Join(dir, near)}
	}
	files, _, _ = lister.ListFiles(ctx, ".", searchDepth, searched)
	var same []string
	for _, f := range files {
		if path.Base(f.Path) == base && len(same) < 3 {
			same = append(same, f.Path)
		}
	}
	return same
}

// withOtherWay adds to the error for a file outside the workspace how it can be
// read, if nothing better is known.
func withOtherWay(err error, name string) error {
	if errors.Is(err, ErrOutsideWorkspace) && !strings.Contains(err.Error(), "; there is ") {
		return fmt.Errorf("%w; paths begin at the workspace, which is ., and bash can read others", err)
	}
	return err
}
