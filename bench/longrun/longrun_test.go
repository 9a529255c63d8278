package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The whole run takes a minute; this one is as long for its window.
func TestALongRunIsFlat(t *testing.T) {
	b := bench{steps: 300, result: 4 << 10, window: 16_000}
	require.NoError(t, b.run(t.Context()))
	require.Len(t, b.parts, 10)
	require.Greater(t, b.compactions, 10)
	require.Less(t, b.compactions, b.steps/5, "compaction is rare")
	rewrites := 0
	for _, p := range b.parts {
		require.Less(t, p.largest, int(b.window)*4, "no request is too long")
		rewrites += p.rewrites
	}
	require.InDelta(t, b.compactions, rewrites, 1, "the beginning changes with compactions alone") // the last step is not measured
}
