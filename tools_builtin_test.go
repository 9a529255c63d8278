package pygent_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/pygenttest"
)

// toolBench is a local runtime and the built-in tools that use it.
type toolBench struct {
	*testing.T
	rt  pygent.Runtime
	dir string
}

func newToolBench(t *testing.T) *toolBench {
	t.Helper()
	dir := t.TempDir()
	rt, err := pygent.NewLocalRuntime(t.Context(), pygent.WithWorkspace(dir))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, rt.Cleanup()) })
	return &toolBench{t, rt, dir}
}

func (b *toolBench) try(tool string, args map[string]any) (*pygent.ToolResult, error) {
	return callOn(b.T, b.rt, tool, args)
}

func (b *toolBench) call(tool string, args map[string]any) *pygent.ToolResult {
	b.Helper()
	result, err := b.try(tool, args)
	require.NoError(b, err)
	return result
}

func (b *toolBench) write(name, content string) {
	b.Helper()
	require.NoError(b, os.WriteFile(filepath.Join(b.dir, name), []byte(content), 0o600))
}

func (b *toolBench) read(name string) string {
	b.Helper()
	data, err := os.ReadFile(filepath.Join(b.dir, name))
	require.NoError(b, err)
	return string(data)
}

func callOn(t *testing.T, rt pygent.Runtime, tool string, args map[string]any) (*pygent.ToolResult, error) {
	t.Helper()
	var r pygent.Registry
	r.Reset()
	data, err := json.Marshal(args)
	require.NoError(t, err)
	return r.Execute(t.Context(), toolCall(tool, string(data)), rt)
}

func TestBashShowsOutputAndExitCode(t *testing.T) {
	t.Parallel()
	b := newToolBench(t)
	require.NoError(t, os.Mkdir(filepath.Join(b.dir, "sub"), 0o700))
	tests := []struct {
		name string
		args map[string]any
		want string
	}{
		{"output", map[string]any{"cmd": "echo hi"}, "$ echo hi\nhi\n"},
		{"both streams in order", map[string]any{"cmd": "echo 1; echo 2 >&2; echo 3"}, "$ echo 1; echo 2 >&2; echo 3\n1\n2\n3\n"},
		{"nothing", map[string]any{"cmd": "true"}, "$ true\n(no output)"},
		{"nothing but a line end", map[string]any{"cmd": "echo; exit 2"}, "$ echo; exit 2\n\n(no output)\n[exit code 2]"},
		{"progress and colours", map[string]any{"cmd": `printf ' 10%%\r 50%%\r100%%\n\033[31mred\033[0m\n'`}, "$ printf ' 10%%\\r 50%%\\r100%%\\n\\033[31mred\\033[0m\\n'\n100%\nred\n"},
		{"exit code", map[string]any{"cmd": "echo no; exit 3"}, "$ echo no; exit 3\nno\n[exit code 3]"},
		{"exit code after an open line", map[string]any{"cmd": "printf no; false"}, "$ printf no; false\nno\n[exit code 1]"},
		{"signal", map[string]any{"cmd": "kill -9 $$"}, "$ kill -9 $$\n(no output)\n[exit code 137]"},
		{"cwd", map[string]any{"cmd": "basename $PWD", "cwd": "sub"}, "$ basename $PWD\nsub\n"},
		{"no input", map[string]any{"cmd": "cat; echo end"}, "$ cat; echo end\nend\n"},
		{"timeout given", map[string]any{"cmd": "echo ok", "timeout": 5.5}, "$ echo ok\nok\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			require.Equal(t, tt.want, b.call("bash", tt.args).Content)
		})
	}
	result := b.call("bash", map[string]any{"cmd": "echo begun; sleep 60", "timeout": 0.3})
	require.Contains(t, result.Content, "begun\n[stopped at the time limit after ")
}

func TestBashRefuses(t *testing.T) {
	t.Parallel()
	b := newToolBench(t)
	tests := []struct {
		name string
		args map[string]any
		want string
	}{
		{"no command", map[string]any{"cmd": " \n"}, "cmd is empty"},
		{"a negative timeout", map[string]any{"cmd": "true", "timeout": -1}, "must not be negative"},
		{"a NUL byte", map[string]any{"cmd": "echo \x00"}, "NUL"},
		{"a directory outside", map[string]any{"cmd": "true", "cwd": "../.."}, "outside the workspace"},
		{"no such directory", map[string]any{"cmd": "true", "cwd": "nope"}, "nope"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := b.try("bash", tt.args)
			require.ErrorContains(t, err, tt.want)
		})
	}
}

