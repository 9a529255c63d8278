package cli

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/pygenttest"
)

// lossy are commands that write to standard output.
func lossy(t *testing.T) map[string]*exec.Cmd {
	stop := pygenttest.Call("stop", map[string]any{"summary": "done"})
	session := command(t, pygenttest.NewServer(t).Env(), "--no-docker")
	session.Stdin = strings.NewReader("/help\n")
	return map[string]*exec.Cmd{
		"run":     command(t, pygenttest.NewServer(t, stop).Env(), "run", "--no-docker", "--quiet", "go"),
		"json":    command(t, pygenttest.NewServer(t, bash("true"), stop).Env(), "run", "--no-docker", "--json", "go"),
		"session": session,
		"demo":    command(t, nil, "demo", "--no-docker"),
		"version": command(t, nil, "version"),
		"help":    command(t, nil, "--help"),
	}
}

func TestOutputThatIsLostIsAFailure(t *testing.T) {
	t.Parallel()
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	require.NoError(t, err)
	defer full.Close()
	for name, cmd := range lossy(t) {
		t.Run(name, func(t *testing.T) {
			code, stderr := finishTo(t, cmd, full)
			require.Equal(t, exitFailed, code, stderr)
			require.Equal(t, 1, strings.Count(stderr, "no space left on device"), stderr)
		})
	}
}

func TestReaderThatLeavesIsAFailureAndNoDeath(t *testing.T) {
	t.Parallel()
	for name, cmd := range lossy(t) {
		t.Run(name, func(t *testing.T) {
			r, w, err := os.Pipe()
			require.NoError(t, err)
			defer w.Close()
			require.NoError(t, r.Close())
			code, stderr := finishTo(t, cmd, w)
			require.Equal(t, exitFailed, code, stderr)
			require.Equal(t, 1, strings.Count(stderr, "broken pipe"), stderr)
		})
	}
}

// finishTo runs a command whose standard output is a file.
func finishTo(t *testing.T, cmd *exec.Cmd, stdout *os.File) (code int, stderr string) {
	t.Helper()
	var errors strings.Builder
	cmd.Stdout, cmd.Stderr = stdout, &errors
	if err := cmd.Run(); err != nil {
		var exit *exec.ExitError
		require.ErrorAs(t, err, &exit)
	}
	return cmd.ProcessState.ExitCode(), errors.String()
}

func TestAbandonedRunRemovesItsWorkspace(t *testing.T) {
	t.Parallel()
	tmp := t.TempDir()
	cmd := lossy(t)["json"]
	cmd.Env = append(cmd.Env, "TMPDIR="+tmp)
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer w.Close()
	require.NoError(t, r.Close())
	code, stderr := finishTo(t, cmd, w)
	require.Equal(t, exitFailed, code, stderr)
	left, err := os.ReadDir(tmp)
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestLostOutputHidesNoOtherFailure(t *testing.T) {
	t.Parallel()
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	require.NoError(t, err)
	defer full.Close()
	server := pygenttest.NewServer(t, bash("true"), bash("false"), pygenttest.Text("So far."))
	code, stderr := finishTo(t, command(t, server.Env(), "run", "--no-docker", "--quiet", "--max-steps", "2", "-e", "PYGENT_MAX_TOOL_CALLS=5", "go"), full)
	require.Equal(t, exitFailed, code, stderr)
	require.Contains(t, stderr, "the limit of 2 steps is reached")
	require.Contains(t, stderr, "no space left on device")
}
