package supervise_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/x/pygent/internal/guest/supervise"
)

// actAsWorker makes the test's program run as a supervisor. The pool reaps all
// children, so the tests of this package start processes only through it.
func actAsWorker() {
	if os.Args[0] == supervise.WorkerName {
		switch nice, _ := unix.Getpriority(unix.PRIO_PROCESS, 0); nice {
		case stillborn:
			os.Exit(1)
		case stopped:
			_ = unix.Kill(os.Getpid(), unix.SIGSTOP)
		}
		if err := supervise.Worker(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
}

// leaderless is the name under which the test's program is a process whose first thread
// has ended, while another one runs.
const leaderless = "leaderless"

func init() {
	if os.Args[0] != leaderless {
		return
	}
	first := os.Getpid()
	go func() {
		for stateOf(first) != "Z" {
			time.Sleep(time.Millisecond)
		}
		fmt.Println(first)
	}()
	_, _, _ = unix.Syscall(unix.SYS_EXIT, 0, 0, 0) // init functions run on the first thread
}

// Priorities of supervisors that end at their start, or are stopped there, as the
// kernel returns them: 20 less the nice value.
const (
	stillborn = 20 - 7
	stopped   = 20 - 8
)

func newPool(t *testing.T) *supervise.Pool {
	t.Helper()
	p, err := supervise.NewPool()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p
}

// start starts a script and returns the pipe with its output.
func start(t *testing.T, s supervise.Supervisor, script string) (supervise.Process, *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	t.Cleanup(func() { _ = r.Close() })
	p, err := s.Start(supervise.Spec{
		Path: "/bin/sh", Args: []string{"sh", "-c", script}, Env: os.Environ(), Dir: t.TempDir(), Output: w, Confirm: true,
	})
	require.NoError(t, w.Close())
	require.NoError(t, err)
	return p, r
}

func TestPoolTellsHowCommandsEnd(t *testing.T) {
	pool := newPool(t)
	for script, want := range map[string]supervise.Exit{
		"true":       {},
		"exit 9":     {Code: 9},
		"kill -9 $$": {Code: 137, Signal: 9},
	} {
		p, r := start(t, pool, script)
		<-p.Exited()
		require.Equal(t, want, p.Exit())
		<-p.Gone()
		_, err := io.ReadAll(r)
		require.NoError(t, err)
	}
}

func TestPoolUsesSupervisorsAgain(t *testing.T) {
	pool := newPool(t)
	parents := map[string]bool{}
	for range 20 {
		p, r := start(t, pool, "echo $PPID")
		b, err := io.ReadAll(r)
		require.NoError(t, err)
		<-p.Gone()
		parents[string(b)] = true
	}
	require.Len(t, parents, 1)
}

// newHeldPool returns a pool with one supervisor. The start of each further one is
// told on the first channel, and waits for the second.
func newHeldPool(t *testing.T) (pool *supervise.Pool, asked <-chan struct{}, allow chan<- struct{}) {
	t.Helper()
	asks, allows := make(chan struct{}), make(chan struct{})
	first := true
	pool, err := supervise.NewPoolVia(func(fork func()) {
		if !first {
			asks <- struct{}{}
			<-allows
		}
		first = false
		fork()
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, pool.Close()) })
	return pool, asks, allows
}

// started is what Start returned.
type started struct {
	process supervise.Process
	err     error
}

// startLater starts a script that prints the id of its supervisor.
func startLater(t *testing.T, s supervise.Supervisor) (output *os.File, result <-chan started) {
	t.Helper()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	t.Cleanup(func() { _ = r.Close() })
	results := make(chan started, 1)
	go func() {
		defer w.Close()
		p, err := s.Start(supervise.Spec{
			Path: "/bin/sh", Args: []string{"sh", "-c", "echo $PPID"}, Dir: "/", Output: w, Confirm: true,
		})
		results <- started{p, err}
	}()
	return r, results
}

func TestWaitingCommandTakesTheFirstFreeSupervisor(t *testing.T) {
	pool, asked, allow := newHeldPool(t)
	first, output := start(t, pool, "echo $PPID; sleep 600")
	parent := pidsOf(t, output)
	output, result := startLater(t, pool)
	<-asked
	first.Stop(0)
	second := <-result
	require.NoError(t, second.err)
	require.Equal(t, parent, pidsOf(t, output))
	allow <- struct{}{}
}

func TestCloseLeavesNobodyWaiting(t *testing.T) {
	pool, asked, allow := newHeldPool(t)
	start(t, pool, "sleep 600")
	_, result := startLater(t, pool)
	<-asked
	closed := make(chan error)
	go func() { closed <- pool.Close() }()
	allow <- struct{}{}
	require.NoError(t, <-closed)
	requireEnded(t, <-result)
}

// requireEnded checks what was started while its pool was closed.
func requireEnded(t *testing.T, late started) {
	t.Helper()
	if late.err == nil { // it was faster than Close
		<-late.process.Gone()
		return
	}
	require.ErrorIs(t, late.err, supervise.ErrClosed)
}

func TestAStartThatCloseInterruptsSaysSo(t *testing.T) {
	for range 5 {
		pool, err := supervise.NewPool()
		require.NoError(t, err)
		p, _ := start(t, pool, "true") // so that a supervisor is ready
		<-p.Gone()
		_, result := startLater(t, pool)
		require.NoError(t, pool.Close())
		requireEnded(t, <-result)
	}
}

// newMarkedPool returns a pool with one supervisor. The channel has the priorities of
// those that are started later; when it is empty, they are as usual.
func newMarkedPool(t *testing.T) (pool *supervise.Pool, priorities chan<- int) {
	t.Helper()
	marks := make(chan int, 10)
	pool, err := supervise.NewPoolVia(func(fork func()) {
		select {
		case priority := <-marks:
			forkAs(priority, fork)
		default:
			fork()
		}
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, pool.Close()) })
	return pool, marks
}

