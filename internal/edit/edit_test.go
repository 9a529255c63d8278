package edit

import (
	"strings"
	"testing"

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
			return // callers refuse this before
		}
		edited, line, err := ReplaceOnce(text, old, new)
		if err == nil && !strings.Contains(text, "\r") {
			require.Equal(t, strings.Replace(text, old, new, 1), edited)
			require.Equal(t, strings.Index(text, old), strings.LastIndex(text, old))
			require.Equal(t, 1+strings.Count(text[:strings.Index(text, old)], "\n"), line)
		}
		if strings.Contains(text+old+new, "\r") {
			return
		}
		// Models write LF. A CRLF file is edited as if it were LF, and stays
		// CRLF.
		crlf, crlfLine, crlfErr := ReplaceOnce(toCRLF(text), old, new)
		require.Equal(t, err == nil, crlfErr == nil)
		if err == nil {
			require.Equal(t, line, crlfLine)
			if strings.Contains(text, "\n") { // otherwise there is no line end to keep
				require.Equal(t, toCRLF(edited), crlf)
			}
		}
	})
}
