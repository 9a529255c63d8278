package docker

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/pkg/stdcopy"

	"github.com/x/pygent/internal/guest"
	"github.com/x/pygent/internal/sandbox"
)

// stdinScript runs the script on its standard input. The script is not passed as
// an argument, because arguments are limited to 128 KiB. The script itself reads
// /dev/null. The space keeps eval from taking a leading dash for an option.
const stdinScript = `eval " $(cat)" </dev/null`

// execScript runs the script on its standard input, between two lines that
// tell its process and its status. They begin with a secret mark, in place of
// the %[1]s, and share the pipe with the output: so nothing is out of order,
// and the end is seen although a process left behind holds the pipe. The
// engine makes the shell the leader of a session. The variables are those that a
// guest sets too, unless the image or the user does.
const execScript = `export PYTHONUNBUFFERED="${PYTHONUNBUFFERED-1}" LANG="${LANG-C.UTF-8}"
echo "%[1]s $$"; ( ` + stdinScript + ` ) 2>&1; echo "%[1]s $?"`

// killScript ends a session, and what descends from its members, first with
// TERM and after a grace with KILL. It needs nothing but a shell and sleep.
const killScript = `
all=" $1 "
# signal sends $1 to the living members of all, after adding to it whose parent or session is in it:
# parents first, or a shell would say that a command of its own was terminated.
signal() {
	found=1 by=parent
	while :; do
		grew=0
		for p in /proc/[0-9]*; do
			read -r stat <"$p/stat" || continue
			p=${p#/proc/}
			set -- "$1" ${stat##*) }
			case $2 in Z|X) continue;; esac
			case "$all" in *" $p "*) continue;; esac
			[ $by = parent ] || set -- "$1" "$2" "$5"
			case "$all" in *" $3 "*) all="$all$p " grew=1;; esac
		done
		case $by$grew in *1) by=parent;; parent0) by=session;; *) break;; esac
	done
	for p in $all; do
		read -r stat <"/proc/$p/stat" || continue
		set -- "$1" ${stat##*) }
		case $2 in Z|X) continue;; esac
		kill -"$1" "$p" && found=0
	done
	return $found
}
exec 2>/dev/null
signal TERM
i=0
while [ $i -lt 10 ] && signal 0; do i=$((i+1)); sleep 0.05; done
while [ $i -lt 30 ] && signal KILL; do i=$((i+1)); sleep 0.05; done
`

// leftoverGrace is how long output is still read when the shell has ended but a
// process that it left behind holds the pipe.
const leftoverGrace = 100 * time.Millisecond

// execCommander runs commands through the engine's exec. It works in every
// image with a shell; what it cannot do is find processes that left both the
// session and the ancestry of their command.
type execCommander struct{ box *Container }

func (e *execCommander) Shell(context.Context) string { return path.Base(e.box.shell) }

func (e *execCommander) Guest(context.Context) (*guest.Client, error) { return nil, sandbox.ErrNoGuest }

func (e *execCommander) Close() error { return nil }

func (e *execCommander) Run(ctx context.Context, spec sandbox.Command) (sandbox.Result, error) {
	mark := rand.Text()
	begun := time.Now()
	call, err := e.start(ctx, spec, mark)
	if errors.Is(err, errEngineLate) && !errors.Is(err, sandbox.ErrNotReady) {
		res := spec.Unanswered(begun)
		res.Note = e.box.abandon(guest.ErrUnresponsive, minEndTime)
		return res, nil
	}
	if err != nil {
		return sandbox.Result{ExitCode: -1}, err
	}
	defer call.conn.Close()
	limited, cancel := spec.Deadline(ctx)
	defer cancel()
	select {
	case <-call.ended:
		res := sandbox.Result{Duration: time.Since(begun)}
		return res, e.settle(spec, call, &res)
	case <-limited.Done():
	}
	ended := e.stop(call)
	res := sandbox.Result{Duration: time.Since(begun), ExitCode: call.stream.status}
	call.stream.out.into(&res)
	if !ended {
		res.Note = e.box.abandon(guest.ErrUnresponsive, minEndTime)
	}
	return res, stopped(limited, &res)
}

// answerTime is how long an engine may take to start a command, and to run the
// script that ends it.
func (e *execCommander) answerTime() time.Duration {
	return sandbox.KillGrace + cmp.Or(e.box.spec.pace.Patience, guest.DefaultPatience)
}

