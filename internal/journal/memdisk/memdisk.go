// Package memdisk is a file system in memory for tests of journals. It can run
// full, it can fail after a number of changes, and it shows what is left after a
// loss of power, which may take everything that was not synced.
package memdisk

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/x/pygent/internal/journal"
)

// ErrOff is the error of every change after the power went out.
var ErrOff = errors.New("the power is off")

// Disk is the file system. Every directory exists on it. It is safe for
// concurrent use.
type Disk struct {
	mu      sync.Mutex
	names   map[string]*node
	durable map[string]*node // the names that survive a loss of power
	locks   map[string]bool
	room    int  // how many more bytes may be written; any number if negative
	steps   int  // how many more changes may be made; any number if negative
	unsafe  bool // nothing can be put on stable storage
	made    int  // how many changes were made
}

// node is a file, whatever its names are.
type node struct {
	data   []byte
	synced []byte // the data that survives a loss of power
	names  int
	locked bool
}

// New returns an empty disk without limits.
func New() *Disk {
	return &Disk{names: map[string]*node{}, durable: map[string]*node{}, locks: map[string]bool{}, room: -1, steps: -1}
}

// SetRoom sets how many more bytes may be written. A negative number means any
// number.
func (d *Disk) SetRoom(bytes int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.room = bytes
}

// OffAfter makes the power go out after that many more changes.
func (d *Disk) OffAfter(changes int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.steps = changes
}

// ErrUnsafe is the error of putting something on stable storage that there is none of.
var ErrUnsafe = errors.New("the disk does not take what is written")

// SetUnsafe has every Sync fail, though writes succeed, as on a disk that breaks.
func (d *Disk) SetUnsafe(unsafe bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.unsafe = unsafe
}

// Changes returns how many changes were made.
func (d *Disk) Changes() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.made
}

// Names returns the content of all files by name.
func (d *Disk) Names() map[string]string {
	d.mu.Lock()
	defer d.mu.Unlock()
	names := map[string]string{}
	for name, n := range d.names {
		names[name] = string(n.data)
	}
	return names
}

// Write creates a file with data or overwrites one, as another program would.
// The file is durable at once.
func (d *Disk) Write(name string, data []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := d.names[name]
	if n == nil {
		n = &node{names: 1}
		d.names[name], d.durable[name] = n, n
	}
	n.data, n.synced = bytes.Clone(data), bytes.Clone(data)
}

// Loss says which unsynced changes are lost with the power. Disks differ in
// that, and a journal must survive every kind.
type Loss struct {
	Data     bool // changes to the content of files
	Names    bool // all changes of names: new ones, removals and replacements
	NewNames bool // new names only; replacements survive
}

// Losses are all kinds of loss. The last one loses nothing, as when only the
// process is killed.
var Losses = []Loss{{Data: true, Names: true}, {Names: true}, {Data: true, NewNames: true}, {NewNames: true}, {Data: true}, {}}

// After returns a copy of the disk as it would be after the given loss.
func (d *Disk) After(loss Loss) *Disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	after := New()
	seen := map[*node]*node{}
	for name, n := range d.namesAfter(loss) {
		if seen[n] == nil {
			data := n.data
			if loss.Data {
				data = n.synced
			}
			seen[n] = &node{data: bytes.Clone(data), synced: bytes.Clone(data)}
		}
		seen[n].names++
		after.names[name] = seen[n]
	}
	after.durable = maps.Clone(after.names)
	return after
}

func (d *Disk) namesAfter(loss Loss) map[string]*node {
	switch {
	case loss.Names:
		return d.durable
	case loss.NewNames:
		names := maps.Clone(d.names)
		maps.DeleteFunc(names, func(name string, _ *node) bool { return d.durable[name] == nil })
		return names
	}
	return d.names
}

// change counts a change, or returns ErrOff if the power is off. The caller
// holds d.mu.
func (d *Disk) change() error {
	if d.steps == 0 {
		return ErrOff
	}
	d.steps--
	d.made++
	return nil
}

// OpenFile implements [journal.Disk].
func (d *Disk) OpenFile(name string, flag int, _ fs.FileMode) (journal.File, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := d.names[name]
	switch {
	case n != nil && flag&os.O_EXCL != 0:
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrExist}
	case n == nil && flag&os.O_CREATE == 0:
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	case n == nil:
		if err := d.change(); err != nil {
			return nil, err
		}
		n = &node{names: 1}
		d.names[name] = n
	}
	return &file{disk: d, node: n, name: name}, nil
}

// Stat implements [journal.Disk].
func (d *Disk) Stat(name string) (fs.FileInfo, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := d.names[name]
	if n == nil {
		return nil, &fs.PathError{Op: "stat", Path: name, Err: fs.ErrNotExist}
	}
	return info{n, int64(len(n.data))}, nil
}

