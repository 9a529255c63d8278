package pygenttest

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
)

// The checks of this file concern interfaces that a runtime need not have.

func checkDescription(t testing.TB, rt pygent.Runtime) {
	d, ok := pygent.RuntimeAs[pygent.Describer](rt)
	if !ok {
		return
	}
	info := d.Describe(t.Context())
	require.NotEmpty(t, info.Kind, "a description names the kind of the runtime")
	require.Equal(t, info.Workspace+"\n", runBash(t, rt, "pwd").Output, "the workspace is described as commands see it")
}

func checkRanges(t testing.TB, rt pygent.Runtime) {
	r, ok := pygent.RuntimeAs[pygent.RangeReader](rt)
	if !ok {
		return
	}
	require.NoError(t, rt.WriteFile(t.Context(), "f", []byte("0123456789")))
	for _, tc := range []struct {
		offset, limit int64
		want          string
	}{{0, 4, "0123"}, {8, 4, "89"}, {10, 4, ""}, {100, 4, ""}, {0, 0, ""}} {
		data, size, err := r.ReadFileRange(t.Context(), "f", tc.offset, tc.limit)
		require.NoError(t, err)
		require.Equal(t, tc.want, string(data), "%d bytes from %d on", tc.limit, tc.offset)
		require.EqualValues(t, 10, size, "the size is that of the whole file")
	}
	_, _, err := r.ReadFileRange(t.Context(), "none", 0, 1)
	require.ErrorIs(t, err, fs.ErrNotExist)
	_, _, err = r.ReadFileRange(t.Context(), "../x", 0, 1)
	require.Error(t, err, "a path that leaves the workspace")
}

func checkJobs(t testing.TB, rt pygent.Runtime) {
	r, ok := pygent.RuntimeAs[pygent.JobRunner](rt)
	if !ok {
		return
	}
	job, err := r.StartJob(t.Context(), "echo up; "+ticks)
	if errors.Is(err, errors.ErrUnsupported) {
		return
	}
	require.NoError(t, err)
	require.True(t, job.Running)
	require.Eventually(t, func() bool {
		out, err := r.JobOutput(t.Context(), job.ID, 0, time.Second)
		return err == nil && out.Text == "up\n" && out.Next == 3
	}, atMost, 10*time.Millisecond, "the output of a job")
	jobs, err := r.Jobs(t.Context())
	require.NoError(t, err)
	require.Len(t, jobs, 1)
	require.Equal(t, job.ID, jobs[0].ID)
	job, err = r.KillJob(t.Context(), job.ID)
	require.NoError(t, err)
	require.False(t, job.Running, "KillJob returns when the job is gone")
	requireStill(t, rt)
	_, err = r.JobOutput(t.Context(), "none", 0, 0)
	require.ErrorIs(t, err, pygent.ErrUnknownJob)
	_, err = r.KillJob(t.Context(), "none")
	require.ErrorIs(t, err, pygent.ErrUnknownJob)
}

func checkProcesses(t testing.TB, rt pygent.Runtime) {
	r, ok := pygent.RuntimeAs[pygent.ProcessStarter](rt)
	if !ok {
		return
	}
	p, err := r.StartProcess(t.Context(), `while read -r l; do echo "<$l>"; done; echo bye >&2; exit 5`)
	if errors.Is(err, errors.ErrUnsupported) {
		return
	}
	require.NoError(t, err)
	defer p.Close()
	lines := bufio.NewReader(p)
	for i := range 3 {
		_, err := fmt.Fprintf(p, "line %d\n", i)
		require.NoError(t, err)
		line, err := lines.ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, fmt.Sprintf("<line %d>\n", i), line)
	}
	require.NoError(t, p.CloseWrite())
	_, err = lines.ReadByte()
	require.ErrorIs(t, err, io.EOF, "the end of its input ends the process, and that its output")
	code, err := p.Wait()
	require.NoError(t, err)
	require.Equal(t, 5, code)
	require.Equal(t, "bye\n", p.Stderr())
	require.NoError(t, p.Close())

	p, err = r.StartProcess(t.Context(), "echo up; "+ticks)
	require.NoError(t, err)
	_, err = bufio.NewReader(p).ReadString('\n')
	require.NoError(t, err)
	require.NoError(t, p.Close())
	requireStill(t, rt)
	_, err = p.Read(make([]byte, 1))
	require.Error(t, err, "a process that is closed")
}

