package edit

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/x/pygent/internal/cut"
	"github.com/x/pygent/internal/numeral"
)

var (
	// A line that says nothing but that something is left out: "// ... existing code ...".
	anEllipsis = regexp.MustCompile(`(?i)^\W*(?:\.\.\.|…)[^\w]*(?:the |all |your |same )*(?:existing|rest|remaining|remainder|unchanged|previous|original|other|code|imports|same|keep|omitted|unmodified)\b[^;={}]{0,80}(?:\*/\})?$`)
	// The same in words: "# rest of the file remains unchanged".
	aRemark = regexp.MustCompile(`(?i)^(?://|#|--|;|%|/\*|<!--|\{/\*|\(\*)+\W*(?:the |all |your )*(?:rest|remainder|existing|remaining|other|previous)\b[^;={}]{0,60}\b(?:unchanged|the same|same as before|as before|as is|goes here|stays?|here|omitted)\W*$`)
	// What stands around such words, without which "... other" may be the end of a sentence.
	aComment = regexp.MustCompile(`^(?://|#|--|;|%|/\*|<!--|\{/\*|\(\*|\.\.\.|…|\[\.\.\.|<\.\.\.|\(\.\.\.|"""|\*)`)
)

// shownLost is how many of the lines that would be lost are named.
const shownLost = 3

// Elided says what a file would lose if a text took the place of what it holds and had only
// a placeholder for it, such as "// ... existing code ...". It is empty for any other text:
// also if the file has that line already, or if nothing is lost.
func Elided(before, after string) string {
	had := map[string]bool{}
	for l := range strings.Lines(before) {
		had[strings.TrimSpace(l)] = true
	}
	has, number, placeholder, n := map[string]bool{}, 0, "", 0
	for l := range strings.Lines(after) {
		n++
		l = strings.TrimSpace(l)
		has[l] = true
		if placeholder == "" && !had[l] && isPlaceholder(l) {
			placeholder, number = l, n
		}
	}
	if placeholder == "" {
		return ""
	}
	var shown []string
	lost, all := 0, 0
	for l := range strings.Lines(before) {
		l = strings.TrimSpace(l)
		if l == "" {
			continue
		}
		all++
		if has[l] {
			continue
		}
		if lost++; len(shown) < shownLost {
			shown = append(shown, fmt.Sprintf("%q", cut.Head(l, 60)))
		}
	}
	if lost == 0 {
		return ""
	}
	return fmt.Sprintf("line %d, %q, would stand in the file as it is, and %s of its %s would be lost: %s%s",
		number, cut.Head(placeholder, 80), numeral.Grouped(lost), numeral.Count(all, "line"), strings.Join(shown, ", "), map[bool]string{true: ", …"}[lost > len(shown)])
}

// maxPlaceholder is how long a placeholder is at most, in bytes.
const maxPlaceholder = 120

func isPlaceholder(l string) bool {
	isSpread := strings.HasPrefix(l, "...") && !strings.Contains(l, " ") // of JavaScript
	return len(l) <= maxPlaceholder && !isSpread && aComment.MatchString(l) && (anEllipsis.MatchString(l) || aRemark.MatchString(l))
}
