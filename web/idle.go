package web

import (
	"slices"
	"time"

	"github.com/x/pygent"
	"github.com/x/pygent/sessions"
)

// closable reports whether the session may be closed when nobody uses it: if the server
// opened it, and can go on with it as it was.
func (s *session) closable() bool {
	_, kept := sessions.Of(s.agent)
	return s.owned && kept && s.server.opts.limits.Idle > 0
}

// idleTimer returns a timer for the moment when the session may be idle for too long.
// One that is not closed for that has a timer that is stopped.
func (s *session) idleTimer() *time.Timer {
	t := time.NewTimer(max(s.server.opts.limits.Idle, 0))
	if !s.closable() {
		t.Stop()
	}
	return t
}

// idleFor returns how long the session may go on without being used; nothing is left for
// one that is idle for too long.
func (s *session) idleFor() time.Duration {
	if s.works() {
		s.server.use(s)
		s.askJobs()
	}
	return s.server.opts.limits.Idle - s.server.unused(s)
}

// works reports whether something goes on that would end with the session, or be lost.
func (s *session) works() bool {
	return s.turn != nil || s.shell != nil || len(s.errands) > 0 || len(s.queue.Held)+len(s.queue.Unheard) > 0 || s.tasks.atWork() ||
		s.jobRuns()
}

// jobRuns reports whether a command ran in the background when its runtime told last.
func (s *session) jobRuns() bool {
	return slices.ContainsFunc(s.agent.State().Jobs, func(j pygent.Job) bool { return j.Running })
}

// askJobs has the runtime tell whether a command still runs that did, so that the next
// look knows: between turns nobody else asks. Of one that does not tell, it is not known.
func (s *session) askJobs() {
	if s.jobRuns() {
		s.background(func() { _, _ = s.agent.Jobs(s.ctx) })
	}
}

// use notes that a session is used now.
func (s *Server) use(one *session) {
	s.mu.Lock()
	defer s.mu.Unlock()
	one.used = time.Now()
}

// unused returns for how long nobody has used a session.
func (s *Server) unused(one *session) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	for st := range s.streams {
		if _, looks := st.views[one.id]; looks && st.user == one.user {
			return 0
		}
	}
	return time.Since(one.used)
}

// usedLocked notes that the sessions that a stream looked at were used until now. The
// caller holds mu.
func (s *Server) usedLocked(st *stream) {
	for id := range st.views {
		if one := s.sessions[id]; one != nil && one.user == st.user {
			one.used = time.Now()
		}
	}
}
