package pygent_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
	"github.com/x/pygent/internal/testkit"
	"github.com/x/pygent/openai"
	"github.com/x/pygent/pygenttest"
)

func TestDownloadFile(t *testing.T) {
	t.Parallel()
	b := newToolBench(t)
	b.write("f", "häuser\nzwei\n")
	b.write("empty", "")
	b.write("nul", "a\x00b")
	b.write("big.txt", strings.Repeat("0123456789\n", 100_000))
	require.NoError(t, os.MkdirAll(filepath.Join(b.dir, "src", "pkg", ".git"), 0o700))
	b.write("src/main.go", "package main\n")
	b.write("src/pkg/util.go", "package pkg\n")
	tests := []struct {
		name string
		args map[string]any
		want string
		err  string
	}{
		{"whole", map[string]any{"path": "f"}, "f: lines 1–2 of 2\n1\thäuser\n2\tzwei\n", ""},
		{"a line", map[string]any{"path": "f", "line": 2}, "f: line 2 of 2\n2\tzwei\n", ""},
		{"the last line", map[string]any{"path": "f", "line": -1, "count": 1}, "f: line 2 of 2\n2\tzwei\n", ""},
		{"from a byte", map[string]any{"path": "f", "offset": 3}, "f: bytes 3–12 of 13, without line numbers\nuser\nzwei\n", ""},
		{"an empty file", map[string]any{"path": "empty"}, "empty: the file is empty", ""},
		{"past the end", map[string]any{"path": "f", "line": 3}, "", "line 3 is past the end of f, which has 2 lines"},
		{"before the start", map[string]any{"path": "f", "offset": -1}, "", "must not be negative"},
		{"NUL", map[string]any{"path": "nul"}, "", "nul is no text file: it is binary data (3 bytes)"},
		{"missing", map[string]any{"path": "nothing"}, "", "nothing: no such file"},
		{"misspelt", map[string]any{"path": "src/mian.go"}, "", "src/mian.go: no such file or directory; there is src/main.go"},
		{"elsewhere", map[string]any{"path": "util.go"}, "", "util.go: no such file or directory; there is src/pkg/util.go"},
		{"in no directory", map[string]any{"path": "lib/util.go"}, "", "lib/util.go: no such file or directory; there is src/pkg/util.go"},
		{"a directory", map[string]any{"path": "src"}, "src: a directory with 2 entries\npkg/\nmain.go  13 bytes", ""},
		{"with a slash", map[string]any{"path": "src/pkg/"}, "src/pkg/: a directory with 2 entries\n.git/\nutil.go  12 bytes", ""},
		{"the workspace", map[string]any{"path": ""}, ".: a directory with 5 entries\nsrc/\nbig.txt  1,100,000 bytes\nempty  0 bytes\nf  13 bytes\nnul  3 bytes", ""},
		{"outside", map[string]any{"path": "/etc/passwd"}, "", "read /etc/passwd: path is outside the workspace; paths begin at the workspace, which is ., and bash can read others"},
		{"another root", map[string]any{"path": "/repo/src/main.go"}, "", "path is outside the workspace; there is src/main.go"},
		{"above", map[string]any{"path": "../f"}, "", "path is outside the workspace; there is f"},
		{"a directory outside", map[string]any{"path": ".."}, "", "outside the workspace; paths begin at"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			result, err := b.try("download_file", tt.args)
			if tt.err != "" {
				require.ErrorContains(t, err, tt.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tt.want, result.Content)
			require.Equal(t, "read "+strings.SplitN(tt.want, "\n", 2)[0], result.Display)
		})
	}
	result := b.call("download_file", map[string]any{"path": "big.txt", "line": 50_000})
	require.LessOrEqual(t, len(result.Content), 32<<10)
	require.Greater(t, len(result.Content), 30<<10)
	require.Equal(t, []pygent.Location{{Path: "big.txt", Line: 50_000}}, result.Locations)
	require.Contains(t, result.Content, " of 100,000\n50000\t0123456789\n")
}

