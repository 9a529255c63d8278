// Command guest is PID 1 of pygent's containers, and the child process that runs
// the commands of its local runtime. It speaks with the host on stdin and stdout, or by
// the socket whose path is its only argument. When that stream ends, it kills everything
// that it started and exits. Package guest is the other side.
package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/x/pygent/internal/guest/confine"
	"github.com/x/pygent/internal/guest/confine/enter"
	"github.com/x/pygent/internal/guest/server"
	"github.com/x/pygent/internal/guest/setid"
	"github.com/x/pygent/internal/guest/supervise"
	"github.com/x/pygent/internal/guest/wire"
)

// threads is how many threads the guest makes at its start; see
// [supervise.Threads]. There must be enough for everything that blocks a thread
// at the same time: file requests, starts of processes, and the scheduler itself.
const threads = 12

func main() {
	run := serve
	switch os.Args[0] {
	case supervise.WorkerName:
		run = supervise.Worker
	case confine.Keeper:
		run = keep
	case confine.Name:
		run = enter.Start
	case confine.TryName:
		run = enter.Try
	}
	if err := run(); err != nil {
		fmt.Fprintf(os.Stderr, "guest: %v\n", err)
		os.Exit(1)
	}
}

// keep runs a guest that is to be confined, and exits with the guest's status.
func keep() error {
	status, err := supervise.Keep(confine.Name)
	if err == nil && status != 0 {
		os.Exit(status) // the guest has already said why
	}
	return err
}

// serve serves the host until the stream to it ends.
func serve() error {
	supervise.Harden()
	runtime.GOMAXPROCS(min(runtime.GOMAXPROCS(0), 4))
	debug.SetMemoryLimit(64 << 20)
	if os.Getpid() == 1 && os.Args[0] != confine.Confined { // PID 1 of a container has no umask yet
		syscall.Umask(0o022)
	}
	supervise.Threads(threads)
	// Commands must not inherit the descriptors that the guest inherited.
	_ = unix.CloseRange(3, ^uint(0), unix.CLOSE_RANGE_CLOEXEC)
	stream, err := takeStream()
	if err != nil {
		return err
	}
	guard, unguarded := setid.Start()
	launch := func(start func()) { start() }
	if unguarded == nil {
		launch = guard.Do
	}
	supervisor, err := newSupervisor(launch)
	if err != nil {
		return err
	}
	s := server.New(supervisor, os.Environ())
	if unguarded != nil {
		s.SetidNote = unguarded.Error()
		return s.Serve(stream)
	}
	s.Setid = string(guard.Level())
	return errors.Join(s.Serve(stream), guard.Close())
}

// newSupervisor returns the best supervisor that this system allows.
func newSupervisor(launch supervise.Launcher) (supervise.Supervisor, error) {
	pool, err := supervise.NewPoolVia(launch)
	if errors.Is(err, supervise.ErrNoSubreaper) {
		fmt.Fprintf(os.Stderr, "guest: %v\n", err)
		return supervise.NewGroupsVia(launch), nil
	}
	return pool, err
}

// takeStream returns the stream to the host. If the host names a socket as the only
// argument, and this process can connect to it, that is the stream. Then stdin may end.
func takeStream() (io.ReadWriteCloser, error) {
	stdio, err := takeStdio()
	if err != nil || len(os.Args) != 2 {
		return stdio, err
	}
	password := make([]byte, wire.PasswordSize)
	_, _ = rand.Read(password) // never fails
	socket, err := connect(os.Args[1])
	if err == nil {
		_, err = socket.Write(password)
	}
	if err != nil { // it may be of another kernel, or be forbidden
		_, err = stdio.Write([]byte{wire.ByStdio})
		return stdio, err
	}
	_, err = stdio.Write(append([]byte{wire.BySocket}, password...))
	return socket, errors.Join(err, stdio.Close())
}

// connect connects to a socket.
func connect(path string) (*os.File, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	if err := unix.Connect(fd, &unix.SockaddrUnix{Name: path}); err != nil {
		return nil, errors.Join(os.NewSyscallError("connect", err), unix.Close(fd))
	}
	return os.NewFile(uintptr(fd), "socket"), nil
}

// stdio is the stream to the host by stdin and stdout.
type stdio struct {
	in, out  *os.File
	resizing sync.Mutex  // held while out changes its size
	shrink   atomic.Bool // out is wide for nothing; written under resizing
}

// takeStdio moves stdin and stdout to other descriptors, so that commands do not
// get them.
func takeStdio() (*stdio, error) {
	in, err := take(0, "stdin")
	if err != nil {
		return nil, err
	}
	out, err := take(1, "stdout")
	if err != nil {
		return nil, err
	}
	null, err := unix.Open(os.DevNull, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: os.DevNull, Err: err}
	}
	defer unix.Close(null)
	return &stdio{in: in, out: out}, errors.Join(unix.Dup3(null, 0, 0), unix.Dup3(null, 1, 0))
}

func take(fd int, name string) (*os.File, error) {
	moved, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 10)
	if err != nil {
		return nil, os.NewSyscallError("fcntl", err)
	}
	if err := unix.SetNonblock(moved, true); err != nil {
		return nil, os.NewSyscallError("fcntl", err)
	}
	return os.NewFile(uintptr(moved), name), nil
}

// Read implements io.Reader.
func (s *stdio) Read(p []byte) (int, error) { return s.in.Read(p) }

// Write implements io.Writer.
func (s *stdio) Write(p []byte) (int, error) {
	if s.shrink.Load() {
		s.narrowAgain()
	}
	return s.out.Write(p)
}

// Sizes of the pipe to the host, in bytes. The first is what the kernel gives every
// pipe, and the second the most that it gives to anybody.
const (
	narrow = 64 << 10
	wide   = 1 << 20
)

// Widen implements [server.Widener]. It does nothing where the output is no pipe, or the
// kernel gives no more.
func (s *stdio) Widen(on bool) {
	s.resizing.Lock()
	defer s.resizing.Unlock()
	if on {
		s.shrink.Store(false)
		s.resize(wide)
		return
	}
	s.shrink.Store(!s.resize(narrow))
}

// narrowAgain makes up for what Widen could not do.
func (s *stdio) narrowAgain() {
	s.resizing.Lock()
	defer s.resizing.Unlock()
	if s.shrink.Load() {
		s.shrink.Store(!s.resize(narrow))
	}
}

// resize changes the size of the pipe. It reports whether there is no need to try again:
// a pipe that has more in it than it would hold stays as it is.
func (s *stdio) resize(size int) bool {
	busy := false
	if raw, err := s.out.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) {
			_, err := unix.FcntlInt(fd, unix.F_SETPIPE_SZ, size)
			busy = errors.Is(err, unix.EBUSY)
		})
	}
	return !busy
}

// Close implements io.Closer.
func (s *stdio) Close() error { return errors.Join(s.in.Close(), s.out.Close()) }
