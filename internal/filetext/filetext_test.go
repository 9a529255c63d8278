package filetext_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/filetext"
)

const limit = 32 << 10

// fileOf is a file with this content. It counts the bytes that are read.
func fileOf(content string, read *int64) filetext.Source {
	return func(_ context.Context, offset, limit int64) ([]byte, int64, error) {
		size := int64(len(content))
		from := min(offset, size)
		data := content[from:min(from+limit, size)]
		if read != nil {
			*read += int64(len(data))
		}
		return []byte(data), size, nil
	}
}

func numbered(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "line %d\n", i+1)
	}
	return b.String()
}

func read(t *testing.T, content string, r filetext.Request) filetext.Piece {
	t.Helper()
	r.Name = "f"
	piece, err := filetext.Read(t.Context(), fileOf(content, nil), r, limit)
	require.NoError(t, err)
	return piece
}

func TestLinesAreNumbered(t *testing.T) {
	for name, tt := range map[string]struct {
		content string
		request filetext.Request
		want    string
	}{
		"whole":               {"a\n\nb\n", filetext.Request{}, "f: lines 1–3 of 3\n1\ta\n2\t\n3\tb\n"},
		"no end":              {"a\nb", filetext.Request{}, "f: lines 1–2 of 2\n1\ta\n2\tb\n[no newline at the end]"},
		"one line":            {"a\n", filetext.Request{}, "f: line 1 of 1\n1\ta\n"},
		"only a newline":      {"\n", filetext.Request{}, "f: line 1 of 1\n1\t\n"},
		"empty":               {"", filetext.Request{}, "f: the file is empty"},
		"empty, from a line":  {"", filetext.Request{Line: 7}, "f: the file is empty"},
		"from a line":         {numbered(5), filetext.Request{Line: 4}, "f: lines 4–5 of 5\n4\tline 4\n5\tline 5\n"},
		"some":                {numbered(2000), filetext.Request{Line: 999, Count: 2}, "f: lines 999–1,000 of 2,000\n999\tline 999\n1000\tline 1000\n[read on with line 1001]"},
		"the last":            {numbered(5), filetext.Request{Line: -2}, "f: lines 4–5 of 5\n4\tline 4\n5\tline 5\n"},
		"one before the last": {numbered(5), filetext.Request{Line: -2, Count: 1}, "f: line 4 of 5\n4\tline 4\n[read on with line 5]"},
		"more than all":       {numbered(2), filetext.Request{Line: -99}, "f: lines 1–2 of 2\n1\tline 1\n2\tline 2\n"},
		"the last, no end":    {"a\nb", filetext.Request{Line: -1}, "f: line 2 of 2\n2\tb\n[no newline at the end]"},
		"CRLF":                {"a\r\nb\r\n", filetext.Request{}, "f: lines 1–2 of 2; CRLF line ends\n1\ta\n2\tb\n"},
		"mixed":               {"a\r\nb\nc\n", filetext.Request{}, "f: lines 1–3 of 3; 1 of 3 lines end in CRLF, the others in LF\n1\ta\n2\tb\n3\tc\n"},
		"CR":                  {"a\rb\r", filetext.Request{}, "f: lines 1–2 of 2; lines end in CR alone\n1\ta\n2\tb\n"},
		"a byte order mark":   {"\ufeffa\nb\n", filetext.Request{Line: 2}, "f: line 2 of 2; begins with a byte order mark, not shown\n2\tb\n"},
		"latin1":              {"h\xe4user, die\n", filetext.Request{}, "f: line 1 of 1; ISO-8859-1, shown as UTF-8\n1\thäuser, die\n"},
		"from a byte":         {"häuser\nb\n", filetext.Request{Offset: 3}, "f: bytes 3–9 of 10, without line numbers\nuser\nb\n"},
		"from in a character": {"häuser\n", filetext.Request{Offset: 2}, "f: bytes 3–7 of 8, without line numbers\nuser\n"},
		"lines from a byte":   {numbered(5), filetext.Request{Offset: 2, Count: 2}, "f: bytes 2–13 of 35, without line numbers\nne 1\nline 2\n\n[read on with offset 14]"},
		"a long one":          {strings.Repeat("x", 5000) + "\nb\n", filetext.Request{}, "f: lines 1–2 of 2\n1\t" + strings.Repeat("x", 2000) + " [… 3,000 more bytes of this line: offset 2000]\n2\tb\n"},
		"all of a long one":   {strings.Repeat("x", 5000) + "\nb\n", filetext.Request{Count: 1}, "f: line 1 of 2\n1\t" + strings.Repeat("x", 5000) + "\n[read on with line 2]"},
		"long ones, CRLF":     {strings.Repeat("x", 2000) + "\r\nb\r\n", filetext.Request{Line: 1}, "f: lines 1–2 of 2; CRLF line ends\n1\t" + strings.Repeat("x", 2000) + "\n2\tb\n"},
	} {
		t.Run(name, func(t *testing.T) {
			piece := read(t, tt.content, tt.request)
			require.Equal(t, tt.want, piece.Text)
			require.True(t, strings.HasPrefix(piece.Text, piece.Title))
		})
	}
}