// TestResultsOfDownloadFileReachTheModelWhole reads a file that is as long as can
// be shown.
func TestResultsOfDownloadFileReachTheModelWhole(t *testing.T) {
	t.Parallel()
	read := func(args map[string]any) pygenttest.Reply { return pygenttest.Call("download_file", args) }
	agent := newAgent(t, pygenttest.NewScriptedModel(
		read(map[string]any{"path": "long.txt"}), read(map[string]any{"path": "min.js"}), read(map[string]any{"path": "min.js", "offset": 2000}), stop))
	require.NoError(t, agent.Runtime().WriteFile(t.Context(), "long.txt", []byte(strings.Repeat("some words\n", 100_000))))
	require.NoError(t, agent.Runtime().WriteFile(t.Context(), "min.js", []byte(strings.Repeat("f(x);", 1<<20))))
	_, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	for i, want := range []string{"[read on with line ", "5,240,880 more bytes of this line: offset 2000]\n[no newline at the end]", "[read on with offset "} {
		require.Contains(t, results(agent)[i], want)
		require.NotContains(t, results(agent)[i], "left out")
		require.LessOrEqual(t, len(results(agent)[i]), 32<<10)
	}
}

func TestDownloadFileFromARuntimeThatReadsOnlyWholeFiles(t *testing.T) {
	t.Parallel()
	rt := stubRuntime{file: []byte(strings.Repeat("0123456789\n", 300_000))}
	result, err := callOn(t, rt, "download_file", map[string]any{"path": "f", "line": -1})
	require.NoError(t, err)
	require.Equal(t, "f: line 300,000 of 300,000\n300000\t0123456789\n", result.Content)
}

// onlyCommands is a runtime without optional methods, in which nothing is a file.
type onlyCommands struct {
	nowhere
	ls func(cmd string) (pygent.BashResult, error)
}

func (onlyCommands) ReadFile(context.Context, string) ([]byte, error) {
	return nil, errors.New("is a directory")
}

func (r onlyCommands) Bash(_ context.Context, cmd string, _ ...pygent.BashOption) (pygent.BashResult, error) {
	return r.ls(cmd)
}

func TestDirectoriesAreListedByACommandWhereTheRuntimeCannot(t *testing.T) {
	t.Parallel()
	var ran string
	rt := onlyCommands{ls: func(cmd string) (pygent.BashResult, error) {
		ran = cmd
		return pygent.BashResult{Output: "a.txt\nsub/\n.hidden\n"}, nil
	}}
	result, err := callOn(t, rt, "download_file", map[string]any{"path": "it's"})
	require.NoError(t, err)
	require.Equal(t, `cd './it'\''s' && ls -Ap`, ran)
	require.Equal(t, "it's: a directory with 3 entries\nsub/\n.hidden\na.txt", result.Content)

	rt.ls = func(string) (pygent.BashResult, error) { return pygent.BashResult{ExitCode: 2}, nil }
	_, err = callOn(t, rt, "download_file", map[string]any{"path": "f"})
	require.ErrorContains(t, err, "is a directory")
	rt.ls = func(string) (pygent.BashResult, error) { panic("no command reads outside") }
	_, err = callOn(t, rt, "download_file", map[string]any{"path": "/etc"})
	require.ErrorContains(t, err, "is a directory")
}

func TestWholeOutputsOfCommandsAreRead(t *testing.T) {
	if testing.Short() {
		t.Skip("needs much data")
	}
	t.Parallel()
	forEachRuntime(t, func(t *testing.T, r pygent.Runtime) {
		secret := "/etc/passwd"
		_, err := r.ReadFile(t.Context(), secret)
		require.ErrorIs(t, err, pygent.ErrOutsideWorkspace)
		const count = "i=0; while [ $i -lt 20000 ]; do echo line $i; i=$((i+1)); done"
		res := bash(t, r, count, pygent.BashMaxOutput(1000))
		result, err := callOn(t, r, "download_file", map[string]any{"path": res.FullPath, "line": 12346, "count": 1})
		require.NoError(t, err)
		require.Equal(t, res.FullPath+": line 12,346 of 20,000\n12346\tline 12345\n[read on with line 12347]", result.Content)
		whole, err := r.ReadFile(t.Context(), res.FullPath)
		require.NoError(t, err)
		require.True(t, strings.HasPrefix(string(whole), "line 0\nline 1\n"))
		var copied strings.Builder
		n, err := r.(pygent.FileStreamer).ReadFileTo(t.Context(), res.FullPath, 7, &copied)
		require.NoError(t, err)
		require.EqualValues(t, len(whole)-7, n)

		// Nothing else outside of the workspace is read.
		for _, name := range []string{secret, path.Dir(res.FullPath), res.FullPath + "0", path.Join(path.Dir(res.FullPath), "..", "..", "etc", "passwd")} {
			_, err = r.ReadFile(t.Context(), name)
			require.Error(t, err, name)
		}
		require.Error(t, r.WriteFile(t.Context(), res.FullPath, []byte("x")))
		// Not even through a link that a command puts in the place of the output.
		bash(t, r, fmt.Sprintf("ln -sf %s %s", secret, res.FullPath))
		_, err = r.ReadFile(t.Context(), res.FullPath)
		require.Error(t, err)
		bash(t, r, "rm -f "+res.FullPath)
		_, err = r.ReadFile(t.Context(), res.FullPath)
		require.ErrorIs(t, err, fs.ErrNotExist)
	})
}

