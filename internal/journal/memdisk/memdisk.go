// Package memdisk is a file system in memory for tests of journals. It can be
// full, it can fail from a moment on, and it tells what is left after the power
// goes out: what was synced, and nothing that was not.
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

// ErrOff is the error of everything after the power went out.
var ErrOff = errors.New("the power is off")

// Disk is the file system. Its directories exist when they are asked for.
type Disk struct {
	mu      sync.Mutex
	names   map[string]*node
	durable map[string]*node // the names that survive a loss of power
	locks   map[string]bool
	room    int // how many bytes may still be written; below 0: any number
	steps   int // how many changes may still be made; below 0: any number
	made    int
}

// node is a file under whatever names.
type node struct {
	data   []byte
	synced []byte // the data that survives a loss of power
	names  int
	locked bool
}

// New returns an empty disk with room for everything.
func New() *Disk {
	return &Disk{names: map[string]*node{}, durable: map[string]*node{}, locks: map[string]bool{}, room: -1, steps: -1}
}

// SetRoom says how many bytes may still be written; below 0, any number.
func (d *Disk) SetRoom(bytes int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.room = bytes
}

// OffAfter has the power go out after that many more changes.
func (d *Disk) OffAfter(changes int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.steps = changes
}

// Changes tells how many changes were made.
func (d *Disk) Changes() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.made
}

// Names returns the names of all files.
func (d *Disk) Names() map[string]string {
	d.mu.Lock()
	defer d.mu.Unlock()
	names := map[string]string{}
	for name, n := range d.names {
		names[name] = string(n.data)
	}
	return names
}

// Write makes a file with data, or changes one, as another program would.
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

// Loss is what a loss of power takes of what was not synced. Disks differ in
// that, and a journal must stand all of it.
type Loss struct {
	Data     bool // the data of files
	Names    bool // new names, old ones that were removed, and replacements
	NewNames bool // new names alone: a replacement is there
}

// Losses are all kinds of loss, the last of which is none: the process alone
// was killed.
var Losses = []Loss{{Data: true, Names: true}, {Names: true}, {Data: true, NewNames: true}, {NewNames: true}, {Data: true}, {}}

// After returns the disk as it is after the power went out.
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

// change counts a change; the caller holds d.mu.
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

// Close gives the lock up.
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

// WriteAt writes as much as there is room for. Bytes over others need none.
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

// Truncate gives its room back.
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

// info tells of a file.
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
