package snapshot

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/x/pygent/internal/escape"
	"github.com/x/pygent/internal/progress"
	"github.com/x/pygent/internal/tree"
)

// Bounds of what is read.
const (
	maxManifest = 4 << 20 // bytes; the manifest has the setup
	maxLine     = 1 << 20 // bytes of a line of the list
	maxEntries  = 10 << 20
	maxOwn      = 1 << 30 // bytes of the conversation, the notes or the log
	maxHoles    = 4 << 30 // bytes of all files that no disk holds
)

// line is a line of the list.
type line struct {
	Path   string `json:"path"`          // from the top of the snapshot
	Raw    []byte `json:"raw,omitempty"` // the path, if it is no UTF-8
	Kind   string `json:"kind"`          // "file", "directory" or "link"
	Mode   string `json:"mode,omitempty"`
	Size   int64  `json:"size,omitempty"`
	SHA256 string `json:"sha256,omitempty"`
	Target string `json:"target,omitempty"` // of a link; its digest is in SHA256
}

// kinds of lines.
const (
	kindFile = "file"
	kindDir  = "directory"
	kindLink = "link"
)

// lister walks through a snapshot and passes on a line for each file in it.
type lister struct {
	ctx      context.Context
	contents Contents
	buf      []byte
	expect   func(line) error // checks what is known of a file before it is read; nil for nothing
	holes    int64            // bytes of the files so far that no disk holds
	each     func(line) error
}

// list passes on what is in a snapshot, in the order of the names. The manifest,
// the list itself, and at the top what no snapshot has, are left out.
func list(ctx context.Context, root *os.Root, expect, each func(line) error) (Contents, error) {
	l := &lister{ctx: ctx, buf: make([]byte, 256<<10), expect: expect, each: each}
	err := tree.Walk(root, l.entry)
	return l.contents, err
}

func (l *lister) entry(e tree.Entry) error {
	if err := context.Cause(l.ctx); err != nil {
		return err
	}
	if !strings.Contains(e.Name, "/") {
		switch e.Name {
		case History, Notes, Log, Workspace:
		default:
			if e.Info.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
	}
	one := line{Path: e.Name}
	if !utf8.ValidString(e.Name) {
		one.Raw = []byte(e.Name)
	}
	if err := l.describe(&one, e); err != nil {
		return err
	}
	l.count(one)
	if l.contents.Files+l.contents.Directories+l.contents.Links > maxEntries {
		return fmt.Errorf("it has more than %d files", maxEntries)
	}
	return l.each(one)
}

// count adds what is in the workspace to the contents.
func (l *lister) count(one line) {
	c := &l.contents
	switch {
	case !strings.HasPrefix(one.Path, Workspace+"/"):
	case one.Kind == kindDir:
		c.Directories++
	case one.Kind == kindLink:
		c.Links++
	default:
		c.Files++
		c.Bytes += one.Size
	}
}

func (l *lister) describe(one *line, e tree.Entry) error {
	mode := e.Info.Mode()
	switch {
	case mode.IsDir():
		one.Kind, one.Mode = kindDir, fmt.Sprintf("%04o", mode.Perm())
		return nil
	case mode&fs.ModeSymlink != 0:
		target, err := e.Dir.Readlink(e.Base)
		if err != nil {
			return fmt.Errorf("%s: %w", shown(e.Name), err)
		}
		one.Kind, one.Target, one.SHA256 = kindLink, target, digestOf([]byte(target))
		return nil
	case mode.IsRegular():
		one.Kind, one.Mode, one.Size = kindFile, fmt.Sprintf("%04o", mode.Perm()), e.Info.Size()
		if one.Size > maxOwn && !strings.Contains(e.Name, "/") {
			return fmt.Errorf("%s has %d bytes, and no more than %d are read", shown(e.Name), one.Size, maxOwn)
		}
		if l.expect != nil {
			if err := errors.Join(l.expect(*one), l.bound(e)); err != nil {
				return err
			}
		}
		return l.content(one, e)
	}
	return fmt.Errorf("%s is no file, directory or link", shown(e.Name))
}

// bound refuses files with holes of a size that nobody waits for. They cost whoever made
// the snapshot nothing. What a disk holds has the size of the disk as its bound.
func (l *lister) bound(e tree.Entry) error {
	l.holes += max(0, e.Info.Size()-onDisk(e.Info))
	if l.holes > maxHoles {
		return fmt.Errorf("%s has %d bytes, and hardly any of them on the disk: no more than %d such bytes are read (copy the snapshot with cp -r --sparse=never if you want them)", shown(e.Name), e.Info.Size(), int64(maxHoles))
	}
	return nil
}

// content adds size and digest of a file.
func (l *lister) content(one *line, e tree.Entry) error {
	f, err := tree.OpenFile(e)
	if err != nil {
		return fmt.Errorf("%s: %w", shown(e.Name), err)
	}
	defer f.Close()
	sum := sha256.New()
	n, err := io.CopyBuffer(struct{ io.Writer }{sum}, progress.Reader(l.ctx, io.LimitReader(reader{l.ctx, f}, l.most(one.Size))), l.buf)
	if err != nil {
		return fmt.Errorf("%s: %w", shown(e.Name), err)
	}
	one.Size, one.SHA256 = n, digest(sum.Sum(nil))
	return nil
}

// most is how much of a file is read: of one that is compared with a list, one byte more
// than the list has, so that one which grows is not read for ever.
func (l *lister) most(size int64) int64 {
	if l.expect == nil {
		return math.MaxInt64
	}
	return size + 1
}

// reader ends with its context.
type reader struct {
	ctx context.Context
	r   io.Reader
}

// Read implements io.Reader.
func (r reader) Read(p []byte) (int, error) {
	if err := context.Cause(r.ctx); err != nil {
		return 0, err
	}
	return r.r.Read(p)
}

// writeList writes the list of what is in a draft.
func writeList(ctx context.Context, root *os.Root) (Contents, error) {
	f, err := root.OpenFile(List, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return Contents{}, err
	}
	sum := sha256.New()
	w := bufio.NewWriter(io.MultiWriter(f, sum))
	contents, err := list(ctx, root, nil, func(one line) error {
		_, err := w.Write(one.encoded())
		return err
	})
	err = errors.Join(err, w.Flush(), f.Sync(), f.Close())
	contents.List = digest(sum.Sum(nil))
	return contents, err
}

func (one line) encoded() []byte {
	data, err := json.Marshal(one)
	if err != nil {
		panic(fmt.Sprintf("a line of strings and numbers has no JSON: %v", err))
	}
	return append(data, '\n')
}

// name is the path as the file system has it.
func (one line) name() string {
	if one.Raw != nil {
		return string(one.Raw)
	}
	return one.Path
}

// shown is a path as a person may see it.
func shown(name string) string { return escape.Name(name) }