// forkAs calls fork on a thread with a priority.
func forkAs(priority int, fork func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // the thread ends with the goroutine
		_ = unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), 20-priority)
		fork()
	}()
	<-done
}

func TestStartTellsThatNoSupervisorStarts(t *testing.T) {
	pool, priorities := newMarkedPool(t)
	first, _ := start(t, pool, "sleep 600")
	priorities <- stillborn
	priorities <- stillborn
	_, result := startLater(t, pool)
	require.ErrorIs(t, (<-result).err, syscall.EAGAIN)
	first.Stop(0)
	<-first.Gone()
	next, _ := start(t, pool, "exit 4")
	<-next.Gone()
	require.Equal(t, 4, next.Exit().Code)
}

func TestSupervisorThatDoesNotBecomeReadyIsReplaced(t *testing.T) {
	for name, priority := range map[string]int{"ended": stillborn, "stopped": stopped} {
		t.Run(name, func(t *testing.T) {
			pool, priorities := newMarkedPool(t)
			start(t, pool, "sleep 600")
			priorities <- priority
			second, _ := start(t, pool, "exit 4")
			<-second.Gone()
			require.Equal(t, 4, second.Exit().Code)
		})
	}
}

func TestPoolKeepsWhatIsLeftBehind(t *testing.T) {
	pool := newPool(t)
	p, r := start(t, pool, "setsid sleep 600 >/dev/null 2>&1 & echo $!")
	<-p.Exited()
	b, err := io.ReadAll(r)
	require.NoError(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		procs, count := p.Procs(10)
		return count == 1 && procs[0] == supervise.Proc{PID: pid, Name: "sleep"}
	}, 10*time.Second, time.Millisecond)
	// The next command has a supervisor of its own. Its end does not affect the
	// processes that were left behind.
	other, _ := start(t, pool, "true")
	<-other.Gone()
	require.NoError(t, syscall.Kill(pid, 0))
	p.Stop(0)
	<-p.Gone()
	require.ErrorIs(t, syscall.Kill(pid, 0), syscall.ESRCH)
}

func TestStopShortensItsGrace(t *testing.T) {
	pool := newPool(t)
	p, r := start(t, pool, "trap '' TERM; echo ready; while :; do sleep 1; done")
	_, err := io.ReadFull(r, make([]byte, 6))
	require.NoError(t, err)
	p.Stop(time.Hour)
	p.Stop(time.Millisecond)
	<-p.Gone()
	require.Equal(t, 9, p.Exit().Signal)
}

func TestStoppedSupervisorIsGivenUp(t *testing.T) {
	pool := newPool(t)
	p, r := start(t, pool, "sleep 600 & kill -STOP $PPID; echo $!; sleep 600")
	b := make([]byte, 32)
	n, err := r.Read(b)
	require.NoError(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(b[:n])))
	require.NoError(t, err)
	p.Stop(10 * time.Millisecond)
	<-p.Gone()
	require.Eventually(t, func() bool { return syscall.Kill(pid, 0) == syscall.ESRCH }, 10*time.Second, time.Millisecond)
}

// pidsOf reads process ids from the first line of a command's output.
func pidsOf(t *testing.T, r io.Reader) (pids []int) {
	t.Helper()
	line, err := bufio.NewReader(r).ReadString('\n')
	require.NoError(t, err)
	for _, field := range strings.Fields(line) {
		pid, err := strconv.Atoi(field)
		require.NoError(t, err)
		pids = append(pids, pid)
	}
	return pids
}

