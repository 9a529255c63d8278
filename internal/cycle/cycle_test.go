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
		{"one of two succeeds, told", "aBaBaBaBaBaB", cycle.Found{Calls: 2, Times: 6}},
		{"two that succeed", "xABABABABABAB", cycle.Found{Calls: 2, Times: 6}},
		{"two that succeed, often", strings.Repeat("AB", 40), cycle.Found{Calls: 2, Times: 10}},
		{"three that succeed", strings.Repeat("ABC", 6), cycle.Found{Calls: 3, Times: 6}},
		{"four that succeed", strings.Repeat("ABCD", 20), cycle.Found{}},
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

func TestWhoWaitsIsGivenTime(t *testing.T) {
	for call, waits := range map[string]bool{
		"wait\x00{\"seconds\":30}": true, "deploy_status\x00{\"wait\": 60}": true, "grep\x00{\"text\":\"wait\"}": false,
		`bash{"cmd":"sleep 30; curl -s localhost/status"}`: true, `bash{"cmd":"make &\nsleep 5"}`: true, `bash{"cmd":"gh run watch --wait 7"}`: true,
		`bash{"cmd":"until curl -s localhost; do\n\tsleep 5\ndone"}`: true,
		`bash{"cmd":"curl -s localhost/status"}`:                     false, `bash{"cmd":"cat sleep.txt"}`: false, `bash{"cmd":"grep asleep 7","timeout":30}`: false,
	} {
		var l cycle.Finder
		told, stuck := 0, 0
		for n := 1; stuck == 0 && n < 100; n++ {
			if _, found := l.Note(call, "pending", false); found && told == 0 {
				told = n
			}
			if l.Stuck() {
				stuck = n
			}
		}
		want := [2]int{cycle.Told, cycle.Stuck}
		if waits {
			want = [2]int{cycle.WaitsTold, cycle.WaitsStuck}
		}
		require.Equal(t, want, [2]int{told, stuck}, call)
	}
}

func TestCallsInTurnAreStuckLater(t *testing.T) {
	var l cycle.Finder
	for round := range cycle.InTurnStuck {
		require.False(t, l.Stuck(), round)
		l.Note("ls", "a b", false)
		l.Note("cat a", "text", false)
	}
	require.True(t, l.Stuck())
	l.Note("ls", "a b c", false)
	require.False(t, l.Stuck())
}
