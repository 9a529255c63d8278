package pygent_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
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
