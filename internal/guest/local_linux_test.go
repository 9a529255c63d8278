package guest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/guest/confine"
)

// A machine short of memory may kill a guest at any moment. Another one may live.
func TestAGuestThatDiesBeforeItIsToldItsPolicyIsGone(t *testing.T) {
	conn, err := startChild(nil, nil)
	require.NoError(t, err)
	require.NoError(t, conn.Kill())
	<-conn.exited
	_, err = connectChild(t.Context(), conn, Config{Workspace: t.TempDir(), Confine: &confine.Policy{}})
	require.ErrorIs(t, err, ErrClosed)
}
