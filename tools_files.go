package pygent

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/x/pygent/internal/edit"
	"github.com/x/pygent/internal/escape"
	"github.com/x/pygent/internal/filetext"
	"github.com/x/pygent/internal/gitrepo/gitwatch"
	"github.com/x/pygent/internal/numeral"
	"github.com/x/pygent/internal/pathname"
	"github.com/x/pygent/internal/spelling"
	"github.com/x/pygent/internal/toolcall/callset"
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
	return filetext.Listing(name, entriesOf(files), more, maxToolResult), err == nil
}

// entriesOf returns files as a listing shows them.
func entriesOf(files []FileInfo) []filetext.Entry {
	entries := make([]filetext.Entry, len(files))
	for i, f := range files {
		entries[i] = filetext.Entry{Name: path.Base(f.Path), Size: f.Size, Mode: f.Mode}
	}
	return entries
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

// FileChange is how a call changed a file of the workspace, or would change it.
type FileChange struct {
	Path string `json:"path"`

	// Before and After are the text of the file, at most 32 KiB of each. Of a
	// longer text they are the lines that change, with some around them.
	Before string `json:"before,omitempty"`
	After  string `json:"after,omitempty"`
	Line   int    `json:"line,omitempty"` // the number of the line, from 1, with which both begin; 0 where they are not known

	Created   bool `json:"created,omitempty"`   // there was no such file
	Deleted   bool `json:"deleted,omitempty"`   // there is no such file afterwards
	Binary    bool `json:"binary,omitempty"`    // the file is no text, and Before and After are empty
	Truncated bool `json:"truncated,omitempty"` // Before and After are not the whole text

	Note string `json:"note,omitempty"` // why Before and After are not known
}

// Diff is the change in lines: those that went begin with "-", those that came
// with "+", and some around them with a blank. It is empty if Before and After are
// the same, or not known. It may contain control characters.
func (c FileChange) Diff() string { return edit.Diff(c.Before, c.After, c.Line) }

// changeLog is what the tools of an agent have changed.
type changeLog struct {
	warned atomic.Value // the last writeInput that was refused since it leaves something out

	mu    sync.Mutex // guards what follows
	all   []FileChange
	bytes int // of the texts in all
}

// Bounds of what an agent remembers of changes.
const (
	maxChanges     = 1000
	maxChangeBytes = 4 << 20
)

// add adds changes. One that follows another change of the same file becomes one
// with it, if both are known whole.
func (l *changeLog) add(changes ...FileChange) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range changes {
		at := l.lastOf(c.Path)
		if at >= 0 && l.all[at].whole() && c.whole() {
			first := l.all[at]
			l.bytes -= len(first.Before) + len(first.After)
			c.Before, c.Line, c.Created = first.Before, first.Line, first.Created
			l.all = slices.Delete(l.all, at, at+1)
			if c.Before == c.After && c.Created == c.Deleted {
				continue
			}
		}
		l.all = append(l.all, c)
		l.bytes += len(c.Before) + len(c.After)
	}
	for len(l.all) > maxChanges || l.bytes > maxChangeBytes {
		l.bytes -= len(l.all[0].Before) + len(l.all[0].After)
		l.all = slices.Delete(l.all, 0, 1)
	}
}

// lastOf returns the index of the last change of a file, or -1. The caller holds mu.
func (l *changeLog) lastOf(path string) int {
	for at, c := range slices.Backward(l.all) {
		if c.Path == path {
			return at
		}
	}
	return -1
}

// whole reports whether Before and After are all of the file.
func (c FileChange) whole() bool { return !c.Truncated && !c.Binary && c.Note == "" }

// Changes returns how the agent's tools have changed files since the agent was
// made, the last change last. Several changes of a file are one, unless it is too
// long or no text. At most 1,000 changes with 4 MiB of text are remembered. What
// commands have changed is not there.
func (a *Agent) Changes() []FileChange {
	a.changed.mu.Lock()
	defer a.changed.mu.Unlock()
	return slices.Clone(a.changed.all)
}

// Bounds of what is told about the change of a file.
const (
	maxShownChange = 32 << 10        // bytes of each text
	maxFormer      = 1 << 20         // bytes of a file that is compared
	changeWithin   = 5 * time.Second // for reading it
)

// formerText is what a file holds before a change.
type formerText struct {
	data    []byte
	size    int64  // also of a file whose data is not known
	missing bool   // there is no such file
	absent  error  // how that was found out, if it is known
	note    string // why data is not known
	again   bool   // something else has changed the file since it was first read
}

