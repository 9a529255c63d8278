package journal

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
)

// Notes is a file of lines beside the file of a [Record], for what is known
// about its elements but cannot be in it. The lines are secondary: their file
// may be torn, old or missing. Only one goroutine at a time may call its methods.
type Notes struct {
	disk Disk
	of   string // the path of the record's file when the notes were made
	path string
	f    File // nil until the first append
	end  int64
	torn bool // the file may end within a line
}

// notesOf returns the path of the notes beside the file at path.
func notesOf(path string) string { return path + ".pygent-meta" }

// notesHeader is the first line of a file of notes. A file that begins otherwise
// is a stranger's, and is left as it is.
const notesHeader = `{"pygent":"notes of a history"}` + "\n"

// readHeader reads as much of a file as the header has, and returns an error if
// that is none. An empty file is taken over, and so is one whose writer was
// killed within the header.
func readHeader(f File, path string) (head []byte, err error) {
	head, err = io.ReadAll(io.LimitReader(f, int64(len(notesHeader))))
	if err == nil && !strings.HasPrefix(notesHeader, string(head)) {
		err = fmt.Errorf("%s is something else, and is left as it is", path)
	}
	return head, err
}

// maxNotesFile is the size in bytes of the largest file of notes that is read.
const maxNotesFile = 256 << 20

// Notes returns the notes beside the record's file, and the lines that they
// have. Notes that were left by an earlier file of this name are removed. A file
// of that name which has no notes is an error, and is left as it is.
func (r *Record[T]) Notes() (*Notes, [][]byte, error) {
	n := &Notes{disk: r.journal.disk, of: r.journal.path, path: notesOf(r.journal.path), torn: true}
	if r.journal.fresh {
		return n, nil, n.discard()
	}
	lines, err := readNotes(n.disk, n.path)
	return n, lines, err
}

// NotesMoved reports whether the record's file has moved away from the notes. If
// so, it returns new ones beside it, which have no lines yet.
func (r *Record[T]) NotesMoved(n *Notes) (*Notes, bool) {
	if n.of == r.journal.path {
		return n, false
	}
	_ = n.Close()
	return &Notes{disk: n.disk, of: r.journal.path, path: notesOf(r.journal.path)}, true
}

// discard removes the notes that an earlier file left.
func (n *Notes) discard() error {
	f, err := openRegular(n.disk, n.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	head, err := readHeader(f, n.path)
	if err := errors.Join(err, f.Close()); err != nil || len(head) == 0 {
		return err
	}
	return n.disk.Remove(n.path)
}

func readNotes(disk Disk, path string) ([][]byte, error) {
	f, err := openRegular(disk, path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if head, err := readHeader(f, path); err != nil || len(head) < len(notesHeader) {
		return nil, err
	}
	data, err := readRest(f, maxNotesFile)
	return bytes.Split(data, []byte("\n")), err
}

// openRegular opens a file for reading, if it is a regular one.
func openRegular(disk Disk, path string) (File, error) {
	info, err := disk.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, foreign("not a regular file")
	}
	return disk.OpenFile(path, os.O_RDONLY, 0)
}

// readWhole returns the content of a regular file.
func readWhole(disk Disk, path string, limit int64) ([]byte, error) {
	f, err := openRegular(disk, path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readRest(f, limit)
}

func readRest(f io.Reader, limit int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = foreign("larger than %d MiB", limit>>20)
	}
	return data, err
}

// Append adds lines. What of them could not be written is lost.
func (n *Notes) Append(lines ...[]byte) error {
	if len(lines) == 0 {
		return nil
	}
	if err := n.open(); err != nil {
		return err
	}
	var block []byte
	switch {
	case n.end == 0:
		block = append(block, notesHeader...)
	case n.torn:
		block = append(block, '\n')
	}
	for _, line := range lines {
		block = append(append(block, line...), '\n')
	}
	n.torn = true
	if _, err := n.f.WriteAt(block, n.end); err != nil {
		return err
	}
	n.end += int64(len(block))
	n.torn = false
	return nil
}

// open opens the file, if it is not open yet.
func (n *Notes) open() error {
	if n.f != nil {
		return nil
	}
	f, err := n.disk.OpenFile(n.path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = foreign("not a regular file")
	}
	var head []byte
	if err == nil {
		head, err = readHeader(f, n.path)
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	n.f, n.end = f, 0
	if len(head) == len(notesHeader) {
		n.end = info.Size()
	}
	return nil
}

// Close closes the file.
func (n *Notes) Close() error {
	if n.f == nil {
		return nil
	}
	err := n.f.Close()
	n.f = nil
	return err
}

// readTries is how often [Read] reads a file that looks damaged, since another
// process may be writing to it.
const readTries = 5

// Read returns the complete elements of the file at path, and the lines of the
// notes beside it. It locks and changes nothing, and another process may be
// writing to the file. repairs says what was damaged or is lost; that an element
// at the end is not complete yet does not count.
func Read[T any](disk Disk, path string, format Format[T]) (elements []T, lines [][]byte, repairs []string, err error) {
	var found *Found[T]
	for range readTries {
		var data []byte
		if data, err = readWhole(disk, path, maxFile); err != nil {
			return nil, nil, nil, err
		}
		if len(bytes.TrimSpace(data)) == 0 {
			return nil, nil, nil, nil
		}
		if found, err = Scan(data, format); err == nil && found.onlyCut() {
			break
		}
	}
	if err != nil {
		return nil, nil, nil, err
	}
	if !found.onlyCut() {
		if len(found.Elements) > 0 {
			if err := format.Doubt(found.Elements); err != nil {
				return nil, nil, nil, &ForeignError{Err: err}
			}
		}
		r := Record[T]{format: format, tell: func(note string) { repairs = append(repairs, note) }}
		r.tellAll(r.describe(found))
	}
	lines, err = readNotes(disk, notesOf(path))
	if err != nil {
		repairs = append(repairs, fmt.Sprintf("what is known about the %ss cannot be read: %v", format.Element, err))
	}
	return found.Elements, lines, repairs, nil
}