// stubRuntime is a runtime whose commands are a function of the test.
type stubRuntime struct {
	nowhere
	bash func(cmd string, o pygent.BashOptions) (pygent.BashResult, error)
	file []byte
}

func (s stubRuntime) Bash(_ context.Context, cmd string, opts ...pygent.BashOption) (pygent.BashResult, error) {
	return s.bash(cmd, pygent.NewBashOptions(opts...))
}
func (s stubRuntime) ReadFile(context.Context, string) ([]byte, error) { return s.file, nil }

func TestBashTimeoutIsCapped(t *testing.T) {
	t.Parallel()
	tests := []struct{ seconds, want float64 }{
		{0, 120}, {1.5, 1.5}, {600, 600}, {601, 600}, {1e12, 600}, {1e300, 600},
	}
	for _, tt := range tests {
		var got float64
		rt := stubRuntime{bash: func(_ string, o pygent.BashOptions) (pygent.BashResult, error) {
			got = o.Timeout.Seconds()
			return pygent.BashResult{}, nil
		}}
		result, err := callOn(t, rt, "bash", map[string]any{"cmd": "true", "timeout": tt.seconds})
		require.NoError(t, err)
		require.Equal(t, tt.want, got)
		require.Equal(t, tt.seconds > 600, strings.HasSuffix(result.Content, "\n[the timeout was cut to 600 seconds, the most there is; use background for longer work]"))
	}
}

func TestBashShowsAModelWhatATerminalWould(t *testing.T) {
	t.Parallel()
	gzip := "\x1f\x8b\x08\x00" + strings.Repeat("\xff\x00", 100)
	for name, tt := range map[string]struct {
		result pygent.BashResult
		want   string
	}{
		"bytes that are not UTF-8": {pygent.BashResult{Output: "a\xff\xfeb\n"}, "$ x\na<0xFF><0xFE>b\n"},
		"binary output":            {pygent.BashResult{Output: "ok\n" + gzip + "\n"}, "$ x\nok\n[binary output, 205 bytes, looks like gzip data]\n"},
		"a long time":              {pygent.BashResult{Output: "ok\n", Duration: 12345 * time.Millisecond}, "$ x\nok\n[took 12.3s]"},
		"a failure after long":     {pygent.BashResult{Output: "no\n", ExitCode: 2, Duration: 5 * time.Second}, "$ x\nno\n[exit code 2 after 5s]"},
		"a short time":             {pygent.BashResult{Output: "ok\n", Duration: 4999 * time.Millisecond}, "$ x\nok\n"},
		"much after cleaning":      {pygent.BashResult{Output: strings.Repeat("\x01", 10_000)}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			rt := stubRuntime{bash: func(_ string, o pygent.BashOptions) (pygent.BashResult, error) {
				require.True(t, o.Raw)
				return tt.result, nil
			}}
			result, err := callOn(t, rt, "bash", map[string]any{"cmd": "x"})
			require.NoError(t, err)
			if tt.want != "" {
				require.Equal(t, tt.want, result.Content)
			}
			require.Less(t, len(result.Content), pygent.DefaultMaxOutput+100)
			require.Equal(t, strings.ToValidUTF8(tt.result.Output, "\ufffd"), result.Bash.Output, "programs get what was printed")
		})
	}
}

func TestBashKeepsWhatAnInterruptedCommandPrinted(t *testing.T) {
	t.Parallel()
	lost := errors.New("the container is gone")
	output := "half"
	rt := stubRuntime{bash: func(string, pygent.BashOptions) (pygent.BashResult, error) {
		return pygent.BashResult{Output: output, ExitCode: -1}, lost
	}}
	result, err := callOn(t, rt, "bash", map[string]any{"cmd": "make"})
	require.NoError(t, err)
	require.True(t, result.IsError)
	require.Equal(t, "$ make\nhalf\n[exit code -1]\n[did not finish: the container is gone]", result.Content)
	output = ""
	_, err = callOn(t, rt, "bash", map[string]any{"cmd": "make"})
	require.ErrorIs(t, err, lost)
}

