package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestErrorsNameTheirFileOnce(t *testing.T) {
	for text, err := range map[string]error{
		"read a/b: file does not exist":       fmt.Errorf("a/b: %w", fs.ErrNotExist),
		"read a/b: context deadline exceeded": context.DeadlineExceeded,
		"read a/b: the engine is gone":        errors.New("the engine is gone"),
	} {
		got := new(Sandbox).errorAt(t.Context(), "read", "a/b", err)
		require.EqualError(t, got, text)
		require.ErrorIs(t, got, err)
	}
}