func TestWhatCannotBeShownIsSaid(t *testing.T) {
	for name, tt := range map[string]struct {
		content string
		request filetext.Request
		want    string
	}{
		"past the end":          {numbered(2000), filetext.Request{Line: 2500}, "line 2,500 is past the end of f, which has 2,000 lines"},
		"past one line":         {"a", filetext.Request{Line: 2}, "line 2 is past the end of f, which has 1 line"},
		"past the last byte":    {"abc", filetext.Request{Offset: 3}, "offset 3 is at or past the end of f, which has 3 bytes"},
		"a count below nothing": {"abc", filetext.Request{Count: -1}, "count must not be negative"},
		"before the first byte": {"abc", filetext.Request{Offset: -1}, "offset must not be negative"},
		"a program":             {"\x7fELF\x02\x01\x00", filetext.Request{}, "f is no text file: it is an ELF program or library (7 bytes); look at it with file, strings or readelf in bash"},
		"an image":              {"\x89PNG\r\n\x1a\n\x00", filetext.Request{}, "it is a PNG image (9 bytes); look at it with read_image"},
		"a document":            {"%PDF-1.7\n", filetext.Request{}, "a PDF document"},
		"a tar archive":         {strings.Repeat("\x00", 257) + "ustar", filetext.Request{}, "a tar archive"},
		"a database":            {"SQLite format 3\x00", filetext.Request{}, "an SQLite database"},
		"zeros":                 {"\x00\x00\x00\x00\x00\x00\x00", filetext.Request{}, "nothing but NUL bytes"},
		"another":               {"a\x00b", filetext.Request{}, "f is no text file: it is binary data (3 bytes)"},
		"random":                {"\x80\x81\x82\x83abc", filetext.Request{}, "binary data"},
		"UTF-32":                {"\xff\xfe\x00\x00a\x00\x00\x00", filetext.Request{}, "text in UTF-32LE"},
	} {
		t.Run(name, func(t *testing.T) {
			tt.request.Name = "f"
			_, err := filetext.Read(t.Context(), fileOf(tt.content, nil), tt.request, limit)
			require.ErrorContains(t, err, tt.want)
		})
	}
}

