//go:build unix

package owner

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// ownedByUs reports whether a file belongs to the user of this process.
func ownedByUs(info fs.FileInfo) bool { return ownedBy(info, os.Geteuid()) }

func ownedBy(info fs.FileInfo, uid int) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == uid
}

// Secluded returns an error unless only this user and root can replace the file
// at path. The path must not contain symbolic links.
func Secluded(path string) error {
	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
		info, err := os.Lstat(dir)
		if err != nil {
			return err
		}
		open := info.Mode().Perm()&0o022 != 0 && info.Mode()&fs.ModeSticky == 0
		if !info.IsDir() || open || !ownedByUs(info) && !ownedBy(info, 0) {
			return fmt.Errorf("%s: %w", dir, ErrShared)
		}
		if dir == filepath.Dir(dir) {
			return nil
		}
	}
}
