package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/termtest"
	"github.com/x/pygent/pygenttest"
)

// A signal ends a session whose window takes no output, as one does that is stopped.
func TestASignalEndsASessionWhoseWindowIsStuck(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGHUP} {
		t.Run(signal.String(), func(t *testing.T) {
			t.Parallel()
			words := strings.Repeat("A paragraph of words.\n\n", 5000) + "The end."
			server := pygenttest.NewServer(t, pygenttest.Text(words))
			cmd := command(t, server.Env(), "--no-docker")
			history := filepath.Join(cmd.Dir, "history.json")
			cmd.Env = append(cmd.Env, "PYGENT_HISTORY_FILE="+history, "TERM=xterm-256color")
			pty, tty := termtest.OpenPTY(t)
			defer pty.Close()
			cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
			cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
			require.NoError(t, cmd.Start())
			require.NoError(t, tty.Close())
			buf := make([]byte, 1<<16)
			for seen := ""; !strings.Contains(seen, "Ready"); {
				n, err := pty.Read(buf)
				require.NoError(t, err)
				seen += string(buf[:n])
			}
			_, err := pty.WriteString("go\r")
			require.NoError(t, err)
			require.Eventually(t, func() bool {
				text, _ := os.ReadFile(history)
				return strings.Contains(string(text), "The end.")
			}, time.Minute, 10*time.Millisecond)
			require.NoError(t, cmd.Process.Signal(signal))
			_ = cmd.Wait()
			require.Equal(t, 128+int(signal), cmd.ProcessState.ExitCode())
		})
	}
}
