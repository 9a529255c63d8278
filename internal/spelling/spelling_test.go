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
		"evn":    "env", // a swap is one edit
		"nvx":    "",    // a short word may have one edit only
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
	require.Equal(t, "version", spelling.Within("evrsion", names, 1))
	require.Empty(t, spelling.Within("vreison", names, 1), "two swaps")
}

func TestSwapped(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want bool
	}{
		{"iu", "ui", true},
		{"IU", "ui", true},
		{"hepl", "help", true},
		{"ehlp", "help", true},
		{"ui", "ui", false},
		{"hi", "ui", false},
		{"aa", "aa", false},
		{"uia", "ui", false},
		{"vreison", "version", false},
		{"acb", "bac", false},
		{"a", "b", false},
		{"", "", false},
	} {
		require.Equal(t, tt.want, spelling.Swapped(tt.a, tt.b), "%s %s", tt.a, tt.b)
	}
}
