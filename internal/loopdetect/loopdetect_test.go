package loopdetect_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/loopdetect"
)

func TestCyclesAreFound(t *testing.T) {
	for _, tt := range []struct {
		name, calls string // each letter is a call; an upper-case one succeeds
		want        loopdetect.Found
	}{
		{"twice is nothing", "AA", loopdetect.Found{}},
		{"three times", "AAA", loopdetect.Found{Calls: 1, Times: 3}},
		{"one more in between", "AABA", loopdetect.Found{}},
		{"five times", "xAAAAA", loopdetect.Found{Calls: 1, Times: 5}},
		{"more than five times", "AAAAAAAAAAAAAAAAAAAAAAAA", loopdetect.Found{Calls: 1, Times: 5}},
		{"two that fail", "xababab", loopdetect.Found{Calls: 2, Times: 3}},
		{"two that fail, begun once more", "abababa", loopdetect.Found{Calls: 2, Times: 3}},
		{"two that fail, not yet", "ababa", loopdetect.Found{}},
		{"two that fail, five times", "cababababab", loopdetect.Found{Calls: 2, Times: 5}},
		{"three that fail", "abcabcabc", loopdetect.Found{Calls: 3, Times: 3}},
		{"three that fail, five times", "abcabcabcabcabc", loopdetect.Found{Calls: 3, Times: 5}},
		{"two of three are the same", "aabaabaab", loopdetect.Found{Calls: 3, Times: 3}},
		{"four", "abcdabcdabcdabcdabcd", loopdetect.Found{}},
		{"one of two succeeds", "aBaBaBaBaB", loopdetect.Found{}},
		{"one of two succeeds, told", "aBaBaBaBaBaB", loopdetect.Found{Calls: 2, Times: 6}},
		{"two that succeed", "xABABABABABAB", loopdetect.Found{Calls: 2, Times: 6}},
		{"two that succeed, often", strings.Repeat("AB", 40), loopdetect.Found{Calls: 2, Times: 10}},
		{"three that succeed", strings.Repeat("ABC", 6), loopdetect.Found{Calls: 3, Times: 6}},
		{"four that succeed", strings.Repeat("ABCD", 20), loopdetect.Found{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var l loopdetect.Finder
			var last loopdetect.Found
			var found bool
			for _, c := range tt.calls {
				last, found = l.Note(strings.ToLower(string(c)), "result", c >= 'a')
			}
			require.Equal(t, tt.want, last)
			require.Equal(t, tt.want != loopdetect.Found{}, found)
		})
	}
}

func TestOtherResultsAreNoCycle(t *testing.T) {
	var l loopdetect.Finder
	for i := range 20 {
		_, found := l.Note("edit", "done", false)
		require.False(t, found)
		_, found = l.Note("test", strings.Repeat("x", i), true)
		require.False(t, found)
	}
}

func TestWhoWaitsIsGivenTime(t *testing.T) {
	long, medium, short := [2]int{loopdetect.WaitsTold, loopdetect.WaitsStuck}, [2]int{loopdetect.InTurnTold, loopdetect.InTurnStuck}, [2]int{loopdetect.Told, loopdetect.Stuck}
	for call, want := range map[string][2]int{
		`bash{"cmd":"kubectl -n prod wait --for=condition=ready pod/a"}`: long, `bash{"cmd":"docker wait web"}`: long, `bash{"cmd":"cd x\ngh run watch 7"}`: long,
		`bash{"cmd":"kubectl rollout status deploy/a"}`: long, `bash{"cmd":"timeout 20 tail -n 5 -f build.log"}`: long, `bash{"cmd":"tail -F a"}`: long,
		`bash{"cmd":"docker logs -f web"}`: long, `bash{"cmd":"kubectl logs --follow web"}`: long, `bash{"cmd":"aws ec2 wait instance-running"}`: long,
		`bash{"cmd":"tail -n 5 build.log"}`: short, `bash{"cmd":"tail a; grep -f b c"}`: short, `bash{"cmd":"grep wait docker.txt"}`: short,
		`bash{"cmd":"docker ps"}`: medium, `bash{"cmd":"docker ps; grep wait a"}`: medium, `bash{"cmd":"ls\ncurl -fsS localhost/health"}`: medium, `bash{"cmd":"cat curl.txt"}`: short, `bash{"cmd":"docker build ."}`: short, `bash{"cmd":"gh pr view 7"}`: medium,
		"wait\x00{\"seconds\":30}": long, "deploy_status\x00{\"wait\": 60}": long, "grep\x00{\"text\":\"wait\"}": short,
		`bash{"cmd":"sleep 30; curl -s localhost/status"}`: long, `bash{"cmd":"make &\nsleep 5"}`: long, `bash{"cmd":"gh run watch --wait 7"}`: long,
		`bash{"cmd":"until curl -s localhost; do\n\tsleep 5\ndone"}`: long,
		`bash{"cmd":"curl -s localhost/status"}`:                     medium, `bash{"cmd":"cat sleep.txt"}`: short, `bash{"cmd":"grep asleep 7","timeout":30}`: short,
	} {
		var l loopdetect.Finder
		told, stuck := 0, 0
		for n := 1; stuck == 0 && n < 100; n++ {
			if _, found := l.Note(call, "pending", false); found && told == 0 {
				told = n
			}
			if l.Stuck() {
				stuck = n
			}
		}
		require.Equal(t, want, [2]int{told, stuck}, call)
	}
}

func TestCallsInTurnAreStuckLater(t *testing.T) {
	var l loopdetect.Finder
	for round := range loopdetect.InTurnStuck {
		require.False(t, l.Stuck(), round)
		l.Note("ls", "a b", false)
		l.Note("cat a", "text", false)
	}
	require.True(t, l.Stuck())
	l.Note("ls", "a b c", false)
	require.False(t, l.Stuck())
}
