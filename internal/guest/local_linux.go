package guest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/x/pygent/internal/guest/binary"
	"github.com/x/pygent/internal/guest/confine"
	"github.com/x/pygent/internal/guest/supervise"
	"github.com/x/pygent/internal/guest/wire"
)

const (
	// exitPatience is how long a local guest may take to end everything that it
	// started.
	exitPatience = 10 * time.Second
	// killPatience is how long we keep trying to kill it.
	killPatience = 2 * time.Second
)

// StartLocal starts a guest as a child of this process and connects to it. The
// environment of its commands is env and config.Env, and nothing else. Closing
// the client waits until the guest has ended everything that it started.
//
// With config.Confine, either the guest and its commands are confined, or
// StartLocal fails.
//
// If the system cannot run the guest's program, for example under a user-mode
// emulator or on another processor, the guest runs inside this process, and
// [Info] says why.
func StartLocal(ctx context.Context, env []string, config Config) (*Client, error) {
	client, err := startOutside(ctx, env, config)
	if !errors.Is(err, errUnable) || config.Confine != nil || ctx.Err() != nil {
		return client, err
	}
	client, inside := startInside(ctx, env, config)
	if inside != nil {
		return nil, errors.Join(err, inside)
	}
	client.info.Limits = err.Error() + "; its commands run in process groups, which a process can leave"
	return client, nil
}

// errUnable means that this machine cannot run the guest's program.
var errUnable = errors.New("the guest cannot run here as a process of its own")

func startOutside(ctx context.Context, env []string, config Config) (*Client, error) {
	conn, err := startChild(env, config.Confine)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", startError(err), err)
	}
	client, err := connectChild(ctx, conn, config)
	if err == nil {
		return client, nil
	}
	if words := conn.Stderr(); words != "" {
		err = fmt.Errorf("%w; it said: %s", err, words)
	}
	if conn.endedByItself() {
		err = fmt.Errorf("%w: %w", errUnable, err)
	}
	return nil, err
}

// connectChild sends a child its policy, if it is to confine itself, and connects
// to it.
func connectChild(ctx context.Context, conn *child, config Config) (*Client, error) {
	if config.Confine != nil {
		if err := wire.WriteFrame(conn, wire.KindConfine, config.Confine); err != nil {
			return nil, errors.Join(fmt.Errorf("%w: %w", ErrClosed, err), conn.Close()) // it died
		}
	}
	return Connect(ctx, conn, config)
}

// errStart marks an error that another attempt may not meet.
var errStart = errors.New("start the guest")

// startError tells lasting errors of this machine from temporary ones.
func startError(err error) error {
	for _, errno := range []error{unix.ENOEXEC, unix.ENOENT, unix.ENOSYS, unix.EACCES, unix.EPERM, unix.EINVAL, binary.ErrPlatform} {
		if errors.Is(err, errno) {
			return errUnable
		}
	}
	return errStart
}

// child is a guest that runs as a child of this process, with its stream.
type child struct {
	net.Conn
	cmd    *exec.Cmd
	words  *lastWords    // of the guest
	exited chan struct{} // closed when the guest and its supervisors have ended
	waited error         // written before exited is closed
	failed bool          // the guest ended with an error; written before exited is closed
	once   sync.Once
	err    error
}

func startChild(env []string, policy *confine.Policy) (*child, error) {
	program, err := program()
	if err != nil {
		return nil, err
	}
	conn, theirs, err := connectedPair()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	if env == nil {
		env = []string{}
	}
	c := &child{Conn: conn, words: &lastWords{}, exited: make(chan struct{})}
	c.cmd = &exec.Cmd{
		Path: program, Args: []string{confine.Confined}, Env: env,
		// The supervisors inherit stderr, the commands do not. So stderr ends
		// when no process is left that could still kill the processes of a
		// command.
		Stdin: theirs, Stdout: theirs, Stderr: c.words,
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
		WaitDelay:   exitPatience,
	}
	if policy != nil {
		c.cmd.Args[0] = confinedName(policy.Level)
		c.cmd.SysProcAttr = confinedAttr(policy.Level)
	}
	pidfd := -1 // and stays so where the kernel has none
	c.cmd.SysProcAttr.PidFD = &pidfd
	if err := c.cmd.Start(); err != nil {
		_ = conn.Close()
		return nil, err
	}
	go func() {
		defer close(c.exited)
		awaitEnd(pidfd)
		err := c.cmd.Wait()
		if errors.Is(err, exec.ErrWaitDelay) {
			c.waited = errSupervisors
		}
		c.failed = c.cmd.ProcessState.ExitCode() > 0
	}()
	return c, nil
}

