// Package spelling finds the name that was probably meant by a misspelt word,
// so that an error about a setting or a tool can suggest it.
package spelling

import "strings"

// Nearest returns the candidate that is closest to word, or "" if none is
// close.
func Nearest(word string, candidates []string) string {
	// Two edits, such as a swap of two letters, are allowed if the word has
	// more than three letters; otherwise one, and none for a single letter.
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

// distance counts the insertions, deletions and replacements of bytes that turn
// a into b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
