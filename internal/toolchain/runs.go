package toolchain

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Runs returns a function that reports whether commands that have the variables env
// can run a program of a name. Of the programs that lie in the home, confined
// commands can run those that [Find] lets them read, and those in the directories
// that they own.
func Runs(env []string, confined bool, owned ...string) func(program string) bool {
	f := finder{env: env, home: home(env)}
	if confined && f.home != "" && filepath.Dir(f.home) != f.home {
		f.homes = []string{f.home, resolved(f.home)}
		f.searchPath()
		f.roots()
		f.underHome()
	}
	readable := slices.Concat(f.tools.Read, owned)
	for i, dir := range readable {
		readable[i] = resolved(dir)
	}
	dirs := slices.DeleteFunc(filepath.SplitList(lookup(env, "PATH")), func(dir string) bool { return !filepath.IsAbs(dir) })
	return func(program string) bool {
		return slices.ContainsFunc(dirs, func(dir string) bool {
			file, err := exec.LookPath(filepath.Join(dir, program))
			if err != nil || len(f.homes) == 0 {
				return err == nil
			}
			file = resolved(file)
			return !within(file, f.homes) || within(file, readable)
		})
	}
}

// within reports whether a path is one of some directories, or below one.
func within(path string, dirs []string) bool {
	return slices.ContainsFunc(dirs, func(dir string) bool {
		return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, string(filepath.Separator))+string(filepath.Separator))
	})
}