func TestBashShortensALongCommandAndNotItsOutput(t *testing.T) {
	t.Parallel()
	b := newToolBench(t)
	script := "echo first\n: " + strings.Repeat("ä", 100_000) + "\necho last"
	result := b.call("bash", map[string]any{"cmd": script})
	require.Less(t, len(result.Content), 500)
	require.True(t, strings.HasPrefix(result.Content, "$ echo first\n: ää"))
	require.True(t, strings.HasSuffix(result.Content, "ä …\nfirst\nlast\n"), result.Content)
	require.Equal(t, "$ "+script+"\nfirst\nlast\n", result.Display)
}

func TestBashOutputIsBounded(t *testing.T) {
	t.Parallel()
	result := newToolBench(t).call("bash", map[string]any{"cmd": "echo head; head -c 5000000 /dev/zero | tr '\\0' x; echo tail; exit 4"})
	require.Less(t, len(result.Content), pygent.DefaultMaxOutput+300)
	require.True(t, strings.Contains(result.Content, "\nhead\nxxx"))
	require.Contains(t, result.Content, "xxxtail\n[the output is in /")
	require.True(t, strings.HasSuffix(result.Content, "\n[exit code 4]"))
	require.Contains(t, result.Content, "bytes left out")
}

func TestWriteFile(t *testing.T) {
	t.Parallel()
	b := newToolBench(t)
	b.write("crlf.txt", "a\r\nb\r\n")
	b.write("mark.txt", "\ufeffa\n")
	b.write("big", strings.Repeat("x", 2<<20))
	for _, tt := range []struct{ path, content, says string }{
		{"a/b/ü.txt", "grüß", "created a/b/ü.txt with 6 bytes (1 line)"},
		{"a/b/ü.txt", "a\nb\n", "replaced a/b/ü.txt, which had 6 bytes (1 line) and now has 4 bytes (2 lines)"},
		{"a/b/ü.txt", "", "replaced a/b/ü.txt, which had 4 bytes (2 lines) and now has 0 bytes (0 lines)"},
		{"crlf.txt", "a\nb\n", "replaced crlf.txt, which had 6 bytes (2 lines) and now has 4 bytes (2 lines); its lines ended in CRLF and now end in LF"},
		{"mark.txt", "a\n", "replaced mark.txt, which had 5 bytes (1 line) and now has 2 bytes (1 line); it began with a byte order mark (U+FEFF) and does not any more"},
		{"big", "x", "replaced big, which had 2,097,152 bytes and now has 1 byte (1 line)"},
		{filepath.Join(b.dir, "abs.txt"), "", "created " + filepath.Join(b.dir, "abs.txt") + " with 0 bytes (0 lines)"},
	} {
		result := b.call("write_file", map[string]any{"path": tt.path, "content": tt.content})
		require.Equal(t, tt.says, result.Content)
		require.Equal(t, tt.content, b.read(strings.TrimPrefix(tt.path, b.dir)))
		require.Len(t, result.Changes, 1)
	}
	b.write("huge", "")
	require.NoError(t, os.Truncate(filepath.Join(b.dir, "huge"), pygent.MaxReadFile+1))
	_, err := b.try("write_file", map[string]any{"path": "huge", "content": "x", "append": true})
	require.EqualError(t, err, "tool write_file: huge is too long to be written anew; append with cat >> in bash")
	_, err = b.try("edit_file", map[string]any{"path": "huge", "old_text": "x", "new_text": "y"})
	require.EqualError(t, err, "tool edit_file: huge is too long for edit_file; change it with sed or a script in bash")
	b.write("run.sh", "old")
	require.NoError(t, os.Chmod(filepath.Join(b.dir, "run.sh"), 0o750))
	b.call("write_file", map[string]any{"path": "run.sh", "content": "new\r\n"})
	require.Equal(t, "new\r\n", b.read("run.sh"))
	require.Equal(t, fs.FileMode(0o750), fileMode(t, filepath.Join(b.dir, "run.sh")))

	for path, want := range map[string]string{"../x": "outside the workspace", "/etc/passwd": "outside the workspace", "a": "is a directory", "": "path is empty", "run.sh/x": "run.sh/x"} {
		for _, add := range []bool{false, true} {
			_, err := b.try("write_file", map[string]any{"path": path, "content": "x", "append": add})
			require.ErrorContains(t, err, want, path)
		}
	}
}

