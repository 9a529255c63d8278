package settings

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/x/pygent/internal/patherr"
)

// errChanged is returned instead of overwriting what another program wrote
// meanwhile.
var errChanged = errors.New("another program changed it at the same time; try again")

// AddToList adds values to the list table.key of the file at path, and creates
// the file if it does not exist. It replaces the file atomically by one that
// only its owner may read. Anything but a regular file is an error. That
// includes a link, because the file that it leads to may not be meant to change.
func AddToList(path, table, key string, values ...string) error {
	if err := addToList(path, table, key, values); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// Create writes a new file of the user's settings as AddToList does. A file that exists
// already is an error.
func Create(path string, data []byte) error {
	if err := replace(path, nil, data); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

func addToList(path, table, key string, values []string) error {
	doc, id, err := read(path)
	if err != nil {
		return err
	}
	edited, err := edit(doc, table, key, values)
	if err != nil {
		return err
	}
	if id != nil && string(edited) == string(doc) {
		return nil
	}
	return replace(path, id, edited)
}

// read returns the content of a file and what identifies it. Both are nil if
// there is no file.
func read(path string) ([]byte, fs.FileInfo, error) {
	id, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil, nil
	case err != nil:
		return nil, nil, patherr.Cause(err)
	case id.Mode()&fs.ModeSymlink != 0:
		return nil, nil, errors.New("it is a link, which is not written through")
	case !id.Mode().IsRegular():
		return nil, nil, errors.New("it is no regular file")
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, patherr.Cause(err)
	}
	defer f.Close()
	if opened, err := f.Stat(); err != nil || !os.SameFile(id, opened) {
		return nil, nil, errChanged
	}
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(data) > maxFile {
		err = fmt.Errorf("it is larger than %d KiB", maxFile>>10)
	}
	return data, id, patherr.Cause(err)
}

// replace replaces the file that was read by a new one.
func replace(path string, id fs.FileInfo, data []byte) (err error) {
	temp, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*") // with mode 0600
	if err != nil {
		return patherr.Cause(err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(temp.Name())
		}
	}()
	_, err = temp.Write(data)
	if err == nil {
		err = temp.Sync()
	}
	if err = errors.Join(err, temp.Close()); err != nil {
		return patherr.Cause(err)
	}
	if !isUnchanged(path, id) {
		return errChanged
	}
	return patherr.Cause(os.Rename(temp.Name(), path))
}

// isUnchanged reports whether the file at path is still the one that was read.
func isUnchanged(path string, id fs.FileInfo) bool {
	now, err := os.Lstat(path)
	if id == nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	return err == nil && os.SameFile(id, now) && now.ModTime().Equal(id.ModTime()) && now.Size() == id.Size()
}
