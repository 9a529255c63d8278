package safecall

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestInsideIsTrueInTheCallbackAlone(t *testing.T) {
	var g Reentry
	require.False(t, g.Inside())
	leave := g.Enter(Current())
	require.True(t, g.Inside())
	inner := g.Enter(Current())
	inner()
	require.True(t, g.Inside(), "the outer one goes on")
	elsewhere := make(chan bool)
	go func() { elsewhere <- g.Inside() }()
	require.False(t, <-elsewhere, "another goroutine")
	leave()
	require.False(t, g.Inside())
	require.Empty(t, g.running)
}

func TestGoroutinesHaveNumbersOfTheirOwn(t *testing.T) {
	const n = 100
	numbers := make(chan Goroutine)
	for range n {
		go func() { numbers <- Current() }()
	}
	seen := map[Goroutine]bool{Current(): true}
	for range n {
		seen[<-numbers] = true
	}
	require.Len(t, seen, n+1)
	require.NotContains(t, seen, Goroutine(0))
}
