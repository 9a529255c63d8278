package toolchain

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	// maxIncludes is the largest number of files of git's configuration that
	// are read.
	maxIncludes = 50
	// gitTime is how long reading one of these files may take.
	gitTime = 5 * time.Second
)

// git adds the user's configuration of git and the files that it names, except
// files in which passwords or keys are stored.
func (f *finder) git() {
	if f.home == "" {
		return
	}
	config := filepath.Join(f.configHome(), "git")
	f.read(filepath.Join(config, "ignore"))
	f.read(filepath.Join(config, "attributes"))
	files := []string{filepath.Join(f.home, ".gitconfig"), filepath.Join(config, "config")}
	for i := 0; i < len(files) && i < maxIncludes; i++ {
		if !f.trusts(files[i]) {
			continue
		}
		f.read(files[i])
		files = append(files, f.gitNames(files[i])...)
	}
}

// gitNames returns the files that a file of git's configuration includes, and
// adds the other files that it names.
func (f *finder) gitNames(file string) (includes []string) {
	ctx, cancel := context.WithTimeout(context.Background(), gitTime)
	defer cancel()
	git, path := f.program("git")
	if git == "" {
		return nil
	}
	cmd := exec.CommandContext(ctx, git, "config", "--no-includes", "--null", "--list", "--file", file)
	// Read only this file, so that a mistake in another file does no harm.
	cmd.Env = []string{"HOME=" + f.home, "PATH=" + path, "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=" + os.DevNull}
	cmd.Dir = "/"
	out, err := cmd.Output()
	if err != nil {
		return nil
	}
	for entry := range strings.SplitSeq(string(out), "\x00") {
		name, value, _ := strings.Cut(entry, "\n")
		switch {
		case name == "include.path", strings.HasPrefix(name, "includeif.") && strings.HasSuffix(name, ".path"):
			includes = append(includes, f.gitPath(file, value))
		case name == "core.excludesfile", name == "core.attributesfile", name == "core.hookspath",
			name == "init.templatedir", name == "commit.template", name == "http.sslcainfo":
			f.read(f.gitPath(file, value))
		}
	}
	return includes
}

// program returns the path of a program that this process, which is not
// confined, may run, and the PATH for it. Commands must not have been able to
// make the program, nor the programs in that PATH. A virtual environment of the
// workspace in PATH would allow that. The system's program is preferred, since
// one in the home may have been made by another agent.
func (f *finder) program(name string) (file, path string) {
	dirs := append([]string{"/usr/bin", "/usr/local/bin"}, filepath.SplitList(lookup(f.env, "PATH"))...)
	dirs = slices.DeleteFunc(dirs, func(dir string) bool { return !filepath.IsAbs(dir) || !f.trusts(dir) })
	path = strings.Join(dirs, string(filepath.ListSeparator))
	for _, dir := range dirs {
		file := filepath.Join(dir, name)
		if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 && f.trusts(file) {
			return file, path
		}
	}
	return "", path
}

// gitPath returns the path that a value in a configuration file means.
func (f *finder) gitPath(file, value string) string {
	if rest, ok := strings.CutPrefix(value, "~/"); ok {
		return filepath.Join(f.home, rest)
	}
	if filepath.IsAbs(value) {
		return value
	}
	return filepath.Join(filepath.Dir(file), value)
}