func TestModelsReadWhatACommandPrintedInWhole(t *testing.T) {
	t.Parallel()
	model := pygenttest.NewScriptedModel(callBash("seq 100000; exit 1"),
		pygenttest.Decide(func(req *pygent.ChatRequest) pygenttest.Reply {
			_, after, _ := strings.Cut(req.Messages[len(req.Messages)-1].Text(), "the output is in ")
			name, _, _ := strings.Cut(after, "]")
			return pygenttest.Call("download_file", map[string]any{"path": name, "line": 50_000, "count": 2})
		}), stop)
	agent := newAgent(t, model)
	_, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.Contains(t, results(agent)[1], "\n50000\t50000\n50001\t50001\n")
}

func TestAFileIsNotReplacedByAPlaceholderUnasked(t *testing.T) {
	t.Parallel()
	dir, rt := workspaceWith(t, map[string]string{"a.go": twoFunctions})
	short := "package a\n\n// ... existing code ...\n"
	write := rawCall("write_file", jsonOf(t, map[string]any{"path": "a.go", "content": short}))
	other := rawCall("write_file", jsonOf(t, map[string]any{"path": "new.go", "content": short}))
	agent := newAgentOn(t, rt, pygenttest.NewScriptedModel(write, other, stop, write, stop))
	_, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.Equal(t, map[string]string{"a.go": twoFunctions, "new.go": short}, filesIn(t, dir))
	said := agent.History().Messages()[3].Text()
	require.Contains(t, said, `a.go was left as it is: write_file replaces the whole file, so that line 3, "// ... existing code ...", would stand in the file as it is, and 6 of its 7 lines would be lost: "func A() int {", "return 1", "}", ….`)
	_, err = agent.RunUntilStop(t.Context(), "again")
	require.NoError(t, err)
	require.Equal(t, short, filesIn(t, dir)["a.go"])
}

// A patch as the content of its own file is applied. One that does not fit is refused once.
func TestAFileIsNotReplacedByAPatchForItUnasked(t *testing.T) {
	t.Parallel()
	dir, rt := workspaceWith(t, map[string]string{"a": "x\n", "b": "x\n"})
	write := func(path, old string) pygenttest.Reply {
		return rawCall("write_file", jsonOf(t, map[string]any{"path": path, "content": "<<<<<<< SEARCH\n" + old + "\n=======\ny\n>>>>>>> REPLACE\n"}))
	}
	agent := newAgentOn(t, rt, pygenttest.NewScriptedModel(write("a", "x"), write("b", "q"), stop, write("b", "q"), write("sample", "q"), stop))
	_, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.Equal(t, map[string]string{"a": "y\n", "b": "x\n"}, filesIn(t, dir))
	require.Contains(t, results(agent)[0], "edited a at line 1")
	require.Contains(t, results(agent)[1], "b was left as it is: write_file replaces the whole file, so that it would hold the patch itself instead of what this makes of it. Change a part with edit_file, or give the whole content; if the file is meant to be so, make the same call again")
	_, err = agent.RunUntilStop(t.Context(), "again")
	require.NoError(t, err)
	blocks := "<<<<<<< SEARCH\nq\n=======\ny\n>>>>>>> REPLACE\n"
	require.Equal(t, map[string]string{"a": "y\n", "b": blocks, "sample": blocks}, filesIn(t, dir))
}

