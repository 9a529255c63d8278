package guest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/guest"
)

// place is where a guest runs.
type place struct {
	name  string
	start func(t testing.TB) *guest.Client
}

// places are a guest beside the test, and guests in containers. Each test of
// this file that uses everywhere must pass in all of them.
var places = []place{
	{"local", local},
	{"debian", func(t testing.TB) *guest.Client { return container(t, debianImage(t), containerOptions{}).client }},
	{"busybox", func(t testing.TB) *guest.Client { return container(t, busyboxImage(t), containerOptions{}).client }},
}

// everywhere runs a test in all places.
func everywhere(t *testing.T, test func(t *testing.T, c *guest.Client)) {
	for _, p := range places {
		t.Run(p.name, func(t *testing.T) { test(t, p.start(t)) })
	}
}

func TestHelloTellsWhereItRuns(t *testing.T) {
	everywhere(t, func(t *testing.T, c *guest.Client) {
		info := c.Info()
		require.Contains(t, info.Shell, "sh")
		require.Equal(t, "linux", info.OS)
		require.NotEmpty(t, info.Boot)
		require.NotEmpty(t, info.Spill)
		require.Equal(t, subreaping(), info.Supervised)
		require.Equal(t, info.Supervised, info.Limits == "", info.Limits)
	})
	t.Run("shell", func(t *testing.T) {
		require.Equal(t, "bash", filepath.Base(container(t, debianImage(t), containerOptions{}).client.Info().Shell))
		c := container(t, busyboxImage(t), containerOptions{}).client
		require.Equal(t, "sh", filepath.Base(c.Info().Shell))
		require.True(t, c.Info().Init)
	})
}

func TestNonceTellsSharedWorkspace(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "nonce"), []byte("n-123"), 0o600))
	info := localIn(t, dir, guest.Config{Nonce: "nonce"}).Info()
	require.True(t, info.NonceSeen)
	require.Equal(t, "n-123", info.Nonce)
	info = localIn(t, dir, guest.Config{Nonce: "other"}).Info()
	require.False(t, info.NonceSeen)
}

func TestCommandResults(t *testing.T) {
	cases := []struct {
		name, script, output string
		exit, signal         int
	}{
		{"output", "echo hello; echo world >&2", "hello\nworld\n", 0, 0},
		{"status", "exit 7", "", 7, 0},
		{"signal", "kill -9 $$", "", 137, 9},
		{"no stdin", "cat; echo done", "done\n", 0, 0},
		{"errexit", "set -e\nfalse\necho no", "", 1, 0},
		{"stderr opened again", "echo x > /dev/stderr; echo y", "x\ny\n", 0, 0},
		{"here document", "cat <<END\n$((1+2))\nEND", "3\n", 0, 0},
		{"trailing comment", "echo a # comment", "a\n", 0, 0},
		{"looks for itself", "ps 2>/dev/null | grep -c pgrep-me >/dev/null; echo pkill", "pkill\n", 0, 0},
	}
	everywhere(t, func(t *testing.T, c *guest.Client) {
		for _, tc := range cases {
			t.Run(tc.name, func(t *testing.T) {
				r := runCommand(t, c, guest.Command{Script: tc.script})
				if tc.output != "" || tc.exit != 0 {
					require.Equal(t, tc.output, output(r))
				}
				require.Equal(t, tc.exit, r.ExitCode)
				require.Equal(t, tc.signal, r.Signal)
				require.False(t, r.TimedOut)
				require.Zero(t, r.LeftCount)
			})
		}
	})
}

func TestOrderOfBothStreamsIsTrue(t *testing.T) {
	const script = `i=0; while [ $i -lt 200 ]; do echo out $i; echo err $i >&2; i=$((i+1)); done`
	var want strings.Builder
	for i := range 200 {
		fmt.Fprintf(&want, "out %d\nerr %d\n", i, i)
	}
	everywhere(t, func(t *testing.T, c *guest.Client) {
		require.Equal(t, want.String(), output(run(t, c, script)))
	})
}

