package plain_test

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
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
		"a title without an end":     {"\x1b]0;title\nnext\n", "<0x1B>]0;title\nnext\n"},
		"an escape at the end":       {"a\x1b", `a<0x1B>`},
		"a cut sequence":             {"a\x1b[3", `a<0x1B>[3`},
		"backspaces":                 {"N\bNA\bA\n-\b\\\b|\n\b\bx\n", "NA\n|\nx\n"},
		"a backspace over character": {"ä\bb\n", "b\n"},
		"a bell":                     {"a\ab\n", `a<0x07>b` + "\n"},
		"names between zeros":        {"a\x00b\x00", `a<0x00>b<0x00>`},
		"bytes that are not UTF-8":   {"a\xff\xfeb\n", `a<0xFF><0xFE>b` + "\n"},
		"reordered text":             {"a\u202eb\n", `a<U+202E>b` + "\n"},
		"a next line":                {"a\u0085b\n", `a<U+0085>b` + "\n"},
		"a replacement character":    {"a\ufffdb\n", "a\ufffdb\n"},
		"nothing":                    {"", ""},
	} {
		t.Run(name, func(t *testing.T) { require.Equal(t, tt.want, plain.Clean(tt.output)) })
	}
}

func TestOnlyProgressIsOverwritten(t *testing.T) {
	for name, tt := range map[string]struct{ output, want string }{
		"a text of an old Mac":  {"Dear all,\r\rthis is text\rof an old Mac.\rBye\r", "Dear all,\nthis is text\nof an old Mac.\nBye"},
		"source of an old Mac":  {"import a\rimport b\r\rfunc main() {\r}\r", "import a\nimport b\nfunc main() {\n}"},
		"a table of an old Mac": {"name,age\rann,12\rbob,13\r", "name,age\nann,12\nbob,13"},
		"numbers":               {"1.5\r2.5\r3.5\r", "1.5\n2.5\n3.5"},
		"rows of equal names":   {"x1,5,ok\rx2,6,ok\r", "x1,5,ok\nx2,6,ok"},
		"an end that differs":   {"loading 10%\rloading 100%\rAll is well.\n", "loading 100%\nAll is well.\n"},
		"a counter":             {"item 9 of 10\ritem 10 of 10\n", "item 10 of 10\n"},
		"a spinner":             {"|\r/\r-\r\\\rdone\n", "\\\ndone\n"},
		"dots":                  {"wait\rwait.\rwait..\rwait...\n", "wait...\n"},
		"braille":               {"⠋ building\r⠙ building\r⠹ building\n", "⠹ building\n"},
		"shares with names":     {"a.txt 5%\rother.c 6%\n", "other.c 6%\n"},
		"dd":                    {"52428800 bytes (52 MB, 50 MiB) copied, 1 s, 52.4 MB/s\r105906176 bytes (106 MB, 101 MiB) copied, 2.00012 s, 53.0 MB/s\n", "105906176 bytes (106 MB, 101 MiB) copied, 2.00012 s, 53.0 MB/s\n"},
		"curl": {"  0 1256k    0     0    0     0      0      0 --:--:-- --:--:-- --:--:--     0\r 12 1256k   12  150k    0     0   150k      0  0:00:08  0:00:01  0:00:07  150k\n",
			" 12 1256k   12  150k    0     0   150k      0  0:00:08  0:00:01  0:00:07  150k\n"},
		"git":   {"Receiving objects:  50% (1/2)\rReceiving objects: 100% (2/2)\rReceiving objects: 100% (2/2), 1.00 KiB, done.\n", "Receiving objects: 100% (2/2), 1.00 KiB, done.\n"},
		"apt":   {"Reading package lists... 0%\r\rReading package lists... 100%\r\rReading package lists... Done\r\n", "Reading package lists... Done\n"},
		"dpkg":  {"(Reading database ... \r(Reading database ... 5%\r(Reading database ... 100%\r(Reading database ... 6089 files and directories currently installed.)\n", "(Reading database ... 6089 files and directories currently installed.)\n"},
		"tqdm":  {"\r  0%|          | 0/3 [00:00<?, ?it/s]\r 33%|###3      | 1/3 [00:00<00:00,  9.99it/s]\r100%|##########| 3/3 [00:00<00:00,  9.98it/s]\n", "100%|##########| 3/3 [00:00<00:00,  9.98it/s]\n"},
		"maven": {"Progress (1): 4.1 kB\rProgress (1): 8.2 kB\r                    \rDownloaded from central\n", "Downloaded from central\n"},
		"npm":   {"⠋\x1b[1G\x1b[0K⠙\x1b[1G\x1b[0K\nadded 1 package\n", "⠙\nadded 1 package\n"},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tt.want, plain.Clean(tt.output))
			passed, _ := pass(tt.output, 7)
			require.Equal(t, tt.want, plain.Clean(passed), "also of a long output")
		})
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
	require.Equal(t, "[binary output, 12,345 bytes, looks like gzip data]\n", plain.Clean(gzip))
	require.Equal(t, "ls\n[binary output, 12,346 bytes, looks like gzip data]\ndone\n", plain.Clean("ls\n"+gzip+"\ndone\n"))
	require.Equal(t, "[binary output, 1,000 bytes]\n", plain.Clean(noise(999)+"\n"))
	require.Contains(t, plain.Clean("\x7fELF\x02\x01\x01\x00\x00"), "looks like an ELF program")
	require.Contains(t, plain.Clean("h\x00i\x00"+strings.Repeat("x\x00", 100)), "[binary output, 204 bytes]")
	require.Equal(t, `a<0x01><0x02>`, plain.Clean("a\x01\x02"), "what is short is shown")
	require.NotContains(t, plain.Clean(strings.Repeat("./a file/name\x00", 100)), "binary")
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
		"a long state":        {"1%\r" + long + "\r2%\r3%\n", "1%\r" + long + "\r3%\n"},
		"colours stay":        {"\x1b[1m1%\r\x1b[2m2%\n", "\x1b[2m2%\n"},
		"nothing":             {"", ""},
		"a lone return":       {"\ra\n", "a\n"},
		"an escape cut short": {"1%\r\x1b[2%\n", "\x1b[2%\n"},
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
	for _, s := range []string{"a\r\nb", "1%\r2%\r\n", "\r\r\n", "a\r \r\x1b[K", "0\r0\r0 "} {
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

// What tools print at a terminal was recorded: what a model gets of it is beside it.
func TestCleanOfWhatToolsPrint(t *testing.T) {
	recorded, err := filepath.Glob("testdata/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, recorded)
	for _, file := range recorded {
		want, err := os.ReadFile(file)
		require.NoError(t, err)
		output, err := os.ReadFile(strings.TrimSuffix(file, ".txt"))
		require.NoError(t, err)
		require.Equal(t, string(want), plain.Clean(string(output)), file)
	}
}
