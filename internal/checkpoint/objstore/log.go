package objstore

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"runtime"
	"strings"

	"github.com/x/pygent/internal/filelock"
	"github.com/x/pygent/internal/treedir"
)

// Ref is a line of a log: a tree, and what belongs to the same moment. As long
// as a log has it the tree is kept.
type Ref struct {
	N      int64           `json:"n"`
	Tree   Tree            `json:"tree"`
	Offset int64           `json:"offset"` // of the conversation
	Data   json.RawMessage `json:"data,omitempty"`
}

const (
	logSuffix = ".log"
	maxLog    = 256 << 20 // bytes of a log that are read
)

// Log is the refs of a session, in the order in which they were added. One Log
// of a name is open at a time. Only one goroutine at a time may use it.
type Log struct {
	s    *Store
	name string
	file *os.File // locked
	refs []Ref
	end  int64 // of the last whole line; what follows is of a write that failed
}

// OpenLog opens the log of a session, and makes it if there is none. The name
// has letters, digits, "-" and "_". A last line that was not written completely
// is removed. The error is ErrInUse if the log is open already.
func (s *Store) OpenLog(name string) (*Log, error) {
	l := &Log{s: s, name: name}
	file, err := s.lockLog(name, os.O_CREATE)
	if err == nil {
		l.file = file
		l.refs, l.end, err = readRefs(file)
	}
	if err == nil {
		err = errors.Join(l.file.Truncate(l.end), treedir.SyncDir(s.root, logsDir))
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open log %q: %w", name, err), l.Close())
	}
	return l, nil
}

// lockLog opens and locks the file of a log, which may be replaced or removed
// just then.
func (s *Store) lockLog(name string, flag int) (*os.File, error) {
	file, err := logFile(name)
	if err != nil {
		return nil, err
	}
	for {
		f, err := s.root.OpenFile(file, os.O_RDWR|flag, 0o600)
		if err != nil {
			return nil, err
		}
		if err := filelock.Lock(f); err != nil {
			return nil, errors.Join(err, f.Close())
		}
		locked, err := f.Stat()
		named, gone := s.root.Lstat(file)
		if err == nil && gone == nil && os.SameFile(locked, named) {
			return f, nil
		}
		if err = errors.Join(err, filelock.Close(f)); err != nil {
			return nil, err
		}
	}
}

func logFile(name string) (string, error) {
	other := func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && r != '-' && r != '_'
	}
	if name == "" || len(name) > 128 || strings.IndexFunc(name, other) >= 0 {
		return "", fmt.Errorf("%q cannot be the name of a log", name)
	}
	return path.Join(logsDir, name+logSuffix), nil
}

// readRefs reads the whole lines of a log, and returns where they end. The last
// line may be incomplete; one before it must not be.
func readRefs(r io.Reader) (refs []Ref, end int64, err error) {
	data, err := io.ReadAll(io.LimitReader(r, maxLog+1))
	if err != nil || len(data) > maxLog {
		return nil, 0, errors.Join(err, fmt.Errorf("read %d bytes of a log", len(data)))
	}
	for n := 1; len(data) > 0; n++ {
		line, rest, whole := bytes.Cut(data, []byte("\n"))
		var ref Ref
		if err := json.Unmarshal(line, &ref); !whole || err != nil {
			if whole && len(rest) > 0 {
				return nil, 0, fmt.Errorf("%w: line %d: %w", ErrDamaged, n, err)
			}
			break
		}
		refs = append(refs, ref)
		end += int64(len(line)) + 1
		data = rest
	}
	return refs, end, nil
}

// Refs returns what is in the log.
func (l *Log) Refs() []Ref { return append([]Ref(nil), l.refs...) }

// Append adds a ref, and returns when it is on stable storage. Its tree must
// have been taken by the same Store, or be in a log. After an error the log is
// as it was.
func (l *Log) Append(ctx context.Context, ref Ref) error {
	if err := l.append(ctx, ref); err != nil {
		return fmt.Errorf("add to log %q: %w", l.name, err)
	}
	l.s.Forget(ref.Tree)
	return nil
}

