//go:build unix

package server

import (
	"bytes"
	"io"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/x/pygent/internal/guest/wire"
)

// unreadOutput returns a job whose shell has written to a pipe that another process
// keeps open, and the end of the pipe to read. The time for that has passed before
// anything is read, as on a machine that is busy.
func unreadOutput(t *testing.T, text []byte) (j *job, read *os.File) {
	t.Helper()
	read, write, err := os.Pipe()
	require.NoError(t, err)
	t.Cleanup(func() { _ = write.Close() })
	_, err = write.Write(text)
	require.NoError(t, err)
	require.NoError(t, read.SetReadDeadline(time.Unix(1, 0)))
	return newJob(&fakeProcess{ended: make(chan struct{})}, newCapture(len(text), 0, nil), &wire.Run{}), read
}

func TestOutputOfWhatEndedIsReadHoweverLate(t *testing.T) {
	text := bytes.Repeat([]byte("0123456789abcdef"), 4000)
	j, read := unreadOutput(t, text)
	s := newJobs()
	s.watch(j, read)
	<-j.drained
	j.proc.Stop(0)
	j.settle()
	require.Equal(t, int64(len(text)), j.output.size())
	s.readers.Wait()
	_, err := read.Write(nil)
	require.ErrorIs(t, err, os.ErrClosed)
}

// A process in the background can open the pipe as a file, and read from it.
func TestNobodyWaitsForOutputThatAnotherProcessHasRead(t *testing.T) {
	j, read := unreadOutput(t, bytes.Repeat([]byte("0123456789abcdef"), 100))
	require.NoError(t, read.SetReadDeadline(time.Time{}))
	j.pipe = read
	written := pending(read)
	require.EqualValues(t, 1600, written)
	_, err := read.Read(make([]byte, 800))
	require.NoError(t, err)
	_, err = io.CopyN(j.output, read, 800)
	require.NoError(t, err)
	j.awaitWritten(written)
	require.NoError(t, read.Close())
}

// Processes that the shell has left need not end, nor be quiet.
func TestOutputOfAShellThatHasEndedIsWaitedFor(t *testing.T) {
	j, read := unreadOutput(t, bytes.Repeat([]byte("0123456789abcdef"), 100))
	require.NoError(t, read.SetReadDeadline(time.Time{}))
	j.pipe = read
	written := pending(read)
	go func() { _, _ = io.CopyN(j.output, read, written) }()
	j.awaitWritten(written)
	require.Equal(t, written, j.output.size())
	require.NoError(t, read.Close())
}

// gated is a place for output that takes it when it may.
type gated struct {
	io.Writer
	came, may chan struct{}
}

func (g gated) Write(p []byte) (int, error) {
	close(g.came)
	<-g.may
	return g.Writer.Write(p)
}

// On a busy machine a reader may have to wait between the two.
func TestOutputThatIsReadAndNotYetKeptIsNotOverlooked(t *testing.T) {
	j, read := unreadOutput(t, []byte("the end"))
	require.NoError(t, read.SetReadDeadline(time.Time{}))
	j.pipe = read
	slow := gated{j.output, make(chan struct{}), make(chan struct{})}
	taken := make(chan error, 1)
	go func() {
		_, err := take(read, &j.taking, make([]byte, 100), slow)
		taken <- err
	}()
	<-slow.came
	require.Zero(t, pending(read))
	require.False(t, j.taking.TryLock())
	close(slow.may)
	kept, waiting := j.soFar()
	require.EqualValues(t, len("the end"), kept+waiting)
	require.NoError(t, <-taken)
	require.NoError(t, read.Close())
}

// Where a deadline can end the reading, all that is there is read first, however busy the
// machine is. Where none can, nobody waits for a process that holds the pipe.
func TestOutputIsGivenUpOnlyWhereNoDeadlineEndsIt(t *testing.T) {
	read, write, err := os.Pipe()
	require.NoError(t, err)
	_, err = write.WriteString("the end")
	require.NoError(t, err)
	j, s := newJob(&fakeProcess{ended: make(chan struct{})}, newCapture(10, 10, nil), &wire.Run{}), newJobs()
	j.taking.Lock() // nothing can be read
	s.watch(j, read)
	j.proc.Stop(0)
	time.Sleep(2 * goneLimit) // it would be given up until then
	require.False(t, isClosed(j.late))
	j.taking.Unlock()
	j.awaitOutput()
	require.EqualValues(t, len("the end"), j.output.size())
	require.NoError(t, write.Close())

	var ends [2]int
	require.NoError(t, unix.Pipe(ends[:]))
	read, write = os.NewFile(uintptr(ends[0]), "read"), os.NewFile(uintptr(ends[1]), "write")
	j = newJob(&fakeProcess{ended: make(chan struct{})}, newCapture(10, 10, nil), &wire.Run{})
	s.watch(j, read)
	j.proc.Stop(0)
	j.awaitOutput()
	require.True(t, isClosed(j.late))
	require.False(t, isClosed(j.drained))
	require.NoError(t, write.Close())
	s.wait()
}
