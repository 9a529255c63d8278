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
	for i := range 300 {
		t.Run(fmt.Sprint(i), func(t *testing.T) { play(t, rand.New(rand.NewPCG(uint64(i), 1))) })
	}
}