func TestWriteFileAppends(t *testing.T) {
	t.Parallel()
	b := newToolBench(t)
	add := func(path, content string) *pygent.ToolResult {
		return b.call("write_file", map[string]any{"path": path, "content": content, "append": true})
	}
	require.Equal(t, "created sub/log with 4 bytes (1 line)", add("sub/log", "one\n").Content)
	result := add("sub/log", "two\n")
	require.Equal(t, "appended 4 bytes to sub/log, which now has 8 bytes (2 lines)", result.Content)
	require.Equal(t, []pygent.FileChange{{Path: "sub/log", Before: "one\n", After: "one\ntwo\n", Line: 1}}, result.Changes)
	require.Equal(t, "appended 4 bytes to sub/log, which now has 8 bytes (2 lines)\n@@ line 1 @@\n  one\n+ two", result.Display)
	require.Equal(t, "one\ntwo\n", b.read("sub/log"))
	b.write("open", "a")
	require.Contains(t, add("open", "b").Content, "appended 1 byte to open, which now has 2 bytes (1 line); it had no newline at its end")
	require.Equal(t, "ab", b.read("open"))
	b.write("crlf", "a\r\n")
	add("crlf", "b\nc\n")
	require.Equal(t, "a\r\nb\r\nc\r\n", b.read("crlf"))
	for _, tt := range []struct{ text, content, want, says string }{
		{"\xff\xfea\x00", "é", "\xff\xfea\x00\xe9\x00", "appended 2 bytes to odd, which now has 6 bytes (1 line), in UTF-16LE; it had no newline"},
		{"titre\xe9\n", "numéro\n", "titre\xe9\nnum\xe9ro\n", "appended 7 bytes to odd, which now has 14 bytes (2 lines), in ISO-8859-1"},
		{"titre\xe9\n", "5 €\n", "", "odd: the file is in ISO-8859-1, which has no '€'"},
		{"\xd4\xee\xf2\xee\xe3\xf0\xe0\n", "é\n", "", "odd: the file is not UTF-8 but in an encoding that its bytes do not tell"},
		{"\xd4\xee\xf2\xee\xe3\xf0\xe0\n", "e\n", "\xd4\xee\xf2\xee\xe3\xf0\xe0\ne\n", "appended 2 bytes to odd"},
	} {
		b.write("odd", tt.text)
		result, err := b.try("write_file", map[string]any{"path": "odd", "content": tt.content, "append": true})
		if tt.want == "" {
			require.ErrorContains(t, err, tt.says)
			require.Equal(t, tt.text, b.read("odd"))
			continue
		}
		require.NoError(t, err)
		require.Contains(t, result.Content, tt.says)
		require.Equal(t, tt.want, b.read("odd"))
	}
	require.Contains(t, b.call("write_file", map[string]any{"path": "odd", "content": "é"}).Content, "; it was in an encoding that")
	b.write("run.sh", "a\n")
	require.NoError(t, os.Chmod(filepath.Join(b.dir, "run.sh"), 0o755))
	add("run.sh", "b\n")
	require.Equal(t, fs.FileMode(0o755), fileMode(t, filepath.Join(b.dir, "run.sh")))
}

func fileMode(t *testing.T, name string) fs.FileMode {
	t.Helper()
	info, err := os.Stat(name)
	require.NoError(t, err)
	return info.Mode().Perm()
}