// execCall is a command that runs. Its stream may be read when ended is closed.
type execCall struct {
	id     string
	conn   types.HijackedResponse
	stream *execStream
	ended  chan struct{}
}

func (e *execCommander) start(ctx context.Context, spec sandbox.Command, mark string) (*execCall, error) {
	limit := engineTimeout
	if spec.Timeout >= 0 {
		limit = spec.Timeout + e.answerTime()
	}
	id, conn, err := attachExec(ctx, e.box, limit, container.ExecOptions{
		AttachStdin:  true,
		AttachStdout: true,
		AttachStderr: true,
		Env:          spec.Env,
		WorkingDir:   path.Join(e.box.spec.config.WorkingDir, spec.Dir),
		Cmd:          []string{e.box.shell, "-c", fmt.Sprintf(execScript, mark)},
	})
	if err != nil {
		return nil, err
	}
	out := newBoundedOutput(spec.MaxOutput)
	out.live = spec.Live
	call := &execCall{id: id, conn: conn, stream: newExecStream(mark, out), ended: make(chan struct{})}
	go func() {
		defer close(call.ended)
		// A shell that does not read its script has ended, and said why.
		if _, err := io.WriteString(conn.Conn, spec.Script); err == nil {
			_ = conn.CloseWrite()
		}
		_, _ = stdcopy.StdCopy(call.stream, call.stream, conn.Reader)
		call.stream.finish()
	}()
	return call, nil
}

// settle completes the result of a command that ended by itself.
func (e *execCommander) settle(spec sandbox.Command, call *execCall, res *sandbox.Result) error {
	s := call.stream
	s.out.into(res)
	res.ExitCode = s.status
	if s.state != streamEnded {
		return e.explain(spec, call, res)
	}
	if res.ExitCode == 128+9 {
		res.Note = e.box.killedNote()
	}
	return nil
}

// explain finds out why a command's output ended without a status: the shell
// could not be started, was killed, or died with the container.
func (e *execCommander) explain(spec sandbox.Command, call *execCall, res *sandbox.Result) error {
	// The streams of commands end a moment before the container's own does.
	select {
	case <-e.box.gone:
	case <-time.After(sandbox.KillGrace):
	}
	wait := endTime(spec, time.Now().Add(-res.Duration))
	if e.box.isGone() {
		res.Note = e.box.abandon(errContainerGone, wait)
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), minEndTime)
	defer cancel()
	info, err := e.box.engine.ContainerExecInspect(ctx, call.id)
	if err != nil || info.Running && call.stream.state == streamOutput {
		res.Note = e.box.abandon(errContainerGone, wait)
		return nil
	}
	if call.stream.state == streamPid {
		return fmt.Errorf("start %s in the container: %s", e.box.shell, cmp.Or(strings.TrimSpace(res.Output), "no output"))
	}
	if !info.Running {
		res.ExitCode = info.ExitCode
	}
	if res.ExitCode == 128+9 {
		res.Note = e.box.killedNote()
	}
	return nil
}

// stop ends a command with its descendants, waits for the stream's end, and
// reports whether the container took part in that.
func (e *execCommander) stop(call *execCall) (ended bool) {
	ctx, cancel := context.WithTimeout(context.Background(), e.answerTime())
	defer cancel()
	select {
	case pid := <-call.stream.pid:
		ended = runExec(ctx, e.box, container.ExecOptions{
			Cmd: []string{"/bin/sh", "-c", killScript, "kill", strconv.Itoa(pid)},
		}) == nil
	case <-call.ended:
		ended = true
	case <-e.box.gone:
	case <-ctx.Done():
	}
	select {
	case <-call.ended:
	case <-time.After(leftoverGrace): // something escaped that holds the pipe
	}
	call.conn.Close()
	<-call.ended
	return ended
}

// runExec runs a command of our own to its end.
func runExec(ctx context.Context, box *Container, opts container.ExecOptions) error {
	opts.AttachStdout, opts.AttachStderr = true, true
	limit := engineTimeout
	if deadline, ok := ctx.Deadline(); ok {
		limit = time.Until(deadline)
	}
	_, conn, err := attachExec(ctx, box, limit, opts)
	if err != nil {
		return err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, conn.Close)
	defer stop()
	_, err = io.Copy(io.Discard, conn.Reader)
	return cmp.Or(ctx.Err(), err)
}

