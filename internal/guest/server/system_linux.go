package server

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// outputPipe returns a pipe whose writing end is for a command.
func outputPipe() (read, write *os.File, err error) { return pipeTo(0) }

// inputPipe returns a pipe whose reading end is for a command.
func inputPipe() (read, write *os.File, err error) { return pipeTo(1) }

// pipeTo returns a pipe. The end at index ours is non-blocking and uses the
// runtime's poller. The other one blocks, as programs expect of their streams.
func pipeTo(ours int) (read, write *os.File, err error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return nil, nil, os.NewSyscallError("pipe2", err)
	}
	if err := unix.SetNonblock(fds[ours], true); err != nil {
		unix.Close(fds[0])
		unix.Close(fds[1])
		return nil, nil, os.NewSyscallError("fcntl", err)
	}
	return os.NewFile(uintptr(fds[0]), "pipe"), os.NewFile(uintptr(fds[1]), "pipe"), nil
}

// scriptFile returns an anonymous file in memory that holds the script, and the
// path under which the command finds the file as its descriptor 3. The script
// closes that descriptor first. If the system has no such files, scriptFile
// makes a file on disk.
func scriptFile(script []byte) (*os.File, string, error) {
	fd, err := unix.MemfdCreate("script", unix.MFD_CLOEXEC)
	if err != nil {
		path, err := tempScript(script)
		return nil, path, err
	}
	file := os.NewFile(uintptr(fd), "script")
	if _, err = fmt.Fprintf(file, "exec 3<&-; %s\n", script); err != nil {
		_ = file.Close()
		return nil, "", err
	}
	return file, "/proc/self/fd/3", nil
}
