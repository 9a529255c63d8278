package web

import (
	"errors"
	"net/http"
	"slices"

	"github.com/x/pygent"
)

// listSessions lists the sessions of the user: those that are open, and those that are
// kept and can go on.
func (s *Server) listSessions(c call) (any, error) {
	list, open := []listed{}, map[string]bool{}
	for _, one := range s.sessionsOf(c.user) {
		list = append(list, one.listed())
		open[one.id] = true
	}
	if s.opts.list != nil {
		kept, err := s.opts.list(c.Context(), c.user)
		if err != nil {
			return nil, err
		}
		for _, info := range kept {
			if !open[info.ID] {
				list = append(list, listed{ID: info.ID, Title: oneLine(info.Title), Activity: pygent.ActivityIdle, Updated: info.Used})
			}
		}
	}
	return map[string]any{"sessions": list}, nil
}

// errNoOpen is the answer of a server that begins no sessions.
var errNoOpen = fail(http.StatusForbidden, "no_open", "sessions are not begun here")

// postSession begins a session, or goes on with one that is kept.
func (s *Server) postSession(c call) (any, error) {
	var in struct {
		Continue string `json:"continue"`
	}
	if err := c.read(&in); err != nil {
		return nil, err
	}
	if s.opts.open == nil {
		return nil, errNoOpen
	}
	if in.Continue != "" {
		if one, err := s.session(c.user, in.Continue); err == nil { // it is open
			return &status{http.StatusOK, map[string]string{"id": one.id}}, nil
		}
		if err := s.checkKept(c, in.Continue); err != nil {
			return nil, err
		}
	}
	return s.open(c, in.Continue)
}

// checkKept refuses what is none of the user's kept sessions, so that what a page sends
// never becomes the path of something else.
func (s *Server) checkKept(c call, id string) error {
	if s.opts.list == nil {
		return nil
	}
	kept, err := s.opts.list(c.Context(), c.user)
	if err == nil && !slices.ContainsFunc(kept, func(info pygent.SessionInfo) bool { return info.ID == id }) {
		err = errNoSession
	}
	return err
}

// fork begins a session that goes on from a checkpoint of another one.
func (s *Server) fork(c call) (any, error) {
	one, err := c.session(s)
	if err != nil {
		return nil, err
	}
	var in struct {
		Checkpoint int64 `json:"checkpoint"`
	}
	if err := c.read(&in); err != nil {
		return nil, err
	}
	if s.opts.open == nil {
		return nil, errNoOpen
	}
	info, err := one.agent.ForkSession(c.Context(), in.Checkpoint, "")
	if err != nil {
		return nil, checkpointError(err)
	}
	return s.open(c, info.ID)
}

// open makes the agent of a session, and shows it.
func (s *Server) open(c call, id string) (any, error) {
	agent, err := s.opts.open(c.Context(), Open{User: c.user, Continue: id})
	if err != nil {
		if errors.Is(err, pygent.ErrSessionInUse) {
			return nil, fail(http.StatusConflict, "in_use", oneLine(err.Error()))
		}
		return nil, err
	}
	one, err := s.add(c.user, pygent.FaceSession{Agent: agent}, true)
	if err != nil {
		return nil, errors.Join(err, agent.Close())
	}
	return &status{http.StatusCreated, map[string]string{"id": one.id}}, nil
}

// deleteSession closes a session. What is kept of it stays.
func (s *Server) deleteSession(c call) (any, error) {
	one, err := c.session(s)
	if err != nil {
		return nil, err
	}
	if !one.owned {
		return nil, fail(http.StatusForbidden, "not_owned", "the program that shows this session ends it")
	}
	one.cancel()
	select {
	case <-one.ended:
		return nil, one.closeErr
	case <-c.Context().Done():
		return nil, c.Context().Err()
	}
}