func TestEditFile(t *testing.T) {
	t.Parallel()
	one := func(old, new string) map[string]any { return map[string]any{"old_text": old, "new_text": new} }
	b := newToolBench(t)
	for _, tt := range []struct {
		name, text string
		args       map[string]any
		want, says string
	}{
		{"once", "a\nb\nc\n", one("b", "B"), "a\nB\nc\n", "edited f.txt at line 2\n1\ta\n2\tB\n3\tc\n"},
		{"deleted", "a\nb\nc\n", one("b\n", ""), "a\nc\n", "edited f.txt at line 2\n1\ta\n2\tc\n"},
		{"new text forgotten", "a\nb\n", map[string]any{"old_text": "b\n"}, "", `new_text is missing for old_text "b\n"; to delete that, give an empty new_text`},
		{"new text forgotten in one", "a\nb\n", map[string]any{"edits": []any{one("a", "x"), map[string]any{"old_text": "b"}}}, "", `new_text is missing for old_text "b"`},
		{"everywhere", "a\nb\na\n", map[string]any{"old_text": "a", "new_text": "x", "replace_all": true}, "x\nb\nx\n", "edited f.txt: 2 replacements, at lines 1 and 3\n1\tx\n2\tb\n3\tx\n"},
		{"several", "a\nb\n", map[string]any{"edits": []any{one("a", "x"), one("x\nb", "x\ny\nz")}}, "x\ny\nz\n", "edited f.txt: 2 replacements, at line 1\n1\tx\n2\ty\n3\tz\n"},
		{"one and several", "a\nb\n", map[string]any{"old_text": "a", "new_text": "x", "edits": []any{one("b", "y")}}, "x\ny\n", "edited f.txt: 2 replacements, at lines 1 and 2\n1\tx\n2\ty\n"},
		{"several, and empty ones beside", "a\n", map[string]any{"old_text": "", "new_text": "", "edits": []any{one("a", "y")}}, "y\n", "edited f.txt at line 1\n1\ty\n"},
		{"CRLF", "a\r\nb\r\n", one("a\nb\n", "x\ny\n"), "x\r\ny\r\n", "edited f.txt at line 1\n1\tx\n2\ty\n"},
		{"forgiven", "a  \nb\n", one("1\ta\n2\tb", "1\tx"), "x\n", "edited f.txt at line 1; the numbers of lines in old_text, which are not in the file, were left out\n1\tx\n"},
		{"not there", "a\n", one("zzzz", "d"), "", "f.txt: old_text does not occur in the file, and nothing like it"},
		{"almost there", "\tsome words\n", one("    some words", "y"), "", "The nearest passage is line 1, which differs in its indentation (tabs in the file, spaces in old_text):\n1\t\tsome words\n"},
		{"many", "a\nb\na\n", one("a", "c"), "", "old_text occurs 2 times, on lines 1 and 3; add lines around it to make it unique, or set replace_all"},
		{"one of several fails", "a\nb\n", map[string]any{"edits": []any{one("a", "x"), one("zzzz", "y")}}, "", "edit 2 of 2: old_text does not occur"},
		{"empty old text", "a\n", one("", "b"), "", "use write_file"},
		{"nothing", "a\n", map[string]any{}, "", "old_text is empty"},
		{"same text", "a\n", one("a", "a"), "", "nothing to do"},
		{"damaged UTF-16", "\xff\xfea\x00b", one("a", "b"), "", "f.txt: the file is not UTF-8 but in UTF-16LE with damaged characters"},
		{"not of the encoding", "titre\xe9\n", one("titre", "5 €"), "", "f.txt: the file is in ISO-8859-1, which has no '€'"},
		{"unknown encoding", "\xd4\xee\xf2\xee\xe3\xf0\xe0 a\n", one("a", "é"), "", "an encoding that its bytes do not tell"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b.write("f.txt", tt.text)
			tt.args["path"] = "f.txt"
			result, err := b.try("edit_file", tt.args)
			if tt.want == "" {
				require.ErrorContains(t, err, tt.says)
				require.Equal(t, tt.text, b.read("f.txt"))
				return
			}
			require.NoError(t, err)
			require.Equal(t, tt.says, result.Content)
			require.Equal(t, tt.want, b.read("f.txt"))
			require.Equal(t, tt.want, result.Changes[0].After)
			require.Contains(t, result.Display, "\n@@ line ")
		})
	}
	for _, tt := range []struct {
		text string
		args map[string]any
		want string
	}{
		{"\xff\xfea\x00\n\x00", one("a", "é"), "\xff\xfe\xe9\x00\n\x00"},
		{"titre\xe9\nligne deux\n", one("ligne deux", "ligne numéro deux"), "titre\xe9\nligne num\xe9ro deux\n"},
		{"titre\xe9\n", one("titreé", "é"), "\xe9\n"},
		{"\x93titre\x94\n", one("titre", "5 €"), "\x935 \x80\x94\n"},
		{"\x82\xb1\x82\xea a\n", one("a", "これ"), "\x82\xb1\x82\xea \x82\xb1\x82\xea\n"},
		{"\xd4\xee\xf2\xee\xe3\xf0\xe0 a\n", one("a", "b"), "\xd4\xee\xf2\xee\xe3\xf0\xe0 b\n"},
		{"cafe\u0301 ouvert\n", one("café ouvert", "café fermé"), "cafe\u0301 ferme\u0301\n"},
	} {
		b.write("f.txt", tt.text)
		tt.args["path"] = "f.txt"
		_, err := b.try("edit_file", tt.args)
		require.NoError(t, err, "%q", tt.text)
		require.Equal(t, tt.want, b.read("f.txt"))
	}
	b.write("main.go", "x")
	_, err := b.try("edit_file", map[string]any{"path": "mian.go", "old_text": "a", "new_text": "b"})
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorContains(t, err, "there is main.go")
	_, err = b.try("edit_file", map[string]any{"path": "../f", "old_text": "a", "new_text": "b"})
	require.ErrorIs(t, err, pygent.ErrOutsideWorkspace)

	b.write("run.sh", "echo a\n")
	require.NoError(t, os.Chmod(filepath.Join(b.dir, "run.sh"), 0o755))
	b.call("edit_file", map[string]any{"path": "run.sh", "old_text": "a", "new_text": "b"})
	require.Equal(t, fs.FileMode(0o755), fileMode(t, filepath.Join(b.dir, "run.sh")))
}

