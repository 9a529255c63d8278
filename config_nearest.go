package pygent

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// unknownKey is the error for a key that is no setting, with the one that was
// perhaps meant.
func unknownKey(key string, top bool) error {
	var keys []string
	for _, s := range configSettings {
		if s.key != "" {
			keys = append(append(keys, s.key), s.also...)
		}
	}
	if like := nearest(key, keys); like != "" {
		return fmt.Errorf("unknown key, did you mean %s?", like)
	}
	// The right name in the wrong table.
	name := lastPart(key)
	byName := make(map[string]string)
	for _, k := range slices.Backward(keys) {
		byName[lastPart(k)] = k
	}
	if like := nearest(name, slices.Sorted(maps.Keys(byName))); like != "" {
		full := byName[like]
		if table, _, ok := strings.Cut(full, "."); ok {
			return fmt.Errorf("unknown key, did you mean %s, in the table [%s]?", full, table)
		}
		return fmt.Errorf("unknown key, did you mean %s, above the first [table]?", full)
	}
	if top {
		return errors.New("unknown key; examples/sample_config.toml shows them all")
	}
	return errors.New("unknown key in this table; examples/sample_config.toml shows them all")
}

func lastPart(key string) string { return key[strings.LastIndexByte(key, '.')+1:] }

// nearest returns the candidate that word is a misspelling of, or "".
func nearest(word string, candidates []string) string {
	// Two slips, as in a pair of letters swapped, are forgiven where enough is left.
	best, least := "", 2
	if len(word) > 3 {
		least = 3
	}
	for _, c := range candidates {
		if c == "" {
			continue
		}
		// The lengths alone may rule it out, and bound the work.
		if d := len(c) - len(word); d >= least || -d >= least {
			continue
		}
		if d := editDistance(strings.ToLower(word), strings.ToLower(c)); d < least {
			best, least = c, d
		}
	}
	return best
}

// editDistance counts the insertions, deletions and replacements of bytes
// between a and b.
func editDistance(a, b string) int {
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