// isShown reports whether anybody sees what a call displays: a listener, middleware,
// or a program that calls the tool itself.
func isShown(ctx context.Context) bool {
	c := toolCallOf(ctx)
	return c == nil || c.agent.events.isHeard() || len(c.agent.opts.toolMiddleware) > 0
}

func readFormer(ctx context.Context, rt Runtime, path string) formerText {
	ctx, cancel := context.WithTimeout(ctx, changeWithin)
	defer cancel()
	data, size, err := readRange(ctx, rt, path, 0, maxFormer)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return formerText{missing: true}
	case err != nil:
		return formerText{note: "what it held cannot be read: " + err.Error()}
	case size > maxFormer:
		return formerText{size: size, note: fmt.Sprintf("it held %d bytes, too many to compare", size)}
	}
	return formerText{data: data, size: size}
}

// maxRewrites is how often a change is made, at most, of a file that others change
// at the same time.
const maxRewrites = 3

// rewrite changes a file, which may be missing, to what change makes of it. No
// runtime can replace a file only if it is still the same. So it is read again
// before, and changed anew if somebody else has changed it meanwhile; only a change
// during the writing itself is lost.
func rewrite(ctx context.Context, rt Runtime, name string, change func(formerText) (after string, err error)) (former formerText, after string, err error) {
	if former, err = readWhole(ctx, rt, name); err != nil {
		return former, "", err
	}
	for range maxRewrites {
		if after, err = change(former); err != nil {
			return former, "", err
		}
		now, err := readWhole(ctx, rt, name)
		if err != nil {
			return former, "", err
		}
		if now.missing == former.missing && bytes.Equal(now.data, former.data) {
			return former, after, rt.WriteFile(ctx, name, []byte(after))
		}
		former = now
		former.again = true
	}
	return former, "", fmt.Errorf("%s is changed by something else at this moment, again and again; nothing was written: find out by what (a job?), or change it with a command in bash", name)
}

// readWhole reads a file that may be missing.
func readWhole(ctx context.Context, rt Runtime, name string) (formerText, error) {
	data, err := rt.ReadFile(ctx, name)
	if errors.Is(err, fs.ErrNotExist) {
		return formerText{missing: true, absent: err}, nil
	}
	return formerText{data: data, size: int64(len(data))}, err
}

// lookAt returns how the files of a runtime are described and listed. Of one that cannot,
// only the errors of reading them are known, and list is nil.
func lookAt(ctx context.Context, rt Runtime) (describe func(name string) (pathname.Info, error), list func(dir string) []string) {
	lister, ok := RuntimeAs[FileLister](rt)
	if !ok {
		lister = bareLister{rt}
	}
	describe, list = pathname.Of(ctx, lister, func(f FileInfo) pathname.Info { return pathname.Info(f) })
	if !ok {
		list = nil
	}
	return describe, list
}

// checkWritable refuses to write a file that its owner has made read-only, which
// the runtime would replace all the same.
func checkWritable(ctx context.Context, rt Runtime, name string) error {
	describe, list := lookAt(ctx, rt)
	if list == nil {
		return nil
	}
	return (&pathname.Links{Lstat: describe}).Writable(name)
}

// replacedBy says what becomes of the file when another text takes its place.
func (f formerText) replacedBy(name, text string) string {
	switch {
	case f.missing:
		return fmt.Sprintf("created %s with %s", name, filetext.Extent(text))
	case f.note != "" && f.size > 0:
		return fmt.Sprintf("replaced %s, which had %s and now has %s", name, numeral.Count(f.size, "byte"), filetext.Extent(text))
	case f.note != "":
		return fmt.Sprintf("wrote %s to %s", filetext.Extent(text), name)
	}
	return edit.Replaced(name, f.data, text)
}

// becomes returns the change to another text.
func (f formerText) becomes(name, text string) FileChange {
	if f.note != "" {
		return FileChange{Path: path.Clean(name), Note: f.note}
	}
	c := edit.Compare(filetext.Decode(f.data), filetext.Decode([]byte(text)), maxShownChange)
	return FileChange{
		Path: path.Clean(name), Before: c.Before, After: c.After, Line: c.Line,
		Created: f.missing, Binary: c.Binary, Truncated: c.Truncated,
	}
}

// changesOf returns the changes that a call would make. If the runtime cannot
// tell in time, they say so.
func (r *run) changesOf(ctx context.Context, call ToolCall) []FileChange {
	change, writes := changeIn(call)
	if !writes {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, changeWithin)
	defer cancel()
	changes, err := callForeign(ctx, r, "the runtime", func() ([]FileChange, error) { return changesOf(ctx, r.agent.runtime, call), nil })
	if err != nil {
		r.agent.logPanic("runtime", err)
		changes = []FileChange{{Path: change.path, Note: "the change cannot be told: " + err.Error()}}
	}
	return changes
}

