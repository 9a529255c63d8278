// Package journal keeps a JSON array in a file that only grows at its end. It
// handles bytes; what the elements mean is up to its caller.
//
// Between any two calls the file is a complete JSON array. An append is one
// write: the new elements and a new closing bracket overwrite the old bracket,
// so it costs only the size of the new elements. A process that is killed
// during that write leaves an array that is cut off, and [Scan] reads it up to
// the cut.
//
// Callers use a [Record], which repairs a damaged file and copes with changes
// that others make to it. Below it, opening takes three steps. [Open] locks the
// file and reads it. [Scan] finds the elements, also between damaged parts. Then
// [Journal.Use] continues with a sound file, or [Journal.Replace] replaces a
// damaged one.
//
// Package pygent keeps the histories of agents with it.
package journal

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/x/pygent/internal/patherr"
)

// Errors to be tested with errors.Is.
var (
	// ErrInUse is returned when another journal, in this process or in another
	// one, has the same file open.
	ErrInUse = errors.New("the file is in use")
	// ErrChanged is returned when the file is not as the journal left it.
	ErrChanged = errors.New("something else changed the file")
)

// ForeignError is the error for a file that is not a journal.
type ForeignError struct{ Err error }

// Error says what the file holds, or what it lacks.
func (e *ForeignError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *ForeignError) Unwrap() error { return e.Err }

func foreign(format string, args ...any) error {
	return &ForeignError{fmt.Errorf(format, args...)}
}

// Kinds of ErrChanged.
var (
	errGone     = fmt.Errorf("%w: it is gone", ErrChanged)
	errReplaced = fmt.Errorf("%w: another file is in its place", ErrChanged)
)

// maxFile is the size in bytes of the largest file that is loaded. It guards
// against a path that names something else by mistake.
const maxFile = 2 << 30

// maxForeignFile is the same for a file in a directory that untrusted programs
// can write to. A sparse file of two gigabytes would cost them nothing.
const maxForeignFile = 256 << 20

// tail is what follows the last element.
const tail = "\n]\n"

// Journal is a JSON array in a file, one element a line. Its methods are called
// by one goroutine at a time.
type Journal struct {
	disk Disk
	home string // the path it was opened with, links resolved
	path string // where it is now; may differ from home after Move
	lock io.Closer

	f      File        // nil after a failed replacement, until it is opened again
	id     fs.FileInfo // identifies f
	locked []File      // replaced files that still have other names

	end       int64  // offset after the last element, or after the opening bracket
	size      int64  // of the whole file; negative if a failed write left it unknown
	empty     bool   // whether neither the file nor unwritten has an element
	unwritten []byte // elements that are not in the file yet, as the bytes to write at end
	unnamed   bool   // whether the file's name may not be on stable storage yet
	fresh     bool   // whether the file was missing or blank when it was opened
}

// Open opens and locks the file at path, and returns its content. It creates a
// missing file with an empty array. Call Use or Replace before any other method.
// The disk is closed with the journal, and when Open fails. The error is
// [ErrInUse] when the file is locked, and a [ForeignError] when it cannot be a
// journal.
func Open(disk Disk, path string) (*Journal, []byte, error) {
	j, data, err := open(disk, path)
	if err != nil {
		return nil, nil, errors.Join(err, closeDisk(disk))
	}
	return j, data, nil
}

// open is Open, but leaves the disk open when it fails.
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
	if j.lock, err = disk.Lock(path + ".lock"); err != nil && !errors.Is(err, ErrInUse) {
		err = fmt.Errorf("no lock can be made beside it: %w", patherr.Cause(err))
	}
	if err != nil {
		return nil, nil, err
	}
	if data, err = j.load(); err != nil {
		return nil, nil, errors.Join(err, j.release())
	}
	// A link may lead to a file that load has just created.
	j.path = resolved(disk, path)
	j.home = j.path
	return j, data, nil
}

