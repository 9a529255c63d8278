// Package journal keeps a JSON array in a file that only grows at its end. It
// knows bytes: what the elements mean is its caller's business.
//
// The file is a whole JSON array between any two calls. An append is one write,
// which puts the new elements and a bracket of their own over the closing
// bracket, so it costs the size of the new elements. A process that is killed
// in that write leaves an array that is cut off, and [Scan] reads it up to there.
//
// A [Record] is what callers use: it repairs the file, and lives with whatever
// else is done to it. Below it, opening takes three steps. [Open] locks the file
// and reads it. [Scan] finds the elements, also between parts that are damaged.
// Then [Journal.Use] goes on with a file that is sound, or [Journal.Replace] puts
// a sound one in its place.
//
// The histories of agents are kept with it.
package journal

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Errors to be tested with errors.Is.
var (
	// ErrInUse is returned when another journal, of this process or of another
	// one, has the same file open.
	ErrInUse = errors.New("the file is in use")
	// ErrChanged is returned when the file is not as the journal left it.
	ErrChanged = errors.New("the file was changed by something else")
)

// ForeignError is the error for a file that holds something else than a journal.
type ForeignError struct{ Err error }

// Error says what is there, or what is not.
func (e *ForeignError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *ForeignError) Unwrap() error { return e.Err }

func foreign(format string, args ...any) error {
	return &ForeignError{fmt.Errorf(format, args...)}
}

// How a file was changed.
var (
	errGone     = fmt.Errorf("%w: it is gone", ErrChanged)
	errReplaced = fmt.Errorf("%w: another file is in its place", ErrChanged)
)

// maxFile bounds the files that are loaded, for a path that names something
// else by mistake.
const maxFile = 2 << 30

// maxForeignFile bounds those that lie where others write: a hole of two
// gigabytes costs them nothing.
const maxForeignFile = 256 << 20

// tail is what follows the last element.
const tail = "\n]\n"

// Journal is a JSON array in a file, one element a line. Its methods are called
// by one goroutine at a time.
type Journal struct {
	disk Disk
	home string // the name it was opened by, links resolved
	path string // where it is now; another name after Move
	lock io.Closer

	f      File        // nil after a failed replacement, until it is opened again
	id     fs.FileInfo // which file f is
	locked []File      // files that were replaced and have other names still

	end       int64  // where the last element ends, or the opening bracket
	size      int64  // of the whole file; below 0 when a failed write left it unknown
	empty     bool   // no element is in the file or in unwritten
	unwritten []byte // elements that are not in the file yet, ready for end
	unnamed   bool   // the file's name may not be on stable storage
}

// Open locks the file at path, or creates it with an empty array, and returns
// what it holds. Use or Replace has to follow before anything else.
func Open(disk Disk, path string) (*Journal, []byte, error) {
	j, data, err := open(disk, path)
	if err != nil {
		return nil, nil, errors.Join(err, closeDisk(disk))
	}
	return j, data, nil
}

// open is Open, and leaves the disk open when it fails.
func open(disk Disk, path string) (_ *Journal, data []byte, err error) {
	if path, err = filepath.Abs(path); err != nil {
		return nil, nil, err
	}
	if err := disk.MkdirAll(filepath.Dir(path)); err != nil {
		return nil, nil, err
	}
	path = resolved(disk, path)
	info, err := disk.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		return nil, nil, foreign("not a regular file")
	}
	j := &Journal{disk: disk, home: path, path: path, unnamed: true}
	if j.lock, err = disk.Lock(path + ".lock"); err != nil {
		return nil, nil, err
	}
	if data, err = j.load(); err != nil {
		return nil, nil, errors.Join(err, j.release())
	}
	// A link may have led to a file that was made only now.
	j.path = resolved(disk, path)
	j.home = j.path
	return j, data, nil
}

