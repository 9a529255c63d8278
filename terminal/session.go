package terminal

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"time"

	uv "github.com/charmbracelet/ultraviolet"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/faces"
	"github.com/x/pygent/internal/livearea"
	"github.com/x/pygent/internal/safecall"
)

// Times of the screen.
const (
	// frame is the shortest time between two frames.
	frame = 33 * time.Millisecond
	// tick is how often the spinner and the clocks move.
	tick = 100 * time.Millisecond
)

// errSessionOver is the reason why nobody answers any more.
var errSessionOver = errors.New("the session is over")

// session is a conversation at a terminal.
//
// One goroutine, that of run, has all of its state. Others, which wait for the
// agent, change it by post. The session waits for them at its end.
type session struct {
	face  pygent.FaceSession
	agent *pygent.Agent
	tty   *tty
	theme theme

	ctx    context.Context // ends with the session
	cancel context.CancelFunc
	work   sync.WaitGroup
	posts  chan func()

	display
	input    input
	text     stream   // what the model writes now
	calls    []*panel // the calls that run, or are asked about
	doing    faces.Doing
	turn     *turn // the run that goes on; nil between runs
	queue    faces.Queue
	menus    []*menu // the first one is shown
	around   around  // tasks, jobs, and what the runtime does
	fileList fileList
	command  *command            // that goes on; nil for none
	saidBy   map[string]string   // by what the agent is told, the command line that made it; empty for one that needs no repetition
	lent     chan struct{}       // closed when the last command has returned that got the terminal; nil for none
	start    *faces.StartFailure // why no command can run, if that was said
	seen     int64               // the number of the last event that was handled

	dir     string            // where relative paths of the person begin
	hostDir string            // the workspace on this machine; empty if it is elsewhere
	given   []pygent.FileInfo // what a temporary workspace had in it at the beginning
	started bool              // the runtime is there
	leaving *leaving          // the end of the session; nil before
	over    bool
	err     error
}

func newSession(ctx context.Context, face pygent.FaceSession, t *tty) *session {
	s := &session{face: face, agent: face.Agent, tty: t, theme: newTheme(), posts: make(chan func(), 64)}
	s.ctx, s.cancel = context.WithCancel(ctx)
	s.start = faces.NewStartFailure(s.cannotRun)
	t.over = s.ctx.Done()
	width, height := t.out.Size()
	s.display.area = livearea.New(width, height, terminalKind()...)
	s.input.history = openHistory(stateFile())
	s.dir, _ = os.Getwd() // without one, a relative path says what is wrong when it is used
	return s
}

// run holds the conversation.
func (s *session) run() error {
	defer s.face.Answers(s.ctx, pygent.FaceUser{Approve: s.approve, Hosts: s.approveHosts, Answer: s.answer})()
	state := s.agent.State()
	s.seen, s.queue.Unheard = state.Seq, state.Unheard
	s.around.jobs, s.doing.Context = state.Jobs, state.Context
	s.banner()
	if r := state.Runtime; r != nil && (r.Kind == pygent.RuntimePull || r.Kind == pygent.RuntimeStarting) { // which began before the session
		s.doing.Starting(r)
		s.around.note(s, pygent.Event{Type: pygent.EventRuntime, Text: r.Text, Runtime: r})
	}
	s.given, _, _ = s.temporaryFiles(s.ctx)
	s.background(func() { s.follow(state.Seq) })
	s.background(s.startRuntime)
	s.beginWith(s.face.First)
	wake := time.NewTimer(frame)
	defer wake.Stop()
	for !s.over {
		s.draw()
		wake.Reset(s.sleep())
		s.wait(wake.C)
	}
	return s.err
}

// beginWith makes the first turn, if there is one to make before the person has
// said anything.
func (s *session) beginWith(first pygent.Message) {
	text, said := first.Text(), first.Text() != "" || len(first.Parts) > 0
	switch {
	case s.face.Resume:
		s.resume()
		if said {
			s.sayLater(first)
		}
	case said && len(first.Parts) == 0:
		s.deliver(text, text)
	case said && s.sayLater(first):
		s.sendUnheard()
	}
}

// wait waits until something happens, and handles it with all that has happened
// besides.
func (s *session) wait(wake <-chan time.Time) {
	select {
	case k := <-s.tty.keys:
		s.keys(k)
	case f := <-s.posts:
		s.call(f)
	case <-wake:
	case <-s.tty.resized:
	case <-s.tty.stopped: // somebody else has sent the signal of Ctrl-Z
		s.suspend()
	case <-s.tty.continued:
		s.continued()
	case <-s.tty.interrupted: // somebody else has sent the signal of Ctrl-C
		s.display.changed = true
		if s.isAway() {
			s.stopCommand()
		} else {
			s.ctrlC()
		}
	case <-s.tty.ended: // the terminal hung up, or the input ended
		s.end()
	case <-s.ctx.Done():
		s.end()
	}
	const most = 1000 // before a frame
	for range most {
		select {
		case k := <-s.tty.keys:
			s.keys(k)
		case f := <-s.posts:
			s.call(f)
		default:
			s.act()
			return
		}
	}
}

