package sandbox

import (
	"crypto/sha256"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/survey"
)

// A search path can lead to a file server that does not answer.
func TestASlowLookHoldsUpNobodyElse(t *testing.T) {
	var m machines
	slow, quick := sha256.Sum256([]byte("slow")), sha256.Sum256([]byte("quick"))
	begun, answer, done := make(chan struct{}), make(chan struct{}), make(chan survey.Machine)
	go func() {
		done <- m.get(slow, func() survey.Machine {
			close(begun)
			<-answer
			return survey.Machine{System: "slow"}
		})
	}()
	<-begun
	looks := 0
	for range 2 {
		require.Equal(t, "quick", m.get(quick, func() survey.Machine {
			looks++
			return survey.Machine{System: "quick"}
		}).System)
	}
	require.Equal(t, 1, looks)
	close(answer)
	require.Equal(t, "slow", (<-done).System)
}
