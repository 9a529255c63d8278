package server

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/hashicorp/yamux"

	"github.com/x/pygent/internal/cut"
	"github.com/x/pygent/internal/guest/supervise"
	"github.com/x/pygent/internal/guest/wire"
)

// How long things may take after a command's shell has ended.
const (
	// quietTime without any output ends the wait for processes that are left.
	quietTime = 20 * time.Millisecond
	// quietLimit ends that wait in any case.
	quietLimit = 50 * time.Millisecond
	// killLimit is how long after the grace a killed process may take to
	// disappear. The host gives up one second later.
	killLimit = 2 * time.Second
	// goneLimit is how long to wait for the end of the output when no process of the
	// command is left. An unrelated process may hold the other end of the pipe.
	goneLimit = 100 * time.Millisecond
)

// defaultKept is how many bytes of the output's head, and as many of its tail,
// are kept by default.
const defaultKept = 16 << 10

// run starts a command. If the command is in the foreground, run waits for it.
func (s *Server) run(ctx context.Context, st *state, stream *yamux.Stream, payload []byte) error {
	m := &wire.Run{}
	if err := wire.Decode(payload, m); err != nil {
		return err
	}
	j, err := s.start(st, m)
	if err != nil {
		return err
	}
	if m.Background {
		s.jobs.add(j)
		return wire.WriteFrame(stream, wire.KindReply, j.status())
	}
	gaveUp := make(chan struct{})
	s.jobs.readers.Go(func() {
		defer close(gaveUp)
		j.heed(stream)
	})
	stopLive := func() {}
	if m.Live {
		stopLive = live(stream, j.output)
	}
	result := j.await(ctx, gaveUp)
	stopLive()
	if err := j.failed(); err != nil {
		return err
	}
	if result.GoesOn || len(result.Left) > 0 || result.LeftCount > 0 {
		result.Job = s.jobs.add(j)
	}
	return wire.WriteFrame(stream, wire.KindReply, result)
}

func (s *Server) start(st *state, m *wire.Run) (*job, error) {
	spec, err := st.spec(m)
	if err != nil {
		return nil, err
	}
	if spec.Script != nil {
		defer spec.Script.Close()
	}
	read, write, err := outputPipe()
	if err != nil {
		return nil, err
	}
	defer write.Close()
	spec.Output = write
	proc, err := s.supervisor.Start(spec)
	if err != nil {
		_ = read.Close()
		return nil, err
	}
	var spill func() (*spillFile, error)
	if st.spills != nil {
		spill = st.spills.create
	}
	j := newJob(proc, newCapture(kept(m.Head), kept(m.Tail), spill), m)
	s.jobs.watch(j, read)
	return j, nil
}

// spec returns how to run a command's script with the shell.
func (st *state) spec(m *wire.Run) (supervise.Spec, error) {
	if st.noShell != nil {
		return supervise.Spec{}, st.noShell
	}
	dir := st.workspace
	if d := filepath.FromSlash(m.Dir); filepath.IsAbs(d) {
		dir = d
	} else if d != "" {
		dir = filepath.Join(dir, d)
	}
	if err := checkDir(dir); err != nil {
		return supervise.Spec{}, fmt.Errorf("directory of the command: %w", err)
	}
	script, text, err := handOver(forShell(m.Script))
	if err != nil {
		return supervise.Spec{}, fmt.Errorf("hand over the script: %w", err)
	}
	name := strings.TrimSuffix(filepath.Base(st.shell), ".exe")
	return supervise.Spec{
		Path:    st.shell,
		Args:    []string{name, "-c", text, name},
		Env:     mergeEnv(st.env, m.Env, workingDir(dir)),
		Dir:     dir,
		Script:  script,
		Confirm: m.Background,
	}, nil
}

func kept(n int) int {
	if n <= 0 {
		return defaultKept
	}
	return min(n, wire.MaxKept)
}

// handOver returns the argument of the shell's -c for a script: the script
// itself, or a command that reads the script from a file. If a file is
// returned, it must become descriptor 3 of the command.
func handOver(script []byte) (file *os.File, command string, err error) {
	if throughArg(script) {
		return nil, string(script), nil
	}
	file, path, err := scriptFile(script)
	return file, ". " + quote(path), err
}

