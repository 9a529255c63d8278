//go:build !linux && !darwin

package treedir

import (
	"os"
	"path"
)

// filesIn opens the files of one directory after the other for reading.
type filesIn struct{}

// open opens a regular file in a directory. It never blocks, and follows no link.
func (filesIn) open(of *os.Root, name string) (readFile, error) {
	f, err := openFileIn(of, path.Base(name))
	return readFile{f, name}, err
}

// leave has nothing to close.
func (filesIn) leave() {}

// readFile is an open file.
type readFile struct {
	*os.File
	name string
}

// Stat implements [Opened].
func (f readFile) Stat() (Entry, error) {
	info, err := f.File.Stat()
	if err != nil {
		return Entry{}, err
	}
	e := entryOf(info)
	e.Name = f.name
	return e, nil
}
