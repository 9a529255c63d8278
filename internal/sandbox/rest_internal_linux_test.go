package sandbox

import (
	"bufio"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/guest"
)

// newLocal makes a sandbox on this machine that ends its guest after a time without a
// call.
func newLocal(t *testing.T, rest time.Duration, l LocalConfig) *Sandbox {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	r, _, err := NewLocal(t.Context(), Config{Events: NewEvents(nil, log), Logger: log, ReadLimit: 1 << 20, Pace: Pace{Rest: rest}}, l)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, r.Cleanup()) })
	return r
}

// run runs a command, and returns what it printed.
func run(t *testing.T, r *Sandbox, script string) string {
	t.Helper()
	res, err := r.Bash(t.Context(), Command{Script: script, Dir: ".", Timeout: time.Minute, MaxOutput: 1 << 10})
	require.NoError(t, err)
	require.Zero(t, res.ExitCode, res.Output)
	return res.Output
}

// guestOf returns the guest that runs.
func guestOf(t *testing.T, r *Sandbox) *guest.Client {
	t.Helper()
	g, err := r.commands.Guest(t.Context())
	require.NoError(t, err)
	return g
}

func TestAGuestWithoutACallRests(t *testing.T) {
	r := newLocal(t, time.Millisecond, LocalConfig{})
	for range 3 {
		require.Equal(t, "kept\n", run(t, r, `echo kept >"${TMPDIR:-.}/f"; cat "${TMPDIR:-.}/f"`))
		c := r.commands.(*localCommander)
		require.NoError(t, c.lock(t.Context()))
		g := c.current
		c.unlock()
		if g != nil { // else it rests already
			<-g.Client.Done()
		}
		require.Equal(t, "kept\n", run(t, r, `cat "${TMPDIR:-.}/f"`), "the next command finds its temporary files")
	}
}

func TestAFileReadWithoutAGuestStartsNone(t *testing.T) {
	r := newLocal(t, time.Millisecond, LocalConfig{})
	require.NoError(t, r.WriteFile(t.Context(), "f", []byte("text")))
	r.Park()
	data, err := r.ReadFile(t.Context(), "f")
	require.NoError(t, err)
	require.Equal(t, "text", string(data))
	require.Nil(t, r.commands.(*localCommander).current)
}

// What runs, or can still be read, keeps its guest.
func TestAGuestThatIsNeededDoesNotRest(t *testing.T) {
	for name, l := range map[string]LocalConfig{"protected": {}, "not protected": {Unprotected: true}} {
		t.Run(name, func(t *testing.T) {
			r := newLocal(t, time.Hour, l)
			rest := func() { r.detach(r.hasWork)() }

			long := newLocal(t, time.Hour, l)
			res, err := long.Bash(t.Context(), Command{Script: "seq 10000", Dir: ".", Timeout: time.Minute, MaxOutput: 1 << 10})
			require.NoError(t, err)
			long.detach(long.hasWork)()
			require.Contains(t, run(t, long, "tail -n 1 "+res.FullPath), "10000", "the whole of a long output")

			p, err := r.StartProcess(t.Context(), Command{Script: "cat", Dir: "."})
			require.NoError(t, err)
			rest()
			r.Park()
			_, err = p.Write([]byte("hello\n"))
			require.NoError(t, err)
			line, err := bufio.NewReader(p).ReadString('\n')
			require.NoError(t, err)
			require.Equal(t, "hello\n", line, "a process with streams")
			require.NoError(t, p.Close())

			job, err := r.StartJob(t.Context(), Command{Script: "echo begun; sleep 600", Dir: "."})
			require.NoError(t, err)
			_, err = r.JobOutput(t.Context(), job.ID, 0, time.Minute)
			require.NoError(t, err)
			g := guestOf(t, r)
			rest()
			r.Park()
			require.True(t, g.Alive(), "a job")
			jobs, err := r.Jobs(t.Context())
			require.NoError(t, err)
			require.True(t, jobs[0].Running)

			_, err = r.KillJob(t.Context(), job.ID)
			require.NoError(t, err)
			rest()
			out, err := r.JobOutput(t.Context(), job.ID, 0, 0)
			require.NoError(t, err)
			require.Equal(t, "begun\n", out.Text, "what a job has printed")
			r.Park()
			require.False(t, g.Alive())
			_, err = r.JobOutput(t.Context(), job.ID, 0, 0)
			require.ErrorIs(t, err, guest.ErrNoJob)
			next, err := r.StartJob(t.Context(), Command{Script: "true", Dir: "."})
			require.NoError(t, err)
			require.NotEqual(t, job.ID, next.ID)
		})
	}
}

