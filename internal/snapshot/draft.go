package snapshot

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"github.com/x/pygent/internal/exchange"
	"github.com/x/pygent/internal/tree"
)

// The names in a snapshot.
const (
	Manifest  = "snapshot.json"
	List      = "files.jsonl"
	History   = "history.json"
	Notes     = History + ".pygent-meta"
	Workspace = "workspace"
	Log       = "pygent.log"
)

// Errors of [Begin].
var (
	// ErrExists is returned for a directory that has something and is not to be
	// replaced.
	ErrExists = errors.New("it exists already")
	// ErrNoSnapshot is returned for a directory that has none.
	ErrNoSnapshot = errors.New("not a snapshot of pygent")
)

// The format of the manifest.
const (
	format  = "pygent snapshot"
	version = 1
)

// About is the manifest: what a snapshot is.
type About struct {
	Format   string          `json:"format"`
	Version  int             `json:"version"`
	Saved    time.Time       `json:"saved"`
	Setup    json.RawMessage `json:"setup"`    // how the agent was set up
	Messages int             `json:"messages"` // of the conversation
	LeftOut  []LeftOut       `json:"left_out,omitempty"`
	More     bool            `json:"more_left_out,omitempty"` // there are others than those
	Contents Contents        `json:"contents"`
}

// LeftOut is a file of the workspace that is not in the snapshot.
type LeftOut struct {
	Path string `json:"path"`
	Why  string `json:"why"`
}

// Contents counts what is in the workspace of a snapshot.
type Contents struct {
	Files       int64  `json:"files"`
	Directories int64  `json:"directories"`
	Links       int64  `json:"links"`
	Bytes       int64  `json:"bytes"`
	List        string `json:"files_jsonl_sha256"` // the digest of the list, of all of the snapshot
}

// Draft is a snapshot that is being written. One goroutine may use it. Discard it at
// the end in any case.
type Draft struct {
	parent  *os.Root
	dir     string // where the snapshot goes
	stage   string // below parent
	release func() error
	replace bool
}

// Begin begins a snapshot that goes to dir, which must not exist or be an empty
// directory. With replace, it may be another snapshot. The directory above is made
// if it is missing.
func Begin(dir string, replace bool) (*Draft, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if filepath.Dir(dir) == dir {
		return nil, fmt.Errorf("%s: %w", dir, ErrExists)
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o777); err != nil {
		return nil, err
	}
	parent, err := os.OpenRoot(filepath.Dir(dir))
	if err != nil {
		return nil, err
	}
	d := &Draft{parent: parent, dir: dir, replace: replace}
	if _, err = d.inPlace(); err == nil {
		// What killed processes left here takes room.
		_ = tree.RemoveStages(context.Background(), parent)
		removeBegun(parent)
		d.stage, d.release, err = tree.MakeStage(parent)
	}
	if err != nil {
		return nil, errors.Join(err, parent.Close())
	}
	return d, nil
}

// begun is how long a process takes at most from making the directory of a draft to
// marking it.
const begun = time.Minute

var stageName = regexp.MustCompile(`^\.pygent-stage-[0-9a-z]{16,26}$`)

// removeBegun removes directories of drafts whose processes were killed before they
// had marked them. They are empty.
func removeBegun(parent *os.Root) {
	entries, _ := fs.ReadDir(parent.FS(), ".")
	for _, e := range entries {
		if !e.IsDir() || !stageName.MatchString(e.Name()) {
			continue
		}
		if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > begun {
			_ = parent.Remove(e.Name()) // which removes no other one
		}
	}
}

// inPlace looks at what is where the snapshot goes, and reports whether that is a
// snapshot to replace.
func (d *Draft) inPlace() (old bool, err error) {
	base := filepath.Base(d.dir)
	info, err := d.parent.Lstat(base)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if info.IsDir() && isEmpty(d.parent, base) {
		return false, nil
	}
	if !d.replace {
		return false, ErrExists
	}
	if !info.IsDir() || !looksSaved(d.parent, base) {
		return false, fmt.Errorf("%w, and only a snapshot is replaced", ErrNoSnapshot)
	}
	return true, nil
}

