package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The whole measurement takes half a minute; this one measures the same of less.
func TestThePageIsMeasured(t *testing.T) {
	b := bench{sessions: 3, pieces: 25, pause: 1, answer: 5000}
	require.NoError(t, b.stream(t.Context()))
	require.Len(t, b.delays, 3*25, "each piece is followed")
	for _, delay := range b.delays {
		require.Positive(t, delay)
	}
	b.render()
	require.Len(t, b.renderings, 2)
	for _, r := range b.renderings {
		require.Equal(t, (5000+ofToken-1)/ofToken, r.count)
	}
}
