// Package tempname knows the names of the files that this module puts into a workspace
// for a moment: one that is being written, or the proof that a container sees the same
// directory. Nobody else is to keep, show or restore them.
package tempname

import "strings"

// Prefix begins such a name. Random letters and digits follow.
const Prefix = ".pygent-"

// The lengths of what follows: of crypto/rand.Text, of 12 bytes in base 16, and of two
// numbers in base 36, which are hardly ever short.
const (
	shortest = 16
	longest  = 26
)

// Is reports whether a file with this base name is such a file. What others call
// ".pygent-notes" is theirs.
func Is(base string) bool {
	rest, ok := strings.CutPrefix(base, Prefix)
	return ok && len(rest) >= shortest && len(rest) <= longest && strings.IndexFunc(rest, other) < 0
}

func other(r rune) bool {
	return (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
}
