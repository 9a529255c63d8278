package server

import (
	"strings"

	"github.com/x/pygent/internal/guest/shell"
)

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