// call calls a function that was posted. It has changed something, or else nothing
// is drawn.
func (s *session) call(f func()) {
	f()
	s.display.changed = true
}

// act does what was waiting for its time.
func (s *session) act() {
	now := time.Now()
	s.actOnInput(now)
	s.actOnMenu(now)
	s.watchJobs(now)
}

// sleep returns how long nothing happens by itself.
func (s *session) sleep() time.Duration {
	next := time.Hour
	if s.display.changed {
		next = max(frame-time.Since(s.display.drawn), time.Until(s.display.settled), time.Millisecond)
	} else if s.moves() {
		next = tick
	}
	for _, at := range []time.Time{s.input.submitAt, s.menuAt(), s.askJobsAt()} {
		if !at.IsZero() {
			next = min(next, max(time.Until(at), time.Millisecond))
		}
	}
	return next
}

// moves reports whether the screen shows a clock or a spinner.
func (s *session) moves() bool {
	return s.turn != nil || s.leaving.goesOn() || s.command != nil || s.around.moves() || s.input.attaching != nil || !s.fileList.since.IsZero()
}

// post has f called by the session's goroutine. It reports false if the session is
// over.
func (s *session) post(f func()) bool {
	select {
	case s.posts <- f:
		return true
	case <-s.ctx.Done():
		return false
	}
}

// end ends the session at once.
func (s *session) end() { s.over = true }

// close ends what the session has begun, and gives the terminal back. It does so
// after a panic, too, and even if it panics itself.
func (s *session) close() {
	s.cancel()
	defer s.work.Wait()
	defer func() { // even if drawing panics again
		if err := s.tty.close(); err != nil && s.err == nil {
			s.fail(err)
		}
	}()
	s.finishText()
	s.flushNews()
	s.sayUnsent()
	s.awaitLent()
	_ = s.tty.draw(s.display.area.Remove(s.display.take()))
}

// background calls f in a goroutine that the session waits for at its end. A panic
// there ends the session, and not the process, which would leave the terminal as it
// is.
func (s *session) background(f func()) {
	s.work.Go(func() {
		safecall.Call(f, func(err error) { s.post(func() { s.fail(err) }) })
	})
}

// follow passes on the agent's events.
func (s *session) follow(after int64) {
	pass := func(e pygent.Event) bool { return s.post(func() { s.event(e) }) }
	closed := faces.Follow(s.ctx, s.agent, after, pass, func() (int64, bool) {
		state := s.agent.State()
		return state.Seq, s.post(func() { s.missed(state) })
	})
	if closed {
		s.post(s.agentClosed)
	}
}

// agentClosed ends the session of an agent that the program has closed. The end of a
// turn that goes on comes first.
func (s *session) agentClosed() {
	if s.turn == nil && s.ctx.Err() == nil {
		s.finishText()
		s.say(kindEnd, s.theme.warn("■ The program closed the agent. The session has ended."))
		s.end()
	}
}

// missed goes on after events that are no longer kept, because the terminal took
// what was written too slowly.
func (s *session) missed(state pygent.State) {
	s.finishText()
	s.calls = nil
	s.say(kindNews, s.theme.warn("! some output is not shown: the terminal was too slow"))
	s.queue.Unheard, s.around.jobs = state.Unheard, state.Jobs
	s.around.withoutEnded(s)
	s.seen = max(s.seen, state.Seq)
	if s.turn != nil && s.agent.History().Len() > s.turn.messages {
		s.turn.message = "" // the agent has it
	}
	s.endTurn()
}

// startRuntime starts the runtime before it is needed, and says at once if that is
// not possible.
func (s *session) startRuntime() {
	err := faces.Start(s.ctx, s.agent)
	if s.ctx.Err() != nil {
		return
	}
	s.post(func() {
		if s.started = err == nil; !s.started {
			s.start.Tell(err)
		}
	})
}

// cannotRun says why no command can run.
func (s *session) cannotRun(why string) { s.tell(s.theme.bad("✗ commands cannot run: ") + told(why)) }

// key handles a key, a paste or another report of the terminal.
func (s *session) key(k key) {
	s.display.changed, s.input.at = true, k.at
	switch e := k.Event.(type) {
	case uv.KeyPressEvent:
		s.press(e)
	case uv.PasteEvent:
		s.paste(e.Content)
	case uv.WindowSizeEvent: // draw asks for the size
	}
}

// paste handles a paste. It never answers a menu.
func (s *session) paste(text string) {
	s.input.warned = false
	m := s.menu()
	switch {
	case m != nil && m.isDeaf(s.input.at) && s.goesOn(m):
		m.deafen(s.input.at)
		s.input.editor.insertPaste(text)
	case m != nil && m.editor != nil && !m.isDeaf(s.input.at):
		m.editor.insert(strings.TrimRight(text, "\r\n"))
	case m != nil && !m.free:
		m.deafen(s.input.at)
		s.hint("pasted text does not answer; press a key")
	case s.input.search != nil:
		line, _, _ := strings.Cut(strings.Trim(typed(text), "\n"), "\n")
		s.input.search.query.insert(line)
		s.input.search.find(s.input.history.entries, s.input.search.at, -1)
	case !s.input.editor.insertPaste(text):
		s.hint("too long for a message; put it in a file")
	}
}
