package screen

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestGlance(t *testing.T) {
	numbered := func(n int) string { return strings.TrimSuffix(strings.Repeat("line\n", n), "\n") }
	require.Len(t, Glance(numbered(glanceLines)), glanceLines)
	require.Equal(t, "… 1 line …", Glance(numbered(glanceLines + 1))[glanceLines/2])
	require.Equal(t, "… 30 lines …", Glance(numbered(glanceLines + 30))[glanceLines/2])
	require.Len(t, Glance(numbered(glanceLines+30)), glanceLines+1)
	require.Equal(t, []string{"a" + strings.Repeat("ä", 249) + " …"}, Glance("a"+strings.Repeat("ä", 400)))
	require.Equal(t, []string{strings.Repeat("\x80", glanceLine) + " …"}, Glance(strings.Repeat("\x80", 600)))
}
