package web

import (
	"errors"
	"io/fs"
	"net/http"
	"slices"

	"github.com/x/pygent"
	"github.com/x/pygent/sessions"
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

// deleteKept removes a kept session, with its conversation.
func (s *Server) deleteKept(c call) (any, error) {
	if s.opts.remove == nil {
		return nil, errNoRight
	}
	id := c.PathValue("id")
	if _, err := s.session(c.user, id); err == nil {
		return nil, fail(http.StatusConflict, "in_use", "the session is open; close it first")
	}
	err := s.checkKept(c, id)
	if err == nil {
		err = s.opts.remove(c.Context(), c.user, id)
	}
	switch {
	case errors.Is(err, sessions.ErrInUse):
		return nil, fail(http.StatusConflict, "in_use", oneLine(err.Error()))
	case errors.Is(err, fs.ErrNotExist):
		return nil, fail(http.StatusNotFound, "no_session", "session not found")
	}
	return nil, err
}

// errNoOpen is the answer of a server that begins no sessions.
var errNoOpen = fail(http.StatusForbidden, "no_open", "new sessions cannot be started here")

// postSession begins a session, or goes on with one that is kept or was saved.
func (s *Server) postSession(c call) (any, error) {
	var in struct {
		Continue string `json:"continue"`
		Snapshot string `json:"snapshot"`
	}
	if err := c.read(&in); err != nil {
		return nil, err
	}
	if s.opts.open == nil {
		return nil, errNoOpen
	}
	if in.Continue != "" && in.Snapshot != "" {
		return nil, fail(http.StatusBadRequest, "bad_request", "give a session or a snapshot to continue from, not both")
	}
	if in.Continue != "" {
		if one, err := s.session(c.user, in.Continue); err == nil { // it is open
			return &status{http.StatusOK, map[string]string{"id": one.id}}, nil
		}
		if err := s.checkKept(c, in.Continue); err != nil {
			return nil, err
		}
	}
	if in.Snapshot != "" {
		if !s.opts.allowed().Snapshots {
			return nil, errNoRight
		}
		var err error
		if in.Snapshot, err = directory(in.Snapshot); err != nil {
			return nil, err
		}
	}
	id, err := s.open(c, Open{User: c.user, Continue: in.Continue, Snapshot: in.Snapshot})
	if err != nil {
		return nil, err
	}
	return &status{http.StatusCreated, map[string]string{"id": id}}, nil
}

// checkKept refuses what is none of the user's kept sessions, so that what a page sends
// never becomes the path of something else.
func (s *Server) checkKept(c call, id string) error {
	if s.opts.list == nil {
		return nil
	}
	kept, err := s.opts.list(c.Context(), c.user)
	if err == nil && !slices.ContainsFunc(kept, func(info sessions.Info) bool { return info.ID == id }) {
		err = errNoSession
	}
	return err
}

// forked is a session that goes on from a moment of another one, and what was said then.
type forked struct {
	ID string `json:"id"`
	draft
}

// fork begins a session that goes on from a checkpoint of another one.
func (s *Server) fork(c call) (any, error) {
	one, err := c.session(s)
	if err != nil {
		return nil, err
	}
	var in moment
	if err := c.read(&in); err != nil {
		return nil, err
	}
	if s.opts.open == nil {
		return nil, errNoOpen
	}
	from, msg, err := in.checkpoint(one.agent)
	if err != nil {
		return nil, err
	}
	info, err := sessions.Fork(c.Context(), one.agent, from, "")
	if err != nil {
		return nil, checkpointError(err)
	}
	id, err := s.open(c, Open{User: c.user, Continue: info.ID})
	if err != nil {
		return nil, err
	}
	return &status{http.StatusCreated, forked{id, draftOf(msg)}}, nil
}

// open makes the agent of a session, and shows it. It returns the id of the session.
func (s *Server) open(c call, which Open) (string, error) {
	if err := s.checkRoom(c.user); err != nil {
		return "", err
	}
	agent, err := s.opts.open(c.Context(), which)
	if err != nil {
		if errors.Is(err, sessions.ErrInUse) {
			return "", fail(http.StatusConflict, "in_use", oneLine(err.Error()))
		}
		return "", err
	}
	one, err := s.add(c.user, agent.FaceSession(), true)
	if err != nil {
		return "", errors.Join(err, agent.Close())
	}
	return one.id, nil
}

// checkRoom refuses a session that would be one too many before its agent is made. Others
// may be begun meanwhile, so that [Server.add] counts again.
func (s *Server) checkRoom(user string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.countOf(user) >= s.opts.limits.Sessions {
		return errTooMany
	}
	return nil
}

// deleteSession closes a session. What is kept of it stays.
func (s *Server) deleteSession(c call) (any, error) {
	one, err := c.session(s)
	if err != nil {
		return nil, err
	}
	if !one.owned {
		return nil, fail(http.StatusForbidden, "not_owned", "only the program that shows this session can end it")
	}
	one.cancel()
	select {
	case <-one.ended:
		return nil, one.closeErr
	case <-c.Context().Done():
		return nil, c.Context().Err()
	}
}
