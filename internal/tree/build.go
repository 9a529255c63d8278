package tree

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"
)

// builder makes a tree in a stage. One goroutine calls its methods; files may be left
// to its team.
type builder struct {
	options ExtractOptions
	fresh   made                   // what the file system makes of something new here
	above   []*place               // from the stage to the directory that was entered last
	modes   map[string]fs.FileMode // of directories, set when the tree is in its place
	held    int                    // bytes of the names in modes
	files   atomic.Int64           // files and links that were made
	team    team
}

// maxModes limits the memory for directories whose modes are still to be set:
// it is the total size of their names, in bytes.
const maxModes = 64 << 20

// made is what the file system makes of something new in a stage.
type made struct {
	bits  fs.FileMode // of the permissions that were asked for, those that are left
	owner *Owner      // nil if it is not known
}

// newBuilder returns a builder below an empty directory, which it closes at its end.
func newBuilder(root *os.Root, o ExtractOptions) (*builder, error) {
	info, err := root.Stat(".")
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	top := &place{root: root, name: "."}
	top.users.Store(1)
	return &builder{
		options: o,
		fresh:   made{bits: info.Mode().Perm(), owner: ownerOf(info)},
		above:   []*place{top},
		modes:   make(map[string]fs.FileMode),
	}, nil
}

// end waits for the team and closes all directories. It returns the first error of
// the team.
func (b *builder) end() error {
	err := b.team.end()
	b.leaveTo("")
	return err
}

// place is a directory of a stage. It is closed when nobody uses it any more.
type place struct {
	root  *os.Root
	name  string // below the stage; "." for the stage itself
	users atomic.Int32
}

func (d *place) leave() {
	if d.users.Add(-1) == 0 {
		_ = d.root.Close() // it was only looked at
	}
}

// holds reports whether a path is that of the directory or leads through it.
func (d *place) holds(path string) bool {
	if d.name == "." {
		return path != ""
	}
	rest, ok := strings.CutPrefix(path, d.name)
	return ok && (rest == "" || rest[0] == filepath.Separator)
}

// leaveTo leaves the directories that do not lead to a path.
func (b *builder) leaveTo(path string) {
	n := len(b.above)
	for ; n > 0 && !b.above[n-1].holds(path); n-- {
		b.above[n-1].leave()
	}
	b.above = b.above[:n]
}

// enter returns an open directory of the stage. It makes those that are missing; a
// file or link in the place of one is replaced.
//
// Each is opened in its parent, so that what somebody else puts in its place meanwhile
// leads nowhere, and files in it cost no way through a long path.
func (b *builder) enter(path string) (*place, error) {
	b.leaveTo(path)
	for {
		d := b.above[len(b.above)-1]
		if d.name == path {
			return d, nil
		}
		rest := path
		if d.name != "." {
			rest = path[len(d.name)+1:]
		}
		base, _, _ := strings.Cut(rest, string(filepath.Separator))
		below, err := b.directoryIn(d, base)
		if err != nil {
			return nil, err
		}
		b.above = append(b.above, below)
	}
}

// directoryIn makes and opens a directory, or opens an existing one.
func (b *builder) directoryIn(d *place, base string) (*place, error) {
	below := &place{name: filepath.Join(d.name, base)}
	below.users.Store(1)
	b.team.await(below.name)
	err := b.makeDirectory(d, base)
	if err == nil {
		below.root, err = openRoot(d.root, base)
	}
	return below, err
}

// makeDirectory makes a directory, or keeps an existing one.
func (b *builder) makeDirectory(d *place, base string) error {
	create := func() error { return d.root.Mkdir(base, 0o777) }
	err := create()
	if errors.Is(err, fs.ErrExist) {
		if info, failed := d.root.Lstat(base); failed == nil && info.IsDir() {
			return nil
		}
		err = b.replace(d, base, create)
	}
	if err == nil {
		b.chown(d, base)
	}
	return err
}

// directory makes a directory. Its mode may forbid to write into it, so it is set
// at the end.
func (b *builder) directory(path string, mode fs.FileMode) error {
	if _, err := b.enter(path); err != nil {
		return err
	}
	if _, ok := b.modes[path]; !ok {
		if b.held += len(path); b.held > maxModes {
			return fmt.Errorf("%w: the names of its directories alone exceed %s", ErrTooLarge, size(maxModes))
		}
	}
	b.modes[path] = b.mode(mode)
	return nil
}

