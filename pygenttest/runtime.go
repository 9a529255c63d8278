package pygenttest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
)

// TestRuntime tests that a runtime keeps what [pygent.Runtime] promises, and the
// optional interfaces that it has. open makes a runtime with an empty workspace. Some
// subtests need a new one; the others share one, as a start may take long, and empty
// its workspace. All runtimes are cleaned up; whatever else they need, open ends with
// t.Cleanup. Commands must run under a POSIX shell that has the usual programs, such as
// cat, ln, rm and sleep.
func TestRuntime(t *testing.T, open func(t *testing.T) pygent.Runtime) {
	shared := open(t)
	defer func() { require.NoError(t, shared.Cleanup()) }()
	for _, check := range runtimeChecks {
		if check.anew {
			t.Run(check.name, func(t *testing.T) {
				rt := open(t)
				defer func() { require.NoError(t, rt.Cleanup()) }()
				check.run(t, rt)
			})
			continue
		}
		if !t.Run(check.name, func(t *testing.T) {
			check.run(t, shared)
			runBash(t, shared, "rm -rf ./* ./.[!.]* ./..?*")
		}) { // so others may find what it has left
			require.NoError(t, shared.Cleanup())
			shared = open(t)
		}
	}
}

// runtimeCheck is one promise of a runtime.
type runtimeCheck struct {
	name string
	run  func(t testing.TB, rt pygent.Runtime)
	anew bool // needs a new runtime: one that may not have started yet, or that is closed
}

var runtimeChecks = []runtimeCheck{
	{name: "output and exit code", run: checkResult},
	{name: "order of the output", run: checkOrder},
	{name: "empty standard input", run: checkStdin},
	{name: "no state between commands", run: checkState},
	{name: "options of a command", run: checkOptions, anew: true},
	{name: "time limit", run: checkTimeout},
	{name: "cancelling", run: checkCancel, anew: true},
	{name: "bounds of the output", run: checkBounds},
	{name: "output that is no text", run: checkText},
	{name: "output while it runs", run: checkLive},
	{name: "commands at the same time", run: checkConcurrent, anew: true},
	{name: "files", run: checkFiles, anew: true},
	{name: "mode of a file", run: checkMode},
	{name: "files that are not there", run: checkNoFiles, anew: true},
	{name: "paths that leave the workspace", run: checkOutside, anew: true},
	{name: "links", run: checkLinks},
	{name: "uploads", run: checkUpload, anew: true},
	{name: "exports", run: checkExport},
	{name: "files at the same time", run: checkWrites, anew: true},
	{name: "cleanup", run: checkCleanup, anew: true},
	{name: "cleanup while a command runs", run: checkCleanupOfRunning, anew: true},
	{name: "description", run: checkDescription},
	{name: "parts of files", run: checkRanges, anew: true},
	{name: "jobs", run: checkJobs},
	{name: "processes", run: checkProcesses},
	{name: "lists of files", run: checkLists},
	{name: "removed files", run: checkRemoved},
	{name: "streamed files", run: checkStreams, anew: true},
}

// atMost is how long a check waits for what has to end soon.
const atMost = 30 * time.Second

// runBash runs a command that must be possible.
func runBash(t testing.TB, rt pygent.Runtime, cmd string, opts ...pygent.BashOption) pygent.BashResult {
	t.Helper()
	res, err := rt.Bash(t.Context(), cmd, opts...)
	require.NoError(t, err, "a command that runs is no error, however it ends: %s", cmd)
	return res
}

func checkResult(t testing.TB, rt pygent.Runtime) {
	for cmd, want := range map[string]pygent.BashResult{
		"echo hello":              {Output: "hello\n"},
		"printf hello":            {Output: "hello"},
		"true":                    {},
		"echo bye; exit 7":        {Output: "bye\n", ExitCode: 7},
		"echo err >&2; false":     {Output: "err\n", ExitCode: 1},
		"kill -9 $$":              {ExitCode: 137},
		"cat <<EOF\n'x' $$$\nEOF": {},
	} {
		res := runBash(t, rt, cmd)
		require.Equal(t, want.ExitCode, res.ExitCode, "exit code of %q", cmd)
		require.Equal(t, cmd, res.Command, "the result names its command")
		require.False(t, res.TimedOut, cmd)
		require.False(t, res.Truncated, cmd)
		if !strings.Contains(cmd, "EOF") {
			require.Equal(t, want.Output, res.Output, "output of %q", cmd)
		}
	}
}

