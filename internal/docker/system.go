package docker

import (
	"fmt"
	"path/filepath"
	"slices"
)

// systemDirs belong to a system or hold the directories of all of its users. They are no
// workspaces: a container would get all of what keeps the machine alive, and what others
// changed there meanwhile would be given to one owner at the end.
var systemDirs = []string{
	"/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/lib32", "/lib64", "/proc", "/run", "/sbin", "/sys",
	"/usr", "/usr/bin", "/usr/lib", "/usr/sbin", "/var", "/var/lib", "/var/log",
	"/Applications", "/Library", "/System", "/Users", "/private", "/private/etc", "/private/var",
}

// checkWorkspace refuses the root of a file system and the directories of the system.
func checkWorkspace(dir string) error {
	if dir == "" {
		return nil
	}
	path, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	if path == filepath.Dir(path) || slices.Contains(systemDirs, path) {
		return fmt.Errorf("the workspace %s belongs to the system, and a container would get all of it: choose the directory of a project", path)
	}
	return nil
}
