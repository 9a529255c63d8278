package skills

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/x/pygent/internal/pathname"
)

// Bounds of a folder that is copied.
const (
	maxFiles = 500
	maxBytes = 16 << 20
)

// errTooLarge is the error of a folder that is not copied.
var errTooLarge = fmt.Errorf("it has more than %d files or %d MiB", maxFiles, maxBytes>>20)

// Directory returns a directory of this machine as a [Place]. A folder of it may
// be a symbolic link, since the user who gave the directory made it; links inside a
// folder lead nowhere outside of it.
func Directory(dir string) Place {
	return Place{
		Path: dir,
		List: func() (names []string, err error) {
			entries, err := os.ReadDir(dir)
			for _, e := range entries {
				if e.IsDir() || e.Type()&fs.ModeSymlink != 0 {
					names = append(names, e.Name())
				}
			}
			return names, err
		},
		Read: func(folder string, limit int) ([]byte, error) { return ReadFile(filepath.Join(dir, folder), limit) },
	}
}

// ReadFile returns the first bytes of the SKILL.md of a folder of this machine.
func ReadFile(folder string, limit int) ([]byte, error) {
	root, err := openFolder(folder)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return readRegular(root, File, limit)
}

// openFolder opens a folder; anything else does not exist as one.
func openFolder(folder string) (*os.Root, error) {
	info, err := os.Stat(folder)
	if err == nil && !info.IsDir() {
		err = fs.ErrNotExist
	}
	if err != nil {
		return nil, err
	}
	return os.OpenRoot(folder)
}

// readRegular returns the first bytes of a regular file. It does not wait for the
// writer of a pipe, which a file may become at any time.
func readRegular(root *os.Root, name string, limit int) ([]byte, error) {
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("no regular file")
	}
	return io.ReadAll(io.LimitReader(f, int64(limit)))
}

// Files returns the paths of the files in a folder of this machine, sorted and
// slash-separated. Symbolic links, and what is in .git, are not among them.
func Files(folder string) ([]string, error) {
	root, err := openFolder(folder)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return filesIn(root)
}

func filesIn(root *os.Root) (files []string, err error) {
	size, seen := int64(0), 0
	err = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if seen++; seen > 4*maxFiles {
			return errTooLarge
		}
		switch {
		case d.IsDir() && pathname.IsCache(d.Name()):
			return fs.SkipDir
		case !d.Type().IsRegular():
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if size += info.Size(); size > maxBytes || len(files) == maxFiles {
			return errTooLarge
		}
		files = append(files, name)
		return nil
	})
	slices.Sort(files)
	return files, err
}

// Copy copies the files of a folder of this machine into an empty directory.
func Copy(folder, dest string) error {
	root, err := openFolder(folder)
	if err != nil {
		return err
	}
	defer root.Close()
	files, err := filesIn(root)
	if err != nil {
		return err
	}
	for _, name := range files {
		if err := copyFile(root, name, filepath.Join(dest, filepath.FromSlash(name))); err != nil {
			return err
		}
	}
	return nil
}

// copyFile copies a file with the permission to run it.
func copyFile(root *os.Root, name, dest string) error {
	info, err := root.Lstat(name)
	if err != nil {
		return err
	}
	data, err := readRegular(root, name, maxBytes+1)
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", name, err)
	case !info.Mode().IsRegular(): // it has become something else meanwhile
		return fmt.Errorf("%s: no regular file", name)
	case len(data) > maxBytes:
		return errTooLarge
	}
	if err := os.MkdirAll(filepath.Dir(dest), 0o777); err != nil {
		return err
	}
	mode := fs.FileMode(0o644)
	if info.Mode()&0o100 != 0 {
		mode = 0o755
	}
	return os.WriteFile(dest, data, mode)
}

// shownFiles is how many bytes of names a list of files has.
const shownFiles = 1500

// ListFiles names files in a line, except SKILL.md. shown makes a name safe to
// show. The line is empty if there are no others.
func ListFiles(files []string, shown func(string) string) string {
	var b strings.Builder
	left := 0
	for _, name := range files {
		switch text := shown(name); {
		case name == File:
		case b.Len()+len(text) > shownFiles:
			left++
		case b.Len() > 0:
			b.WriteString(", " + text)
		default:
			b.WriteString(text)
		}
	}
	if left > 0 {
		fmt.Fprintf(&b, " and %d more", left)
	}
	return b.String()
}
