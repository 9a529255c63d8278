package spelling_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/spelling"
)

func TestNearest(t *testing.T) {
	names := []string{"model", "memory", "", "image", "env"}
	for word, want := range map[string]string{
		"model":  "model",
		"MODLE":  "model",
		"memry":  "memory",
		"imageX": "image",
		"evn":    "", // a short word may have one edit only
		"en":     "env",
		"v":      "",
		"nothin": "",
		"":       "",
	} {
		require.Equal(t, want, spelling.Nearest(word, names), word)
	}
}

func TestWithin(t *testing.T) {
	names := []string{"help", "version"}
	require.Equal(t, "help", spelling.Within("hepl", names, 2))
	require.Empty(t, spelling.Within("hello", names, 1))
	require.Equal(t, "version", spelling.Within("versin", names, 1))
}
