package plain_test

import (
	"bytes"
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/plain"
)

func TestCleanLeavesWhatATerminalWouldShow(t *testing.T) {
	for name, tt := range map[string]struct{ output, want string }{
		"plain text":                 {"a\n\tb\n", "a\n\tb\n"},
		"other scripts":              {"grüß 日本 😀\n", "grüß 日本 😀\n"},
		"progress":                   {" 10%\r 50%\r100%\ndone\n", "100%\ndone\n"},
		"progress that is open":      {" 10%\r 50%", " 50%"},
		"progress and its line end":  {" 10%\r100%\r\n", "100%\n"},
		"progress that was blanked":  {"50%\r   \rdone\n", "done\n"},
		"a line that was blanked":    {"50%\r   \r\x1b[K\nnext\n", "50%\nnext\n"},
		"padding of a state":         {"working\rdone   \n", "done\n"},
		"line ends of DOS":           {"a \r\nb\r\n", "a\nb\n"},
		"an escape that clears":      {"10%\r\x1b[2K20%\n", "20%\n"},
		"colours":                    {"\x1b[1;31mred\x1b[0m\n", "red\n"},
		"colours in eight bits":      {"\u009b31mred\n", "red\n"},
		"a title":                    {"\x1b]0;title\aa\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\\n", "alink\n"},
		"a character set":            {"\x1b(Ba\x1b=b\n", "ab\n"},
		"a title without an end":     {"\x1b]0;title\nnext\n", "\\x1b]0;title\nnext\n"},
		"an escape at the end":       {"a\x1b", `a\x1b`},
		"a cut sequence":             {"a\x1b[3", `a\x1b[3`},
		"backspaces":                 {"N\bNA\bA\n-\b\\\b|\n\b\bx\n", "NA\n|\nx\n"},
		"a backspace over character": {"ä\bb\n", "b\n"},
		"a bell":                     {"a\ab\n", `a\x07b` + "\n"},
		"names between zeros":        {"a\x00b\x00", `a\x00b\x00`},
		"bytes that are not UTF-8":   {"a\xff\xfeb\n", `a\xff\xfeb` + "\n"},
		"reordered text":             {"a\u202eb\n", `a\u202eb` + "\n"},
		"a next line":                {"a\u0085b\n", `a\u0085b` + "\n"},
		"a replacement character":    {"a\ufffdb\n", "a\ufffdb\n"},
		"nothing":                    {"", ""},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, tt.want, plain.Clean(tt.output)) })
	}
}

func TestCleanSumsUpBinaryData(t *testing.T) {
	noise := func(n int) string {
		var b strings.Builder
		for i, x := 0, uint32(1); i < n; i++ {
			x = x*1664525 + 1013904223
			b.WriteByte(byte(x >> 24))
		}
		return b.String()
	}
	gzip := "\x1f\x8b\x08\x00" + noise(12341)
	require.Equal(t, "[binary output, 12,345 bytes, looks like gzip]\n", plain.Clean(gzip))
	require.Equal(t, "ls\n[binary output, 12,346 bytes, looks like gzip]\ndone\n", plain.Clean("ls\n"+gzip+"\ndone\n"))
	require.Equal(t, "[binary output, 1,000 bytes]\n", plain.Clean(noise(999)+"\n"))
	require.Contains(t, plain.Clean("\x7fELF\x02\x01\x01\x00\x00"), "looks like an ELF program")
	require.Contains(t, plain.Clean("h\x00i\x00"+strings.Repeat("x\x00", 100)), "[binary output, 204 bytes]")
	require.Equal(t, `a\x01\x02`, plain.Clean("a\x01\x02"), "what is short is shown")
	require.NotContains(t, plain.Clean(strings.Repeat("./a file/name\x00", 100)), "binary")
}

func TestGrouped(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", -1000: "-1,000"} {
		require.Equal(t, want, plain.Grouped(n))
	}
}

func TestOpenFindsWhatTheNextPieceCompletes(t *testing.T) {
	for piece, want := range map[string]int{
		"": 0, "abc": 0, "a\x1b": 1, "a\x1b[3": 3, "a\x1b[31m": 0, "a\x1b]0;t": 5, "\x1b]0;t\x1b": 6, "\x1b]0;t\x1b\\": 0,
		"a\xc3": 1, "a\xe2\x82": 2, "a\xc3\xa4": 0, "a\xff": 0, "\x1b[3\nb": 0,
	} {
		require.Equal(t, want, plain.Open(piece), "%q", piece)
	}
}

