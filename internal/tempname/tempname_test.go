package tempname_test

import (
	"crypto/rand"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/tempname"
)

func TestIs(t *testing.T) {
	for name, want := range map[string]bool{
		tempname.Prefix + rand.Text():            true,
		".pygent-1y2p0ij32e8e71y2p0ij32":         true,
		".pygent-0123456789abcdef01234567":       true,
		".pygent-notes":                          false,
		".pygent-my-notes-of-today":              false,
		".pygent-é123456789abcdef01234567":       false,
		".pygent-" + rand.Text() + rand.Text():   false,
		".pygent":                                false,
		"a.pygent-0123456789abcdef01234567":      false,
		"0123456789abcdef01234567":               false,
		"history.json.pygent-meta":               false,
		"d/.pygent-0123456789abcdef01234567":     false, // a path
		".pygent-0123456789abcdef01234567.json":  false,
		".pygent-stage-1y2p0ij32e8e71y2p0ij32e8": false, // which have a mark
	} {
		require.Equal(t, want, tempname.Is(name), name)
	}
}
