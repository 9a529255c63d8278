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
)

// exitPatience is how long a local guest may take to end what it started.
const exitPatience = 10 * time.Second

// StartLocal starts a guest as a child of this process and connects to it.
// The commands' environment is env alone, and config.Env. Closing the client
// waits until the guest has ended everything it started.
func StartLocal(ctx context.Context, env []string, config Config) (*Client, error) {
	conn, err := startChild(env)
	if err != nil {
		return nil, fmt.Errorf("start the guest: %w", err)
	}
	return Connect(ctx, conn, config)
}

// child is a guest as a child of this process, and its stream.
type child struct {
	net.Conn
	cmd    *exec.Cmd
	exited chan struct{} // closed when it has been waited for
	once   sync.Once
	err    error
}

func startChild(env []string) (*child, error) {
	program, err := program()
	if err != nil {
		return nil, err
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socketpair", err)
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "guest"), os.NewFile(uintptr(pair[1]), "guest")
	defer ours.Close()
	defer theirs.Close()
	conn, err := net.FileConn(ours)
	if err != nil {
		return nil, err
	}
	if env == nil {
		env = []string{}
	}
	c := &child{Conn: conn, exited: make(chan struct{}), cmd: &exec.Cmd{
		Path: program, Args: []string{"pygent-guest"}, Env: env,
		Stdin: theirs, Stdout: theirs,
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}}
	if err := c.cmd.Start(); err != nil {
		_ = conn.Close()
		return nil, err
	}
	go func() {
		defer close(c.exited)
		_ = c.cmd.Wait()
	}()
	return c, nil
}

// Close closes the stream, upon which the guest ends, and waits for that.
func (c *child) Close() error {
	c.once.Do(func() {
		c.err = c.Conn.Close()
		timer := time.NewTimer(exitPatience)
		defer timer.Stop()
		select {
		case <-c.exited:
		case <-timer.C:
			c.err = errors.Join(c.err, errors.New("the guest did not end and was killed"), c.cmd.Process.Kill())
			<-c.exited
		}
	})
	return c.err
}

// program returns a path by which children of this process can execute the
// guest. It is unpacked once, into memory, where no file of it stays behind.
var program = sync.OnceValues(func() (string, error) {
	b, err := binary.Bytes(runtime.GOARCH)
	if err != nil {
		return "", err
	}
	fd, err := unix.MemfdCreate("pygent-guest", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return "", os.NewSyscallError("memfd_create", err)
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