func TestEnvironmentAndDirectory(t *testing.T) {
	everywhere(t, func(t *testing.T, c *guest.Client) {
		run(t, c, "mkdir -p sub/dir")
		r := runCommand(t, c, guest.Command{
			Script: `echo "$A $B"; pwd`, Dir: "sub/dir", Env: []string{"A=1", "B=x", "B=two words"},
		})
		lines := strings.Split(output(r), "\n")
		require.Equal(t, "1 two words", lines[0])
		require.True(t, strings.HasSuffix(lines[1], "/sub/dir"), lines[1])
		_, err := c.Run(context.Background(), guest.Command{Script: "true", Dir: "missing"})
		require.ErrorIs(t, err, os.ErrNotExist)
	})
}

func TestLargeScripts(t *testing.T) {
	line := "x=" + strings.Repeat("y", 1000) + "\n"
	script := strings.Repeat(line, 1100) + "echo ${#x}; ls /proc/self/fd | wc -l"
	everywhere(t, func(t *testing.T, c *guest.Client) {
		small := run(t, c, "echo 1000; ls /proc/self/fd | wc -l")
		require.Equal(t, output(small), output(run(t, c, script)))
		r := runCommand(t, c, guest.Command{Script: script + "\nexit 9"})
		require.Equal(t, 9, r.ExitCode)
	})
}

func TestOutputIsBoundedAndSpilled(t *testing.T) {
	everywhere(t, func(t *testing.T, c *guest.Client) {
		const lines = 30000
		r := runCommand(t, c, guest.Command{
			Script: fmt.Sprintf("seq 1 %d 2>/dev/null || { i=1; while [ $i -le %d ]; do echo $i; i=$((i+1)); done; }", lines, lines),
			Head:   1000, Tail: 500,
		})
		var whole strings.Builder
		for i := range lines {
			fmt.Fprintln(&whole, i+1)
		}
		text := whole.String()
		require.Equal(t, int64(len(text)), r.Total)
		require.Equal(t, text[:1000], string(r.Head))
		require.Equal(t, text[len(text)-500:], string(r.Tail))
		require.Equal(t, r.Total-1500, r.Omitted)
		require.Equal(t, r.Total, r.SpillSize)
		require.Equal(t, fmt.Sprintln(len(text)), output(run(t, c, "wc -c < "+r.Spill)))

		exact := runCommand(t, c, guest.Command{Script: "printf 0123456789", Head: 4, Tail: 6})
		require.Equal(t, "0123456789", output(exact))
		require.Zero(t, exact.Omitted)
		require.Empty(t, exact.Spill)
	})
}

func TestSpillStopsAtItsLimit(t *testing.T) {
	c := local(t)
	r := runCommand(t, c, guest.Command{Script: "head -c 40000000 /dev/zero"})
	require.Equal(t, int64(40000000), r.Total)
	require.Equal(t, int64(16<<20), r.SpillSize)
	info, err := os.Stat(r.Spill)
	require.NoError(t, err)
	require.Equal(t, int64(16<<20), info.Size())
	require.NoError(t, c.Close())
	require.NoDirExists(t, c.Info().Spill)
}

func TestFloodDoesNotHoldUpOthers(t *testing.T) {
	everywhere(t, func(t *testing.T, c *guest.Client) {
		ctx, cancel := context.WithCancel(context.Background())
		flood := make(chan error, 1)
		go func() {
			_, err := c.Run(ctx, guest.Command{
				Script: "while :; do echo 0123456789012345678901234567890123456789; done", OnOutput: func(int64, []byte) {},
			})
			flood <- err
		}()
		for range 20 {
			require.Equal(t, "quick\n", output(run(t, c, "echo quick")))
		}
		cancel()
		require.ErrorIs(t, <-flood, context.Canceled)
	})
}

