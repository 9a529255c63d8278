package server

import (
	"bytes"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCaptureKeepsHeadTailAndWhole(t *testing.T) {
	s, err := newSpills([]string{t.TempDir()}, "/elsewhere")
	require.NoError(t, err)
	random := rand.New(rand.NewPCG(1, 2))
	for _, size := range []int{0, 1, 9, 10, 11, 29, 30, 31, 1000} {
		c := newCapture(10, 20, s.create)
		var whole []byte
		for len(whole) < size {
			p := make([]byte, min(1+random.IntN(40), size-len(whole)))
			for i := range p {
				p[i] = byte(random.Uint32()) | ' ' // no carriage return
			}
			_, _ = c.Write(p)
			whole = append(whole, p...)
		}
		k := c.kept()
		head, tail, total, path, spilled := k.head, k.tail, k.total, k.path, k.size
		require.EqualValues(t, size, total)
		require.True(t, bytes.HasPrefix(whole, head))
		require.True(t, bytes.HasSuffix(whole, tail))
		require.Len(t, head, min(size, 10))
		require.Len(t, tail, min(max(size-10, 0), 20))
		require.Equal(t, size > 30, path != "")
		if path != "" {
			require.EqualValues(t, size, spilled)
			got, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, whole, got)
		}
		var read []byte
		for len(read) < size {
			at, data := c.read(int64(len(read)), 7)
			require.EqualValues(t, len(read), at)
			require.NotEmpty(t, data)
			read = append(read, data...)
		}
		require.True(t, bytes.Equal(whole, read))
		c.end()
	}
	require.NoError(t, s.remove())
}

func TestCaptureSkipsWhatIsNoLongerKept(t *testing.T) {
	c := newCapture(4, 4, nil)
	_, _ = c.Write([]byte("0123456789abcdef"))
	at, data := c.read(0, 100)
	require.Equal(t, "0123", string(data))
	at, data = c.read(at+int64(len(data)), 100)
	require.EqualValues(t, 12, at)
	require.Equal(t, "cdef", string(data))
	at, data = c.read(99, 100)
	require.EqualValues(t, 16, at)
	require.Empty(t, data)
}

func TestSpillsAreFewAndTheOldestGoFirst(t *testing.T) {
	s, err := newSpills([]string{t.TempDir()}, "/elsewhere")
	require.NoError(t, err)
	var first string
	for range 20 {
		f, err := s.create()
		require.NoError(t, err)
		f.finish()
		if first == "" {
			first = f.name
		}
	}
	entries, err := os.ReadDir(s.dir)
	require.NoError(t, err)
	require.LessOrEqual(t, len(entries), int(maxSpills/maxSpill))
	require.NoFileExists(t, first)
	require.NoError(t, s.remove())
	require.NoDirExists(t, s.dir)
}

func TestCaptureLeavesOutOverwrittenLinesFirst(t *testing.T) {
	c := newCapture(10, 10, nil)
	_, _ = c.Write([]byte("first\n"))
	for range 100 {
		_, _ = c.Write([]byte("\r 50%"))
	}
	k := c.kept()
	require.Equal(t, "first\n 50%", string(k.head)+string(k.tail), "the line that is being written is there")
	require.EqualValues(t, 506, k.total)
	require.EqualValues(t, 506-10, k.gone)
	_, _ = c.Write([]byte("\n"))
	for i := range 10 {
		_, _ = c.Write([]byte{'0' + byte(i), '\n'})
	}
	k = c.kept()
	require.Equal(t, "first\n 50%", string(k.head)[:10])
	require.Equal(t, "5\n6\n7\n8\n9\n", string(k.tail))
}