func (l *Log) append(ctx context.Context, ref Ref) error {
	release, err := l.s.hold(ctx)
	if err != nil {
		return err
	}
	defer release()
	line, err := l.encode(ref)
	if err != nil {
		return err
	}
	if err = l.file.Truncate(l.end); err == nil { // something is there if the last write failed
		_, err = l.file.WriteAt(line, l.end)
	}
	if err == nil {
		err = l.file.Sync()
	}
	if err != nil {
		return errors.Join(err, l.file.Truncate(l.end))
	}
	l.end += int64(len(line))
	l.refs = append(l.refs, ref)
	return nil
}

func (l *Log) encode(ref Ref) ([]byte, error) {
	if !ref.Tree.IsZero() && !l.s.has(ref.Tree.root) {
		return nil, fmt.Errorf("tree %.12s: %w", ref.Tree, ErrMissing)
	}
	line, err := json.Marshal(ref)
	if err == nil && l.end+int64(len(line)) >= maxLog {
		err = fmt.Errorf("it would have more than %d MiB", maxLog>>20)
	}
	return append(line, '\n'), err
}

// Replace replaces all refs, at once.
func (l *Log) Replace(ctx context.Context, refs []Ref) error {
	release, err := l.s.hold(ctx)
	if err == nil {
		defer release()
		err = l.replace(refs)
	}
	if err != nil {
		return fmt.Errorf("replace log %q: %w", l.name, err)
	}
	return nil
}

func (l *Log) replace(refs []Ref) error {
	var all []byte
	next := &Log{s: l.s}
	for _, ref := range refs {
		line, err := next.encode(ref)
		if err != nil {
			return err
		}
		all = append(all, line...)
		next.end = int64(len(all))
	}
	temp := path.Join(logsDir, "new-"+rand.Text())
	f, err := l.s.root.OpenFile(temp, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if err = filelock.Lock(f); err == nil {
		if _, err = f.Write(all); err == nil {
			err = f.Sync()
		}
	}
	name, _ := logFile(l.name)
	if err == nil && onWindows {
		err = filelock.Close(l.file) // an open file cannot be replaced there
	}
	if err == nil {
		err = l.s.root.Rename(temp, name)
	}
	if err != nil {
		return errors.Join(err, filelock.Close(f), l.s.root.Remove(temp))
	}
	_ = filelock.Close(l.file) // its file has no name any more
	l.file, l.end, l.refs = f, next.end, append([]Ref(nil), refs...)
	return treedir.SyncDir(l.s.root, logsDir)
}

// Close releases the log.
func (l *Log) Close() error {
	if l.file == nil {
		return nil
	}
	return filelock.Close(l.file)
}

// ReadLog returns the refs of a log, which another process may be adding to.
func (s *Store) ReadLog(name string) ([]Ref, error) {
	file, err := logFile(name)
	if err != nil {
		return nil, err
	}
	f, err := s.root.Open(file)
	if err != nil {
		return nil, fmt.Errorf("read log %q: %w", name, err)
	}
	defer f.Close()
	refs, _, err := readRefs(f)
	if err != nil {
		return nil, fmt.Errorf("read log %q: %w", name, err)
	}
	return refs, nil
}

// Logs returns the names of all logs, sorted.
func (s *Store) Logs() (names []string, err error) {
	entries, err := fs.ReadDir(s.root.FS(), logsDir)
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), logSuffix); ok {
			names = append(names, name)
		}
	}
	return names, err
}

// RemoveLog removes a log, and what SaveCache kept beside it. Its trees are collected
// next time if no other log has them. The error is ErrInUse while the log is open.
func (s *Store) RemoveLog(name string) error {
	f, err := s.lockLog(name, 0)
	if err != nil {
		return fmt.Errorf("remove log %q: %w", name, err)
	}
	defer filelock.Close(f)
	file, _ := logFile(name)
	if onWindows {
		_ = f.Close() // an open file cannot be removed there
	}
	if err := errors.Join(s.removeCache(name), s.root.Remove(file)); err != nil {
		return fmt.Errorf("remove log %q: %w", name, err)
	}
	return treedir.SyncDir(s.root, logsDir)
}

const onWindows = runtime.GOOS == "windows"