// changesOf returns the changes that a call would make, without making them.
func changesOf(ctx context.Context, rt Runtime, call ToolCall) []FileChange {
	change, writes := changeIn(call)
	if !writes {
		return nil
	}
	var write writeInput
	var replace editInput
	switch call.Name {
	case "write_file":
		if json.Unmarshal([]byte(call.Arguments), &write) == nil {
			return []FileChange{write.change(readFormer(ctx, rt, write.Path))}
		}
	case "edit_file":
		if json.Unmarshal([]byte(call.Arguments), &replace) == nil && replace.check() == nil {
			return []FileChange{replace.change(readFormer(ctx, rt, replace.Path))}
		}
	}
	return []FileChange{{Path: change.path, Note: change.what}}
}

func (in writeInput) change(former formerText) FileChange {
	after := in.Content
	if in.Append && former.note == "" {
		var err error
		if after, _, err = in.appended(former); err != nil {
			former.note = err.Error()
		}
	}
	return former.becomes(in.Path, after)
}

func (in editInput) change(former formerText) FileChange {
	if former.missing {
		former.note = "there is no such file"
	}
	if former.note != "" {
		return former.becomes(in.Path, "")
	}
	edited, err := in.apply(former.data)
	if err != nil {
		former.note = err.Error()
	}
	return former.becomes(in.Path, edited.Text)
}

// fileChange is the change of a workspace file by a call.
type fileChange struct {
	path string // clean
	what string // said of a change that cannot be worked out before the call
}

// changeIn returns the file change of a call; ok is false if the call changes
// none.
func changeIn(call ToolCall) (fileChange, bool) {
	var name, what string
	var err error
	switch call.Name {
	case "write_file":
		var in writeInput
		err = json.Unmarshal([]byte(call.Arguments), &in)
		name = in.Path
	case "edit_file":
		var in editInput
		err = json.Unmarshal([]byte(call.Arguments), &in)
		name, what = in.Path, edit.Words(in.All())
	case "collect_file":
		var in collectInput
		err = json.Unmarshal([]byte(call.Arguments), &in)
		name, what = cmp.Or(in.Dest, in.Path), fmt.Sprintf("from task %q: %q", in.TaskID, in.Path)
	default:
		return fileChange{}, false
	}
	return fileChange{path: path.Clean(name), what: what}, err == nil
}

// changesGit reports whether a call writes a file that steers git on this
// machine.
func changesGit(rt Runtime, call ToolCall) bool {
	change, writes := changeIn(call)
	return writes && steersGit(rt, change.path)
}

// steersGit reports whether a file of the workspace is one that git obeys on
// this machine. There is none in a temporary workspace, or in one that is not
// of this package.
func steersGit(rt Runtime, name string) bool {
	r, ours := RuntimeAs[*workspaceRuntime](rt)
	switch {
	case !ours || r.options.workspace == "":
		return false
	case r.Isolated():
		return gitwatch.Steers(name)
	}
	return gitwatch.Leads(r.info.Workspace, name)
}

// isOurs reports whether a call has only arguments of the built-in tool of its
// name. A program's own tool may have others, which matter as well.
func isOurs(call ToolCall) bool {
	in, ok := map[string]any{"bash": &bashInput{}, "write_file": &writeInput{}, "edit_file": &editInput{}, "collect_file": &collectInput{}}[call.Name]
	d := json.NewDecoder(strings.NewReader(call.Arguments))
	d.DisallowUnknownFields()
	return ok && d.Decode(in) == nil
}

// withDiff adds the difference that a change makes to what is said of it.
func withDiff(said string, c FileChange) string {
	if diff := c.Diff(); diff != "" {
		return said + "\n" + diff
	}
	return said
}

// refuseElided refuses, once, to replace a file by a text that only names what it leaves out, or
// that is a patch for it which does not fit.
func refuseElided(ctx context.Context, in writeInput, former formerText) error {
	call := toolCallOf(ctx)
	if call == nil || former.note != "" {
		return nil // a program means what it writes
	}
	lost := cmp.Or(edit.Elided(string(filetext.Decode(former.data)), in.Content), callset.Marks(in.Path, in.Content, former.missing))
	if lost == "" || call.agent.changed.warned.Swap(in) == in {
		return nil
	}
	return fmt.Errorf("%s was left as it is: write_file replaces the whole file, so that %s. Change a part with edit_file, or give the whole content; if the file is meant to be so, make the same call again", in.Path, lost)
}
