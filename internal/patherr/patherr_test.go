package patherr_test

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/patherr"
)

func TestCause(t *testing.T) {
	_, err := os.Stat(t.TempDir() + "/missing")
	require.NotContains(t, patherr.Cause(fmt.Errorf("read it: %w", err)).Error(), "missing")
	require.ErrorIs(t, patherr.Cause(err), os.ErrNotExist)
	dir := t.TempDir()
	err = os.Rename(dir+"/missing", dir+"/other")
	require.NotContains(t, patherr.Cause(fmt.Errorf("replace it: %w", err)).Error(), dir)
	require.ErrorIs(t, patherr.Cause(err), os.ErrNotExist)
	other := errors.New("other")
	require.Equal(t, other, patherr.Cause(other))
	require.NoError(t, patherr.Cause(nil))
}
