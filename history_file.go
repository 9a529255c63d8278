package pygent

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// maxHistoryFile bounds the files that are loaded, for a path that names
// something else by mistake.
const maxHistoryFile = 2 << 30

// historyEnd is what follows the last message.
const historyEnd = "\n]\n"

// historyFile is the file of a durable history: one JSON array, one message a
// line. An append overwrites the closing bracket with the new messages and a
// bracket of their own in a single write, so that the file is valid JSON before
// and after. Its methods are called by one goroutine at a time.
type historyFile struct {
	path string
	lock *historyLock
	f    storage // nil after a failed replace, until it is opened again

	end       int64  // where the last message ends, or the opening bracket
	size      int64  // of the whole file
	empty     bool   // no message is in the file or in unwritten
	unwritten []byte // messages that are not in the file yet, ready for end
}

// storage is what a history needs of an [os.File].
type storage interface {
	io.WriterAt
	io.Closer
	Truncate(size int64) error
	Sync() error
}

// openHistoryFile opens or creates the file at path, repairs it if it has to,
// and returns it with its messages.
func openHistoryFile(path string) (_ *historyFile, _ *loadedHistory, err error) {
	if path, err = filepath.Abs(path); err != nil {
		return nil, nil, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, nil, err
	}
	// One file has one lock and one place for its replacement, under all names.
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, nil, fmt.Errorf("%w: not a regular file", ErrNotHistory)
	}
	lock, err := lockHistory(path + ".lock")
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			lock.release()
		}
	}()
	// Left by a process that was killed while it replaced the file.
	if err := os.Remove(path + ".tmp"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, nil, err
	}
	s := &historyFile{path: path, lock: lock, f: f}
	loaded, err := s.load(f)
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return s, loaded, nil
}

// load reads the messages and makes the file fit for appends.
func (s *historyFile) load(f *os.File) (*loadedHistory, error) {
	data, err := io.ReadAll(io.LimitReader(f, maxHistoryFile+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxHistoryFile {
		return nil, fmt.Errorf("%w: larger than %d bytes", ErrNotHistory, maxHistoryFile)
	}
	loaded, err := parseHistory(data)
	if err != nil {
		return nil, err
	}
	s.end, s.size, s.empty = int64(loaded.end), int64(len(data)), len(loaded.messages) == 0
	switch {
	case len(bytes.TrimSpace(data)) == 0:
		s.end = 1
		return loaded, s.rewrite([]byte("[" + historyEnd))
	case loaded.torn:
		return loaded, s.repair(loaded, data[loaded.end:])
	}
	return loaded, nil
}

// rewrite makes data the whole content of the file.
func (s *historyFile) rewrite(data []byte) error {
	if err := s.f.Truncate(0); err != nil {
		return err
	}
	s.size = int64(len(data))
	_, err := s.f.WriteAt(data, 0)
	return err
}

// repair cuts a torn tail off and closes the array again.
func (s *historyFile) repair(loaded *loadedHistory, tail []byte) error {
	if loaded.damaged {
		name := s.path + ".damaged"
		if err := keepBytes(name, tail); err != nil {
			return fmt.Errorf("keep the damaged part: %w", err)
		}
		loaded.repairs = append(loaded.repairs, fmt.Sprintf("the damaged part, %d bytes, was moved to %s", len(tail), name))
	}
	return s.closeArray()
}

// closeArray makes the file end after the last message that is surely in it.
// Killed between its two steps, it leaves a file that is repaired again.
func (s *historyFile) closeArray() error {
	if err := s.f.Truncate(s.end); err != nil {
		return err
	}
	s.size = s.end + int64(len(historyEnd))
	_, err := s.f.WriteAt([]byte(historyEnd), s.end)
	return err
}

// append writes messages that were encoded. After an error they wait in
// unwritten.
func (s *historyFile) append(msgs []Message) error {
	for _, m := range msgs {
		s.unwritten = s.line(s.unwritten, m)
	}
	return s.flush()
}

// line adds a message's line and what parts it from the line before to buf.
func (s *historyFile) line(buf []byte, m Message) []byte {
	if !s.empty {
		buf = append(buf, ',')
	}
	s.empty = false
	return append(append(buf, '\n'), m.enc.json...)
}

// flush writes what is unwritten and the end of the array in one write.
func (s *historyFile) flush() error {
	if len(s.unwritten) == 0 {
		return nil
	}
	if err := s.reopen(); err != nil {
		return err
	}
	length := int64(len(s.unwritten))
	block := append(s.unwritten, '\n', ']')
	// What others wrote may end in more white space than we do.
	for s.end+int64(len(block))+1 < s.size {
		block = append(block, ' ')
	}
	block = append(block, '\n')
	s.size = s.end + int64(len(block))
	if _, err := s.f.WriteAt(block, s.end); err != nil {
		// The disk may be full: what is in the file must be readable still.
		return errors.Join(err, s.closeArray())
	}
	s.end += length
	s.unwritten = block[:0]
	if cap(block) > 64<<10 {
		s.unwritten = nil // one large message must not be held twice for good
	}
	return nil
}

// replace puts a file with the given messages in the place of this one.
func (s *historyFile) replace(msgs []Message) (err error) {
	temp := s.path + ".tmp"
	next := historyFile{end: 1, empty: true}
	data := []byte{'['}
	for _, m := range msgs {
		data = next.line(data, m)
	}
	next.end = int64(len(data))
	data = append(data, historyEnd...)
	defer func() {
		if err != nil {
			os.Remove(temp)
		}
	}()
	if err := writeSynced(temp, data); err != nil {
		return err
	}
	// Windows replaces no file that is open.
	if s.f != nil {
		s.f.Close()
		s.f = nil
	}
	if err := os.Rename(temp, s.path); err != nil {
		return errors.Join(err, s.reopen())
	}
	syncDir(filepath.Dir(s.path))
	s.end, s.size, s.empty, s.unwritten = next.end, int64(len(data)), next.empty, nil
	// The new file is in place, so an error to open it is for the next append.
	_ = s.reopen()
	return nil
}

// reopen opens the file if a replace has closed it.
func (s *historyFile) reopen() error {
	if s.f != nil {
		return nil
	}
	f, err := os.OpenFile(s.path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	s.f = f
	return nil
}

func (s *historyFile) sync() error {
	if err := s.flush(); err != nil {
		return err
	}
	if err := s.reopen(); err != nil {
		return err
	}
	return s.f.Sync()
}

// close releases the file and the lock, also when it returns an error.
func (s *historyFile) close() error {
	err := s.sync()
	if s.f != nil {
		err = errors.Join(err, s.f.Close())
		s.f = nil
	}
	return errors.Join(err, s.lock.release())
}

// keepBytes adds data to the end of a file for the user to look at.
func keepBytes(name string, data []byte) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Sync(), f.Close())
}

// writeSynced makes a file with data that is on stable storage when it returns.
func writeSynced(name string, data []byte) error {
	if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Sync(), f.Close())
}

// syncDir puts a rename on stable storage where the system can do that. The
// content is safe without it, so errors do not matter.
func syncDir(dir string) {
	if d, err := os.Open(dir); err == nil {
		_ = d.Sync()
		_ = d.Close()
	}
}