// resolved follows links, so that one file has one lock and one place for its
// replacement under all names. Within a directory that is not trusted there are
// no links to follow.
func resolved(disk Disk, path string) string {
	if _, ok := disk.(*within); ok {
		return path
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	return path
}

// load opens the file and reads it. A file with nothing in it gets an array.
func (j *Journal) load() ([]byte, error) {
	// Left by a process that was killed while it replaced the file.
	if err := j.disk.Remove(j.temp()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err := j.open(os.O_CREATE); err != nil {
		return nil, err
	}
	limit := int64(maxFile)
	if _, ok := j.disk.(*within); ok {
		limit = maxForeignFile
	}
	if j.id.Size() > limit {
		return nil, foreign("larger than %d MiB", limit>>20)
	}
	data, err := io.ReadAll(io.LimitReader(j.f, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(data)) > limit {
		return nil, foreign("larger than %d MiB", limit>>20)
	}
	j.size = int64(len(data))
	if len(bytes.TrimSpace(data)) > 0 {
		return data, nil
	}
	j.end, j.empty = 1, true
	if err := j.f.Truncate(0); err != nil {
		return nil, err
	}
	return []byte("[" + tail), j.write([]byte("["+tail), 0)
}

// open opens and locks the file at the journal's path. It has to be the file
// that j.id tells of, if that is known.
func (j *Journal) open(flag int) error {
	f, err := j.disk.OpenFile(j.path, os.O_RDWR|flag, 0o600)
	if err != nil {
		return err
	}
	id, err := f.Stat()
	if err == nil && !id.Mode().IsRegular() {
		err = foreign("not a regular file")
	}
	if err == nil && j.id != nil && !j.disk.SameFile(id, j.id) {
		err = errReplaced
	}
	if err == nil {
		err = f.Lock()
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	j.f, j.id = f, id
	return nil
}

// Path returns the name of the file.
func (j *Journal) Path() string { return j.path }

// Use goes on with a file whose last element, or opening bracket, ends at end.
func (j *Journal) Use(end int, empty bool) { j.end, j.empty = int64(end), empty }

// Append adds elements with one write. After an error they wait to be written
// by the next Append or Sync.
func (j *Journal) Append(elements ...[]byte) error {
	for _, element := range elements {
		j.unwritten = j.line(j.unwritten, element)
	}
	return j.flush()
}

// line adds an element's line and what parts it from the line before to buf.
func (j *Journal) line(buf, element []byte) []byte {
	if !j.empty {
		buf = append(buf, ',')
	}
	j.empty = false
	return append(append(buf, '\n'), element...)
}

// flush writes what is unwritten and the end of the array in one write.
func (j *Journal) flush() error {
	if err := j.check(); err != nil {
		return err
	}
	if len(j.unwritten) == 0 {
		return nil
	}
	length := int64(len(j.unwritten))
	block := append(j.unwritten, '\n', ']')
	// What others wrote may end in more white space than we do.
	for j.end+int64(len(block))+1 < j.size {
		block = append(block, ' ')
	}
	block = append(block, '\n')
	if err := j.write(block, j.end); err != nil {
		// The disk may be full: what is in the file must be readable still.
		return joined(err, j.closeArray())
	}
	j.end += length
	j.unwritten = block[:0]
	if cap(block) > 64<<10 {
		j.unwritten = nil // one large element must not be held twice for good
	}
	return nil
}

// write writes data, which ends the file.
func (j *Journal) write(data []byte, at int64) error {
	j.size = -1
	if _, err := j.f.WriteAt(data, at); err != nil {
		return err
	}
	j.size = at + int64(len(data))
	return nil
}

// closeArray makes the file end after the last element that is surely in it.
func (j *Journal) closeArray() error {
	if err := j.f.Truncate(j.end); err != nil {
		return err
	}
	return j.write([]byte(tail), j.end)
}

// joined adds the error of what was tried after a failure, unless it says the
// same.
func joined(err, after error) error {
	var path *fs.PathError
	if after == nil || errors.As(after, &path) && errors.Is(err, path.Err) {
		return err
	}
	return fmt.Errorf("%w; then %w", err, after)
}

// check finds out whether the file at the journal's path is the one it wrote,
// as it left it.
func (j *Journal) check() error {
	named, err := j.disk.Stat(j.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return errGone
	case err != nil:
		return err
	case !j.disk.SameFile(named, j.id):
		return errReplaced
	case j.f == nil:
		return j.open(0)
	case j.size < 0:
		j.size = named.Size()
	case named.Size() != j.size:
		return fmt.Errorf("%w: it has %d bytes and had %d", ErrChanged, named.Size(), j.size)
	}
	return nil
}

// Sync writes what is unwritten and puts the file on stable storage.
func (j *Journal) Sync() error {
	if err := j.flush(); err != nil {
		return err
	}
	if err := j.f.Sync(); err != nil {
		return err
	}
	return j.syncName()
}

// syncName puts the file's name on stable storage.
func (j *Journal) syncName() error {
	if !j.unnamed {
		return nil
	}
	if err := j.disk.SyncDir(filepath.Dir(j.path)); err != nil {
		return err
	}
	j.unnamed = false
	return nil
}

// Close releases the file and its lock and writes nothing: Sync comes before it.
func (j *Journal) Close() error { return errors.Join(j.release(), closeDisk(j.disk)) }

func (j *Journal) release() error {
	var err error
	if j.f != nil {
		err = j.f.Close()
		j.f = nil
	}
	for _, f := range j.locked {
		err = errors.Join(err, f.Close())
	}
	j.locked = nil
	return errors.Join(err, j.lock.Close())
}

// closeDisk releases a disk that holds something.
func closeDisk(disk Disk) error {
	if c, ok := disk.(io.Closer); ok {
		return c.Close()
	}
	return nil
}