func TestAFileIsReadOnFromWhereItWasCut(t *testing.T) {
	for name, content := range map[string]string{
		"lines":      numbered(20_000),
		"characters": strings.Repeat("日本語🙂\n", 9000),
		"CRLF":       strings.ReplaceAll(numbered(9000), "\n", "\r\n"),
	} {
		t.Run(name, func(t *testing.T) {
			var got strings.Builder
			for line, calls := 1, 0; line > 0; calls++ {
				require.Less(t, calls, 30)
				piece := read(t, content, filetext.Request{Line: line})
				require.LessOrEqual(t, len(piece.Text), limit)
				require.Greater(t, len(piece.Text), limit*9/10*b2i(calls == 0))
				body := strings.TrimPrefix(piece.Text, piece.Title+"\n")
				body, note, more := strings.Cut(body, "[read on with line ")
				for l := range strings.Lines(body) {
					number, text, _ := strings.Cut(l, "\t")
					require.Equal(t, fmt.Sprint(line), number)
					got.WriteString(text)
					line++
				}
				if !more {
					break
				}
				require.Equal(t, fmt.Sprintf("%d]", line), note)
			}
			require.True(t, strings.ReplaceAll(content, "\r\n", "\n") == got.String())
		})
	}
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

func TestALongLineIsReadByItsBytes(t *testing.T) {
	content := strings.Repeat("grüße🙂", 30_000)
	var got strings.Builder
	piece := read(t, content, filetext.Request{})
	require.Contains(t, piece.Text, "bytes of this line: offset 1998]")
	got.WriteString(content[:1998])
	for offset, calls := int64(1998), 0; ; calls++ {
		require.Less(t, calls, 20)
		piece = read(t, content, filetext.Request{Offset: offset})
		require.LessOrEqual(t, len(piece.Text), limit)
		body, note, more := strings.Cut(strings.TrimPrefix(piece.Text, piece.Title+"\n"), "\n[read on with offset ")
		got.WriteString(body)
		if !more {
			break
		}
		_, err := fmt.Sscanf(note, "%d]", &offset)
		require.NoError(t, err)
	}
	require.True(t, content == got.String())
}

func TestLineEndsAreSeenWhereFilesAreReadInPieces(t *testing.T) {
	for at := range 4 { // the first piece has 64 KiB
		content := strings.Repeat("x", 64<<10-at) + "\r\nb\r\n"
		require.Equal(t, "f: line 2 of 2; CRLF line ends\n2\tb\n", read(t, content, filetext.Request{Line: 2}).Text)
		piece := read(t, content, filetext.Request{Line: -2, Count: 1})
		require.Contains(t, piece.Text, fmt.Sprintf(" more bytes of this line: offset %d]\n[read on with line 2]", strings.Count(piece.Text, "x")))
	}
}

// TestHugeFilesAreReadInBounds reads a file of 1 TiB that is made while it is
// read.
func TestHugeFilesAreReadInBounds(t *testing.T) {
	const size = 1 << 40
	line := []byte(strings.Repeat("x", 99) + "\n")
	block := []byte(strings.Repeat(string(line), 1<<14))
	var total int64
	huge := func(_ context.Context, offset, limit int64) ([]byte, int64, error) {
		require.LessOrEqual(t, limit, int64(1<<20))
		total += limit
		from := offset % 100
		return block[from:][:limit], size, nil
	}
	piece, err := filetext.Read(t.Context(), huge, filetext.Request{Name: "huge.log"}, limit)
	require.NoError(t, err)
	require.Contains(t, piece.Title, "huge.log: lines 1–")
	require.Contains(t, piece.Title, ", more follow (the file has 1,099,511,627,776 bytes)")
	require.LessOrEqual(t, total, int64(1<<20))

	piece, err = filetext.Read(t.Context(), huge, filetext.Request{Name: "huge.log", Line: 1_000_000, Count: 3}, limit)
	require.NoError(t, err)
	require.Contains(t, piece.Text, "\n1000002\txxx")
	require.True(t, strings.HasSuffix(piece.Text, "[read on with line 1000003]"))

	_, err = filetext.Read(t.Context(), huge, filetext.Request{Name: "huge.log", Line: 100_000_000}, limit)
	require.ErrorContains(t, err, "line 100,000,000 of huge.log is further than can be read here: the first 268,")
	require.ErrorContains(t, err, "sed -n '100000000,100000099p'")
	_, err = filetext.Read(t.Context(), huge, filetext.Request{Name: "huge.log", Line: -5}, limit)
	require.ErrorContains(t, err, "too many to count its lines from the end; read it with tail in bash")
}

func TestTheEndOfALargeFileIsNotReadTwice(t *testing.T) {
	var total int64
	content := strings.Repeat("12345678\n", 3_000_000)
	piece, err := filetext.Read(t.Context(), fileOf(content, &total), filetext.Request{Name: "f", Line: -2}, limit)
	require.NoError(t, err)
	require.Equal(t, "f: lines 2,999,999–3,000,000 of 3,000,000\n2999999\t12345678\n3000000\t12345678\n", piece.Text)
	require.Less(t, total, int64(len(content)+2<<20))
}

func TestASlowFileIsShownWithoutItsNumberOfLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		content := numbered(400_000)
		slow := func(ctx context.Context, offset, limit int64) ([]byte, int64, error) {
			if offset > 0 {
				<-ctx.Done()
				return nil, 0, ctx.Err()
			}
			return fileOf(content, nil)(ctx, offset, limit)
		}
		begun := time.Now()
		piece, err := filetext.Read(t.Context(), slow, filetext.Request{Name: "f", Count: 1}, limit)
		require.NoError(t, err)
		require.Equal(t, 2*time.Second, time.Since(begun))
		require.Contains(t, piece.Title, "f: line 1, more follow (the file has ")
		_, err = filetext.Read(t.Context(), slow, filetext.Request{Name: "f", Line: 300_000}, limit)
		require.ErrorContains(t, err, "further than can be read here")
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		_, err = filetext.Read(ctx, slow, filetext.Request{Name: "f", Line: 300_000}, limit)
		require.ErrorIs(t, err, context.Canceled)
	})
}

