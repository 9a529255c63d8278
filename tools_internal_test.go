package pygent

import (
	"context"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

func FuzzReplaceOnce(f *testing.F) {
	f.Add("a\nb\nc\n", "b", "x\ny")
	f.Add("a\n\nb", "\n", "")
	f.Add("aaa", "aa", "b")
	f.Add("a\r\nb\n", "a\r\nb", "c")
	f.Add("\r\r\n\r", "\n", "\r")
	f.Fuzz(func(t *testing.T, text, old, new string) {
		if old == "" {
			return // refused before
		}
		edited, line, err := replaceOnce(text, old, new)
		if err == nil && !strings.Contains(text, "\r") {
			require.Equal(t, strings.Replace(text, old, new, 1), edited)
			require.Equal(t, strings.Index(text, old), strings.LastIndex(text, old))
			require.Equal(t, 1+strings.Count(text[:strings.Index(text, old)], "\n"), line)
		}
		if strings.Contains(text+old+new, "\r") {
			return
		}
		// What models write is LF: a CRLF file is edited as if it were LF, and
		// stays CRLF.
		crlf, crlfLine, crlfErr := replaceOnce(toCRLF(text), old, new)
		require.Equal(t, err == nil, crlfErr == nil)
		if err == nil {
			require.Equal(t, line, crlfLine)
			if strings.Contains(text, "\n") { // else there is no line end to keep
				require.Equal(t, toCRLF(edited), crlf)
			}
		}
	})
}

func FuzzBound(f *testing.F) {
	f.Add("grüße 日本 🙂", 7)
	f.Add(strings.Repeat("\x80", 100), 10)
	f.Add("a\xf0\x9f\x99", 2)
	f.Add("000000000000\x9c\x9f\x99\x82", 15)
	f.Fuzz(func(t *testing.T, s string, n int) {
		if n < 0 || n > 1<<20 {
			return
		}
		head, tail := headOf(s, n), tailOf(s, n)
		require.True(t, strings.HasPrefix(s, head))
		require.True(t, strings.HasSuffix(s, tail))
		least := min(len(s), max(0, n-utf8.UTFMax+1))
		for _, part := range []string{head, tail} {
			require.LessOrEqual(t, len(part), n)
			require.GreaterOrEqual(t, len(part), least)
			if utf8.ValidString(s) {
				require.True(t, utf8.ValidString(part))
			}
		}
		short := bound(s, n)
		require.LessOrEqual(t, len(short), n+64)
		if len(s) <= n {
			require.Equal(t, s, short)
		} else {
			require.True(t, strings.HasPrefix(short, headOf(s, n/2)))
			require.True(t, strings.HasSuffix(short, tailOf(s, n/2)))
		}
	})
}

// jobs notes how long it was asked to wait for output.
type jobs struct {
	JobRunner
	Runtime
	waited time.Duration
}

func (j *jobs) JobOutput(_ context.Context, _ string, _ int64, wait time.Duration) (JobOutput, error) {
	j.waited = wait
	return JobOutput{}, nil
}

func TestJobOutputWaitsAtMostAMinute(t *testing.T) {
	for seconds, want := range map[float64]time.Duration{0: 0, 0.5: time.Second / 2, 60: time.Minute, 61: time.Minute, 1e300: time.Minute} {
		rt := &jobs{}
		_, err := jobOutput(t.Context(), rt, jobOutputInput{ID: "1", Wait: seconds})
		require.NoError(t, err)
		require.Equal(t, want, rt.waited, seconds)
	}
}