// TestFilesOfEveryRuntimeAreEdited makes the same changes where files are on this
// machine and in a container.
func TestFilesOfEveryRuntimeAreEdited(t *testing.T) {
	t.Parallel()
	forEachStarted(t, func(t *testing.T, r pygent.Runtime) {
		bash(t, r, "mkdir sub; printf 'a\\r\\nb\\r\\n' >sub/f; chmod 755 sub/f") // files are in the container from here on
		for _, call := range []struct {
			tool string
			args map[string]any
		}{
			{"edit_file", map[string]any{"path": "sub/f", "edits": []any{map[string]any{"old_text": "a\nb", "new_text": "x\ny"}, map[string]any{"old_text": "y", "new_text": "z"}}}},
			{"write_file", map[string]any{"path": "sub/f", "content": "end\n", "append": true}},
			{"write_file", map[string]any{"path": "new/g", "content": "g\n", "append": true}},
		} {
			_, err := callOn(t, r, call.tool, call.args)
			require.NoError(t, err)
		}
		require.Equal(t, "x\r\nz\r\nend\r\ng\n755\n", bash(t, r, "cat sub/f new/g; stat -c %a sub/f").Output)
		result, err := callOn(t, r, "download_file", map[string]any{"path": "."})
		require.NoError(t, err)
		require.Equal(t, ".: a directory with 2 entries\nnew/\nsub/", result.Content)
		result, err = callOn(t, r, "download_file", map[string]any{"path": "sub/f", "line": -1})
		require.NoError(t, err)
		require.Equal(t, "sub/f: line 3 of 3; CRLF line ends\n3\tend\n", result.Content)
		_, err = callOn(t, r, "download_file", map[string]any{"path": "f"})
		require.ErrorContains(t, err, "there is sub/f")
	})
}

func TestReadImage(t *testing.T) {
	t.Parallel()
	b := newToolBench(t)
	kinds := map[string]string{
		"png":  "\x89PNG\r\n\x1a\n…",
		"jpeg": "\xff\xd8\xff\xe0…",
		"gif":  "GIF89a…",
		"webp": "RIFF\x00\x00\x00\x00WEBPVP8 …",
	}
	for kind, data := range kinds {
		b.write("picture", data)
		result := b.call("read_image", map[string]any{"path": "picture"})
		require.Equal(t, fmt.Sprintf("the image picture (image/%s, %d bytes) follows", kind, len(data)), result.Content)
		require.Equal(t, []string{"data:image/" + kind + ";base64," + base64.StdEncoding.EncodeToString([]byte(data))}, result.Images)
	}
	b.write("text", "hello")
	b.write("svg", `<svg xmlns="http://www.w3.org/2000/svg"/>`)
	b.write("empty", "")
	b.write("large", kinds["png"]+strings.Repeat("x", 5<<20))
	b.write("largest", (kinds["png"] + strings.Repeat("x", 5<<20))[:5<<20])
	for name, want := range map[string]string{
		"text": "not a PNG", "svg": "not a PNG", "empty": "not a PNG", "large": "more than the 5242880",
		"nope": "no such file", "../x": "outside the workspace", ".": ".",
	} {
		_, err := b.try("read_image", map[string]any{"path": name})
		require.ErrorContains(t, err, want, name)
	}
	require.Len(t, b.call("read_image", map[string]any{"path": "largest"}).Images, 1)
}

