package docker

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/sandbox"
)

func TestBoundedOutputKeepsHeadAndTail(t *testing.T) {
	for _, tc := range []struct {
		name   string
		limit  int
		writes []string
		want   string
		left   int64
	}{
		{"fits", 10, []string{"01234", "56789"}, "0123456789", 0},
		{"cut", 4, []string{"0123456789"}, "01\n[... 6 bytes left out ...]\n89", 6},
		{"cut in pieces", 4, []string{"0", "12", "345", "6789"}, "01\n[... 6 bytes left out ...]\n89", 6},
		{"one byte", 1, []string{"abc"}, "a\n[... 2 bytes left out ...]\n", 2},
		{"whole characters", 6, []string{"aéé", strings.Repeat("x", 20), "ééa"}, "aé\n[... 24 bytes left out ...]\néa", 24},
	} {
		t.Run(tc.name, func(t *testing.T) {
			out := newBoundedOutput(tc.limit)
			for _, w := range tc.writes {
				n, err := out.Write([]byte(w))
				require.NoError(t, err)
				require.Equal(t, len(w), n)
			}
			var res sandbox.Result
			out.into(&res)
			require.Equal(t, tc.want, res.Output)
			require.Equal(t, tc.left, res.Omitted)
			require.Equal(t, tc.left > 0, res.Truncated)
		})
	}
}

func FuzzBoundedOutput(f *testing.F) {
	f.Add([]byte("hello, world"), 5, 3)
	f.Add([]byte("ééééé"), 4, 1)
	f.Add([]byte("0é"), 1, 1)
	f.Add([]byte("\xff\xc3"), 4, 1) // bytes that are no text stay as they are
	f.Fuzz(func(t *testing.T, data []byte, limit, piece int) {
		limit, piece = 1+max(0, limit)%64, 1+max(0, piece)%64
		out := newBoundedOutput(limit)
		for p := data; len(p) > 0; p = p[min(piece, len(p)):] {
			out.Write(p[:min(piece, len(p))])
		}
		var res sandbox.Result
		out.into(&res)
		if utf8.Valid(data) {
			require.True(t, utf8.ValidString(res.Output), "no character is divided")
		}
		if len(data) <= limit {
			require.Equal(t, string(data), res.Output)
		} else if utf8.Valid(data) {
			head, tail, cut := strings.Cut(res.Output, fmt.Sprintf("\n[... %d bytes left out ...]\n", res.Omitted))
			require.True(t, cut)
			require.True(t, bytes.HasPrefix(data, []byte(head)))
			require.True(t, bytes.HasSuffix(data, []byte(tail)))
			require.EqualValues(t, len(data), int64(len(head)+len(tail))+res.Omitted)
		}
	})
}

// FuzzExecStream checks that the output between the two marker lines is found,
// however the stream is cut into pieces.
func FuzzExecStream(f *testing.F) {
	f.Add("output\n", 3, 7)
	f.Add("no newline", 0, 1)
	f.Add("MAR MARK MARK x\nMARKMARK 1", 255, 2)
	f.Fuzz(func(t *testing.T, output string, status, piece int) {
		status, piece = max(0, status)%256, 1+max(0, piece)%64
		const mark = "\x00MARK"
		if strings.Contains(output, "\x00") || !utf8.ValidString(output) {
			t.Skip("the mark is secret")
		}
		s := newExecStream(mark, newBoundedOutput(1<<20))
		var err error
		text := fmt.Sprintf("%s 42\n%s%s %d\nleft over", mark, output, mark, status)
		for p := text; len(p) > 0 && err == nil; p = p[min(piece, len(p)):] {
			_, err = s.Write([]byte(p[:min(piece, len(p))]))
		}
		require.True(t, errors.Is(err, errStreamEnded))
		s.finish()
		require.Equal(t, 42, <-s.pid)
		require.Equal(t, status, s.status)
		var res sandbox.Result
		s.out.into(&res)
		require.Equal(t, output, res.Output)
	})
}

func TestExecStreamWithoutAStatus(t *testing.T) {
	s := newExecStream("MARK", newBoundedOutput(100))
	_, err := s.Write([]byte("MARK 7\nkilled MAR"))
	require.NoError(t, err)
	s.finish()
	var res sandbox.Result
	s.out.into(&res)
	require.Equal(t, "killed MAR", res.Output)
	require.Equal(t, -1, s.status)
	require.Equal(t, streamOutput, s.state)
}