// link makes a symbolic link.
func (b *builder) link(path, target string) error {
	if b.options.NoLinks {
		return ErrLink
	}
	d, base, err := b.parent(path)
	if err != nil {
		return err
	}
	create := func() error { return d.root.Symlink(target, base) }
	if err = create(); errors.Is(err, fs.ErrExist) {
		err = b.replace(d, base, create)
	}
	if err != nil {
		return err
	}
	b.files.Add(1)
	b.chown(d, base)
	return nil
}

// parent enters the directory of something that is to be made next, once nobody makes
// something of the same name.
func (b *builder) parent(path string) (d *place, base string, err error) {
	b.team.await(path)
	d, err = b.enter(filepath.Dir(path))
	return d, filepath.Base(path), err
}

// replace removes the file or link that an earlier entry has made under a name, and
// tries again to make something else.
func (b *builder) replace(d *place, base string, create func() error) error {
	info, err := d.root.Lstat(base)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return fmt.Errorf("there is a directory in its place: %w", fs.ErrExist)
	}
	if err := d.root.Remove(base); err != nil {
		return err
	}
	b.files.Add(-1)
	return create()
}

// newFile describes a file that is to be made.
type newFile struct {
	path    string // below the stage
	mode    fs.FileMode
	modTime time.Time
	fill    func(file *os.File, buf []byte) error // writes the content
	drop    func()                                // releases what fill needs; called once
	failed  func(error) error                     // says what an error is about
}

// file makes a file at once.
func (b *builder) file(f newFile, buf []byte) error {
	defer f.drop()
	d, _, err := b.parent(f.path)
	if err == nil {
		err = b.write(d, f, buf)
	}
	return f.failed(err)
}

// fileLater leaves a file to the team, if that has members. The error may be that of
// an earlier file.
func (b *builder) fileLater(f newFile, buf []byte) error {
	d, _, err := b.parent(f.path)
	if err != nil {
		f.drop()
		return f.failed(err)
	}
	d.users.Add(1)
	return b.team.do(job{
		path: f.path,
		run:  func(buf []byte) error { return f.failed(b.write(d, f, buf)) },
		end:  func() { f.drop(); d.leave() },
	}, buf)
}

// write makes and fills a file in its directory. The team calls it too.
func (b *builder) write(d *place, f newFile, buf []byte) error {
	base := filepath.Base(f.path)
	var file *os.File
	create := func() (err error) {
		// Only this process reaches it in the stage. Without the flag, package os makes
		// four more calls.
		file, err = d.root.OpenFile(base, os.O_CREATE|os.O_EXCL|os.O_WRONLY|nonblock, f.mode)
		return err
	}
	err := create()
	if errors.Is(err, fs.ErrExist) {
		err = b.replace(d, base, create)
	}
	if err != nil {
		return err
	}
	b.files.Add(1)
	err = f.fill(file, buf)
	if wanted := b.mode(f.mode); err == nil && wanted != f.mode&b.fresh.bits {
		err = file.Chmod(wanted)
	}
	if err == nil && b.gives() {
		_ = file.Chown(b.options.Owner.UID, b.options.Owner.GID)
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	if f.modTime.Unix() > 0 {
		// Some file systems keep no times, which is no reason to fail.
		_ = d.root.Chtimes(base, time.Time{}, f.modTime)
	}
	return nil
}

// mode returns the mode for a file or directory: what is wanted, except write
// permissions that the umask forbids.
func (b *builder) mode(wanted fs.FileMode) fs.FileMode {
	const writable = 0o022
	if b.options.Open {
		return wanted
	}
	return wanted &^ (writable &^ b.fresh.bits)
}

// gives reports whether what is new has to be given to its owner.
func (b *builder) gives() bool {
	return b.options.Owner != nil && (b.fresh.owner == nil || *b.fresh.owner != *b.options.Owner)
}

// chown gives something new to its owner. If that is not allowed, it stays as it is.
func (b *builder) chown(d *place, base string) {
	if b.gives() {
		_ = d.root.Lchown(base, b.options.Owner.UID, b.options.Owner.GID)
	}
}
