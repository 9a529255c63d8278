package workspace

import (
	"io/fs"
	"os"
)

// removeIn removes what has a name below a root, read-only directories included,
// and follows no link. What is not there is removed.
func removeIn(root *os.Root, name string) error {
	if root.RemoveAll(name) == nil {
		return nil
	}
	// Commands leave directories without write permission, such as Go's module
	// cache, that keep their content from being removed by anyone but root.
	_ = fs.WalkDir(root.FS(), name, func(name string, entry fs.DirEntry, err error) error {
		if entry != nil && entry.IsDir() {
			_ = root.Chmod(name, 0o700)
		}
		return nil
	})
	return root.RemoveAll(name)
}