func isEmpty(parent *os.Root, name string) bool {
	f, err := parent.Open(name)
	if err != nil {
		return false
	}
	defer f.Close()
	names, _ := f.Readdirnames(1)
	return len(names) == 0
}

// looksSaved reports whether a directory has the manifest of a snapshot, perhaps of
// another version or of a damaged one.
func looksSaved(parent *os.Root, name string) bool {
	root, err := parent.OpenRoot(name)
	if err != nil {
		return false
	}
	defer root.Close()
	var head struct{ Format string }
	data, err := readSmall(root, Manifest)
	return err == nil && json.Unmarshal(data, &head) == nil && head.Format == format
}

// Dir is the directory to write to. It begins with nothing in it.
func (d *Draft) Dir() string { return filepath.Join(filepath.Dir(d.dir), d.stage) }

// Commit completes the snapshot and puts it in its place. If it fails, nothing has
// changed there.
func (d *Draft) Commit(ctx context.Context, about About) (About, error) {
	about.Format, about.Version = format, version
	root, err := d.parent.OpenRoot(d.stage)
	if err != nil {
		return about, err
	}
	defer root.Close()
	if about.Contents, err = writeList(ctx, root); err != nil {
		return about, err
	}
	data, err := json.MarshalIndent(about, "", "  ")
	if err != nil {
		return about, err
	}
	if err := writeFile(root, Manifest, append(data, '\n')); err != nil {
		return about, err
	}
	if err := exchange.SyncAll(root); err != nil {
		return about, err
	}
	if err := context.Cause(ctx); err != nil {
		return about, err
	}
	if err := root.Close(); err != nil {
		return about, err
	}
	if err := d.place(); err != nil {
		return about, err
	}
	return about, syncDir(d.parent)
}

// place puts the draft in its place. With an old snapshot it changes places.
func (d *Draft) place() error {
	base := filepath.Base(d.dir)
	old, err := d.inPlace()
	switch {
	case err != nil:
		return err
	case !old:
		if info, err := d.parent.Lstat(base); err == nil && info.IsDir() {
			_ = d.parent.Remove(base) // it is empty, or Rename refuses it
		}
		return placing(d.parent.Rename(d.stage, base))
	}
	err = exchange.Exchange(d.parent, d.stage, base)
	if errors.Is(err, errors.ErrUnsupported) {
		return d.placeSlowly(base)
	}
	return placing(err)
}

// placing leaves out of an error the name of the draft, which nobody knows.
func placing(err error) error {
	var link *os.LinkError
	if errors.As(err, &link) {
		err = link.Err
	}
	if err != nil {
		err = fmt.Errorf("put it in its place: %w", err)
	}
	return err
}

// placeSlowly replaces a snapshot where the system cannot exchange two names.
func (d *Draft) placeSlowly(base string) error {
	aside := base + ".replaced-" + time.Now().UTC().Format("20060102T150405")
	if err := d.parent.Rename(base, aside); err != nil {
		return err
	}
	if err := d.parent.Rename(d.stage, base); err != nil {
		return errors.Join(placing(err), d.parent.Rename(aside, base))
	}
	return tree.Remove(d.parent, aside)
}

// Discard removes what is not in its place: the draft, or the snapshot that it has
// replaced.
func (d *Draft) Discard() error { return errors.Join(d.release(), d.parent.Close()) }

func writeFile(root *os.Root, name string, data []byte) error {
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Sync(), f.Close())
}

// syncDir puts the names in a directory on stable storage, where the system does
// that.
func syncDir(root *os.Root) error {
	f, err := root.Open(".")
	if err != nil {
		return err
	}
	_ = f.Sync()
	return f.Close()
}

// digest is the digest of bytes as the list has it.
func digest(sum []byte) string { return hex.EncodeToString(sum) }

func digestOf(data []byte) string {
	sum := sha256.Sum256(data)
	return digest(sum[:])
}
