package snapshot

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/x/pygent/internal/progress"
	"github.com/x/pygent/internal/tree"
)

// ErrDamaged is returned for a snapshot that is not as it was saved.
var ErrDamaged = errors.New("the snapshot is damaged")

// Open reads what a snapshot says of itself, and compares everything in it with its
// list. It changes nothing.
func Open(ctx context.Context, dir string) (About, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return About{}, err
	}
	defer root.Close()
	about, err := readAbout(root)
	if err != nil {
		return About{}, err
	}
	progress.Expect(ctx, about.Contents.Bytes)
	if err := check(ctx, root, about); err != nil {
		return About{}, err
	}
	return about, nil
}

func readAbout(root *os.Root) (About, error) {
	data, err := readSmall(root, Manifest)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return About{}, errNoManifest(root)
	case err != nil:
		return About{}, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	var head struct {
		Format  string
		Version int
	}
	err = json.Unmarshal(data, &head)
	switch {
	case err != nil:
		return About{}, fmt.Errorf("%w: %s: %w", ErrDamaged, Manifest, err)
	case head.Format != format:
		return About{}, fmt.Errorf("%w: %s has another format", ErrNoSnapshot, Manifest)
	case head.Version != version:
		return About{}, fmt.Errorf("%s has version %d, and this pygent knows only %d: a later pygent may have written it", Manifest, head.Version, version)
	}
	var about About
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&about); err != nil {
		return About{}, fmt.Errorf("%w: %s: %w", ErrDamaged, Manifest, err)
	}
	return about, nil
}

// errNoManifest says what a directory without a manifest may be.
func errNoManifest(root *os.Root) error {
	err := fmt.Errorf("%w: it has no %s", ErrNoSnapshot, Manifest)
	if info, lerr := root.Lstat(History); lerr == nil && info.Mode().IsRegular() {
		return fmt.Errorf("%w; the conversation in its %s can be read with --history, and its files with --workspace", err, History)
	}
	return err
}

// readSmall reads one of the snapshot's own files.
func readSmall(root *os.Root, name string) ([]byte, error) {
	f, err := openOwn(root, name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxManifest+1))
	if err == nil && len(data) > maxManifest {
		err = fmt.Errorf("%s has more than %d bytes", name, maxManifest)
	}
	return data, err
}

// openOwn opens a file at the top, which must be no link and no pipe.
func openOwn(root *os.Root, name string) (*os.File, error) {
	info, err := root.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: %w", name, tree.ErrNotRegular)
	}
	return tree.OpenFile(tree.Entry{Dir: root, Base: name, Info: info})
}