// breakaway is a script that starts processes which try to escape, and then
// waits.
const breakaway = `
trap '' TERM
for i in 1 2 3 4 5 6; do
  ( trap '' TERM HUP; ( trap '' TERM HUP; exec setsid sh -c "trap '' TERM HUP; (exec env -i sh -c \"trap '' TERM; while :; do sleep 1; done\") & wait" ) & ) &
done
sleep 600
`

func TestDeadlineLeavesNoDescendant(t *testing.T) {
	everywhere(t, func(t *testing.T, c *guest.Client) {
		for _, grace := range []time.Duration{-1, 50 * time.Millisecond} {
			r := runCommand(t, c, guest.Command{Script: breakaway, Timeout: 700 * time.Millisecond, Grace: grace})
			require.True(t, r.TimedOut)
			require.Zero(t, r.Survivors)
			require.Zero(t, r.LeftCount)
		}
		require.Empty(t, sleepers(t, c))
	})
}

// sleepers returns the sleep processes whose directory is the workspace of c.
func sleepers(t *testing.T, c *guest.Client) string {
	t.Helper()
	return output(run(t, c, `for p in /proc/[0-9]*; do
  [ "$(readlink $p/cwd)" = "$(readlink /proc/$$/cwd)" ] || continue
  read -r name < $p/comm && [ "$name" = sleep ] && echo $p
done 2>/dev/null; true`))
}

func TestCancelKillsAndReturnsOutput(t *testing.T) {
	everywhere(t, func(t *testing.T, c *guest.Client) {
		ctx, cancel := context.WithCancelCause(context.Background())
		defer cancel(nil)
		why := errors.New("no longer wanted")
		r, err := c.Run(ctx, guest.Command{
			Script:   "echo started; sleep 600",
			OnOutput: func(int64, []byte) { cancel(why) },
		})
		require.ErrorIs(t, err, why)
		require.True(t, r.Cancelled)
		require.Equal(t, "started\n", output(r))
		jobs, err := c.Jobs(context.Background())
		require.NoError(t, err)
		require.Empty(t, jobs)
	})
}

func TestChildLeftBehindIsReportedAndOwned(t *testing.T) {
	everywhere(t, func(t *testing.T, c *guest.Client) {
		r := run(t, c, "(while :; do sleep 1; echo tick; done) & echo hi")
		require.Equal(t, "hi\n", output(r))
		require.NotEmpty(t, r.Job)
		require.NotZero(t, r.LeftCount)
		require.NotEmpty(t, r.Left)
		out, err := c.Output(context.Background(), r.Job, r.Total, 0, testTime)
		require.NoError(t, err)
		require.Equal(t, "tick\n", string(out.Data), "what is left behind can go on writing")
		job, err := c.Kill(context.Background(), r.Job, 0)
		require.NoError(t, err)
		require.False(t, job.Running)
		require.Zero(t, job.Count)
	})
}

func TestBackgroundJobs(t *testing.T) {
	everywhere(t, func(t *testing.T, c *guest.Client) {
		ctx, cancel := context.WithTimeout(context.Background(), testTime)
		defer cancel()
		job, err := c.Start(ctx, guest.Command{Script: "echo one; until [ -e go ]; do sleep 0.05; done; echo two; exit 3"})
		require.NoError(t, err)
		require.True(t, job.Running)
		out, err := c.Output(ctx, job.ID, 0, 0, testTime)
		require.NoError(t, err)
		require.Equal(t, "one\n", string(out.Data))
		require.NoError(t, c.WriteFile(ctx, "go", strings.NewReader(""), 0))
		var rest []byte
		for next := out.Next; out.Job.Running || len(out.Data) > 0; next = out.Next {
			out, err = c.Output(ctx, job.ID, next, 2, testTime)
			require.NoError(t, err)
			rest = append(rest, out.Data...)
		}
		require.Equal(t, "two\n", string(rest))
		require.True(t, out.Job.Exited)
		require.Equal(t, 3, out.Job.ExitCode)
		jobs, err := c.Jobs(ctx)
		require.NoError(t, err)
		require.Len(t, jobs, 1)
		_, err = c.Output(ctx, "none", 0, 0, 0)
		require.ErrorIs(t, err, guest.ErrNoJob)
	})
}

