package main

import (
	"bytes"
	"io"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

func sizeOf(t *testing.T, f *os.File) (size int) {
	t.Helper()
	raw, err := f.SyscallConn()
	require.NoError(t, err)
	require.NoError(t, raw.Control(func(fd uintptr) { size, err = unix.FcntlInt(fd, unix.F_GETPIPE_SZ, 0) }))
	require.NoError(t, err)
	return size
}

func TestPipeToTheHostIsWideForBodiesOnly(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	s := &stdio{in: r, out: w}
	defer w.Close()

	s.Widen(true)
	require.Equal(t, wide, sizeOf(t, w))
	// More is in it than it holds once it is narrow, so it stays wide until that is read.
	body := bytes.Repeat([]byte("x"), 4*narrow)
	_, err = s.Write(body)
	require.NoError(t, err)
	s.Widen(false)
	require.Equal(t, wide, sizeOf(t, w))
	_, err = s.Write([]byte("y"))
	require.NoError(t, err)
	require.Equal(t, wide, sizeOf(t, w))

	_, err = io.ReadFull(r, make([]byte, len(body)+1))
	require.NoError(t, err)
	_, err = s.Write([]byte("z"))
	require.NoError(t, err)
	require.Equal(t, narrow, sizeOf(t, w))

	// Another body makes it wide again, and then nothing narrows it.
	s.Widen(true)
	_, err = s.Write([]byte("z"))
	require.NoError(t, err)
	require.Equal(t, wide, sizeOf(t, w))
}

func TestStreamThatIsNoPipeStaysAsItIs(t *testing.T) {
	f, err := os.Create(t.TempDir() + "/file")
	require.NoError(t, err)
	defer f.Close()
	s := &stdio{in: f, out: f}
	s.Widen(true)
	s.Widen(false)
	require.False(t, s.shrink.Load())
}