func TestContinueAndStopEndTheRun(t *testing.T) {
	t.Parallel()
	b := newToolBench(t)
	result := b.call("continue", map[string]any{"prompt": "Which?", "options": []string{"a", "b"}})
	require.Equal(t, pygent.StatusAwaitingUser, result.End)
	require.Equal(t, &pygent.Question{Prompt: "Which?", Options: []string{"a", "b"}}, result.Question)
	require.NotEmpty(t, result.Content)
	for _, nothing := range []map[string]any{{}, {"prompt": " "}, {"options": []string{"a"}}} {
		_, err := b.try("continue", nothing)
		require.ErrorContains(t, err, "prompt is missing")
	}
	result = b.call("stop", map[string]any{"summary": "done"})
	require.Equal(t, pygent.StatusStopped, result.End)
	require.Equal(t, "done", result.Summary)
	require.NotEmpty(t, result.Content)
	require.Equal(t, pygent.StatusStopped, b.call("stop", map[string]any{}).End)
	_, err := b.try("continue", map[string]any{"options": map[string]any{"a": 1}})
	require.ErrorContains(t, err, "options")
}

func TestACommandEndsBeforeItsStep(t *testing.T) {
	t.Parallel()
	forEachStarted(t, func(t *testing.T, r pygent.Runtime) {
		agent := newAgentOn(t, r, pygenttest.NewScriptedModel(callBash("echo begun; sleep 600"), stop), pygent.LendRuntime(r))
		require.NoError(t, r.(pygent.Starter).Start(t.Context()))
		result, err := agent.RunUntilStop(t.Context(), "go", pygent.StepTimeout(8*time.Second))
		require.NoError(t, err)
		require.Equal(t, pygent.StatusStopped, result.Status, "the run goes on")
		require.Regexp(t, `^\$ echo begun; sleep 600\nbegun\n(.*\n)?\[did not finish: it was ended because the time of its step, or of the run, is almost over; run what takes long with background\]`, results(agent)[0])
	})
}

// changing is a runtime in which something else changes a file after it was read,
// some times.
type changing struct {
	pygent.Runtime
	times int
}

func (c *changing) ReadFile(ctx context.Context, path string) ([]byte, error) {
	data, err := c.Runtime.ReadFile(ctx, path)
	if c.times > 0 {
		c.times--
		err = errors.Join(err, c.Runtime.WriteFile(ctx, path, append([]byte("new\n"), data...)))
	}
	return data, err
}

func TestChangesOfOthersAreNotOverwritten(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		tool, want string
		args       map[string]any
	}{
		"an edit":     {"edit_file", "new\none\nTWO\n", map[string]any{"path": "f", "old_text": "two", "new_text": "TWO"}},
		"an addition": {"write_file", "new\none\ntwo\nthree\n", map[string]any{"path": "f", "content": "three\n", "append": true}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newToolBench(t)
			b.write("f", "one\ntwo\n")
			result, err := callOn(t, &changing{b.rt, 1}, tt.tool, tt.args)
			require.NoError(t, err)
			require.Equal(t, tt.want, b.read("f"))
			require.Equal(t, "new\none\ntwo\n", result.Changes[0].Before)
			require.Contains(t, result.Content, "; something else changed it at the same moment, which is kept")
			b.write("f", "one\ntwo\n")
			_, err = callOn(t, &changing{b.rt, 1 << 20}, tt.tool, tt.args)
			require.ErrorContains(t, err, "f is changed by something else at this moment, again and again; nothing was written")
			require.Equal(t, "new\nnew\nnew\nnew\none\ntwo\n", b.read("f"))
		})
	}
}

func TestReadOnlyFilesAreNotReplaced(t *testing.T) {
	t.Parallel()
	forEachStarted(t, func(t *testing.T, rt pygent.Runtime) {
		bash(t, rt, "mkdir sub; echo one >sub/f; chmod 444 sub/f; ln -s sub/f link; ln -s loop loop")
		for _, args := range []map[string]any{
			{"path": "sub/f", "content": "two\n"},
			{"path": "link", "content": "two\n"},
			{"path": "sub/f", "content": "two\n", "append": true},
			{"path": "link", "old_text": "one", "new_text": "two"},
		} {
			tool := "write_file"
			if args["old_text"] != nil {
				tool = "edit_file"
			}
			_, err := callOn(t, rt, tool, args)
			require.ErrorContains(t, err, args["path"].(string)+" is read-only (mode 0444), and was left as it is; if it may be changed, make it writable with chmod u+w in bash first")
		}
		require.Contains(t, bash(t, rt, "cat sub/f").Output, "one\n")
		bash(t, rt, "chmod u+w sub/f")
		_, err := callOn(t, rt, "write_file", map[string]any{"path": "link", "content": "two\n"})
		require.NoError(t, err)
		require.Equal(t, "two\n", bash(t, rt, "cat sub/f").Output)
	})
}

