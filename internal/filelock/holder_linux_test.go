package filelock_test

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/filelock"
)

// TestTheHolderOfALockIsNamed lets another process lock a file until its input ends.
func TestTheHolderOfALockIsNamed(t *testing.T) {
	if at := os.Getenv("PYGENT_TEST_HOLD"); at != "" {
		require.NoError(t, filelock.Lock(open(t, at)))
		_, _ = os.Stdout.WriteString("locked\n")
		_, _ = os.Stdin.Read(make([]byte, 1))
		return
	}
	at := filepath.Join(t.TempDir(), "lock")
	f := open(t, at)
	pid, program := filelock.Holder(f)
	require.Zero(t, pid, "nobody has locked it")
	require.Empty(t, program)

	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestTheHolderOfALockIsNamed$")
	cmd.Env = append(os.Environ(), "PYGENT_TEST_HOLD="+at)
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	stdout, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	line, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "locked\n", line)
	pid, program = filelock.Holder(f)
	require.Equal(t, cmd.Process.Pid, pid)
	require.Equal(t, "filelock.test", program)
	require.Equal(t, strconv.Itoa(pid)+" (filelock.test)", filelock.Process(pid, program))
	require.Equal(t, "12", filelock.Process(12, ""), "a program that is hidden")
	require.NoError(t, stdin.Close())
	require.NoError(t, cmd.Wait())

	require.NoError(t, filelock.Lock(f))
	pid, _ = filelock.Holder(open(t, at))
	require.Equal(t, os.Getpid(), pid)
}