func checkOrder(t testing.TB, rt pygent.Runtime) {
	res := runBash(t, rt, "for i in 1 2 3 4 5 6 7 8; do echo o$i; echo e$i >&2; done")
	require.Equal(t, "o1\ne1\no2\ne2\no3\ne3\no4\ne4\no5\ne5\no6\ne6\no7\ne7\no8\ne8\n", res.Output,
		"stdout and stderr come in the order in which they were written")
}

func checkStdin(t testing.TB, rt pygent.Runtime) {
	res := runBash(t, rt, "cat; echo end", pygent.BashTimeout(atMost))
	require.Equal(t, "end\n", res.Output, "standard input is empty")
}

func checkState(t testing.TB, rt pygent.Runtime) {
	first := runBash(t, rt, "pwd; X=1; export X; cd /")
	require.Equal(t, first.Output+"unset\n", runBash(t, rt, "pwd; echo ${X-unset}").Output, "each command begins in the workspace, with a new shell")
}

func checkOptions(t testing.TB, rt pygent.Runtime) {
	require.NoError(t, rt.WriteFile(t.Context(), "sub/f", []byte("here")))
	require.Equal(t, "here a b", runBash(t, rt, `cat f; printf ' %s' "$PYGENT_TEST_A"`,
		pygent.BashDir("sub"), pygent.BashEnv("PYGENT_TEST_A=a b")).Output, "BashDir and BashEnv")
	for _, dir := range []string{"none", "..", "sub/../.."} {
		_, err := rt.Bash(t.Context(), "true", pygent.BashDir(dir))
		require.Error(t, err, "a command cannot begin in %q", dir)
	}
}

// ticks is a command that does not end, nor do its children, and writes to a file
// for as long as it runs.
const ticks = `(trap '' TERM HUP; while :; do echo >>ticks; sleep 0.05; done) & while :; do echo >>ticks; sleep 0.05; done`

// requireStill checks that no process of ticks runs any more.
func requireStill(t testing.TB, rt pygent.Runtime) {
	t.Helper()
	res := runBash(t, rt, `a=$(cat ticks 2>/dev/null | wc -l); sleep 0.4; b=$(cat ticks 2>/dev/null | wc -l); test $a = $b && echo still`)
	require.Equal(t, "still\n", res.Output, "nothing of the command runs any more")
}

func checkTimeout(t testing.TB, rt pygent.Runtime) {
	begun := time.Now()
	res := runBash(t, rt, "echo begun; "+ticks, pygent.BashTimeout(500*time.Millisecond))
	require.Less(t, time.Since(begun), atMost, "the time limit ends the command")
	require.True(t, res.TimedOut, "the result says that the time limit was reached")
	require.Equal(t, "begun\n", res.Output, "the result holds what was printed until then")
	requireStill(t, rt)
}

func checkCancel(t testing.TB, rt pygent.Runtime) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := rt.Bash(ctx, "echo >begun")
	require.ErrorIs(t, err, context.Canceled, "a context that has ended")
	_, err = rt.ReadFile(t.Context(), "begun")
	require.ErrorIs(t, err, fs.ErrNotExist, "the command has not begun")

	ctx, cancel = context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := rt.Bash(ctx, "echo >begun; "+ticks, pygent.BashTimeout(pygent.NoLimit))
		ended <- err
	}()
	awaitFile(t, rt, "begun")
	cancel()
	select {
	case err := <-ended:
		require.ErrorIs(t, err, context.Canceled, "the end of the context is an error")
	case <-time.After(atMost):
		require.Fail(t, "the end of the context does not end the command")
	}
	requireStill(t, rt)
}

// awaitFile waits until a command has made a file.
func awaitFile(t testing.TB, rt pygent.Runtime, name string) {
	t.Helper()
	require.Eventually(t, func() bool {
		_, err := rt.ReadFile(context.WithoutCancel(t.Context()), name)
		return err == nil
	}, atMost, 10*time.Millisecond)
}

// flood prints 20000 numbered lines.
const flood = `i=0; while [ $i -lt 20000 ]; do echo "line $i"; i=$((i+1)); done`