func TestAFileThatCannotBeRead(t *testing.T) {
	broken := func(context.Context, int64, int64) ([]byte, int64, error) { return nil, 0, fs.ErrPermission }
	_, err := filetext.Read(t.Context(), broken, filetext.Request{}, limit)
	require.ErrorIs(t, err, fs.ErrPermission)
	// A file that becomes shorter while it is read ends where it ends.
	content := numbered(100_000)
	shrinks := func(_ context.Context, offset, limit int64) ([]byte, int64, error) {
		if offset > 0 {
			return nil, 0, nil
		}
		return []byte(content[:64<<10]), int64(len(content)), nil
	}
	piece, err := filetext.Read(t.Context(), shrinks, filetext.Request{Line: -1}, limit)
	require.NoError(t, err)
	require.NotEmpty(t, piece.Text)
	// So does one whose source fails after the beginning.
	fails := func(_ context.Context, offset, limit int64) ([]byte, int64, error) {
		if offset > 0 {
			return nil, 0, errors.New("gone")
		}
		return []byte(content[:64<<10]), int64(len(content)), nil
	}
	_, err = filetext.Read(t.Context(), fails, filetext.Request{Line: 50_000}, limit)
	require.ErrorContains(t, err, "gone")
}

func TestUTF16IsShown(t *testing.T) {
	for name, big := range map[string]bool{"UTF-16LE": false, "UTF-16BE": true} {
		t.Run(name, func(t *testing.T) {
			var data []byte
			for _, unit := range append([]uint16{0xFEFF}, append(utf16.Encode([]rune("grüße 🙂\r\nzwei\r\n")), 0xD800)...) {
				lo, hi := byte(unit), byte(unit>>8)
				if big {
					lo, hi = hi, lo
				}
				data = append(data, lo, hi)
			}
			piece := read(t, string(data)+"x", filetext.Request{})
			require.Equal(t, "f: lines 1–3 of 3; "+name+" with damaged characters, shown as UTF-8; CRLF line ends\n1\tgrüße 🙂\n2\tzwei\n3\t\uFFFD\n[no newline at the end]", piece.Text)
			_, err := filetext.Read(t.Context(), fileOf(string(data)+strings.Repeat("a\x00", 5<<20), nil), filetext.Request{Name: "f"}, limit)
			require.ErrorContains(t, err, "convert it with iconv in bash")
		})
	}
}

