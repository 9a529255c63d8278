package binary

import (
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

// CacheDir is the directory for [File] and [Read], in the user's cache. It is empty where
// the user has none.
func CacheDir() (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, "pygent"), nil
}

// File returns the path of a file in dir with the guest for arch, and writes it first
// unless it is there already. It makes the directory if need be. The directory must be
// one that nobody else can change or replace, because another program (an engine) opens
// the path later. The file name holds a checksum of the content, so that different
// versions do not collide. Several processes may call File at the same time.
func File(dir, arch string) (string, error) {
	f, err := Open(dir, arch)
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
func Open(dir, arch string) (*os.File, error) {
	c, err := openCache(dir, arch)
	if err != nil {
		return nil, err
	}
	defer c.root.Close()
	if f, _, err := c.open(); err == nil {
		return f, nil
	}
	guest, err := Bytes(arch)
	if err != nil {
		return nil, err
	}
	if err := install(c.root, c.name, guest); err != nil {
		return nil, fmt.Errorf("install the guest: %w", err)
	}
	f, _, err := c.open()
	return f, err
}

// Read returns what [Bytes] does, from the file of [File] if that is there, which takes
// a tenth of the time. Otherwise it makes the file, for the next process, unless the
// directory is not fit for it.
func Read(dir, arch string) ([]byte, error) {
	c, err := openCache(dir, arch)
	if err != nil {
		return Bytes(arch)
	}
	defer c.root.Close()
	if f, guest, err := c.open(); err == nil {
		return guest, f.Close()
	}
	guest, err := Bytes(arch)
	if err == nil {
		_ = install(c.root, c.name, guest) // nothing is lost but time
	}
	return guest, err
}

// cache is the place of a guest's file.
type cache struct {
	root *os.Root
	name string
	sum  [sha256.Size]byte // of the content
}

func openCache(dir, arch string) (*cache, error) {
	sum, err := Checksum(arch)
	if err != nil {
		return nil, err
	}
	if !filepath.IsAbs(dir) {
		return nil, fmt.Errorf("%s is not an absolute path", dir)
	}
	root, err := owner.OpenPrivate(dir)
	if err != nil {
		return nil, err
	}
	return &cache{root: root, name: "guest-" + hex.EncodeToString(sum[:8]), sum: sum}, nil
}

// errDiffers means that a file does not have the expected content.
var errDiffers = errors.New("it is another file")

// open opens a file that belongs to this user, that others cannot change, and that
// has the guest's content, which it returns.
func (c *cache) open() (*os.File, []byte, error) {
	info, err := c.root.Lstat(c.name)
	if err != nil {
		return nil, nil, err
	}
	if !info.Mode().IsRegular() || !owner.Private(info, 0o022) || info.Size() > maxSize {
		return nil, nil, fmt.Errorf("%s: %w", c.name, errDiffers)
	}
	f, err := c.root.Open(c.name)
	if err != nil {
		return nil, nil, err
	}
	opened, err := f.Stat()
	if err == nil && !os.SameFile(info, opened) {
		err = errDiffers
	}
	guest := make([]byte, info.Size())
	if err == nil {
		_, err = io.ReadFull(f, guest)
	}
	if err == nil && sha256.Sum256(guest) != c.sum {
		err = errDiffers
	}
	if err == nil { // a longer file would be another one
		if _, more := f.Read(make([]byte, 1)); more != io.EOF {
			err = errDiffers
		}
	}
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("%s: %w", c.name, err), f.Close())
	}
	return f, guest, nil
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
