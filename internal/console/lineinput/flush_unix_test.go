//go:build linux || darwin || dragonfly || freebsd || netbsd || openbsd

package lineinput

import (
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestMoreWaitsForWhatComesAtOnce(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	defer w.Close()
	require.False(t, More(r, 0))
	require.False(t, More(r, time.Millisecond))
	begun := make(chan struct{})
	go func() {
		<-begun
		_, _ = w.WriteString("make\n")
	}()
	close(begun)
	require.True(t, More(r, time.Minute))
	require.True(t, More(r, 0))
}