// SameFile implements [journal.Disk].
func (d *Disk) SameFile(a, b fs.FileInfo) bool { return a.(info).node == b.(info).node }

// MkdirAll implements [journal.Disk].
func (d *Disk) MkdirAll(string) error { return nil }

// Link implements [journal.Disk].
func (d *Disk) Link(old, new string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.names[new] != nil {
		return &os.LinkError{Op: "link", Old: old, New: new, Err: fs.ErrExist}
	}
	if err := d.change(); err != nil {
		return err
	}
	d.names[new] = d.names[old]
	d.names[old].names++
	return nil
}

// Rename implements [journal.Disk].
func (d *Disk) Rename(old, new string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.change(); err != nil {
		return err
	}
	if n := d.names[new]; n != nil {
		n.names--
	}
	d.names[new] = d.names[old]
	delete(d.names, old)
	return nil
}

// Remove implements [journal.Disk].
func (d *Disk) Remove(name string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := d.names[name]
	if n == nil {
		return &fs.PathError{Op: "remove", Path: name, Err: fs.ErrNotExist}
	}
	if err := d.change(); err != nil {
		return err
	}
	n.names--
	delete(d.names, name)
	return nil
}

// SyncDir implements [journal.Disk].
func (d *Disk) SyncDir(dir string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.change(); err != nil {
		return err
	}
	if d.unsafe {
		return ErrUnsafe
	}
	in := func(name string, _ *node) bool { return filepath.Dir(name) == dir }
	maps.DeleteFunc(d.durable, in)
	for name, n := range d.names {
		if in(name, n) {
			d.durable[name] = n
		}
	}
	return nil
}

// Lock implements [journal.Disk].
func (d *Disk) Lock(name string) (io.Closer, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.locks[name] {
		return nil, journal.ErrInUse
	}
	d.locks[name] = true
	return unlock(func() { delete(d.locks, name) }).under(&d.mu), nil
}

type unlock func()

func (u unlock) under(mu *sync.Mutex) unlock {
	return func() {
		mu.Lock()
		defer mu.Unlock()
		u()
	}
}

// Close releases the lock.
func (u unlock) Close() error {
	u()
	return nil
}

// file is an open file.
type file struct {
	disk   *Disk
	node   *node
	name   string
	at     int
	locked bool
}

func (f *file) Read(p []byte) (int, error) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	n := copy(p, f.node.data[min(f.at, len(f.node.data)):])
	if f.at += n; n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

// ReadAt implements [io.ReaderAt].
func (f *file) ReadAt(p []byte, at int64) (int, error) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	n := copy(p, f.node.data[min(int(at), len(f.node.data)):])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// WriteAt writes as much as there is room for. Overwriting bytes takes no room.
func (f *file) WriteAt(p []byte, at int64) (int, error) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if err := f.disk.change(); err != nil {
		return 0, err
	}
	n := len(p)
	grow := max(0, int(at)+n-len(f.node.data))
	if room := f.disk.room; room >= 0 && grow > room {
		n -= grow - room
		grow = room
	}
	if f.disk.room >= 0 {
		f.disk.room -= grow
	}
	f.node.data = append(f.node.data, make([]byte, grow)...)
	copy(f.node.data[at:], p[:n])
	if n < len(p) {
		return n, &fs.PathError{Op: "write", Path: f.name, Err: syscall.ENOSPC}
	}
	return n, nil
}

// Truncate gives back the room of the bytes that it cuts off.
func (f *file) Truncate(size int64) error {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if err := f.disk.change(); err != nil {
		return err
	}
	if f.disk.room >= 0 {
		f.disk.room += len(f.node.data) - int(size)
	}
	f.node.data = f.node.data[:size:size]
	return nil
}

func (f *file) Sync() error {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if err := f.disk.change(); err != nil {
		return err
	}
	if f.disk.unsafe {
		return ErrUnsafe
	}
	f.node.synced = bytes.Clone(f.node.data)
	return nil
}

func (f *file) Stat() (fs.FileInfo, error) {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	return info{f.node, int64(len(f.node.data))}, nil
}

func (f *file) Lock() error {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if f.node.locked {
		return journal.ErrInUse
	}
	f.node.locked, f.locked = true, true
	return nil
}

func (f *file) Shared() bool {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	return f.node.names > 1
}

func (f *file) Take(fs.FileInfo) {}

func (f *file) Close() error {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	if f.locked {
		f.node.locked = false
	}
	return nil
}

// info describes a file.
type info struct {
	node *node
	size int64
}

func (i info) Name() string       { return "" }
func (i info) Size() int64        { return i.size }
func (i info) Mode() fs.FileMode  { return 0o600 }
func (i info) ModTime() time.Time { return time.Time{} }
func (i info) IsDir() bool        { return false }
func (i info) Sys() any           { return nil }