func checkLists(t testing.TB, rt pygent.Runtime) {
	r, ok := pygent.RuntimeAs[pygent.FileLister](rt)
	if !ok {
		return
	}
	runBash(t, rt, "mkdir -p a/b; echo x >a/b/f; printf 12345 >g; ln -s /etc out")
	for depth, want := range map[int]string{0: "a g out", 1: "a g out", 2: "a a/b g out", pygent.NoLimit: "a a/b a/b/f g out"} {
		files, more, err := r.ListFiles(t.Context(), ".", depth, 0)
		require.NoError(t, err)
		require.False(t, more)
		var paths []string
		for _, f := range files {
			paths = append(paths, f.Path)
		}
		require.Equal(t, want, strings.Join(paths, " "), "depth %d", depth)
	}
	files, more, err := r.ListFiles(t.Context(), ".", pygent.NoLimit, 2)
	require.NoError(t, err)
	require.True(t, more, "the limit left files out")
	require.Len(t, files, 2)
	info, err := r.StatFile(t.Context(), "g")
	require.NoError(t, err)
	require.EqualValues(t, 5, info.Size)
	for _, dir := range []string{"out", "..", "/etc", "none", "g"} {
		_, _, err := r.ListFiles(t.Context(), dir, 1, 0)
		require.Error(t, err, "list %s", dir)
	}
}

func checkRemoved(t testing.TB, rt pygent.Runtime) {
	r, ok := pygent.RuntimeAs[pygent.FileRemover](rt)
	if !ok {
		return
	}
	runBash(t, rt, "mkdir -p a/b keep; echo x >a/b/f; echo x >g; echo x >keep/f; ln -s keep link")
	require.NoError(t, r.RemoveFile(t.Context(), "g", false))
	require.Error(t, r.RemoveFile(t.Context(), "a", false), "a directory that is not empty")
	require.NoError(t, r.RemoveFile(t.Context(), "a", true))
	require.NoError(t, r.RemoveFile(t.Context(), "link", true))
	require.Error(t, r.RemoveFile(t.Context(), "../x", true))
	require.ErrorIs(t, r.RemoveFile(t.Context(), "none", false), fs.ErrNotExist)
	require.Equal(t, "keep\nf\n", runBash(t, rt, "ls; ls keep").Output, "a link is removed, and not what it leads to")
}

func checkStreams(t testing.TB, rt pygent.Runtime) {
	r, ok := pygent.RuntimeAs[pygent.FileStreamer](rt)
	if !ok {
		return
	}
	data := bytes.Repeat([]byte("0123456789"), 500_000)
	require.NoError(t, r.WriteFileFrom(t.Context(), "d/f", bytes.NewReader(data)))
	var got bytes.Buffer
	n, err := r.ReadFileTo(t.Context(), "d/f", 3, &got)
	require.NoError(t, err)
	require.EqualValues(t, len(data)-3, n)
	require.True(t, bytes.Equal(data[3:], got.Bytes()))
	broken := errors.New("broken")
	require.ErrorIs(t, r.WriteFileFrom(t.Context(), "d/f", iotest.ErrReader(broken)), broken)
	n, err = r.ReadFileTo(t.Context(), "d/f", 0, io.Discard)
	require.NoError(t, err)
	require.EqualValues(t, len(data), n, "the file stays as it was")
	require.Error(t, r.WriteFileFrom(t.Context(), "../x", strings.NewReader("x")))
}
