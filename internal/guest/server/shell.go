package server

import (
	"os"
	"path/filepath"
	"strings"
)

// findShell returns bash where the environment has it, else sh, else "".
func findShell(env []string) string {
	dirs := filepath.SplitList(lookupEnv(env, "PATH"))
	dirs = append(dirs, "/usr/local/bin", "/usr/bin", "/bin")
	for _, name := range []string{"bash", "sh"} {
		for _, dir := range dirs {
			for _, path := range []string{filepath.Join(dir, name), filepath.Join(dir, name+".exe")} {
				if info, err := os.Stat(path); filepath.IsAbs(path) && err == nil && info.Mode().IsRegular() && executable(info) {
					return path
				}
			}
		}
	}
	return ""
}

func executable(info os.FileInfo) bool { return info.Mode()&0o111 != 0 || filepath.Separator == '\\' }

// lookupEnv returns the value of a variable.
func lookupEnv(env []string, name string) string {
	for i := len(env) - 1; i >= 0; i-- {
		if value, ok := strings.CutPrefix(env[i], name+"="); ok {
			return value
		}
	}
	return ""
}

// mergeEnv puts lists of variables together. Of several values the last
// counts: programs differ in which of two they take.
func mergeEnv(lists ...[]string) []string {
	at := make(map[string]int)
	var env []string
	for _, list := range lists {
		for _, entry := range list {
			name, _, ok := strings.Cut(entry, "=")
			if !ok || name == "" || strings.ContainsRune(entry, 0) {
				continue
			}
			if i, known := at[name]; known {
				env[i] = entry
				continue
			}
			at[name] = len(env)
			env = append(env, entry)
		}
	}
	return env
}
