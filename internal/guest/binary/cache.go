package binary

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/x/pygent/internal/owner"
)

// File writes a guest, as [Bytes] unpacks it, into dir, unless it is there already,
// and returns its path. It makes the directory if need be. The directory must be one
// that nobody else can change or replace, because another program (an engine) opens
// the path later. The file name holds a checksum of the content, so that different
// versions do not collide. Several processes may call File at the same time.
func File(dir string, guest []byte) (string, error) {
	f, err := Open(dir, guest)
	if err != nil {
		return "", err
	}
	if err := f.Close(); err != nil {
		return "", err
	}
	path, err := filepath.EvalSymlinks(f.Name())
	if err == nil {
		err = owner.Secluded(path)
	}
	if err != nil {
		return "", fmt.Errorf("keep the guest: %w", err)
	}
	return path, nil
}

// Open returns the file of [File], open for reading. The content was compared
// through this very descriptor, so whoever executes the descriptor executes the
// guest.
func Open(dir string, guest []byte) (*os.File, error) {
	if !filepath.IsAbs(dir) {
		return nil, fmt.Errorf("%s is not an absolute path", dir)
	}
	root, err := owner.OpenPrivate(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	sum := sha256.Sum256(guest)
	name := "guest-" + hex.EncodeToString(sum[:8])
	if f, err := openEqual(root, name, guest); err == nil {
		return f, nil
	}
	if err := install(root, name, guest); err != nil {
		return nil, fmt.Errorf("install the guest: %w", err)
	}
	return openEqual(root, name, guest)
}

// errDiffers means that a file does not have the expected content.
var errDiffers = errors.New("it is another file")

// openEqual opens a file that belongs to this user, that others cannot change,
// and that has the given content.
func openEqual(root *os.Root, name string, want []byte) (*os.File, error) {
	info, err := root.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || !owner.Private(info, 0o022) {
		return nil, fmt.Errorf("%s: %w", name, errDiffers)
	}
	f, err := root.Open(name)
	if err != nil {
		return nil, err
	}
	opened, err := f.Stat()
	if err == nil && !os.SameFile(info, opened) {
		err = errDiffers
	}
	var got []byte
	if err == nil {
		got, err = io.ReadAll(io.LimitReader(f, int64(len(want))+1))
	}
	if err == nil && !bytes.Equal(got, want) {
		err = errDiffers
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", name, err), f.Close())
	}
	return f, nil
}

// install puts the guest in its place and replaces whatever is there.
func install(root *os.Root, name string, content []byte) error {
	temp := name + "-" + rand.Text() + ".tmp"
	f, err := root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o700)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	err = errors.Join(err, f.Chmod(0o755), f.Close())
	if err == nil {
		err = root.Rename(temp, name)
	}
	if err != nil {
		_ = root.Remove(temp)
	}
	return err
}
