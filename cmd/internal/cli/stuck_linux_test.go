package cli

import (
	"bytes"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/x/pygent/internal/testkit/termtest"
	"github.com/x/pygent/pygenttest"
)

// Nobody reads the terminal, as when a connection hangs. A signal ends the session
// all the same, and what it says last is that the terminal is as before.
func TestASessionEndsAtATerminalThatTakesNoOutput(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGHUP} {
		t.Run(signal.String(), func(t *testing.T) {
			t.Parallel()
			endsStuck(t, signal)
		})
	}
}

func endsStuck(t *testing.T, signal syscall.Signal) {
	t.Helper()
	server := pygenttest.NewServer(t, pygenttest.Text(strings.Repeat("Some words of a paragraph.\n\n", 20_000)))
	cmd := command(t, server.Env(), "--no-docker")
	cmd.Env = append(cmd.Env, "PYGENT_HISTORY_FILE="+filepath.Join(cmd.Dir, "history.json"), "TERM=xterm-256color")
	pty, tty := termtest.OpenPTY(t)
	defer pty.Close()
	defer tty.Close() // so that the terminal has no end meanwhile
	before := termtest.Modes(t, pty)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	require.NoError(t, cmd.Start())
	var shown bytes.Buffer
	for buf := make([]byte, 4096); !strings.Contains(shown.String(), "Ready"); {
		n, err := pty.Read(buf)
		require.NoError(t, err)
		shown.Write(buf[:n])
	}
	_, err := pty.WriteString("go\r")
	require.NoError(t, err)
	waiting := func() int {
		n := 0
		conn, err := pty.SyscallConn()
		require.NoError(t, err)
		require.NoError(t, conn.Control(func(fd uintptr) { n, err = unix.IoctlGetInt(int(fd), unix.TIOCINQ) }))
		require.NoError(t, err)
		return n
	}
	require.Eventually(t, func() bool { return waiting() >= 4000 }, time.Minute, 10*time.Millisecond, "the terminal is full")
	require.NoError(t, cmd.Process.Signal(signal))
	require.Error(t, cmd.Wait())
	require.Equal(t, 128+int(signal), cmd.ProcessState.ExitCode())
	require.Equal(t, before, termtest.Modes(t, pty))
	require.NoError(t, pty.SetReadDeadline(time.Now().Add(time.Minute)))
	for buf := make([]byte, 4096); !strings.Contains(shown.String(), "\x1b[<u\x1b[?2004l"); {
		n, err := pty.Read(buf)
		require.NoError(t, err, "the keys are not put back")
		shown.Write(buf[:n])
	}
}
