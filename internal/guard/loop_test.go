package guard_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/guard"
)

func TestCyclesAreFound(t *testing.T) {
	for _, tt := range []struct {
		name, calls string // each call is a letter; a capital one succeeds
		want        guard.Cycle
	}{
		{"twice is nothing", "AA", guard.Cycle{}},
		{"three times", "AAA", guard.Cycle{Calls: 1, Times: 3}},
		{"one more in between", "AABA", guard.Cycle{}},
		{"five times", "xAAAAA", guard.Cycle{Calls: 1, Times: 5}},
		{"more than five times", "AAAAAAAAAAAAAAAAAAAAAAAA", guard.Cycle{Calls: 1, Times: 5}},
		{"two that fail", "xababab", guard.Cycle{Calls: 2, Times: 3}},
		{"two that fail, begun once more", "abababa", guard.Cycle{Calls: 2, Times: 3}},
		{"two that fail, not yet", "ababa", guard.Cycle{}},
		{"two that fail, five times", "cababababab", guard.Cycle{Calls: 2, Times: 5}},
		{"three that fail", "abcabcabc", guard.Cycle{Calls: 3, Times: 3}},
		{"three that fail, five times", "abcabcabcabcabc", guard.Cycle{Calls: 3, Times: 5}},
		{"two of three are the same", "aabaabaab", guard.Cycle{Calls: 3, Times: 3}},
		{"four", "abcdabcdabcdabcdabcd", guard.Cycle{}},
		{"one of two succeeds", "aBaBaBaBaB", guard.Cycle{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var l guard.Loop
			var cycle guard.Cycle
			var found bool
			for _, c := range tt.calls {
				cycle, found = l.Note(strings.ToLower(string(c)), "result", c >= 'a')
			}
			require.Equal(t, tt.want, cycle)
			require.Equal(t, tt.want != guard.Cycle{}, found)
		})
	}
}

func TestOtherResultsAreNoCycle(t *testing.T) {
	var l guard.Loop
	for i := range 20 {
		_, found := l.Note("edit", "done", false)
		require.False(t, found)
		_, found = l.Note("test", strings.Repeat("x", i), true)
		require.False(t, found)
	}
}