// A process with streams, or a connection, may outlive its call by any time.
func TestAGuestRestsAfterWhatOutlivedItsCall(t *testing.T) {
	r := newLocal(t, time.Hour, LocalConfig{})
	p, err := r.StartProcess(t.Context(), Command{Script: "cat", Dir: "."})
	require.NoError(t, err)
	g := guestOf(t, r)
	r.rest.Stop() // as it is when the time has passed
	r.restNow()
	require.True(t, g.Alive())
	require.True(t, r.rest.Stop(), "it is tried again")
	c := r.commands.(*localCommander)
	require.NoError(t, c.lock(t.Context()))
	r.restNow()
	c.unlock()
	require.True(t, r.rest.Stop(), "also when somebody looked at the guest just then")
	require.NoError(t, p.Close())
	r.restNow()
	require.False(t, g.Alive())
	require.False(t, r.rest.Stop(), "there is nothing to end")
}

// Somebody who uses the guest has it, and no two guests run at once.
func TestARestDuringACallDoesNothing(t *testing.T) {
	r := newLocal(t, time.Hour, LocalConfig{})
	begun, done := make(chan struct{}), make(chan Result)
	go func() {
		var once bool
		res, _ := r.Bash(t.Context(), Command{Script: "echo begun; until test -e end; do sleep 0.01; done", Dir: ".", Timeout: time.Minute, MaxOutput: 1 << 10, Output: func(Chunk) {
			if !once {
				once = true
				close(begun)
			}
		}})
		done <- res
	}()
	<-begun
	r.Park()
	r.detach(r.hasWork)()
	require.NoError(t, r.WriteFile(t.Context(), "end", nil))
	require.Equal(t, 0, (<-done).ExitCode)

	end := r.Detach()
	held := make(chan string)
	go func() { held <- run(t, r, "echo next") }()
	end()
	require.Equal(t, "next\n", <-held)
}

func TestNothingIsLeftOfASandboxThatRests(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	for name, l := range map[string]LocalConfig{"protected": {}, "not protected": {Unprotected: true}} {
		r, _, err := NewLocal(t.Context(), Config{Events: NewEvents(nil, slog.New(slog.DiscardHandler)), Logger: slog.New(slog.DiscardHandler)}, l)
		require.NoError(t, err)
		run(t, r, "seq 10000")
		r.Park()
		require.NoError(t, r.Cleanup())
		entries, err := os.ReadDir(temp)
		require.NoError(t, err)
		require.Empty(t, entries, name)
		r.Park() // does nothing
	}
}

// A cleaner of the machine may remove what nobody uses.
func TestTemporaryFilesThatWereRemovedAreMadeAnew(t *testing.T) {
	r := newLocal(t, time.Hour, LocalConfig{})
	dir := strings.TrimSpace(run(t, r, `echo "$TMPDIR"`))
	c := r.commands.(*localCommander)
	if c.place.temp == "" {
		t.Skip("commands are not confined here")
	}
	r.Park()
	require.NoError(t, os.RemoveAll(c.place.temp))
	require.NotEqual(t, dir, strings.TrimSpace(run(t, r, `echo "$TMPDIR"; echo x >"$TMPDIR/x"`)))
}

// Once it is gone, others may take its name in a directory that all users share.
func TestTemporaryFilesOfOthersAreNotUsed(t *testing.T) {
	r := newLocal(t, time.Hour, LocalConfig{})
	run(t, r, "true")
	c := r.commands.(*localCommander)
	temp := c.place.temp
	if temp == "" {
		t.Skip("commands are not confined here")
	}
	r.Park()
	parent, elsewhere := filepath.Dir(temp), t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(elsewhere, filepath.Base(temp)), 0o700))
	for name, put := range map[string]func() error{
		"a link":                         func() error { return os.Symlink(elsewhere, parent) },
		"a directory that all may write": func() error { return errors.Join(os.MkdirAll(temp, 0o700), os.Chmod(parent, 0o777)) },
		"an empty directory":             func() error { return os.Mkdir(parent, 0o700) },
	} {
		require.NoError(t, os.RemoveAll(parent), name)
		require.NoError(t, put(), name)
		c.place.temp = temp
		run(t, r, `echo x >"$TMPDIR/x"`)
		r.Park()
		require.NoFileExists(t, filepath.Join(temp, "x"), name)
		require.NoError(t, c.place.remove())
	}
	require.NoError(t, os.RemoveAll(parent))
}
