//go:build !race

// These tests measure memory, or move so much that the race detector makes them take a
// minute; what may race in them runs with it in other tests.

package openai_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/x/pygent"
	"github.com/x/pygent/openai"
)

func TestHostileAnswersTakeLittleMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("reads answers of many megabytes")
	}
	for _, c := range hostileAnswers {
		t.Run(c.name, func(t *testing.T) {
			m := newModel(t, openai.HTTPClient(respond(c.body)), openai.API(c.api))
			var err error
			took := allocated(func() { _, err = m.ChatStream(t.Context(), ask(), func(pygent.Delta) {}) })
			require.Less(t, took>>20, c.mib)
			require.ErrorContains(t, err, c.want)
			require.Less(t, len(err.Error()), 10_000)
			if errors.Is(err, openai.ErrAnswerTooLarge) {
				require.False(t, apiError(t, err).Retryable)
				require.ErrorContains(t, err, "is that a model server?")
			}
		})
	}
}
