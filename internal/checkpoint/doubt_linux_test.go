package checkpoint_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

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

// What others have written before a call is theirs, and says nothing about who has written
// the same file in the call.
func TestWhatOthersWroteBeforeACallIsNoneOfIt(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root may watch writers")
	}
	b := newBench(t)
	b.set("u", "0000")
	start := b.turn(func() {
		b.look(checkpoint.Work{Watch: true})
		b.set("u", "user")
		b.look(checkpoint.Work{Watch: true})
		commanded(t, filepath.Join(b.work.dir, "u"))()
		b.look(checkpoint.Work{Ran: true, Apart: true, Watch: true})
	})
	out := b.mustRestore(start.N)
	require.Equal(t, "u=user", b.files())
	require.Equal(t, []checkpoint.Kept{{Name: "u"}}, out.Kept)
}

// A look has the state of each file at some moment. What others write after that, while the
// look goes on, differs in the next one.
func TestWhatOthersWriteDuringALookStays(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root may watch writers")
	}
	b := newBench(t)
	b.set("u", "0000")
	start := b.turn(func() {
		b.work.seen = func() { b.set("u", "user") }
		b.look(checkpoint.Work{Watch: true})
		b.look(checkpoint.Work{Ran: true, Apart: true, Watch: true})
	})
	b.mustRestore(start.N)
	require.Equal(t, "u=user", b.files())
}

// A file that is open for writing when a look finds it changed is theirs if it is closed
// right then, and so is what is written until then. If the machine is so busy that this
// comes later, the file is in doubt first.
func TestAWriterThatIsAboutToCloseCounts(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root may watch writers")
	}
	b := newBench(t)
	ran := checkpoint.Work{Ran: true, Apart: true, Watch: true}
	b.set("u", "0000")
	closed := make(chan error, 1)
	start := b.turn(func() {
		b.look(checkpoint.Work{Watch: true})
		closes := mapped(t, filepath.Join(b.work.dir, "u"))
		b.work.seen = func() {
			time.AfterFunc(30*time.Millisecond, func() {
				err := os.WriteFile(filepath.Join(b.work.dir, "u"), []byte("more of the user"), 0o600)
				closes()
				closed <- err
			})
		}
		b.look(ran)
		require.NoError(t, <-closed)
		b.look(ran)
	})
	out := b.mustRestore(start.N)
	require.Equal(t, "u=more of the user", b.files())
	require.Equal(t, []string{"u"}, keptNames(out.Kept))
}

// What others write after a command has changed and closed a file makes them no authors of
// that: both have changed it.
func TestAClosedFileIsNotInDoubt(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root may watch writers")
	}
	b := newBench(t)
	b.set("u", "0000")
	start := b.turn(func() {
		b.look(checkpoint.Work{Watch: true})
		commanded(t, filepath.Join(b.work.dir, "u"))()
		b.look(checkpoint.Work{Ran: true, Apart: true, Watch: true})
		b.set("u", "user")
		b.look(checkpoint.Work{Watch: true})
	})
	out := b.mustRestore(start.N)
	require.Equal(t, "u=user", b.files())
	require.Len(t, out.Kept, 1)
	require.NotEmpty(t, out.Kept[0].Why)
}

// A watch that goes on for a file in doubt gives way to that of another workspace.
func TestTheWatchIsThatOfTheWorkspace(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root may watch writers")
	}
	b := newBench(t)
	ran := checkpoint.Work{Ran: true, Apart: true, Watch: true}
	b.set("u", "0000")
	var closes func()
	b.turn(func() {
		b.look(checkpoint.Work{Watch: true})
		closes = mapped(t, filepath.Join(b.work.dir, "u"))
		b.look(ran)
	})
	b.work.dir = real(t, t.TempDir())
	b.set("u", "0000")
	start := b.turn(func() {
		b.look(checkpoint.Work{Watch: true})
		b.set("u", "user")
		b.look(ran)
	})
	b.mustRestore(start.N)
	require.Equal(t, "u=user", b.files())
	closes()
}

// What the kernel cannot tell, since this process has too many open files, stays.
func TestWhatTheKernelDropsStays(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root may watch writers")
	}
	const alone = "PYGENT_TEST_FEW_FILES"
	if os.Getenv(alone) == "" { // the limit is one of the whole process
		child := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
		child.Env = append(os.Environ(), alone+"=1")
		out, err := child.CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Contains(t, string(out), "--- PASS: "+t.Name())
		return
	}
	b := newBench(t)
	b.set("u", "0000")
	start := b.turn(func() {
		b.look(checkpoint.Work{Watch: true})
		writer := exec.Command("sh", "-c", `read go; printf user >"$1"; echo; read end`, "sh", filepath.Join(b.work.dir, "u"))
		in, err := writer.StdinPipe()
		require.NoError(t, err)
		out, err := writer.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, writer.Start())
		require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 64, Max: 64}))
		var open []*os.File
		for err == nil {
			var f *os.File
			if f, err = os.Open(os.DevNull); err == nil {
				open = append(open, f)
			}
		}
		_, err = in.Write([]byte("\n"))
		require.NoError(t, err)
		_, err = out.Read(make([]byte, 1))
		require.NoError(t, err)
		b.Hear()
		for _, f := range open {
			require.NoError(t, f.Close())
		}
		b.look(checkpoint.Work{Ran: true, Apart: true, Watch: true})
		require.NoError(t, in.Close())
		require.Error(t, writer.Wait(), "there was nothing to read")
	})
	b.mustRestore(start.N)
	require.Equal(t, "u=user", b.files())
}
