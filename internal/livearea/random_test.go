//go:build !race

// These tests compute much in one goroutine: the race detector would see nothing in them, and
// make them about ten times as slow.

package livearea

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

func TestNothingIsLostOrDoubled(t *testing.T) {
	if testing.Short() {
		t.Skip("plays hundreds of random sessions")
	}
	for i := range 300 {
		t.Run(fmt.Sprint(i), func(t *testing.T) { play(t, rand.New(rand.NewPCG(uint64(i), 1))) })
	}
}

func TestFramesOnTheirWayLoseAndDoubleNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("plays hundreds of random sessions")
	}
	for name, kind := range terminalKinds {
		for i := range 100 {
			t.Run(fmt.Sprint(name, i), func(t *testing.T) {
				playLate(t, rand.New(rand.NewPCG(uint64(i), 2)), kind.reflow, kind.opts)
			})
		}
	}
}
