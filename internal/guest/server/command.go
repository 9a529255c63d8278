package server

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/hashicorp/yamux"

	"github.com/x/pygent/internal/guest/supervise"
	"github.com/x/pygent/internal/guest/wire"
)

// How long things may take after a command's shell has ended.
const (
	// quietTime without output ends the wait for what is left behind.
	quietTime = 20 * time.Millisecond
	// quietLimit ends it in any case.
	quietLimit = 50 * time.Millisecond
	// killLimit is how long after the grace a killed process may take to go.
	// The host gives up a second later.
	killLimit = 2 * time.Second
	// goneLimit is how long output may take to end when no process is left: a
	// stranger may hold the other end.
	goneLimit = 100 * time.Millisecond
)

// defaultKept is how much of an output's head and tail is kept by default.
const defaultKept = 16 << 10

// run starts a command and, in the foreground, waits for it.
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
		stopLive = live(stream, j)
	}
	result := j.await(ctx, gaveUp)
	stopLive()
	if err := j.failed(); err != nil {
		return err
	}
	if len(result.Left) > 0 || result.LeftCount > 0 {
		result.Job = s.jobs.add(j)
	}
	return wire.WriteFrame(stream, wire.KindReply, result)
}

// start starts a command.
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

// spec returns how to run a command's script under the shell.
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

// handOver returns what a shell takes as its command for a script to run: the
// script itself, or one that reads it from a file. A file that is returned is to
// be the command's descriptor 3.
func handOver(script []byte) (file *os.File, command string, err error) {
	if throughArg(script) {
		return nil, string(script), nil
	}
	file, path, err := scriptFile(script)
	return file, ". " + quote(path), err
}

// quote makes one word of a text for a shell.
func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// throughArg reports whether a script can go through argv. One that looks for
// processes by their arguments must not find itself, and so may not.
func throughArg(script []byte) bool {
	if len(script) > maxArg {
		return false
	}
	text := string(script)
	return !strings.ContainsRune(text, 0) && !strings.Contains(text, "pkill") && !strings.Contains(text, "pgrep")
}

// live sends a command's output while it comes. What the host does not take
// in time is left out. The function it returns stops it and waits.
func live(w io.Writer, j *job) (stop func()) {
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for offset := int64(0); ; {
			select {
			case <-quit:
				return
			case <-j.output.after(offset):
			}
			at, data := j.output.read(offset, 16<<10)
			if len(data) == 0 {
				return
			}
			if wire.WriteFrame(w, wire.KindChunk, &wire.Chunk{Offset: at, Data: data}) != nil {
				return
			}
			offset = at + int64(len(data))
		}
	}()
	return func() { close(quit); <-done }
}

// await waits for the command's shell, ends the command where it must, and
// says what came of it.
func (j *job) await(ctx context.Context, gaveUp <-chan struct{}) *wire.Result {
	select {
	case <-j.proc.Exited():
	case <-gaveUp:
		j.cancel()
	case <-ctx.Done():
		j.cancel()
	case <-j.expired:
	}
	if j.stopped() {
		j.awaitGone()
	} else {
		j.settle()
	}
	return j.result()
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

// awaitGone waits until nothing of a stopped command is left, or has proved
// not to be killable.
func (j *job) awaitGone() {
	limit := time.NewTimer(j.grace + killLimit)
	defer limit.Stop()
	select {
	case <-j.proc.Gone():
		j.awaitOutput()
	case <-limit.C:
	}
}

// awaitOutput waits for the end of the output of a command of which nothing
// is left.
func (j *job) awaitOutput() {
	limit := time.NewTimer(goneLimit)
	defer limit.Stop()
	select {
	case <-j.drained:
	case <-limit.C:
	}
}

// settle gives a command whose shell has ended the time to write what it has
// left to write. The deadline no longer counts.
func (j *job) settle() {
	j.limit.end()
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

// result says what came of a command.
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
	r.Head, r.Tail, r.Total, r.Spill, r.SpillSize = j.output.kept()
	return r
}

// title returns the beginning of a script, for people.
func title(script []byte) string {
	text := strings.ToValidUTF8(string(script[:min(len(script), 160)]), "")
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	for len(line) > 120 {
		_, size := utf8.DecodeLastRuneInString(line)
		line = line[:len(line)-size]
	}
	return line
}