func TestSupervisorKilledFromInside(t *testing.T) {
	for _, image := range []func(testing.TB) string{debianImage, busyboxImage} {
		c := container(t, image(t), containerOptions{}).client
		r := runCommand(t, c, guest.Command{Script: "(sleep 600 &) ; sleep 600 & kill -9 -1; sleep 600"})
		require.Equal(t, 137, r.ExitCode)
		require.Empty(t, sleepers(t, c))
		require.Equal(t, "fine\n", output(run(t, c, "echo fine")))
	}
}

func TestGuestSurvivesEverySignal(t *testing.T) {
	c := container(t, debianImage(t), containerOptions{}).client
	for sig := 1; sig <= 64; sig++ {
		runCommand(t, c, guest.Command{Script: "kill -" + strconv.Itoa(sig) + " 1"})
	}
	require.Equal(t, "fine\n", output(run(t, c, "echo fine")))
	r := runCommand(t, c, guest.Command{Script: "cat /proc/1/environ /proc/1/mem; ls -l /proc/1/fd/ /proc/1/exe; echo x > /proc/1/fd/10"})
	require.NotContains(t, output(r), "socket")
	require.NotContains(t, output(r), "pipe:")
	require.NotEqual(t, 0, r.ExitCode)
}

func TestZombiesAreReaped(t *testing.T) {
	everywhere(t, func(t *testing.T, c *guest.Client) {
		run(t, c, "for i in 1 2 3 4 5 6 7 8 9; do (true & exec true) & done; sleep 0.2")
		got := output(run(t, c, "grep -l 'State:.Z' /proc/[0-9]*/status 2>/dev/null | wc -l"))
		if c.Info().Init {
			require.Equal(t, "0", strings.TrimSpace(got))
		}
	})
}

func TestForkBombEnds(t *testing.T) {
	for _, image := range []func(testing.TB) string{debianImage, busyboxImage} {
		c := container(t, image(t), containerOptions{pids: 128}).client
		start := time.Now()
		r := runCommand(t, c, guest.Command{Script: "b() { b | b & }; b & exec sleep 600", Timeout: time.Second})
		t.Logf("over after %v", time.Since(start)-time.Second)
		require.True(t, r.TimedOut)
		require.Zero(t, r.Survivors)
		require.Equal(t, "fine\n", output(run(t, c, "echo fine")))
	}
}

func TestEndOfStreamLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	c := localIn(t, dir, guest.Config{})
	_, err := c.Start(context.Background(), guest.Command{Script: "echo $$ > pid; " + breakaway})
	require.NoError(t, err)
	var pid []byte
	require.Eventually(t, func() bool {
		pid, _ = os.ReadFile(filepath.Join(dir, "pid"))
		return bytes.HasSuffix(pid, []byte("\n"))
	}, testTime, time.Millisecond)
	require.NoError(t, c.Close())
	require.NoDirExists(t, "/proc/"+strings.TrimSpace(string(pid)))
	_, err = c.Run(context.Background(), guest.Command{Script: "true"})
	require.ErrorIs(t, err, guest.ErrClosed)
}

func TestCloseEndsWhatWaits(t *testing.T) {
	c := local(t)
	results := make(chan error)
	for range 8 {
		go func() {
			for {
				if _, err := c.Run(context.Background(), guest.Command{Script: "sleep 0.01"}); err != nil {
					results <- err
					return
				}
			}
		}()
	}
	run(t, c, "true")
	require.NoError(t, c.Close())
	for range 8 {
		require.ErrorIs(t, <-results, guest.ErrClosed)
	}
	<-c.Done()
}