// What a path can mean is tested in internal/pathname; here, that readers and writers ask.
func TestToolsFindTheFileThatAPathMeans(t *testing.T) {
	t.Parallel()
	forEachStarted(t, func(t *testing.T, rt pygent.Runtime) {
		info := rt.(pygent.Describer).Describe(t.Context())
		bash(t, rt, "mkdir src; echo x=1 >src/main.py; printf old >caf\u00e9")
		for _, tt := range []struct{ tool, path, want string }{
			{"write_file", `src\new.py`, "created src/new.py"},
			{"write_file", `src\b\new.py`, "created src/b/new.py"},
			{"write_file", `lib\new.py`, "created lib/new.py"},
			{"write_file", "./~/x", "!no file or directory ~"},
			{"write_file", "file://localhost" + info.Workspace + "/a%20b", "created a b"},
			{"write_file", "'src/main.py' ", "replaced src/main.py"},
			{"write_file", "cafe\u0301", "replaced caf\u00e9"},
			{"edit_file", `src\main.py`, "edited src/main.py"},
			{"download_file", `a\ b`, "1\tx"},
			{"download_file", `"src"`, "src: a directory"},
			{"write_file", "~/x", "!outside the workspace"},
			{"write_file", "$HOME/x", "!outside the workspace"},
			{"write_file", `C:\Users\me\x`, "!a path of Windows"},
			{"edit_file", "~", "!outside the workspace"},
			{"read_image", "https://example.org/x.png", "!is a URL"},
		} {
			args := map[string]any{"path": tt.path}
			switch tt.tool {
			case "write_file":
				args["content"] = "x"
			case "edit_file":
				args["old_text"], args["new_text"] = "x", "y"
			}
			got, err := callOn(t, rt, tt.tool, args)
			if says, refused := strings.CutPrefix(tt.want, "!"); refused {
				require.ErrorContains(t, err, says, tt.path)
				continue
			}
			require.NoError(t, err, tt.path)
			require.Contains(t, got.Content, tt.want)
		}
		require.Equal(t, "a b\ncaf\u00e9\nlib\nsrc\nsrc/b\nsrc/main.py\nsrc/new.py\n", bash(t, rt, "LC_ALL=C; ls; ls src | sed s,^,src/,").Output)
		if info.HostDir != "" {
			_, err := callOn(t, rt, "write_file", map[string]any{"path": info.HostDir + "/src/host", "content": "x"})
			require.NoError(t, err)
			require.Equal(t, "x", bash(t, rt, "cat src/host").Output)
		}
		res, err := callOn(t, rt, "bash", map[string]any{"cmd": "pwd", "cwd": `.\src`})
		require.NoError(t, err)
		require.Contains(t, res.Content, "/src\n")

		bash(t, rt, `mkdir '~'; echo mine >'~/x'; echo mine >'a\b'`)
		for _, path := range []string{"~/x", `a\b`} {
			got, err := callOn(t, rt, "download_file", map[string]any{"path": path})
			require.NoError(t, err)
			require.Contains(t, got.Content, "1\tmine")
		}
	})
}

// camera is a tool that returns images of a size, in bytes of their URLs.
func camera(images, size int) pygent.Tool {
	return pygent.NewTool("camera", "Take pictures", func(context.Context, pygent.Runtime, struct {
		N int `json:"n,omitempty"`
	}) (*pygent.ToolResult, error) {
		const head = "data:image/png;base64,"
		return &pygent.ToolResult{Content: "click", Images: slices.Repeat([]string{head + strings.Repeat("A", size-len(head))}, images)}, nil
	})
}

func TestImagesOfAResultAreBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("needs much data")
	}
	t.Parallel()
	for name, tt := range map[string]struct {
		images, size, shown int
		says                string
	}{
		"few":       {2, 100, 2, "click"},
		"many":      {20, 100, 8, "click\n[images 9 to 20 are left out: a result shows at most 8]"},
		"large":     {1, 7<<20 + 1, 0, "image 1 is left out: with 5505006 bytes it is too large; make a smaller copy]"},
		"all large": {3, 3 << 20, 2, "[image 3 is left out: "},
	} {
		t.Run(name, func(t *testing.T) {
			agent := newAgentOn(t, nowhere{}, pygenttest.NewScriptedModel(pygenttest.Call("camera", nil)), pygent.WithTools(camera(tt.images, tt.size)))
			_, err := agent.RunUntilStop(t.Context(), "go", pygent.MaxSteps(1))
			require.NoError(t, err)
			require.Contains(t, results(agent)[0], tt.says)
			messages := agent.History().Messages()
			if tt.shown == 0 {
				require.False(t, messages[len(messages)-1].HasImages())
				return
			}
			require.Len(t, messages[len(messages)-1].Parts, tt.shown+1)
		})
	}
}

func TestImagesOfTheUserAreNeverLeftOut(t *testing.T) {
	t.Parallel()
	h := chat.NewHistory()
	for i := range 40 {
		require.NoError(t, h.Append(pygent.Message{Role: chat.RoleUser, Parts: []pygent.Part{{Text: "look"}, {ImageURL: fmt.Sprintf("https://example.com/%d.png", i)}}}))
		require.NoError(t, h.Append(chat.AssistantMessage("I see.")))
	}
	require.Equal(t, h.Messages(), h.Conversation())
}

func TestImagesThatNoProviderTakesAreLeftOut(t *testing.T) {
	t.Parallel()
	tool := pygent.NewTool("bad", "", func(context.Context, pygent.Runtime, struct{}) (*pygent.ToolResult, error) {
		return &pygent.ToolResult{Content: "x", Images: []string{"plot.png", "file:///etc/passwd"}}, nil
	})
	agent := newAgentOn(t, nowhere{}, pygenttest.NewScriptedModel(pygenttest.Call("bad", nil), stop), pygent.WithTools(tool))
	_, err := agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	for _, m := range agent.History().Conversation() {
		for _, p := range m.Parts {
			require.Empty(t, p.ImageURL)
		}
	}
}

const (
	wavURL = "data:audio/wav;base64,UklGRgAAAABXQVZFZm10IA=="
	pdfURL = "data:application/pdf;base64,JVBERi0xLjcKcmVzdA=="
)

// printer is a tool that returns files.
func printer(files ...pygent.Part) pygent.Tool {
	return pygent.NewTool("printer", "Print", func(context.Context, pygent.Runtime, struct {
		N int `json:"n,omitempty"`
	}) (*pygent.ToolResult, error) {
		return &pygent.ToolResult{Content: "printed", Files: files}, nil
	})
}

func TestFilesOfAResultAreShown(t *testing.T) {
	t.Parallel()
	for api, want := range map[openai.Protocol][]string{
		openai.Chat:      {`"type":"file"`, `"type":"input_audio"`, `"data":"UklGRgAAAABXQVZFZm10IA=="`, `"format":"wav"`},
		openai.Responses: {`"type":"input_file"`, "[recording left out: the model does not accept recordings]"},
	} {
		t.Run(string(api), func(t *testing.T) {
			server := pygenttest.NewServer(t, pygenttest.Call("printer", map[string]any{}), pygenttest.Call("stop", map[string]any{}))
			agent := newAgentOn(t, nowhere{}, testkit.NewModel(t, openai.BaseURL(server.URL()), openai.API(api)),
				pygent.WithTools(printer(pygent.Part{FileName: "a.pdf", FileURL: pdfURL}, pygent.Part{AudioURL: wavURL},
					pygent.Part{ImageURL: "data:image/png;base64,AAAA"}, pygent.Part{Text: "and a note"})))
			_, outputs := told(t, agent)
			require.Equal(t, "printed\nand a note", outputs[0].Content)
			require.Equal(t, []string{"data:image/png;base64,AAAA"}, outputs[0].Images)
			require.Equal(t, pdfURL, outputs[0].Files[0].FileURL, "faces get the data")
			require.Equal(t, wavURL, outputs[0].Files[1].AudioURL)
			messages := agent.History().Messages()
			require.Equal(t, "The files that the tools gave:", messages[4].Text())
			require.Len(t, messages[4].Parts, 4)
			requests := server.Requests()
			body := string(requests[len(requests)-1].Body)
			for _, part := range want {
				require.Contains(t, body, part)
			}
		})
	}
}

func TestFilesOfResultsAreBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("needs much data")
	}
	t.Parallel()
	large := pygent.Part{FileURL: "data:application/pdf;base64," + strings.Repeat("A", 3<<20)}
	for name, tt := range map[string]struct {
		files []pygent.Part
		shown int
		says  string
	}{
		"many":       {slices.Repeat([]pygent.Part{{AudioURL: wavURL}}, 20), 8, "printed\n[files 9 to 20 are left out: a result shows at most 8]"},
		"large":      {[]pygent.Part{large, large, large}, 2, "[file 3 is left out: with "},
		"of no kind": {[]pygent.Part{{FileURL: "data:application/zip;base64,AAAA"}, {FileURL: "file:///etc/passwd"}}, 0, "[file 2 is left out: want a data URL"},
	} {
		t.Run(name, func(t *testing.T) {
			agent := newAgentOn(t, nowhere{}, pygenttest.NewScriptedModel(pygenttest.Call("printer", nil)), pygent.WithTools(printer(tt.files...)))
			_, err := agent.RunUntilStop(t.Context(), "go", pygent.MaxSteps(1))
			require.NoError(t, err)
			require.Contains(t, results(agent)[0], tt.says)
			messages := agent.History().Messages()
			if tt.shown == 0 {
				require.Equal(t, chat.RoleTool, messages[len(messages)-1].Role)
				return
			}
			require.Len(t, messages[len(messages)-1].Parts, tt.shown+1)
		})
	}
}

func TestRequestsDoNotGrowWithTheFilesOfTools(t *testing.T) {
	if testing.Short() {
		t.Skip("needs much data")
	}
	t.Parallel()
	const steps = 10
	script := make([]pygenttest.Reply, steps)
	for i := range script {
		script[i] = pygenttest.Call("printer", map[string]any{"n": i})
	}
	model := pygenttest.NewScriptedModel(append(script, pygenttest.Call("stop", map[string]any{}))...)
	agent := newAgentOn(t, nowhere{}, model, pygent.WithTools(printer(pygent.Part{FileURL: "data:application/pdf;base64," + strings.Repeat("A", 2<<20)})))
	_, err := agent.RunUntilStop(t.Context(), "go", pygent.MaxSteps(steps+1))
	require.NoError(t, err)
	size, gone := 0, 0
	for _, m := range agent.History().Conversation() {
		for _, p := range m.Parts {
			size += len(p.FileURL)
			if strings.Contains(p.Text, "[a file was here (application/pdf, 1572864 bytes)") {
				gone++
			}
		}
	}
	require.LessOrEqual(t, size, 9<<20)
	require.Positive(t, gone)
}

// largeImage is an image that takes many tokens and few bytes.
func largeImage(t *testing.T, side int) string {
	var b bytes.Buffer
	require.NoError(t, png.Encode(&b, image.NewPaletted(image.Rect(0, 0, side, side), color.Palette{color.Black})))
	return "data:image/png;base64," + base64.StdEncoding.EncodeToString(b.Bytes())
}

// Images that a tool gave last must not fill a small window for ever.
func TestImagesForWhichTheWindowHasNoRoomAreLeftOut(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		side, window, shown int
	}{
		"two large ones in a small window":  {1024, 4_200, 1},
		"two small ones in a small window":  {400, 4_200, 2},
		"two large ones in a larger window": {1024, 9_000, 2},
		"no room for any":                   {1024, 2_600, 0},
	} {
		t.Run(name, func(t *testing.T) {
			url := largeImage(t, tt.side)
			look := pygent.NewTool("look", "", func(context.Context, pygent.Runtime, struct{}) (*pygent.ToolResult, error) {
				return &pygent.ToolResult{Content: "see", Images: []string{url, url}}, nil
			})
			model := pygenttest.NewScriptedModel(pygenttest.Call("look", map[string]any{}), callBash("true"), stop, stop)
			history, err := chat.LoadHistory(t.Context(), &pygenttest.MemoryStore{})
			require.NoError(t, err)
			agent := newAgentOn(t, nowhere{}, model, pygent.WithTools(look), pygent.WithContextWindow(int64(tt.window)), pygent.WithHistory(history))
			result, err := agent.RunUntilStop(t.Context(), "go")
			require.NoError(t, err)
			require.Equal(t, pygent.StatusStopped, result.Status)
			sent := model.Requests()[1].Messages
			require.NoError(t, pygenttest.CheckConversation(sent))
			require.Equal(t, tt.shown, strings.Count(jsonOf(t, sent), url))
			require.Equal(t, 2-tt.shown, strings.Count(jsonOf(t, sent), "is not shown: the context window has no room for it"))
			require.Equal(t, "see", sent[len(sent)-2].Text(), "the exchange stays whole")
			_, err = agent.RunUntilStop(t.Context(), "go on")
			require.NoError(t, err)
			require.Equal(t, 2, strings.Count(jsonOf(t, history.Messages()), url), "the history keeps them")
		})
	}
}

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

