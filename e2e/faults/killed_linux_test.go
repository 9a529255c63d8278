package faults

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/testkit/cmdtest"
	"github.com/x/pygent/pygenttest"
)

// TestARunThatIsKilledBesideAWriter kills the command at any moment of a turn in a
// repository in which somebody else works.
func TestARunThatIsKilledBesideAWriter(t *testing.T) {
	t.Parallel()
	sharedEngine(t)
	rounds := 2
	if os.Getenv("PYGENT_TEST_FAULTS") != "" {
		rounds = 20
	}
	home, state := t.TempDir(), t.TempDir()
	dir := t.TempDir()
	git := func(args ...string) string {
		out, err := exec.Command("git", append([]string{"-C", dir}, args...)...).CombinedOutput()
		require.NoError(t, err, string(out))
		return string(out)
	}
	git("init", "-q")
	run := func(server *pygenttest.Server) *exec.Cmd {
		cmd := cmdtest.Command(t.Context(), t, append(server.Env(), "HOME="+home, "XDG_STATE_HOME="+state), "run", "--docker", "--image", image(), "--cwd", "go")
		cmd.Dir = dir
		return cmd
	}
	bash := func(cmd string) pygenttest.Reply { return pygenttest.Call("bash", map[string]any{"cmd": cmd}) }
	stop := pygenttest.Call("stop", map[string]any{"summary": "done"})
	var mine []string // what the writer has written, each into a file of its own and into notes
	for round := range rounds {
		server := pygenttest.NewServer(t)
		for i := range 5 {
			server.Add(bash(fmt.Sprintf("for i in 1 2 3 4 5; do echo %d >>agent$i; sleep 0.02; done", i)),
				pygenttest.Call("write_file", map[string]any{"path": "agent", "content": fmt.Sprint(i)}))
		}
		cmd := run(server.Add(stop))
		require.NoError(t, cmd.Start())
		end := time.Now().Add(time.Duration(rand.Int64N(int64(3 * time.Second))))
		for i := 0; time.Now().Before(end); i++ {
			name := fmt.Sprintf("mine-%d-%d", round, i)
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(name), 0o644))
			mine = append(mine, name)
			f, err := os.OpenFile(filepath.Join(dir, "notes"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
			require.NoError(t, err)
			_, err = f.WriteString(name + "\n")
			require.NoError(t, err)
			require.NoError(t, f.Close())
			time.Sleep(10 * time.Millisecond)
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		out, err := run(pygenttest.NewServer(t, bash("true"), stop)).CombinedOutput()
		assert.NoError(c, err, string(out))
		for line := range strings.Lines(git("status", "--porcelain", "--ignored", "-uall")) {
			name := strings.TrimSpace(line[3:])
			assert.Regexp(c, `^(agent\d?|mine-\d+-\d+|notes)$`, name, "nothing of ours is left to commit")
		}
	}, time.Minute, time.Second)
	for _, name := range mine {
		data, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		require.Equal(t, name, string(data))
	}
	if len(mine) > 0 {
		data, err := os.ReadFile(filepath.Join(dir, "notes"))
		require.NoError(t, err)
		require.Equal(t, strings.Join(mine, "\n")+"\n", string(data))
	}
}