// resolved follows links, so that a file has the same lock and the same place
// for its replacement whichever link it is opened by. In an untrusted directory
// it follows none.
func resolved(disk Disk, path string) string {
	if _, ok := disk.(*within); ok {
		return path
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	return path
}

// load opens the file and reads it. It makes a blank file an empty array.
func (j *Journal) load() ([]byte, error) {
	// A process that was killed while it replaced the file leaves this behind.
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
	j.end, j.empty, j.fresh = 1, true, true
	if err := j.f.Truncate(0); err != nil {
		return nil, err
	}
	return []byte("[" + tail), j.write([]byte("["+tail), 0)
}

// open opens and locks the file at the journal's path. If j.id is set, it must
// be that file.
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

// content reads the whole file. A closed one is opened for that, if it is still
// there.
func (j *Journal) content() ([]byte, error) {
	if j.f != nil {
		return readRest(io.NewSectionReader(j.f, 0, maxFile+1), maxFile)
	}
	disk := j.disk
	if w, ok := disk.(*within); ok {
		again, err := Within(w.dir) // the journal's own is closed with it
		if err != nil {
			return nil, err
		}
		defer closeDisk(again)
		disk = again
	}
	return readWhole(disk, j.path, maxFile)
}

// Path returns the path of the file, which Move may change.
func (j *Journal) Path() string { return j.path }

// Use continues with the file as it is. end is the offset after its last
// element, or after its opening bracket if it is empty.
func (j *Journal) Use(end int, empty bool) { j.end, j.empty = int64(end), empty }

// Append adds elements with one write. If that fails, the journal keeps them,
// and the next Append or Sync writes them.
func (j *Journal) Append(elements ...[]byte) error {
	for _, element := range elements {
		j.unwritten = j.line(j.unwritten, element)
	}
	return j.flush()
}

// line appends an element on a line of its own to buf, after a comma if it is
// not the first.
func (j *Journal) line(buf, element []byte) []byte {
	if !j.empty {
		buf = append(buf, ',')
	}
	j.empty = false
	return append(append(buf, '\n'), element...)
}

// flush writes the unwritten elements and the end of the array in one write.
func (j *Journal) flush() error {
	if err := j.check(); err != nil {
		return err
	}
	if len(j.unwritten) == 0 {
		return nil
	}
	length := int64(len(j.unwritten))
	block := append(j.unwritten, '\n', ']')
	// A file that another program wrote may end in more white space than ours.
	for j.end+int64(len(block))+1 < j.size {
		block = append(block, ' ')
	}
	block = append(block, '\n')
	if err := j.write(block, j.end); err != nil {
		// The disk may be full. What is in the file must still be readable.
		return joined(err, j.closeArray())
	}
	j.end += length
	j.unwritten = block[:0]
	if cap(block) > 64<<10 {
		j.unwritten = nil // do not hold the memory of one large element for good
	}
	return nil
}

// write writes data, which is to be the end of the file.
func (j *Journal) write(data []byte, at int64) error {
	j.size = -1
	if _, err := j.f.WriteAt(data, at); err != nil {
		return err
	}
	j.size = at + int64(len(data))
	return nil
}

// closeArray ends the array after the last element that was written without an
// error.
func (j *Journal) closeArray() error {
	if err := j.f.Truncate(j.end); err != nil {
		return err
	}
	return j.write([]byte(tail), j.end)
}

// joined adds to err the error of what was done after it, unless that has the
// same cause.
func joined(err, after error) error {
	var path *fs.PathError
	if after == nil || errors.As(after, &path) && errors.Is(err, path.Err) {
		return err
	}
	return fmt.Errorf("%w; then %w", err, after)
}

// check returns an error unless the file at the journal's path is still the
// journal's, and as the journal left it. It opens the file if it is not open.
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

// Close releases the file, its lock and the disk. It writes nothing, so call
// Sync before it.
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

// closeDisk closes a disk that can be closed.
func closeDisk(disk Disk) error {
	if c, ok := disk.(io.Closer); ok {
		return c.Close()
	}
	return nil
}
