package taskpool_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/taskpool"
)

func TestEachEndIsToldOnce(t *testing.T) {
	var l taskpool.Mailbox
	require.Empty(t, l.Take())
	l.Add("a", 1, "a ended")
	l.Add("b", 1, "b ended")
	l.Add("a", 1, "a ended")
	require.Equal(t, []string{"a ended", "b ended"}, l.Take())
	l.Add("a", 1, "a ended")
	require.Empty(t, l.Take())
	l.Add("a", 2, "a ended again")
	require.Equal(t, []string{"a ended again"}, l.Take())
}

func TestWhatIsKnownNeedsNoNotice(t *testing.T) {
	var l taskpool.Mailbox
	l.Add("a", 1, "a ended")
	require.True(t, l.News("a", 1))
	require.True(t, l.Known("a", 1), "it was not taken yet")
	require.False(t, l.News("a", 1))
	require.True(t, l.News("a", 2))
	require.Empty(t, l.Take())
	require.False(t, l.Known("a", 1))
	require.True(t, l.Known("b", 1))
	l.Add("b", 1, "b ended")
	require.Empty(t, l.Take())
}
