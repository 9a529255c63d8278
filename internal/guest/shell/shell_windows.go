package shell

import (
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/windows/registry"
)

const remedy = "install Git for Windows, which brings bash (https://gitforwindows.org), or put another bash.exe in PATH"

// candidates returns the paths where a shell may be, the best one first. The
// setup of Git puts git.exe into PATH, but usually not the bash.exe beside it.
func candidates(env, _ []string) []string {
	dirs := slices.DeleteFunc(filepath.SplitList(lookup(env, "PATH")), func(dir string) bool { return foreign(env, dir) })
	paths := in(dirs, "bash.exe")
	for _, git := range in(dirs, "git.exe") {
		if usable(git) {
			paths = append(paths, in(gitShells(filepath.Dir(filepath.Dir(git))), "bash.exe")...)
		}
	}
	for _, root := range gitRoots(env) {
		paths = append(paths, in(gitShells(root), "bash.exe")...)
	}
	return append(paths, in(dirs, "sh.exe")...)
}

// foreign reports whether a directory holds the bash.exe of the Windows
// Subsystem for Linux, which runs commands in a different file system, or the
// placeholder that Windows has if the subsystem is not installed.
func foreign(env []string, dir string) bool {
	dir = strings.ToLower(filepath.Clean(dir))
	system := strings.ToLower(filepath.Clean(lookup(env, "SystemRoot")))
	return filepath.Base(dir) == "windowsapps" ||
		system != "." && (dir == system || strings.HasPrefix(dir, system+`\`)) ||
		slices.Contains([]string{"system32", "sysnative", "syswow64"}, filepath.Base(dir))
}

// gitShells returns the directories of bash.exe in an installation of Git. The
// bash.exe in the first one sets PATH for the programs that come with it.
func gitShells(root string) []string {
	return []string{filepath.Join(root, "bin"), filepath.Join(root, "usr", "bin")}
}

// gitRoots returns the directories where Git for Windows may be installed.
func gitRoots(env []string) []string {
	var roots []string
	for _, key := range []registry.Key{registry.CURRENT_USER, registry.LOCAL_MACHINE} {
		if root := installPath(key); root != "" {
			roots = append(roots, root)
		}
	}
	for _, name := range []string{"ProgramFiles", "ProgramW6432", "ProgramFiles(x86)"} {
		if dir := lookup(env, name); dir != "" {
			roots = append(roots, filepath.Join(dir, "Git"))
		}
	}
	if dir := lookup(env, "LocalAppData"); dir != "" {
		roots = append(roots, filepath.Join(dir, "Programs", "Git"))
	}
	return roots
}

// installPath returns the directory that the setup of Git for Windows has
// recorded.
func installPath(root registry.Key) string {
	key, err := registry.OpenKey(root, `SOFTWARE\GitForWindows`, registry.QUERY_VALUE|registry.WOW64_64KEY)
	if err != nil {
		return ""
	}
	defer key.Close()
	path, _, err := key.GetStringValue("InstallPath")
	if err != nil {
		return ""
	}
	return path
}