// TestStoppedSupervisorsTreeIsKilled checks that at the moment when the tree is
// dead the supervisor is still alive: it was stopped and has not done the
// killing, and it was not killed either.
func TestStoppedSupervisorsTreeIsKilled(t *testing.T) {
	pool := newPool(t)
	p, r := start(t, pool, "setsid sleep 600 >/dev/null 2>&1 & echo $! $PPID; kill -STOP $PPID; trap '' TERM; sleep 600")
	pids := pidsOf(t, r)
	awaitState(t, pids[1], "T")
	p.Stop(0)
	awaitState(t, pids[0], "Z", "") // gone if its parent, which is killed as well, took it along
	require.Equal(t, "T", stateOf(pids[1]))
	<-p.Gone()
}

// A process is a zombie for /proc as soon as its first thread has ended.
func TestProcessWithoutItsFirstThreadIsAlive(t *testing.T) {
	pool := newPool(t)
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer r.Close()
	p, err := pool.Start(supervise.Spec{Path: "/proc/self/exe", Args: []string{leaderless}, Env: os.Environ(), Dir: "/", Output: w})
	require.NoError(t, w.Close())
	require.NoError(t, err)
	pid := pidsOf(t, r)[0]
	procs, count := p.Procs(2)
	require.Equal(t, 1, count)
	require.Equal(t, pid, procs[0].PID)
	p.Stop(0)
	<-p.Gone()
}

// TestCloseKillsDescendantsOfStoppedSupervisors stops several supervisors, so
// that they do not notice that their sockets were closed.
func TestCloseKillsDescendantsOfStoppedSupervisors(t *testing.T) {
	pool, err := supervise.NewPool()
	require.NoError(t, err)
	var commands []supervise.Process
	var pids []int
	for range 2 {
		p, r := start(t, pool, "setsid sleep 600 >/dev/null 2>&1 & echo $! $PPID; kill -STOP $PPID; sleep 600")
		found := pidsOf(t, r)
		awaitState(t, found[1], "T")
		commands, pids = append(commands, p), append(pids, found[0])
	}
	require.NoError(t, pool.Close())
	for i, p := range commands {
		<-p.Gone()
		require.ErrorIs(t, syscall.Kill(pids[i], 0), syscall.ESRCH)
	}
}

// stateOf returns the state of a process as /proc shows it.
func stateOf(pid int) string {
	stat, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	_, rest, _ := strings.Cut(string(stat), ") ")
	state, _, _ := strings.Cut(rest, " ")
	return state
}

func awaitState(t *testing.T, pid int, want ...string) {
	t.Helper()
	require.Eventually(t, func() bool { return slices.Contains(want, stateOf(pid)) }, 10*time.Second, time.Millisecond)
}

func TestKilledSupervisorLeavesNothing(t *testing.T) {
	pool := newPool(t)
	p, r := start(t, pool, "(setsid sleep 600 & echo $!) ; sleep 0.05; kill -9 $PPID; sleep 600")
	b := make([]byte, 32)
	n, err := r.Read(b)
	require.NoError(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(b[:n])))
	require.NoError(t, err)
	<-p.Gone()
	require.Equal(t, 9, p.Exit().Signal)
	require.Eventually(t, func() bool { return syscall.Kill(pid, 0) == syscall.ESRCH }, 10*time.Second, time.Millisecond)
	next, _ := start(t, pool, "exit 4")
	<-next.Exited()
	require.Equal(t, 4, next.Exit().Code)
}

func TestStartTellsWhyNot(t *testing.T) {
	pool := newPool(t)
	_, w, err := os.Pipe()
	require.NoError(t, err)
	defer w.Close()
	spec := supervise.Spec{Path: "/no/such/shell", Args: []string{"x"}, Output: w, Dir: "/", Confirm: true}
	_, err = pool.Start(spec)
	require.ErrorIs(t, err, os.ErrNotExist)
	spec.Confirm = false
	p, err := pool.Start(spec)
	require.NoError(t, err)
	<-p.Gone()
	require.ErrorIs(t, p.Exit().Err, os.ErrNotExist)
	require.Equal(t, -1, p.Exit().Code)
}

func TestClosedPoolStartsNothing(t *testing.T) {
	pool, err := supervise.NewPool()
	require.NoError(t, err)
	p, _ := start(t, pool, "setsid sleep 600 & sleep 600")
	require.NoError(t, pool.Close())
	<-p.Gone()
	_, err = pool.Start(supervise.Spec{Path: "/bin/sh", Output: os.Stdout})
	require.ErrorIs(t, err, supervise.ErrClosed)
}
