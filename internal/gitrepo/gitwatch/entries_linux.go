package gitwatch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"syscall"
)

// Where the parts of a record of getdents64 are; see getdents(2).
const (
	sizeAt = 16
	typeAt = 18
	nameAt = 19
)

// readEntries returns at most n entries of an open directory. Those that were
// read before an error are returned with it. The kernel says with each name what
// it is: [os.File.ReadDir] asks for every file by itself if the directory was
// opened in an [os.Root], which takes several times as long.
func readEntries(dir *os.File, n int) (entries []entry, err error) {
	conn, err := dir.SyscallConn()
	if err != nil {
		return nil, err
	}
	buf := make([]byte, 32<<10)
	for len(entries) < n {
		var got int
		var failed error
		if err := conn.Control(func(fd uintptr) { got, failed = readRecords(int(fd), buf) }); err != nil {
			return entries, err
		}
		if failed != nil || got == 0 {
			return entries, failed
		}
		for rest := buf[:got]; len(rest) > 0 && len(entries) < n; {
			var e entry
			var known bool
			if e, known, rest, err = nextEntry(rest); err != nil {
				return entries, err
			}
			if !known { // the file system tells no types
				return statEntries(dir, n)
			}
			if e.name != "." && e.name != ".." {
				entries = append(entries, e)
			}
		}
	}
	return entries, nil
}

// readRecords fills a buffer with the next records of a directory.
func readRecords(fd int, buf []byte) (int, error) {
	for {
		n, err := syscall.ReadDirent(fd, buf)
		if !errors.Is(err, syscall.EINTR) {
			return n, err
		}
	}
}

// nextEntry returns the first entry of some records, whether its type is known, and
// the other records.
func nextEntry(records []byte) (e entry, known bool, rest []byte, err error) {
	if len(records) < nameAt {
		return e, false, nil, io.ErrUnexpectedEOF
	}
	size := int(binary.NativeEndian.Uint16(records[sizeAt:]))
	if size < nameAt || size > len(records) {
		return e, false, nil, io.ErrUnexpectedEOF
	}
	name, _, _ := bytes.Cut(records[nameAt:size], []byte{0})
	kind := records[typeAt]
	return entry{string(name), kind == syscall.DT_DIR}, kind != syscall.DT_UNKNOWN, records[size:], nil
}

// statEntries asks for the type of every entry.
func statEntries(dir *os.File, n int) ([]entry, error) {
	if _, err := dir.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	return listEntries(dir, n)
}
