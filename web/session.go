package web

import (
	"cmp"
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
	"github.com/x/pygent/internal/faces"
	"github.com/x/pygent/internal/safecall"
)

// paintEvery is how often the block that the model writes is rendered, at most. A long
// one is rendered less often: see [view.paint].
const paintEvery = 50 * time.Millisecond

// session is an agent that is shown.
//
// One goroutine, that of run, has what is below ctx; others change it by post. The
// replay has a lock of its own, and so has head, from which lists are made.
type session struct {
	server *Server
	id     string
	user   string
	face   pygent.FaceSession
	agent  *pygent.Agent
	owned  bool
	began  time.Time
	epoch  string // of the numbers of the agent's events
	log    *replay
	head   atomic.Pointer[listed]
	ended  chan struct{} // closed when run has returned

	closeErr error     // of the agent; set before ended is closed
	used     time.Time // when somebody used it last; guarded by the server's mutex

	ctx    context.Context // ends with the session
	cancel context.CancelFunc
	work   sync.WaitGroup // what run waits for
	posts  chan func()

	view    view
	turn    *turn // the run that goes on; nil between runs
	queue   faces.Queue
	stalled bool // the last turn ended otherwise than the model wanted, or with a question
	asks    asks
	tasks   tasks
	shell   *shell // a command line of the person's that goes on; nil for none
	errands []*errand
	runtime pygent.RuntimeInfo
	start   *faces.StartFailure // why no command can run, if that was said
	seen    int64               // the number of the last event that was handled
	set     int64               // the number of the last event about a setting
	over    bool                // the agent was closed
}

// listed is a session in a list.
type listed struct {
	ID       string          `json:"id"`
	Title    string          `json:"title"`
	Activity pygent.Activity `json:"activity"`
	Needs    string          `json:"needs"` // "approval", "question" or empty
	Updated  time.Time       `json:"updated"`
	Open     bool            `json:"open"`
}

func newSession(server *Server, id, user string, face pygent.FaceSession, owned bool) *session {
	s := &session{
		server: server, id: id, user: user, face: face, agent: face.Agent, owned: owned, began: time.Now(), used: time.Now(),
		ended: make(chan struct{}), posts: make(chan func(), 64), epoch: newEpoch(),
	}
	s.ctx, s.cancel = context.WithCancel(server.ctx)
	s.log = newReplay(func() { server.notify(user) })
	s.start = faces.NewStartFailure(func(why string) { s.view.notice("fail", "Commands cannot run: "+why) })
	s.head.Store(&listed{ID: id, Title: "New session", Activity: pygent.ActivityIdle, Updated: s.began, Open: true})
	return s
}

func (s *session) listed() listed { return *s.head.Load() }

// person is who decides and answers, as far as they may.
func (s *session) person() pygent.FaceUser {
	user := pygent.FaceUser{Approve: s.approve, Answer: s.answer}
	if s.server.opts.allowed().Network {
		user.Hosts = s.approveHosts
	}
	return user
}

// run shows the agent until the session ends.
func (s *session) run() {
	defer close(s.ended)
	defer s.server.remove(s)
	defer s.close()
	end := s.face.Answers(s.ctx, s.person())
	defer end()
	defer s.work.Wait()
	defer s.cancel()
	s.show()
	s.background(func() { s.follow(s.seen) })
	s.background(s.startRuntime)
	s.begin()
	paint := time.NewTicker(paintEvery)
	defer paint.Stop()
	idle := s.idleTimer()
	defer idle.Stop()
	for !s.over {
		ticks := paint.C
		if !s.view.dirty() && !s.tasks.dirty() {
			ticks = nil
		}
		select {
		case f := <-s.posts:
			safecall.Call(f, s.failed)
		case now := <-ticks:
			safecall.Call(func() { s.view.paint(now); s.tasks.paint(now) }, s.failed)
			continue
		case <-idle.C:
			left := s.idleFor()
			if left <= 0 {
				s.server.opts.log.Info("session", "id", s.id, "closed", "nobody has used it")
				return
			}
			idle.Reset(left)
			continue
		case <-s.ctx.Done():
			return
		}
		s.tellState()
	}
}

// close closes the agent if it is the server's.
func (s *session) close() {
	if !s.owned {
		return
	}
	if s.server.opts.closes != nil {
		safecall.Call(func() { s.server.opts.closes(s.agent) }, s.logFault)
	}
	s.closeErr = s.agent.Close()
	if s.closeErr != nil && s.server.ctx.Err() == nil { // otherwise Close of the server returns it
		s.server.opts.log.Warn("session", "id", s.id, "close", s.closeErr)
	}
}

// failed notes a fault of the page's own.
func (s *session) failed(err error) {
	s.logFault(err)
	s.view.notice("warn", "The page could not show something: "+err.Error())
}

// logFault logs a fault of the page's own, or of what the program calls.
func (s *session) logFault(err error) {
	s.server.opts.log.Error("session", "id", s.id, "error", oneLine(err.Error()))
}

// show begins the view anew, with the conversation so far.
func (s *session) show() {
	state, entries := s.conversation()
	s.seen = state.Seq
	s.log.begin()
	s.view.end()
	s.view = view{log: s.log, messages: state.Messages}
	s.view.doing.Context = state.Context
	s.view.doing.Starting(state.Runtime)
	s.queue.Unheard = state.Unheard
	s.view.history(entries)
	s.view.goOn(state)
	s.tasks.show(s)
	for _, notice := range s.face.Notices {
		s.view.notice("", notice)
	}
	s.asks.showAgain(s)
	if s.shell != nil {
		s.view.putCard(s.shell.card)
	}
	s.runtime = faces.Describe(s.ctx, s.agent)
	s.tellState()
}

