// Package spelling finds the name that was probably meant by a misspelt word,
// so that an error about a setting or a tool can suggest it.
package spelling

import "strings"

// Nearest returns the candidate that is closest to word, or "" if none is
// close.
func Nearest(word string, candidates []string) string {
	// Two edits are allowed if the word has more than three letters; otherwise
	// one, and none for a single letter.
	most := 1
	switch {
	case len(word) > 3:
		most = 2
	case len(word) < 2:
		most = 0
	}
	return Within(word, candidates, most)
}

// Within returns the candidate that is closest to word, or "" if none is within a
// number of edits.
func Within(word string, candidates []string, edits int) string {
	best, least := "", edits+1
	for _, c := range candidates {
		if c == "" {
			continue
		}
		// A large difference in length rules a candidate out without the work
		// of comparing.
		if d := len(c) - len(word); d >= least || -d >= least {
			continue
		}
		if d := distance(strings.ToLower(word), strings.ToLower(c)); d < least {
			best, least = c, d
		}
	}
	return best
}

// Swapped reports whether two words differ by a swap of two neighbours alone.
func Swapped(a, b string) bool {
	a, b = strings.ToLower(a), strings.ToLower(b)
	if len(a) != len(b) {
		return false
	}
	for i := 1; i < len(a); i++ {
		if a[i-1] != b[i-1] {
			return swaps(a, b, i, i) && a[i+1:] == b[i+1:]
		}
	}
	return false
}

// swaps reports whether the two bytes that end at i in a are those that end at j in b,
// the other way round.
func swaps(a, b string, i, j int) bool {
	return i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j]
}

// distance counts the edits that turn a into b: insertions, deletions and
// replacements of bytes, and swaps of two neighbours.
func distance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before, last, row = last, row, before
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			row[j+1] = min(last[j]+cost, last[j+1]+1, row[j]+1)
			if swaps(a, b, i, j) {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
	}
	return row[len(b)]
}
