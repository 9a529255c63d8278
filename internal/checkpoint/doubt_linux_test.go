package checkpoint_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/checkpoint"
)

// Linux tells of what a program writes to a mapped file no sooner than when it closes the
// file. Until then the change counts as the agent's, for it may be one of a command, such as
// a job with a log; if it turns out to be others', it is theirs.
func TestWhatIsToldOfAWriterLaterCounts(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root may watch writers")
	}
	ran := checkpoint.Work{Ran: true, Apart: true, Watch: true}
	for name, tt := range map[string]struct {
		write        func(t *testing.T, name string) (closes func())
		inTurn, next bool // it closes the file before the turn ends, or in the next one
		want         string
		kept         []string
	}{
		"others close it in the turn":    {mapped, true, false, "u=user", []string{"u"}},
		"others close it after the turn": {mapped, false, false, "u=user", []string{"u"}},
		"others close it in the next":    {mapped, false, true, "u=user", []string{"u"}},
		"a command in the turn":          {commanded, true, false, "u=0000", nil},
		"a command after the turn":       {commanded, false, false, "u=0000", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.set("u", "0000")
			var closes func()
			start := b.turn(func() {
				b.look(checkpoint.Work{Watch: true})
				closes = tt.write(t, filepath.Join(b.work.dir, "u"))
				b.look(ran)
				if tt.inTurn {
					closes()
				}
			})
			if tt.next {
				b.turn(func() {
					b.look(checkpoint.Work{Watch: true})
					closes()
					b.look(ran)
				})
			} else if !tt.inTurn {
				closes()
			}
			out := b.mustRestore(start.N)
			require.Equal(t, tt.want, b.files())
			require.Equal(t, tt.kept, keptNames(out.Kept))
		})
	}
}

// A file that was closed and is not told of is the agent's: what others write to it in a
// later turn does not make them the author of what came before.
func TestWhatACommandHasClosedIsInDoubtNoLonger(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root may watch writers")
	}
	b := newBench(t)
	b.set("u", "0000")
	start := b.turn(func() {
		b.look(checkpoint.Work{Watch: true})
		closes := commanded(t, filepath.Join(b.work.dir, "u"))
		b.look(checkpoint.Work{Ran: true, Apart: true, Watch: true})
		closes()
	})
	b.turn(func() {
		b.look(checkpoint.Work{Watch: true})
		b.set("u", "user")
		b.look(checkpoint.Work{Ran: true, Apart: true, Watch: true})
	})
	out := b.mustRestore(start.N)
	require.Equal(t, "u=user", b.files())
	require.Len(t, out.Kept, 1)
	require.NotEmpty(t, out.Kept[0].Why, "both have changed it")
}

// mapped writes to a file as a program of this machine that has mapped it.
func mapped(t *testing.T, name string) (closes func()) {
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	require.NoError(t, err)
	data, err := syscall.Mmap(int(f.Fd()), 0, 4, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	require.NoError(t, err)
	copy(data, "user")
	return func() {
		require.NoError(t, syscall.Munmap(data))
		require.NoError(t, f.Close())
	}
}

// commanded writes to a file as a command with a mount namespace of its own.
func commanded(t *testing.T, name string) (closes func()) {
	command := exec.Command("sh", "-c", `exec 3>"$1"; printf more >&3; echo; read end`, "sh", name)
	command.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS}
	end, err := command.StdinPipe()
	require.NoError(t, err)
	begun, err := command.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, command.Start())
	_, err = begun.Read(make([]byte, 1))
	require.NoError(t, err)
	return func() {
		require.NoError(t, end.Close())
		require.Error(t, command.Wait(), "there was nothing to read")
	}
}

// What changes while the watch misses something is perhaps others', and stays.
func TestWhatTheWatchMissesStays(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root may watch writers")
	}
	b := newBench(t)
	b.set("u", "0000")
	ran := checkpoint.Work{Ran: true, Apart: true, Watch: true}
	start := b.turn(func() {
		b.look(checkpoint.Work{Watch: true})
		commanded(t, filepath.Join(b.work.dir, "u"))()
		b.Miss()
		b.look(ran)
	})
	out := b.mustRestore(start.N)
	require.Equal(t, "u=more", b.files())
	require.Equal(t, []string{"u"}, keptNames(out.Kept))
}