// attachExec starts a command in the container. Once the engine has been asked
// to start it, the answer is waited for, also when ctx ends: a command that
// runs must be known. An engine that does not answer within limit is [errEngineLate]. If
// it has only been told of the command so far, the error says that nothing runs.
func attachExec(ctx context.Context, box *Container, limit time.Duration, opts container.ExecOptions) (string, types.HijackedResponse, error) {
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	stop := context.AfterFunc(ctx, cancel) // until the engine is asked to start it
	created, err := box.engine.ContainerExecCreate(limited, box.name, opts)
	known := stop()
	err = engineWords(limited, err)
	var conn types.HijackedResponse
	if err == nil && known {
		conn, err = hijack(limited, box.engine, busyTime, func(ctx context.Context) (types.HijackedResponse, error) {
			return box.engine.ContainerExecAttach(context.WithoutCancel(ctx), created.ID, container.ExecAttachOptions{})
		})
		err = engineWords(limited, err)
	}
	switch {
	case !known:
		return "", conn, ctx.Err()
	case err == nil:
		return created.ID, conn, nil
	case errdefs.IsNotFound(err) || errdefs.IsConflict(err) || box.isGone():
		return "", conn, fmt.Errorf("%w: %w", errContainerGone, err)
	case created.ID == "" && passing(err):
		return "", conn, sandbox.NotReady(fmt.Errorf("start a command in the container: %w", err))
	default:
		return "", conn, fmt.Errorf("start a command in the container: %w", err)
	}
}

// execStream takes the output of execScript apart. It belongs to one goroutine.
type execStream struct {
	mark   []byte
	out    *boundedOutput
	held   []byte // not yet told apart from the beginning of a mark
	state  streamState
	pid    chan int // gets the process once
	status int      // -1 until it is known
}

// streamState is what an execStream waits for.
type streamState int

const (
	streamPid    streamState = iota // the first line
	streamOutput                    // output, or the last line
	streamEnded                     // nothing: the last line was read
)

// errStreamEnded ends the copying to a stream that has read its last line.
var errStreamEnded = errors.New("the command has ended")

// maxStatus is the longest text after a mark: a space, a number, a newline.
const maxStatus = 22

func newExecStream(mark string, out *boundedOutput) *execStream {
	return &execStream{mark: []byte(mark), out: out, pid: make(chan int, 1), status: -1}
}

// Write takes the next piece of output, and returns errStreamEnded after the
// last line.
func (s *execStream) Write(p []byte) (int, error) {
	s.held = append(s.held, p...)
	for s.state != streamEnded {
		i := bytes.Index(s.held, s.mark)
		if i < 0 {
			s.pass(len(s.held) - beginning(s.held, s.mark))
			return len(p), nil
		}
		s.pass(i)
		rest := s.held[len(s.mark):]
		end := bytes.IndexByte(rest, '\n')
		if end < 0 && len(rest) < maxStatus {
			return len(p), nil
		}
		n, err := -1, error(nil)
		if end >= 0 {
			n, err = strconv.Atoi(strings.TrimSpace(string(rest[:end])))
		}
		if n < 0 || err != nil { // the output shows the mark, of all things
			s.pass(len(s.mark))
			continue
		}
		s.held = rest[end+1:]
		s.line(n)
	}
	return len(p), errStreamEnded
}

// beginning returns how many bytes at the end of p may be the beginning of mark,
// whose rest is still to come.
func beginning(p, mark []byte) int {
	for n := min(len(p), len(mark)-1); n > 0; n-- {
		if bytes.HasPrefix(mark, p[len(p)-n:]) {
			return n
		}
	}
	return 0
}

// line takes the number of one of the two lines.
func (s *execStream) line(n int) {
	if s.state == streamPid {
		s.state = streamOutput
		s.pid <- n
		return
	}
	s.state = streamEnded
	s.status = n
}

// pass moves n held bytes to the output.
func (s *execStream) pass(n int) {
	s.out.Write(s.held[:n])
	s.held = append(s.held[:0], s.held[n:]...)
}

// finish gives up waiting for a mark.
func (s *execStream) finish() {
	if s.state != streamEnded {
		s.pass(len(s.held))
	}
}

// stopped tells in the result or by an error why a context of deadline ended.
func stopped(ctx context.Context, res *sandbox.Result) error {
	if errors.Is(context.Cause(ctx), sandbox.ErrTimeLimit) {
		res.TimedOut = true
		return nil
	}
	return ctx.Err()
}
