package pygent_test

import (
	"bytes"
	"context"
	"encoding/base64"
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
	"testing"

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