func writing(path, content string) pygenttest.Reply {
	return pygenttest.Call("write_file", map[string]any{"path": path, "content": content})
}

func editing(path, old, new string) pygenttest.Reply {
	return pygenttest.Call("edit_file", map[string]any{"path": path, "old_text": old, "new_text": new})
}

// TestFileChangesAreToldBeforeAndAfter compares what an approval is shown with
// what the call then does.
func TestFileChangesAreToldBeforeAndAfter(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a line of some length\n", 3000)
	for _, tt := range []struct {
		name string
		call pygenttest.Reply
		want pygent.FileChange
	}{
		{"a new file", writing("./sub/new.txt", "hello\n"), pygent.FileChange{Path: "sub/new.txt", After: "hello\n", Line: 1, Created: true}},
		{"another content", writing("old.txt", "two\n"), pygent.FileChange{Path: "old.txt", Before: "one\n", After: "two\n", Line: 1}},
		{"an edit", editing("old.txt", "one", "two"), pygent.FileChange{Path: "old.txt", Before: "one\n", After: "two\n", Line: 1}},
		{"several edits", pygenttest.Call("edit_file", map[string]any{"path": "old.txt", "edits": []any{map[string]any{"old_text": "one", "new_text": "two\nthree"}, map[string]any{"old_text": "three", "new_text": "four"}}}),
			pygent.FileChange{Path: "old.txt", Before: "one\n", After: "two\nfour\n", Line: 1}},
		{"an addition", pygenttest.Call("write_file", map[string]any{"path": "old.txt", "content": "two\n", "append": true}), pygent.FileChange{Path: "old.txt", Before: "one\n", After: "one\ntwo\n", Line: 1}},
		{"an addition to nothing", pygenttest.Call("write_file", map[string]any{"path": "new.txt", "content": "two\n", "append": true}), pygent.FileChange{Path: "new.txt", After: "two\n", Line: 1, Created: true}},
		{"an empty file", writing("old.txt", ""), pygent.FileChange{Path: "old.txt", Before: "one\n", Line: 1}},
		{"no text", writing("data", "text"), pygent.FileChange{Path: "data", Binary: true}},
		{"an edit of a long file", editing("long.txt", "X\n", "Y\n"), pygent.FileChange{Path: "long.txt", Line: 2998, Truncated: true,
			Before: strings.Repeat("a line of some length\n", 3) + "X\n" + strings.Repeat("a line of some length\n", 3),
			After:  strings.Repeat("a line of some length\n", 3) + "Y\n" + strings.Repeat("a line of some length\n", 3)}},
		{"a huge file", writing("huge", "x"), pygent.FileChange{Path: "huge", Note: "it held 1048577 bytes, too many to compare"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var asked pygent.ApprovalRequest
			agent := newAgent(t, pygenttest.NewScriptedModel(tt.call, stop), pygent.WithApproval(func(_ context.Context, r pygent.ApprovalRequest) (pygent.Decision, error) {
				asked = r
				return pygent.Decision{Allow: true}, nil
			}))
			for name, content := range map[string]string{
				"old.txt": "one\n", "data": "\x00\xff", "long.txt": long + "X\n" + long, "huge": strings.Repeat("x", 1<<20+1),
			} {
				require.NoError(t, agent.Runtime().WriteFile(t.Context(), name, []byte(content)))
			}
			_, outputs := told(t, agent)
			require.Equal(t, []pygent.FileChange{tt.want}, asked.Changes)
			require.Equal(t, asked.Changes, outputs[0].Changes)
		})
	}
}

