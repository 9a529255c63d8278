//go:build unix

package sessiondir_test

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/sessiondir"
)

// TestInfoOfAKilledProcess kills processes that write session.json all the time.
// There is the old one or the new one, and the session can be opened again.
func TestInfoOfAKilledProcess(t *testing.T) {
	if at := os.Getenv("PYGENT_TEST_SESSION"); at != "" {
		s, err := sessiondir.Open(at)
		require.NoError(t, err)
		for n := 1; ; n++ {
			data, err := json.Marshal(map[string]string{"title": strings.Repeat("x", n%5000)})
			require.NoError(t, err)
			require.NoError(t, s.WriteInfo(data))
			if n == 1 {
				_, _ = os.Stdout.WriteString("open\n")
			}
		}
	}
	dir := t.TempDir()
	for range 10 {
		child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestInfoOfAKilledProcess$")
		child.Env = append(os.Environ(), "PYGENT_TEST_SESSION="+filepath.Join(dir, "1a"))
		out, err := child.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, child.Start())
		line, err := bufio.NewReader(out).ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, "open\n", line)
		list, err := sessiondir.List(dir)
		require.NoError(t, err)
		require.True(t, list[0].Open)
		require.NoError(t, child.Process.Kill())
		_ = child.Wait()

		s, err := sessiondir.Open(filepath.Join(dir, "1a"))
		require.NoError(t, err)
		info, err := s.Info()
		require.NoError(t, err)
		require.True(t, json.Valid(info), "%q", info)
		require.NoError(t, s.Close())
	}
}