// check compares what is there with the list.
func check(ctx context.Context, root *os.Root, about About) error {
	f, err := openOwn(root, List)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	defer f.Close()
	c := newChecker(f)
	contents, err := list(ctx, root, c.expect, c.compare)
	if err == nil {
		err = c.end()
	}
	if ctxErr := context.Cause(ctx); ctxErr != nil {
		return ctxErr
	}
	contents.List = digest(c.sum.Sum(nil))
	if err == nil && contents != about.Contents {
		err = fmt.Errorf("%s does not say what %s says", List, Manifest)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return nil
}

// checker compares the lines of a list with those of what is there.
type checker struct {
	lines *bufio.Scanner
	sum   hash.Hash
	own   map[string]bool // the snapshot's own files that were seen
	ahead bool            // the next line was read already
}

func newChecker(f io.Reader) *checker {
	c := &checker{sum: sha256.New(), own: map[string]bool{}}
	c.lines = bufio.NewScanner(io.TeeReader(f, c.sum))
	c.lines.Buffer(make([]byte, 4096), maxLine)
	return c
}

// expect compares what is there next by its size, before it is read: a stranger's file
// may be larger than anybody waits for.
func (c *checker) expect(is line) error {
	was, err := c.next(is)
	if err != nil {
		return err
	}
	if was.name() != is.name() || was.Kind != is.Kind || was.Size != is.Size {
		return difference(was, is)
	}
	return nil
}

// next reads the line about what is there next, once.
func (c *checker) next(is line) (was line, err error) {
	if !c.ahead && !c.lines.Scan() {
		return line{}, cmpErr(c.lines.Err(), fmt.Errorf("%s is not in %s", shown(is.name()), List))
	}
	c.ahead = true
	if err := json.Unmarshal(c.lines.Bytes(), &was); err != nil {
		return line{}, fmt.Errorf("%s: %w", List, err)
	}
	return was, nil
}

// compare takes what is there next.
func (c *checker) compare(is line) error {
	if err := c.kind(is); err != nil {
		return err
	}
	was, err := c.next(is)
	if err != nil {
		return err
	}
	c.ahead = false
	if bytes.Equal(c.lines.Bytes(), bytes.TrimSuffix(is.encoded(), []byte("\n"))) {
		return nil
	}
	return difference(was, is)
}

// owners returns the permissions of the owner, which a copy of a snapshot keeps
// whatever the umask is.
func owners(mode string) string { return mode[:min(2, len(mode))] }

// kind refuses something else in the place of the snapshot's own files: a link
// there would lead out of it.
func (c *checker) kind(is line) error {
	want := kindFile
	switch is.Path {
	case Workspace:
		want = kindDir
	case History, Notes, Log:
	default:
		return nil
	}
	c.own[is.Path] = true
	if is.Kind != want {
		return fmt.Errorf("%s is no %s", is.Path, want)
	}
	return nil
}

// end reports what is in the list and not there.
func (c *checker) end() error {
	if c.lines.Scan() {
		var was line
		if err := json.Unmarshal(c.lines.Bytes(), &was); err != nil {
			return fmt.Errorf("%s: %w", List, err)
		}
		return fmt.Errorf("%s is missing", shown(was.name()))
	}
	if err := c.lines.Err(); err != nil {
		return fmt.Errorf("%s: %w", List, err)
	}
	for _, name := range []string{History, Workspace} {
		if !c.own[name] {
			return fmt.Errorf("%s is missing", name)
		}
	}
	return nil
}

func cmpErr(err, or error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", List, err)
	}
	return or
}

// difference says how what is there differs from what was saved.
func difference(was, is line) error {
	name := shown(is.name())
	switch {
	case was.name() != is.name() && before(was.name(), is.name()):
		return fmt.Errorf("%s is missing", shown(was.name()))
	case was.name() != is.name():
		return fmt.Errorf("%s is not in %s", name, List)
	case was.Kind != is.Kind:
		return fmt.Errorf("%s is a %s and was a %s", name, is.Kind, shown(was.Kind))
	case was.Size != is.Size:
		return fmt.Errorf("%s has %d bytes and had %d", name, is.Size, was.Size)
	case was.SHA256 != is.SHA256:
		return fmt.Errorf("%s has another content than it had", name)
	case owners(was.Mode) == owners(is.Mode) && was.Target == is.Target && bytes.Equal(was.Raw, is.Raw):
		return nil
	case was.Mode != is.Mode:
		return fmt.Errorf("%s has the permissions %s and had %s", name, is.Mode, shown(was.Mode))
	}
	return fmt.Errorf("%s does not describe %s as it is", List, name)
}

// before reports whether a walk meets the first name before the second.
func before(a, b string) bool {
	for {
		aFirst, aRest, aMore := strings.Cut(a, "/")
		bFirst, bRest, bMore := strings.Cut(b, "/")
		if aFirst != bFirst {
			return aFirst < bFirst
		}
		if !aMore || !bMore {
			return !aMore
		}
		a, b = aRest, bRest
	}
}

// Size returns how many bytes one of the snapshot's own files has, 0 if it is not
// there.
func Size(dir, name string) int64 {
	info, err := os.Lstat(filepath.Join(dir, name))
	if err != nil || !info.Mode().IsRegular() {
		return 0
	}
	return info.Size()
}