func checkBounds(t testing.TB, rt pygent.Runtime) {
	const most = 2000
	res := runBash(t, rt, flood, pygent.BashMaxOutput(most))
	require.LessOrEqual(t, len(res.Output), most+200, "BashMaxOutput bounds the output")
	require.True(t, res.Truncated, "the result says that output is left out")
	require.Positive(t, res.Omitted, "the result says how much")
	require.True(t, strings.HasPrefix(res.Output, "line 0\nline 1\n"), "the head of the output is kept")
	require.True(t, strings.HasSuffix(res.Output, "line 19998\nline 19999\n"), "the tail of the output is kept")
	require.Less(t, len(runBash(t, rt, flood).Output), pygent.DefaultMaxOutput+200, "the output is bounded by default")
}

func checkText(t testing.TB, rt pygent.Runtime) {
	res := runBash(t, rt, `printf 'a\377b\n'`)
	require.True(t, utf8.ValidString(res.Output), "the output is UTF-8, whatever was printed")
	require.True(t, strings.HasPrefix(res.Output, "a") && strings.HasSuffix(res.Output, "b\n"), "only what is no character is replaced")
}

// checkLive accepts a runtime that ignores the option.
func checkLive(t testing.TB, rt pygent.Runtime) {
	var mu sync.Mutex
	var over bool
	var end int64
	var wrong error
	runBash(t, rt, `echo a; sleep 0.3; `+flood, pygent.BashOutput(func(c pygent.OutputChunk) {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case over:
			wrong = errors.New("called after Bash returned")
		case len(c.Text) > 4<<10:
			wrong = fmt.Errorf("%d bytes at once", len(c.Text))
		case !utf8.ValidString(c.Text):
			wrong = errors.New("text that is not UTF-8")
		case c.Offset != end+c.Skipped:
			wrong = fmt.Errorf("offset %d after %d, with %d bytes skipped", c.Offset, end, c.Skipped)
		}
		end = c.Offset + int64(len(c.Text))
	}))
	mu.Lock()
	over = true
	mu.Unlock()
	time.Sleep(300 * time.Millisecond) // for a call that is too late
	mu.Lock()
	defer mu.Unlock()
	require.NoError(t, wrong, "BashOutput")
}

func checkConcurrent(t testing.TB, rt pygent.Runtime) {
	const n = 6
	var all sync.WaitGroup
	results := make([]pygent.BashResult, n)
	errs := make([]error, n)
	for i := range n {
		all.Go(func() {
			results[i], errs[i] = rt.Bash(t.Context(), fmt.Sprintf("echo a%d; sleep 0.2; echo b%d; exit %d", i, i, i))
		})
	}
	all.Wait()
	for i := range n {
		require.NoError(t, errs[i])
		require.Equal(t, fmt.Sprintf("a%d\nb%d\n", i, i), results[i].Output, "commands do not share their output")
		require.Equal(t, i, results[i].ExitCode)
	}
}

func checkFiles(t testing.TB, rt pygent.Runtime) {
	for name, data := range map[string][]byte{
		"f": []byte("hello\n"), "empty": {}, "a/b/c": bytes.Repeat([]byte{0, 255, '\r', '\n'}, 300_000),
		"with space and 'quotes'": []byte("x"), "ünïcode": []byte("x"), "-dash": []byte("x"),
	} {
		require.NoError(t, rt.WriteFile(t.Context(), name, data), name)
		got, err := rt.ReadFile(t.Context(), name)
		require.NoError(t, err, name)
		require.True(t, bytes.Equal(data, got), "%s is read as it was written", name)
	}
	require.Equal(t, "hello\n", runBash(t, rt, "cat f").Output, "commands see files that were written")
	runBash(t, rt, "printf new >f")
	got, err := rt.ReadFile(t.Context(), "./a/../f")
	require.NoError(t, err)
	require.Equal(t, "new", string(got), "files that commands wrote are read")
	require.NoError(t, rt.WriteFile(t.Context(), "f", nil))
	require.Equal(t, "0\n", runBash(t, rt, "cat f | wc -c | tr -d ' '").Output, "a file is replaced as a whole")
	where := strings.TrimSpace(runBash(t, rt, "pwd").Output)
	if d, ok := pygent.RuntimeAs[pygent.Describer](rt); ok {
		where = d.Describe(t.Context()).Workspace
	}
	_, err = rt.ReadFile(t.Context(), where+"/a/b/c")
	require.NoError(t, err, "an absolute path inside the workspace")
}

