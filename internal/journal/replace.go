package journal

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"time"
)

// temp returns the path of a replacement until it is in place.
func (j *Journal) temp() string { return j.path + ".tmp" }

// array returns the content of a file with the given elements, and the offset
// where the last one ends.
func array(elements [][]byte) (data []byte, end int64) {
	next := Journal{empty: true}
	data = []byte{'['}
	for _, element := range elements {
		data = next.line(data, element)
	}
	return append(data, tail...), int64(len(data))
}

// Replace atomically replaces the file by one with the given elements, which is
// on stable storage by then. If it fails, nothing has changed.
func (j *Journal) Replace(elements [][]byte) error {
	_, err := j.replace(elements, false)
	return err
}

// Repair is Replace for a damaged file. It keeps that under the path that it
// returns.
func (j *Journal) Repair(elements [][]byte) (kept string, err error) {
	return j.replace(elements, true)
}

func (j *Journal) replace(elements [][]byte, keep bool) (kept string, err error) {
	if err := j.check(); err != nil {
		return "", err
	}
	data, end := array(elements)
	defer func() {
		if err != nil {
			_ = j.disk.Remove(j.temp())
		}
	}()
	id, err := j.writeTemp(data)
	if err != nil {
		return "", err
	}
	if keep {
		if kept, err = j.keep(); err != nil {
			return "", fmt.Errorf("keep the damaged file: %w", err)
		}
	}
	if err := j.rename(); err != nil {
		return "", err
	}
	j.id = id
	j.settle(data, end, len(elements) == 0)
	// The new file is in place and complete. The next Append or Sync repeats
	// what fails from here on.
	_ = j.syncName()
	_ = j.open(0)
	return kept, nil
}

// settle records the state of a new file.
func (j *Journal) settle(data []byte, end int64, empty bool) {
	j.end, j.size, j.empty, j.unwritten, j.unnamed = end, int64(len(data)), empty, nil, true
}

// rename puts the replacement in place and closes the old file. An old file that
// has other names stays open, so that it stays locked.
func (j *Journal) rename() error {
	old := j.f
	shared := old.Shared()
	if onWindows { // an open file cannot be replaced there
		j.f, shared = nil, false
		if err := old.Close(); err != nil {
			return err
		}
	}
	if err := j.disk.Rename(j.temp(), j.path); err != nil {
		return err
	}
	j.f = nil
	switch {
	case shared:
		j.locked = append(j.locked, old)
	case !onWindows:
		_ = old.Close() // the file has no name any more, so its errors do not matter
	}
	return nil
}

const onWindows = runtime.GOOS == "windows"

// writeTemp writes the replacement. When it returns, the content is on stable
// storage, but perhaps not the name.
func (j *Journal) writeTemp(data []byte) (fs.FileInfo, error) {
	if err := j.disk.Remove(j.temp()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	f, err := j.disk.OpenFile(j.temp(), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	f.Take(j.id)
	return fill(f, data)
}

// fill writes a new file, syncs it and closes it.
func fill(f File, data []byte) (fs.FileInfo, error) {
	_, err := f.WriteAt(data, 0)
	if err == nil {
		err = f.Sync()
	}
	id, statErr := f.Stat()
	if err == nil {
		err = statErr
	}
	return id, errors.Join(err, f.Close())
}

// keep gives the file a second name, or copies it if the file system has no hard
// links. The name is on stable storage before the file can lose its first one.
func (j *Journal) keep() (string, error) {
	name, err := j.beside("damaged", func(name string) error {
		err := j.disk.Link(j.path, name)
		if err == nil || errors.Is(err, fs.ErrExist) {
			return err
		}
		return j.copyTo(name)
	})
	if err != nil {
		return "", err
	}
	return name, j.disk.SyncDir(filepath.Dir(name))
}

func (j *Journal) copyTo(name string) error {
	from, err := j.disk.OpenFile(j.path, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	defer from.Close()
	data, err := io.ReadAll(from)
	if err != nil {
		return err
	}
	f, err := j.disk.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = fill(f, data)
	return err
}

// maxBeside is how many names beside tries before it gives up.
const maxBeside = 100

// beside calls make with one path after the other next to the journal's own
// until one is free, and returns that.
func (j *Journal) beside(what string, make func(name string) error) (string, error) {
	base := fmt.Sprintf("%s.%s-%s", j.home, what, time.Now().UTC().Format("20060102-150405"))
	name := base
	for n := 2; ; n++ {
		if err := make(name); !errors.Is(err, fs.ErrExist) || n > maxBeside {
			return name, err
		}
		name = fmt.Sprintf("%s-%d", base, n)
	}
}

// Move continues in a new file with the given elements, and leaves the old one,
// which something else has changed, as it is. The new file takes the old path if
// that is free, or else a path next to it. Move returns the path.
func (j *Journal) Move(elements [][]byte) (string, error) {
	data, end := array(elements)
	if err := j.disk.MkdirAll(filepath.Dir(j.home)); err != nil {
		return "", err
	}
	moved := *j
	create := func(name string) error {
		moved.path, moved.f, moved.id = name, nil, nil
		return moved.create(data, j.id)
	}
	err := create(j.home)
	if errors.Is(err, fs.ErrExist) {
		_, err = j.beside("continued", create)
	}
	if err != nil {
		return "", err
	}
	if j.f != nil {
		_ = j.f.Close() // all of its elements are in the new file
	}
	*j = moved
	j.settle(data, end, len(elements) == 0)
	_ = j.syncName() // if it fails, the next Sync repeats it
	return j.path, nil
}

// create writes a new file with data at the journal's path and opens it. It
// takes the permissions and the owner of like. If it fails, it leaves no file.
func (j *Journal) create(data []byte, like fs.FileInfo) error {
	f, err := j.disk.OpenFile(j.path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	f.Take(like)
	if j.id, err = fill(f, data); err == nil {
		err = j.open(0)
	}
	if err != nil {
		return joined(err, j.disk.Remove(j.path))
	}
	return nil
}