// conversation returns the conversation so far, and a state of the agent that counts
// exactly its messages: what comes after them comes as events, and nothing twice.
func (s *session) conversation() (state pygent.State, entries []chat.HistoryEntry) {
	for {
		state = s.agent.State()
		entries = s.agent.History().Current()
		if s.agent.State().Messages == state.Messages {
			return state, entries
		}
	}
}

// begin makes the first turn, if there is one to make.
func (s *session) begin() {
	first := s.face.First
	said := first.Text() != "" || len(first.Parts) > 0
	switch {
	case s.face.Resume:
		s.startTurn(s.agent.Resume)
		if said {
			_, _ = s.agent.Say(first) // an error shows as a message that is not heard; the agent is new
		}
	case said:
		s.send(first)
	default:
		if s.face.Interrupted {
			s.view.notice("warn", "The last run was interrupted. Use /resume to continue it.")
		}
		s.sendUnheard()
	}
}

// startRuntime starts the runtime before it is needed, and says at once if that is not
// possible.
func (s *session) startRuntime() {
	err := faces.Start(s.ctx, s.agent)
	if s.ctx.Err() != nil {
		return
	}
	info := faces.Describe(s.ctx, s.agent)
	s.post(func() {
		s.runtime = info
		if err != nil {
			s.start.Tell(err)
		}
	})
}

// post has f called by the session's goroutine. It reports false if the session is over.
func (s *session) post(f func()) bool {
	select {
	case s.posts <- f:
		return true
	case <-s.ctx.Done():
		return false
	}
}

// do has f called by the session's goroutine, and waits for it.
func (s *session) do(ctx context.Context, f func() error) error {
	done := make(chan error, 1)
	if !s.post(func() {
		defer func() {
			if p := recover(); p != nil {
				done <- fail(http.StatusInternalServerError, "internal", "the page failed")
				panic(p)
			}
		}()
		done <- f()
	}) {
		return errClosed
	}
	select {
	case err := <-done:
		return err
	case <-s.ended:
		return errClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}

// background calls f in a goroutine that the session waits for at its end.
func (s *session) background(f func()) {
	s.work.Go(func() { safecall.Call(f, func(err error) { s.post(func() { s.failed(err) }) }) })
}

// follow passes on the agent's events.
func (s *session) follow(after int64) {
	pass := func(e pygent.Event) bool { return s.post(func() { s.event(e) }) }
	closed := faces.Follow(s.ctx, s.agent, after, pass, func() (after int64, ok bool) {
		again := make(chan int64, 1)
		if !s.post(func() {
			s.show() // from the history
			s.endTurn()
			again <- s.seen
		}) {
			return 0, false
		}
		select {
		case after = <-again:
			return after, true
		case <-s.ctx.Done():
			return 0, false
		}
	})
	if closed {
		s.post(s.agentClosed)
	}
}

// agentClosed ends the session of an agent that the program has closed. The end of a
// turn that goes on comes first.
func (s *session) agentClosed() {
	if s.turn == nil {
		s.view.notice("warn", "The program closed the agent. The session has ended.")
		s.over = true
	}
}

// tellState tells the pages what the agent does, if that has changed.
func (s *session) tellState() {
	d := &s.view.doing
	words, since := s.words()
	needs := s.asks.needs()
	usage := s.agent.Usage()
	settings := s.agent.State().Settings
	state := pageState{
		Words: words, Busy: s.turn != nil, Shell: s.shell != nil, Errand: len(s.errands) > 0, Needs: needs, Queue: shown(&s.queue), Held: len(s.queue.Held) > 0,
		Tokens: usage.Own.Total() + usage.Tasks.Total(), Cost: usage.Cost, Title: s.title(),
		Model: oneLine(cmp.Or(settings.Model, settings.DefaultModel, d.Model)), Persona: oneLine(settings.Persona.Name),
		Set: s.set, Runtime: s.runtimeState(), Can: s.can(),
	}
	state.Context.Used, state.Context.Window = d.Context.Used, d.Context.Window
	if words != "" {
		state.Since = since.UTC().Format(time.RFC3339)
	}
	s.log.setState(state)
	s.tellHead(state)
}

// words says what goes on or is waited for, and since when; nothing if that is nothing.
func (s *session) words() (words string, since time.Time) {
	d := &s.view.doing
	switch {
	case s.turn != nil && s.turn.Interrupted:
		return "Stopping", d.Since
	case s.turn != nil:
		return cmp.Or(d.WithStart(d.Words), "Working"), d.Since
	case len(s.errands) > 0:
		return s.errands[0].words, s.errands[0].since
	case s.asks.offered != nil:
		return "Waiting for your answer", s.asks.offered.since
	}
	return "", d.Since
}

// tellHead tells what lists say of the session.
func (s *session) tellHead(state pageState) {
	now := listed{ID: s.id, Title: state.Title, Activity: pygent.ActivityIdle, Needs: state.Needs, Open: true}
	switch {
	case state.Needs != "" && s.turn != nil:
		now.Activity = pygent.ActivityApproval
	case s.turn != nil:
		now.Activity = pygent.ActivityModel
	}
	was := s.head.Load()
	now.Updated = was.Updated
	if now == *was {
		return
	}
	now.Updated = time.Now().UTC().Truncate(time.Second)
	s.head.Store(&now)
	s.server.notify(s.user)
}