func checkMode(t testing.TB, rt pygent.Runtime) {
	runBash(t, rt, "echo 'exit 3' >f; chmod 755 f")
	require.NoError(t, rt.WriteFile(t.Context(), "f", []byte("#!/bin/sh\nexit 4\n")))
	require.Equal(t, 4, runBash(t, rt, "./f").ExitCode, "a file that is replaced keeps its mode")
}

func checkNoFiles(t testing.TB, rt pygent.Runtime) {
	_, err := rt.ReadFile(t.Context(), "none")
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.Contains(t, err.Error(), "none", "the error names the file")
	_, err = rt.ReadFile(t.Context(), "none/at/all")
	require.ErrorIs(t, err, fs.ErrNotExist)
	runBash(t, rt, "mkdir d")
	_, err = rt.ReadFile(t.Context(), "d")
	require.Error(t, err, "a directory cannot be read")
	require.Error(t, rt.WriteFile(t.Context(), "d", nil), "a directory cannot be written")
	require.ErrorIs(t, rt.ExportFile(t.Context(), "none", filepath.Join(t.TempDir(), "x")), fs.ErrNotExist)
	require.ErrorIs(t, rt.UploadFile(t.Context(), filepath.Join(t.TempDir(), "none"), ""), fs.ErrNotExist)
}

func checkOutside(t testing.TB, rt pygent.Runtime) {
	require.NoError(t, rt.WriteFile(t.Context(), "a/f", []byte("x")))
	here := filepath.Join(t.TempDir(), "f")
	require.NoError(t, os.WriteFile(here, []byte("secret"), 0o600))
	for _, name := range []string{"../x", "a/../../x", "/etc/passwd", "..", here} {
		_, err := rt.ReadFile(t.Context(), name)
		require.Error(t, err, "read %s", name)
		require.Error(t, rt.WriteFile(t.Context(), name, []byte("x")), "write %s", name)
		require.Error(t, rt.UploadFile(t.Context(), here, name), "upload to %s", name)
		require.Error(t, rt.ExportFile(t.Context(), name, filepath.Join(t.TempDir(), "x")), "export %s", name)
	}
	data, err := os.ReadFile(here)
	require.NoError(t, err)
	require.Equal(t, "secret", string(data))
}

func checkLinks(t testing.TB, rt pygent.Runtime) {
	outside := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(outside, "f"), []byte("secret"), 0o600))
	runBash(t, rt, fmt.Sprintf("echo hello >f; ln -s f in; ln -s '%s' dir; ln -s '%s/f' file; ln -s /etc etc; ln -s ../../../../etc up", outside, outside))
	data, err := rt.ReadFile(t.Context(), "in")
	require.NoError(t, err)
	require.Equal(t, "hello\n", string(data), "a link inside the workspace is followed")
	for _, name := range []string{"file", "dir/f", "etc/passwd", "up/passwd"} {
		_, err := rt.ReadFile(t.Context(), name)
		require.Error(t, err, "read %s, which leads out of the workspace", name)
	}
	for _, name := range []string{"dir/f", "dir/new", "etc/new"} {
		require.Error(t, rt.WriteFile(t.Context(), name, []byte("x")), "write %s, which leads out of the workspace", name)
	}
	_ = rt.WriteFile(t.Context(), "file", []byte("x")) // may replace the link
	data, err = os.ReadFile(filepath.Join(outside, "f"))
	require.NoError(t, err)
	require.Equal(t, "secret", string(data), "no link leads to files of this machine")
}

func checkUpload(t testing.TB, rt pygent.Runtime) {
	src := filepath.Join(t.TempDir(), "src")
	require.NoError(t, os.MkdirAll(filepath.Join(src, "sub"), 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(src, "sub", "f"), []byte("deep"), 0o644))
	require.NoError(t, os.WriteFile(filepath.Join(src, "run"), []byte("#!/bin/sh\necho ran\n"), 0o755))
	require.NoError(t, rt.UploadFile(t.Context(), src, ""))
	require.Equal(t, "deep", runBash(t, rt, "cat src/sub/f").Output, "a directory keeps its name")
	require.Equal(t, "ran\n", runBash(t, rt, "src/run").Output, "modes are copied")
	require.NoError(t, rt.UploadFile(t.Context(), filepath.Join(src, "run"), "to/other"))
	require.Equal(t, "ran\n", runBash(t, rt, "to/other").Output, "a file gets the name that is asked for")
	require.NoError(t, rt.UploadFile(t.Context(), filepath.Join(src, "run"), "to"))
	require.Equal(t, "ran\n", runBash(t, rt, "to/run").Output, "a file goes into a directory")
}

