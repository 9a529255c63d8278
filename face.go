package pygent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/x/pygent/internal/guard"
	"github.com/x/pygent/internal/screen"
)

// Face is a way for a person to use an agent: it shows what the agent does, and
// passes on what the person says, until the person leaves or ctx ends. It uses
// the public methods of the agent alone, and gives lines that begin with "/" to
// [Agent.RunCommand]. It does not close the agent.
type Face func(ctx context.Context, s FaceSession) error

// FaceSession is what a [Face] is given.
type FaceSession struct {
	Agent *Agent
	// In and Out are what [WithIO] set, or else the process's standard input and
	// output. What is written to Out must not contain control characters of the
	// model or of a command.
	In  io.Reader
	Out io.Writer
	// Resume says that the session begins by resuming an interrupted run: see
	// [WithResume].
	Resume bool
	// Plain runs the session by lines that the agent has without any face. A
	// face returns its result where it cannot do better, such as at a terminal
	// that is none.
	Plain func(ctx context.Context) error
}

// The faces that an agent's methods look for.
const (
	FaceTerminal = "terminal" // of RunInteractive
	FaceWeb      = "web"      // of RunGUI
)

// ErrNoFace is returned by [Agent.RunGUI] when no imported package registered a
// face for it.
var ErrNoFace = errors.New("no such face is registered")

var faces struct {
	sync.RWMutex
	byName map[string]Face
}

// RegisterFace makes a face available by its name, to all agents of the process.
// A package calls it when it is imported, as a database driver registers itself:
// programs that do not import the package do not contain it. [FaceTerminal] is
// the face that [Agent.RunInteractive] shows, and [FaceWeb] that of
// [Agent.RunGUI].
//
// A face replaces an earlier one of the same name; nil removes it. RegisterFace
// may be called at any time. A session that goes on is not affected.
func RegisterFace(name string, f Face) {
	faces.Lock()
	defer faces.Unlock()
	if f == nil {
		delete(faces.byName, name)
		return
	}
	if faces.byName == nil {
		faces.byName = map[string]Face{}
	}
	faces.byName[name] = f
}

func faceOf(name string) (Face, bool) {
	faces.RLock()
	defer faces.RUnlock()
	f, ok := faces.byName[name]
	return f, ok
}

// RunInteractive talks with the user at a terminal, until the user leaves, the
// input ends or ctx ends. It shows the [FaceTerminal] that an imported package
// registered. Without one it is a plain session by lines:
//
// It reads messages from standard input, or from what [WithIO] set, and shows
// what the agent does. A reply ends the agent's turn. Lines that begin with "/"
// are commands; /help lists them. Ctrl-C interrupts a turn. Between turns,
// pressing it twice leaves the session, and so does /exit.
//
// A person at a terminal is asked about calls that need approval. On the local
// runtime these are all calls that run a command or write a file; see
// [WithConfirmBash]. Only a line that is typed at least half a second after the
// question is shown answers it. The answer "always" covers what the question
// says, for this session. If the input is not a terminal, nobody is asked and
// such calls are denied, because what comes through a pipe was written before
// the question. If commands cannot run because the container does not start,
// the session says so as soon as it is known.
func (a *Agent) RunInteractive(ctx context.Context) error {
	if ctx == nil {
		return errNilContext
	}
	if f, ok := faceOf(FaceTerminal); ok {
		return a.show(ctx, f)
	}
	return a.runPlain(ctx)
}

// RunGUI shows the agent in the user's browser, until the page is closed or ctx
// ends. It shows the [FaceWeb] that an imported package registered. Without one
// the error matches [ErrNoFace].
func (a *Agent) RunGUI(ctx context.Context) error {
	if ctx == nil {
		return errNilContext
	}
	f, ok := faceOf(FaceWeb)
	if !ok {
		return fmt.Errorf("show the agent in a browser: %w: import a package that calls RegisterFace(FaceWeb, …)", ErrNoFace)
	}
	return a.show(ctx, f)
}

// show runs a face. Its panic becomes an error.
func (a *Agent) show(ctx context.Context, f Face) error {
	s := FaceSession{Agent: a, In: a.opts.in, Out: a.opts.out, Resume: a.opts.resume, Plain: a.runPlain}
	if s.In == nil {
		s.In = os.Stdin
	}
	if s.Out == nil {
		s.Out = screen.Stdout()
	}
	_, err := guard.Catch(func() (struct{}, error) { return struct{}{}, f(ctx, s) })
	a.logPanic("face", err)
	return err
}
