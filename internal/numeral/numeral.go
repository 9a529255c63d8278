// Package numeral writes numbers as people read them.
package numeral

import (
	"strconv"
	"strings"
)

// Grouped writes a number with commas between thousands.
func Grouped[N int | int64](n N) string {
	digits := strconv.FormatInt(int64(n), 10)
	for at := len(digits) - 3; at > 0 && digits[at-1] != '-'; at -= 3 {
		digits = digits[:at] + "," + digits[at:]
	}
	return digits
}

// Count writes how many there are of a thing, in English.
func Count[N int | int64](n N, thing string) string {
	switch {
	case n == 1:
		return "1 " + thing
	case strings.HasSuffix(thing, "try"):
		return Grouped(n) + " " + strings.TrimSuffix(thing, "y") + "ies"
	}
	return Grouped(n) + " " + thing + "s"
}