// quote quotes a text as one word for a shell.
func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// throughArg reports whether a script can be passed in argv. A script that
// searches for processes by their arguments must not find itself, so such a
// script goes through a file.
func throughArg(script []byte) bool {
	if len(script) > maxArg {
		return false
	}
	text := string(script)
	return !strings.ContainsRune(text, 0) && !strings.Contains(text, "pkill") && !strings.Contains(text, "pgrep")
}

// await waits for the command's shell, ends the command if it must end, and
// returns the result.
func (j *job) await(ctx context.Context, gaveUp <-chan struct{}) *wire.Result {
	select {
	case <-j.proc.Exited():
	case <-gaveUp:
		j.cancel()
	case <-ctx.Done():
		j.cancel()
	case <-j.expired:
	}
	// If the host gave up at the moment of the limit, nobody would know of the job.
	if j.goesOn() && (ctx.Err() != nil || isClosed(gaveUp)) {
		j.cancel()
	}
	switch {
	case j.stopped():
		j.awaitGone()
	case j.goesOn():
		result := j.result()
		result.GoesOn = true
		return result
	default:
		j.settle()
	}
	return j.result()
}

// goesOn reports whether the command runs although its time limit has passed.
func (j *job) goesOn() bool { return !isClosed(j.proc.Exited()) }

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// failed returns why the command could not be started, or nil.
func (j *job) failed() error {
	select {
	case <-j.proc.Exited():
		return j.proc.Exit().Err
	default:
		return nil
	}
}

// awaitGone waits until no process of a stopped command is left, or until it is
// clear that some cannot be killed.
func (j *job) awaitGone() {
	limit := time.NewTimer(j.grace + killLimit)
	defer limit.Stop()
	select {
	case <-j.proc.Gone():
		j.awaitOutput()
	case <-limit.C:
	}
}

// awaitOutput waits until the output of a command has ended of which no process
// is left.
func (j *job) awaitOutput() {
	select {
	case <-j.drained:
	case <-j.late:
	}
}

// settle waits a moment after the end of a command's shell, so that its
// remaining processes can write their last output. The time limit no longer
// counts. What the shell left in the pipe is waited for in any case.
func (j *job) settle() {
	j.limit.end()
	kept, waiting := j.soFar()
	j.awaitQuiet()
	j.awaitWritten(kept + waiting)
}

// awaitWritten waits until the output has the size, or another process that has the pipe
// has read the rest.
func (j *job) awaitWritten(size int64) {
	for j.output.size() < size {
		select {
		case <-j.drained:
			return
		case <-j.output.after(j.output.size()):
		case <-time.After(goneLimit):
			if _, waiting := j.soFar(); waiting == 0 {
				return
			}
		}
	}
}

// awaitQuiet waits until a command has written nothing for a moment, or has ended.
func (j *job) awaitQuiet() {
	limit := time.NewTimer(quietLimit)
	defer limit.Stop()
	for size := int64(-1); size != j.output.size(); {
		size = j.output.size()
		quiet := time.NewTimer(quietTime)
		select {
		case <-j.proc.Gone():
			quiet.Stop()
			j.awaitOutput()
			return
		case <-quiet.C:
		case <-limit.C:
			quiet.Stop()
			return
		}
	}
}

// result returns the outcome of a command.
func (j *job) result() *wire.Result {
	r := &wire.Result{ExitCode: -1, Duration: time.Since(j.started)}
	r.TimedOut, r.Cancelled = j.why()
	select {
	case <-j.proc.Exited():
		exit := j.proc.Exit()
		r.ExitCode, r.Signal = exit.Code, exit.Signal
	default:
	}
	r.Left, r.LeftCount = j.proc.Procs(wire.MaxProcs)
	if j.stopped() {
		r.Survivors = r.LeftCount
	}
	k := j.output.kept()
	r.Head, r.Tail, r.Total, r.Gone, r.Spill, r.SpillSize = k.head, k.tail, k.total, k.gone, k.path, k.size
	return r
}

// maxTitle is the longest title, in bytes.
const maxTitle = 120

// title returns the first line of a script, to be shown to people. It says if
// there is more.
func title(script []byte) string {
	text := strings.TrimSpace(string(script[:min(len(script), 4*maxTitle)]))
	line, _, more := strings.Cut(text, "\n")
	line = strings.ToValidUTF8(strings.TrimSpace(line), "")
	if short := cut.Head(line, maxTitle); short != line {
		line, more = short, true
	}
	if more {
		line += " …"
	}
	return line
}
