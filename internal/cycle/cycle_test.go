package cycle_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/cycle"
)

func TestCyclesAreFound(t *testing.T) {
	for _, tt := range []struct {
		name, calls string // each letter is a call; an upper-case one succeeds
		want        cycle.Found
	}{
		{"twice is nothing", "AA", cycle.Found{}},
		{"three times", "AAA", cycle.Found{Calls: 1, Times: 3}},
		{"one more in between", "AABA", cycle.Found{}},
		{"five times", "xAAAAA", cycle.Found{Calls: 1, Times: 5}},
		{"more than five times", "AAAAAAAAAAAAAAAAAAAAAAAA", cycle.Found{Calls: 1, Times: 5}},
		{"two that fail", "xababab", cycle.Found{Calls: 2, Times: 3}},
		{"two that fail, begun once more", "abababa", cycle.Found{Calls: 2, Times: 3}},
		{"two that fail, not yet", "ababa", cycle.Found{}},
		{"two that fail, five times", "cababababab", cycle.Found{Calls: 2, Times: 5}},
		{"three that fail", "abcabcabc", cycle.Found{Calls: 3, Times: 3}},
		{"three that fail, five times", "abcabcabcabcabc", cycle.Found{Calls: 3, Times: 5}},
		{"two of three are the same", "aabaabaab", cycle.Found{Calls: 3, Times: 3}},
		{"four", "abcdabcdabcdabcdabcd", cycle.Found{}},
		{"one of two succeeds", "aBaBaBaBaB", cycle.Found{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var l cycle.Finder
			var last cycle.Found
			var found bool
			for _, c := range tt.calls {
				last, found = l.Note(strings.ToLower(string(c)), "result", c >= 'a')
			}
			require.Equal(t, tt.want, last)
			require.Equal(t, tt.want != cycle.Found{}, found)
		})
	}
}

func TestOtherResultsAreNoCycle(t *testing.T) {
	var l cycle.Finder
	for i := range 20 {
		_, found := l.Note("edit", "done", false)
		require.False(t, found)
		_, found = l.Note("test", strings.Repeat("x", i), true)
		require.False(t, found)
	}
}
