// Package numeral writes numbers as people read them.
package numeral

import (
	"fmt"
	"strconv"
	"strings"
	"time"
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

// Some names the first n of some things: "a, b and 3 others". more says that there
// are still others, which nobody has counted.
func Some(names []string, n int, more bool) string {
	shown := strings.Join(names[:min(len(names), n)], ", ")
	switch rest := len(names) - n; {
	case more && shown == "":
		return "very many"
	case more:
		return shown + " and many others"
	case rest > 0:
		return shown + " and " + Count(rest, "other")
	}
	return shown
}

// Ago says how long ago something was.
func Ago(d time.Duration) string {
	switch {
	case d < time.Minute:
		return "now"
	case d < time.Hour:
		return fmt.Sprintf("%d min ago", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h ago", d/time.Hour)
	}
	return fmt.Sprintf("%d days ago", d/(24*time.Hour))
}

// Took says how long something took.
func Took(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%.1f s", d.Seconds())
	}
	d = d.Round(time.Second)
	if d < time.Hour {
		return fmt.Sprintf("%d:%02d", int(d.Minutes()), int(d.Seconds())%60)
	}
	return fmt.Sprintf("%d:%02d:%02d", int(d.Hours()), int(d.Minutes())%60, int(d.Seconds())%60)
}

// Bytes writes a number of bytes.
func Bytes(n int64) string {
	const k = 1000
	switch {
	case n < k:
		return fmt.Sprintf("%d B", n)
	case n < k*k:
		return fmt.Sprintf("%.1f kB", float64(n)/k)
	case n < k*k*k:
		return fmt.Sprintf("%.1f MB", float64(n)/(k*k))
	}
	return fmt.Sprintf("%.1f GB", float64(n)/(k*k*k))
}
