package owner

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// Names in the directory of a user's records.
const (
	keyFile  = "key"
	bootsDir = "boots" // empty files, named by machine and boot
	savedDir = "saved" // empty files, named after volumes that hold nothing of value

	keySize  = 32
	maxBoots = 64
)

// state is a directory of records that only its user can change.
type state struct{ root *os.Root }

// stateDir returns the directory where programs of this user keep data that
// should last but should not be copied to other machines.
func stateDir() (string, error) {
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "pygent"), nil
	}
	if runtime.GOOS == "windows" {
		dir, err := os.UserCacheDir() // this directory does not roam
		return filepath.Join(dir, "pygent", "state"), err
	}
	home, err := os.UserHomeDir()
	if err == nil && !filepath.IsAbs(home) {
		err = errors.New("the home directory is not an absolute path")
	}
	if runtime.GOOS == "darwin" {
		return filepath.Join(home, "Library", "Application Support", "pygent"), err
	}
	return filepath.Join(home, ".local", "state", "pygent"), err
}

// StateDir is stateDir for what is kept besides the records of this package. Root gets
// no directory in another user's home.
func StateDir() (string, error) {
	dir, err := stateDir()
	if err == nil {
		err = mayMake(dir)
	}
	return dir, err
}

func openState(dir string) (*state, error) {
	root, err := OpenPrivate(dir)
	if err != nil {
		return nil, err
	}
	return &state{root}, nil
}

// mayMake refuses to let root make a directory in another user's home, which
// could happen under sudo. That user could not use the directory afterwards.
func mayMake(dir string) error {
	if runtime.GOOS == "windows" || os.Geteuid() != 0 {
		return nil
	}
	for ; ; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		switch {
		case err == nil && !ownedByUs(info):
			return fmt.Errorf("%s belongs to another user", dir)
		case err == nil || !errors.Is(err, fs.ErrNotExist):
			return err
		}
	}
}

// key returns the user's key, and makes it if it does not exist.
func (s *state) key() ([]byte, error) {
	key, err := s.readKey()
	if !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	if err := s.makeKey(); err != nil {
		return nil, err
	}
	return s.readKey()
}

func (s *state) readKey() ([]byte, error) {
	info, err := s.root.Lstat(keyFile)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || !Private(info, 0o077) || info.Size() != keySize {
		return nil, fmt.Errorf("%s is not a key, or not this user's alone", filepath.Join(s.root.Name(), keyFile))
	}
	return s.root.ReadFile(keyFile)
}

// makeKey makes the key unless another process is faster. The key's file gets
// its name only once it is complete.
func (s *state) makeKey() error {
	key := make([]byte, keySize)
	_, _ = rand.Read(key) // never fails
	temp := keyFile + "-" + rand.Text()
	f, err := s.root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(key)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = s.root.Link(temp, keyFile)
	}
	if errors.Is(err, fs.ErrExist) {
		err = nil
	}
	return errors.Join(err, s.root.Remove(temp))
}

// recordBoot records that this machine has run in its current boot.
func (s *state) recordBoot(at Place) error {
	if at.Machine == "" || at.Boot == "" || s.hasBoot(at) {
		return nil
	}
	if err := s.mark(bootsDir, bootName(at)); err != nil {
		return err
	}
	return s.forgetOldest(bootsDir, maxBoots)
}

func (s *state) hasBoot(at Place) bool { return s.marked(bootsDir, bootName(at)) }

func bootName(at Place) string { return at.Machine + "-" + at.Boot }

// mark makes an empty file.
func (s *state) mark(dir, name string) error {
	path, err := markPath(dir, name)
	if err != nil {
		return err
	}
	if err := s.root.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := s.root.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

func (s *state) marked(dir, name string) bool {
	path, err := markPath(dir, name)
	if err != nil {
		return false
	}
	info, err := s.root.Lstat(path)
	return err == nil && info.Mode().IsRegular()
}

func (s *state) unmark(dir, name string) {
	if path, err := markPath(dir, name); err == nil {
		_ = s.root.Remove(path) // a mark too many does no harm
	}
}

// markPath refuses names that lead out of the directory. The names come from
// engines and are not trusted.
func markPath(dir, name string) (string, error) {
	path := dir + "/" + name
	if !fs.ValidPath(path) || strings.ContainsAny(name, `/\`) {
		return "", fmt.Errorf("%q cannot be the name of a record", Printable(name))
	}
	return path, nil
}