// pass passes output through a filter in pieces of a size.
func pass(output string, size int) (passed string, gone int64) {
	var b bytes.Buffer
	p := plain.NewProgress(&b)
	for piece := []byte(output); len(piece) > 0; {
		n := min(size, len(piece))
		_, _ = p.Write(piece[:n])
		piece = piece[n:]
	}
	_ = p.Close()
	return b.String(), p.Overwritten()
}

func TestProgressLeavesOutWhatIsOverwritten(t *testing.T) {
	long := strings.Repeat("x", 9000)
	for name, tt := range map[string]struct{ output, want string }{
		"plain text":          {"a\nb\nc", "a\nb\nc"},
		"progress":            {"a\n 10%\r 50%\r100%\nb\n", "a\n100%\nb\n"},
		"the last state":      {"a\n10%\r50%\r", "a\n50%\r"},
		"line ends of DOS":    {"a\r\n\r\nb\r\n", "a\r\n\r\nb\r\n"},
		"a state of blanks":   {"10%\r   \r\x1b[K\r\nb", "10%\r\nb"},
		"a long line":         {long + "\n" + long, long + "\n" + long},
		"a long state":        {"1%\r" + long + "\r2%\r3%\n", long + "\r3%\n"},
		"colours stay":        {"\x1b[1ma\r\x1b[2mb\n", "\x1b[2mb\n"},
		"nothing":             {"", ""},
		"a lone return":       {"\ra\n", "a\n"},
		"an escape cut short": {"a\r\x1b[\n", "\x1b[\n"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, size := range []int{1, 3, 1000, 1 << 20} {
				passed, gone := pass(tt.output, size)
				require.Equal(t, tt.want, passed, size)
				require.EqualValues(t, len(tt.output)-len(passed), gone, size)
			}
		})
	}
}

func FuzzClean(f *testing.F) {
	for _, s := range []string{"a\r\nb", "\x1b]0;\x1b\\", "\x1b[", "\b\b", "\x00\xff", "\u009b1mx", "ä\bö\r\r\n", "\x1f\x8b\x00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		clean := plain.Clean(s)
		require.True(t, utf8.ValidString(clean))
		require.LessOrEqual(t, len(clean), 6*len(s)+100)
		require.Equal(t, clean, plain.Clean(clean), "what is clean stays")
		open := plain.Open(s)
		require.True(t, open >= 0 && open <= min(len(s), 256))
	})
}

func FuzzProgress(f *testing.F) {
	for _, s := range []string{"a\r\nb", "1%\r2%\r\n", "\r\r\n", "a\r \r\x1b[K"} {
		f.Add(s, 1)
	}
	f.Fuzz(func(t *testing.T, s string, size int) {
		if size < 1 || size > 1<<20 {
			return
		}
		whole, gone := pass(s, len(s)+1)
		pieces, _ := pass(s, size)
		require.Equal(t, whole, pieces, "how the output is divided does not matter")
		require.EqualValues(t, len(s)-len(whole), gone)
		again, _ := pass(whole, size)
		require.Equal(t, whole, again)
		require.Equal(t, strings.Count(s, "\n"), strings.Count(whole, "\n"), "no line is lost")
	})
}

func BenchmarkProgress(b *testing.B) {
	for name, unit := range map[string]string{
		"lines": "a line of text\n", "progress": "\r 10%", "line ends of DOS": "a line\r\n", "one long line": "x", "both": "\n\ra",
	} {
		s := []byte(strings.Repeat(unit, (1<<20)/len(unit)))
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(s)))
			for b.Loop() {
				_, _ = plain.NewProgress(io.Discard).Write(s)
			}
		})
	}
}

func BenchmarkClean(b *testing.B) {
	for name, unit := range map[string]string{
		"plain": "a line of text\n", "colours": "\x1b[31mred\x1b[0m\n", "progress": "\r 10%", "open titles": "\x1b]0;", "bad bytes": "a\xff",
	} {
		s := strings.Repeat(unit, (1<<20)/len(unit))
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(s)))
			for b.Loop() {
				plain.Clean(s)
			}
		})
	}
}