func checkExport(t testing.TB, rt pygent.Runtime) {
	runBash(t, rt, "mkdir -p d/sub; echo deep >d/sub/f; ln -s f d/sub/link; echo single >f")
	dest := filepath.Join(t.TempDir(), "dest")
	require.NoError(t, rt.ExportFile(t.Context(), "d", dest))
	data, err := os.ReadFile(filepath.Join(dest, "sub", "f"))
	require.NoError(t, err)
	require.Equal(t, "deep\n", string(data))
	target, err := os.Readlink(filepath.Join(dest, "sub", "link"))
	require.NoError(t, err, "a link is copied as a link")
	require.Equal(t, "f", target)
	single := filepath.Join(t.TempDir(), "single")
	require.NoError(t, rt.ExportFile(t.Context(), "f", single))
	data, err = os.ReadFile(single)
	require.NoError(t, err)
	require.Equal(t, "single\n", string(data))

	victim, into := filepath.Join(t.TempDir(), "victim"), t.TempDir()
	require.NoError(t, os.WriteFile(victim, []byte("kept"), 0o600))
	require.NoError(t, os.Symlink(victim, filepath.Join(into, "f")))
	_ = rt.ExportFile(t.Context(), "f", filepath.Join(into, "f"))
	data, err = os.ReadFile(victim)
	require.NoError(t, err)
	require.Equal(t, "kept", string(data), "nothing is written through a link of this machine")
}

func checkWrites(t testing.TB, rt pygent.Runtime) {
	const size = 200_000
	require.NoError(t, rt.WriteFile(t.Context(), "f", bytes.Repeat([]byte{'x'}, size)))
	var writers, readers sync.WaitGroup
	errs := make([]error, 8)
	written := make(chan struct{})
	for i := range errs[:4] {
		writers.Go(func() { errs[i] = rt.WriteFile(t.Context(), "f", bytes.Repeat([]byte{'a' + byte(i)}, size)) })
	}
	for i := range errs[4:] {
		readers.Go(func() { errs[4+i] = readWhole(t.Context(), rt, size, written) })
	}
	writers.Wait()
	close(written)
	readers.Wait()
	require.NoError(t, errors.Join(errs...), "a file is written as a whole")
}

// readWhole reads the file f until all is written, at least once, and returns an
// error if it has another size or several writers' bytes.
func readWhole(ctx context.Context, rt pygent.Runtime, size int, written <-chan struct{}) error {
	for {
		data, err := rt.ReadFile(ctx, "f")
		switch {
		case err != nil:
			return err
		case len(data) != size || len(bytes.Trim(data, string(data[:1]))) > 0:
			return errors.New("half a file was read")
		}
		select {
		case <-written:
			return nil
		default:
		}
	}
}

func checkCleanup(t testing.TB, rt pygent.Runtime) {
	runBash(t, rt, "true")
	require.NoError(t, rt.Cleanup())
	require.NoError(t, rt.Cleanup(), "Cleanup may be called again")
	_, err := rt.Bash(t.Context(), "true")
	require.ErrorIs(t, err, pygent.ErrRuntimeClosed, "Bash")
	_, err = rt.ReadFile(t.Context(), "f")
	require.ErrorIs(t, err, pygent.ErrRuntimeClosed, "ReadFile")
	require.ErrorIs(t, rt.WriteFile(t.Context(), "f", nil), pygent.ErrRuntimeClosed, "WriteFile")
	require.ErrorIs(t, rt.UploadFile(t.Context(), t.TempDir(), ""), pygent.ErrRuntimeClosed, "UploadFile")
	require.ErrorIs(t, rt.ExportFile(t.Context(), ".", t.TempDir()), pygent.ErrRuntimeClosed, "ExportFile")
}

func checkCleanupOfRunning(t testing.TB, rt pygent.Runtime) {
	ended := make(chan error, 1)
	go func() {
		_, err := rt.Bash(context.WithoutCancel(t.Context()), "echo >begun; sleep 600", pygent.BashTimeout(pygent.NoLimit))
		ended <- err
	}()
	awaitFile(t, rt, "begun")
	require.NoError(t, rt.Cleanup())
	select {
	case err := <-ended:
		require.Error(t, err, "the command has not ended by itself")
	case <-time.After(atMost):
		require.Fail(t, "Cleanup does not end a command")
	}
}