// readCounter counts how often a.txt is read.
type readCounter struct {
	pygent.Runtime
	reads atomic.Int32
}

func (r *readCounter) ReadFile(ctx context.Context, path string) ([]byte, error) {
	if path == "a.txt" {
		r.reads.Add(1)
	}
	return r.Runtime.ReadFile(ctx, path)
}

func TestAFileIsReadOnceBeforeItIsReplaced(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		opts  []pygent.Option
		reads int32
	}{
		"nobody":     {nil, 1},
		"events":     {[]pygent.Option{pygent.OnEvent(func(pygent.Event) {})}, 1},
		"middleware": {[]pygent.Option{pygent.WithToolMiddleware(func(next pygent.ToolHandler) pygent.ToolHandler { return next })}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			rt := &readCounter{Runtime: localRuntime(t)}
			agent := newAgentOn(t, rt, pygenttest.NewScriptedModel(writing("a.txt", "hello"), stop), tt.opts...)
			_, err := agent.RunUntilStop(t.Context(), "go")
			require.NoError(t, err)
			require.Equal(t, tt.reads, rt.reads.Load())
		})
	}
}

func TestChangesThatCannotBeToldSayWhy(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, want string
		call       pygenttest.Reply
	}{
		{"no old text", "old_text does not occur in the file", editing("old.txt", "three", "four")},
		{"no file", "there is no such file", editing("none.txt", "three", "four")},
		{"a directory", "what it held cannot be read: ", writing("dir", "x")},
		{"outside", "what it held cannot be read: ", writing("../../../etc/passwd", "x")},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var asked pygent.ApprovalRequest
			agent := newAgent(t, pygenttest.NewScriptedModel(tt.call, stop), pygent.WithApproval(func(_ context.Context, r pygent.ApprovalRequest) (pygent.Decision, error) {
				asked = r
				return pygent.Decision{}, nil
			}))
			require.NoError(t, agent.Runtime().WriteFile(t.Context(), "old.txt", []byte("one\n")))
			require.NoError(t, agent.Runtime().WriteFile(t.Context(), "dir/x", nil))
			_, outputs := told(t, agent)
			require.Len(t, asked.Changes, 1)
			require.Contains(t, asked.Changes[0].Note, tt.want)
			require.Empty(t, asked.Changes[0].Before+asked.Changes[0].After)
			require.Empty(t, outputs[0].Changes)
		})
	}
}

// slowFiles is a runtime that cannot read its files in time.
type slowFiles struct{ nowhere }

func (slowFiles) ReadFile(ctx context.Context, _ string) ([]byte, error) {
	<-ctx.Done()
	return nil, fs.ErrInvalid
}

func TestSlowRuntimeHoldsNoApprovalUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		var waited time.Duration
		var note string
		agent := newAgentOn(t, slowFiles{}, pygenttest.NewScriptedModel(writing("a", "b"), stop), pygent.WithApproval(func(_ context.Context, r pygent.ApprovalRequest) (pygent.Decision, error) {
			waited, note = time.Since(begun), r.Changes[0].Note
			return pygent.Decision{}, nil
		}))
		_, err := agent.RunUntilStop(t.Context(), "go")
		require.NoError(t, err)
		require.Equal(t, 5*time.Second, waited)
		require.Contains(t, note, "what it held cannot be read")
	})
}

func TestAnAgentRemembersWhatItsToolsChanged(t *testing.T) {
	t.Parallel()
	write := func(path, content string) pygenttest.Reply {
		return pygenttest.Call("write_file", map[string]any{"path": path, "content": content})
	}
	agent := newAgent(t, pygenttest.NewScriptedModel(write("a", "1\n"), write("b", "1\n"), callBash("echo x >c"),
		pygenttest.Call("edit_file", map[string]any{"path": "a", "old_text": "1", "new_text": "2"}), stop,
		write("b", "3\n"), stop))
	for range 2 {
		_, err := agent.RunUntilStop(t.Context(), "go")
		require.NoError(t, err)
	}
	require.Equal(t, []pygent.FileChange{
		{Path: "a", After: "2\n", Line: 1, Created: true},
		{Path: "b", After: "3\n", Line: 1, Created: true},
	}, agent.Changes())
}