// awaitEnd waits until the process of a pidfd has ended, and closes the pidfd. Unlike
// Wait it blocks no thread, which with its stacks costs more than all else that an
// idle guest costs this process, and which Go never ends. It returns at once where the
// kernel does not support that.
func awaitEnd(pidfd int) {
	if pidfd < 0 {
		return
	}
	_ = unix.SetNonblock(pidfd, true) // otherwise Go does not poll it
	f := os.NewFile(uintptr(pidfd), "pidfd")
	defer f.Close()
	raw, err := f.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Read(func(fd uintptr) (ended bool) {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
		return n > 0 || err != nil && err != unix.EINTR
	})
}

// connectedPair returns the two ends of a connection: ours, and the one that a
// child inherits.
func connectedPair() (net.Conn, *os.File, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "guest"), os.NewFile(uintptr(pair[1]), "guest")
	defer ours.Close()
	conn, err := net.FileConn(ours)
	if err != nil {
		return nil, nil, errors.Join(err, theirs.Close())
	}
	return conn, theirs, nil
}

// errSupervisors means that the guest has ended, but its commands may still run.
var errSupervisors = fmt.Errorf("%w: the guest has ended, but not what supervises its commands", ErrLeft)

// Close closes the stream, which makes the guest end. It waits until the guest
// and everything that it ran have ended.
func (c *child) Close() error {
	c.once.Do(func() {
		c.err = c.Conn.Close()
		timer := time.NewTimer(exitPatience)
		defer timer.Stop()
		select {
		case <-c.exited:
		case <-timer.C:
			c.err = errors.Join(c.err, errors.New("the guest did not end and was killed"), c.Kill())
			<-c.exited
		}
		c.err = errors.Join(c.err, c.waited)
	})
	return c.err
}

// Stderr returns the end of what the guest wrote to stderr.
func (c *child) Stderr() string { return c.words.String() }

// endedByItself reports whether the guest had already ended with an error of its
// own when it was closed.
func (c *child) endedByItself() bool {
	<-c.exited
	return c.failed
}

// Kill kills a guest that does not answer, with everything that it runs. The
// supervisors are killed first, because they may have been stopped as well.
func (c *child) Kill() error {
	select {
	case <-c.exited:
		return nil
	default:
	}
	var err error
	if left := supervise.KillTree(c.cmd.Process.Pid, killPatience); left > 0 {
		err = fmt.Errorf("%w: %d of them could not be killed", ErrLeft, left)
	}
	return errors.Join(err, c.cmd.Process.Kill())
}

// program returns a path by which children of this process can execute the guest: an
// anonymous file in memory, which nobody can change. The user's cache keeps what was
// unpacked into it for the next process.
var program = sync.OnceValues(func() (string, error) {
	cache, _ := binary.CacheDir() // without one it is unpacked
	b, err := binary.Read(cache, runtime.GOARCH)
	if err != nil {
		return "", err
	}
	const flags = unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	// Without MFD_EXEC, the setting vm.memfd_noexec may make the file
	// non-executable. Kernels before 6.3 do not know this flag.
	fd, err := unix.MemfdCreate("pygent-guest", flags|unix.MFD_EXEC)
	if errors.Is(err, unix.EINVAL) {
		fd, err = unix.MemfdCreate("pygent-guest", flags)
	}
	if err != nil {
		return programFile(os.NewSyscallError("memfd_create", err))
	}
	if err := unix.Fchmod(fd, 0o755); err != nil {
		return "", errors.Join(os.NewSyscallError("fchmod", err), unix.Close(fd))
	}
	for len(b) > 0 {
		n, err := unix.Write(fd, b)
		if err != nil {
			return "", errors.Join(os.NewSyscallError("write", err), unix.Close(fd))
		}
		b = b[n:]
	}
	const seals = unix.F_SEAL_WRITE | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, seals); err != nil {
		return "", errors.Join(os.NewSyscallError("fcntl", err), unix.Close(fd))
	}
	return fmt.Sprintf("/proc/self/fd/%d", fd), nil
})

// programFile returns the guest in the user's cache directory, for systems without
// anonymous files. The descriptor is the one through which the content was
// compared.
func programFile(why error) (string, error) {
	dir, err := binary.CacheDir()
	if err != nil {
		return "", errors.Join(why, err)
	}
	f, err := binary.Open(dir, runtime.GOARCH)
	if err != nil {
		return "", errors.Join(why, err)
	}
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0) // stays open as long as this process lives
	if err = errors.Join(os.NewSyscallError("fcntl", err), f.Close()); err != nil {
		return "", errors.Join(why, err)
	}
	return fmt.Sprintf("/proc/self/fd/%d", fd), nil
}