func TestErrorsAboutPathsSayWhatIsThere(t *testing.T) {
	t.Parallel()
	forEachStarted(t, func(t *testing.T, rt pygent.Runtime) {
		bash(t, rt, "ln -s /etc/passwd pw; ln -s loop loop; ln -s nothing dangling; echo x >f; mkdir -p src; echo y >src/main.go; printf z >'at 3\u202fPM.png'")
		for _, tt := range []struct {
			tool, path, want string
		}{
			{"download_file", "pw", "read pw: path is outside the workspace: it is a symbolic link to /etc/passwd; paths begin at the workspace, which is ., and bash can read others"},
			{"download_file", "/etc/passwd", "read /etc/passwd: path is outside the workspace; paths begin at the workspace, which is ., and bash can read others"},
			{"download_file", "/repo/src/main.go", "path is outside the workspace; there is src/main.go"},
			{"download_file", "~/f", "~/f lies in the home directory, outside the workspace; give a path of the workspace, such as f, or use bash"},
			{"download_file", "at 3 PM.png", `read at 3 PM.png: no such file or directory; there is "at 3\u202fPM.png"`},
			{"download_file", "loop", "read loop: too many levels of symbolic links"},
			{"download_file", "dangling", "read dangling: no such file or directory: it is a symbolic link to nothing, which does not exist"},
			{"edit_file", "dangling", "read dangling: no such file or directory: it is a symbolic link to nothing, which does not exist"},
			{"download_file", "f/x", "read f/x: not a directory"},
			{"write_file", "f/x", "write f/x: not a directory"},
			{"write_file", "f/x/y", "write f/x/y: not a directory"},
			{"write_file", "/src/main.go", "path is outside the workspace; there is src/main.go"},
			{"write_file", "pw", "write pw: path is outside the workspace: it is a symbolic link to /etc/passwd"},
			{"write_file", "", "path is empty; name the file"},
			{"edit_file", "", "path is empty; name the file"},
			{"edit_file", "mian.go", "mian.go: no such file or directory"},
		} {
			args := map[string]any{"path": tt.path}
			switch tt.tool {
			case "write_file":
				args["content"] = "new"
			case "edit_file":
				args["old_text"], args["new_text"] = "a", "b"
			}
			_, err := callOn(t, rt, tt.tool, args)
			require.Error(t, err, tt)
			require.True(t, strings.HasSuffix(err.Error(), tt.want), "%s %s: %v", tt.tool, tt.path, err)
		}
	})
}

func TestEditsKeepWhatAFileIs(t *testing.T) {
	t.Parallel()
	forEachStarted(t, func(t *testing.T, rt pygent.Runtime) {
		bash(t, rt, `mkdir d; printf 'one\n' >d/f; chmod 750 d/f; chown 1234:1235 d/f 2>/dev/null; ln -s d/f link; ln -s d dir; printf 'one\r\ntwo' >crlf`)
		owner := bash(t, rt, "ls -ln d/f | cut -d' ' -f3-4").Output
		for i, args := range []map[string]any{
			{"path": "link", "old_text": "one", "new_text": "$1 \\n %s & \\1"},
			{"path": "dir/f", "content": "two\n", "append": true},
			{"path": "dir/../d/f", "old_text": "two", "new_text": "three"},
			{"path": "crlf", "old_text": "one\ntwo", "new_text": "1\n2\n3"},
		} {
			tool := "edit_file"
			if i == 1 {
				tool = "write_file"
			}
			_, err := callOn(t, rt, tool, args)
			require.NoError(t, err)
		}
		require.Equal(t, "$1 \\n %s & \\1\nthree\n", bash(t, rt, "cat d/f").Output)
		require.Equal(t, owner, bash(t, rt, "ls -ln d/f | cut -d' ' -f3-4").Output)
		require.Equal(t, "-rwxr-x---\nd/f\n", bash(t, rt, "ls -l d/f | cut -c1-10; readlink link").Output)
		data, err := rt.ReadFile(t.Context(), "crlf")
		require.NoError(t, err)
		require.Equal(t, "1\r\n2\r\n3", string(data))
		require.Equal(t, "crlf\nd\ndir\nlink\n", bash(t, rt, "ls -A").Output, "nothing is left behind")
	})
}
