package toolchain

import (
	"fmt"
	"os/exec"
	"path/filepath"
)

// Program returns the path of a program that this process may run. It searches
// path, a list of directories, but uses only a program that commands can
// neither write nor choose. They can write everything in the owned directories,
// and a relative directory may be one of those.
func Program(name, path string, owned ...string) (string, error) {
	f := finder{}
	for _, dir := range owned {
		abs, err := filepath.Abs(dir)
		if err != nil {
			return "", err
		}
		f.owned = append(f.owned, resolved(abs))
	}
	for _, dir := range filepath.SplitList(path) {
		if !filepath.IsAbs(dir) {
			continue
		}
		file, err := exec.LookPath(filepath.Join(dir, name))
		if err == nil && f.trusts(file) {
			return file, nil
		}
	}
	return "", fmt.Errorf("%s: %w outside of what commands can write", name, exec.ErrNotFound)
}
