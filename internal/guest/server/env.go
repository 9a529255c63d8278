package server

import (
	"runtime"
	"strings"

	"github.com/x/pygent/internal/guest/shell"
)

// defaultEnv are variables that commands get unless the image, this machine or the
// user sets them. Without the first, Python keeps what it prints to a pipe, and a
// command that is stopped, or goes on in the background, shows nothing. Without
// the second, many programs print other characters than ASCII as question marks.
func defaultEnv() []string {
	locale := "C.UTF-8"
	if runtime.GOOS == "darwin" {
		locale = "en_US.UTF-8" // older versions have no other
	}
	return []string{"PYTHONUNBUFFERED=1", "LANG=" + locale}
}

// mergeEnv joins lists of variables. If a variable occurs more than once, only
// its last value is kept, because programs differ in which of two values they
// take.
func mergeEnv(lists ...[]string) []string {
	at := make(map[string]int)
	var env []string
	for _, list := range lists {
		for _, entry := range list {
			name, _, ok := strings.Cut(entry, "=")
			if !ok || name == "" || strings.ContainsRune(entry, 0) {
				continue
			}
			name = shell.VariableName(name)
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