func TestDirectoriesAreListed(t *testing.T) {
	piece := filetext.Listing("src", []filetext.Entry{
		{Name: "b.go", Size: 1234}, {Name: "a\nb", Size: 1}, {Name: ".git", Mode: fs.ModeDir}, {Name: "run", Size: 7, Mode: 0o755},
		{Name: "link", Mode: fs.ModeSymlink}, {Name: "zoo", Mode: fs.ModeDir}, {Name: "pipe", Mode: fs.ModeNamedPipe},
	}, false, limit)
	require.Equal(t, "src: a directory with 7 entries\n.git/\nzoo/\n\"a\\nb\"  1 byte\nb.go  1,234 bytes\nlink  (symbolic link)\npipe  (no regular file)\nrun  7 bytes, executable", piece.Text)
	require.Equal(t, "src: an empty directory", filetext.Listing("src", nil, false, limit).Text)
	require.Equal(t, "src: a directory with 1 entry\na  0 bytes", filetext.Listing("src", []filetext.Entry{{Name: "a"}}, false, limit).Text)

	many := make([]filetext.Entry, 5000)
	for i := range many {
		many[i].Name = fmt.Sprintf("file with a long name %04d", i)
	}
	piece = filetext.Listing("src", many, true, limit)
	require.LessOrEqual(t, len(piece.Text), limit)
	require.Contains(t, piece.Text, "src: a directory with more than 5,000 entries\n")
	require.True(t, strings.HasSuffix(piece.Text, "\n[… and others; list them with ls or find in bash]"))
	require.Regexp(t, `\[… and [\d,]+ more; list`, filetext.Listing("src", many, false, limit).Text)
}

func FuzzRead(f *testing.F) {
	f.Add("a\r\nb\n\xff\x00", 1, 2, int64(0))
	f.Add("\xff\xfea\x00\n\x00", -1, 0, int64(1))
	f.Add("a\rb", 2, 1, int64(0))
	f.Add(strings.Repeat("ü", 1500), 1, 0, int64(3))
	f.Fuzz(func(t *testing.T, content string, line, count int, offset int64) {
		r := filetext.Request{Name: content[:min(len(content), 300)], Line: line, Count: count, Offset: offset}
		piece, err := filetext.Read(t.Context(), fileOf(content, nil), r, limit)
		if err != nil {
			require.Less(t, len(err.Error()), 1000)
			return
		}
		require.LessOrEqual(t, len(piece.Text), limit)
		require.True(t, utf8.ValidString(piece.Text))
		require.NotContains(t, piece.Text, "\x00")
		require.NotContains(t, piece.Title, "\n")
		if utf8.ValidString(content) && offset == 0 && line == 0 && count == 0 && !strings.ContainsAny(content, "\r\x00\ufeff") && len(content) < 1000 && content != "" {
			var lines strings.Builder
			for i, l := range strings.Split(strings.TrimSuffix(content, "\n"), "\n") {
				fmt.Fprintf(&lines, "%d\t%s\n", i+1, l)
			}
			require.Contains(t, piece.Text, piece.Title+"\n"+lines.String())
		}
	})
}

func TestWithoutRoot(t *testing.T) {
	exists := func(p string) bool { return p == "src/main.go" || p == "go.mod" || p == "main.go" }
	for name, want := range map[string]string{
		"/src/main.go":            "src/main.go",
		"/workspace/src/main.go":  "src/main.go",
		"../src/main.go":          "src/main.go",
		`C:\repo\src\main.go`:     "src/main.go",
		"/go.mod":                 "go.mod",
		"/repo/go.mod":            "go.mod",
		"/usr/lib/go/src/main.go": "src/main.go",
		"/usr/lib/main.go":        "",
		"/etc/passwd":             "",
		"/":                       "",
		"..":                      "",
		"":                        "",
		strings.Repeat("/x", 100) + "/src/main.go": "",
	} {
		require.Equal(t, want, filetext.WithoutRoot(name, exists), name)
	}
}

func TestListingQuotesOddNames(t *testing.T) {
	piece := filetext.Listing("d", []filetext.Entry{
		{Name: "photo\u202egpj.exe"}, {Name: "a\nb"}, {Name: "\x1b[2K"}, {Name: strings.Repeat("\xff", 1000)},
	}, false, limit)
	require.Equal(t, "d: a directory with 4 entries\n"+`"\x1b[2K"  0 bytes`+"\n"+`"a\nb"  0 bytes`+"\n"+`"photo\u202egpj.exe"  0 bytes`+"\n"+
		`"`+strings.Repeat(`\xff`, 200)+`"…  0 bytes`, piece.Text)
}
