package pygent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/x/pygent/internal/recap"
)

// ErrNoSession is returned by [Agent.ForkSession] if the agent's conversation is not
// kept as a session: see [WithSession].
var ErrNoSession = errors.New("the conversation is not kept as a session")

// Session returns what was noted of the agent's session last, which [WithSession]
// keeps. It reports false if none is kept.
func (a *Agent) Session() (SessionInfo, bool) {
	if a.kept == nil {
		return SessionInfo{}, false
	}
	a.kept.mu.Lock()
	defer a.kept.mu.Unlock()
	info := a.kept.info
	info.Open = true
	return info, true
}

// Recap says in a line for people what there is of the conversation: how many messages,
// its title and what was said last. It has no control characters, and is empty if
// nothing was said, or nothing since [Agent.NewConversation].
func (a *Agent) Recap() string {
	if a.history.spokenAnew() == 0 {
		return ""
	}
	info, _ := a.Session()
	return recap.Line(a.history.inEffect(), info.Title, a.said())
}

// LastSaid is more of what [Agent.Recap] ends with, for people who go on with a
// conversation: the first lines of what the user said last, and the last lines of what
// the model said after that. They are few, and their control characters are made
// visible. Both are empty if the recap has all of it.
func (a *Agent) LastSaid() (user, model []string) {
	return recap.Last(a.Recap(), a.said())
}

// said is what the user and the model have said, for people.
func (a *Agent) said() (said []recap.Said) {
	for _, e := range a.history.said() {
		byUser := e.Message.Role == RoleUser && isOfUser(e.Message, e.Source)
		if byUser || e.Message.Role == RoleAssistant {
			said = append(said, recap.Said{ByUser: byUser, Text: e.Message.Text()})
		}
	}
	return said
}

// ForkSession makes a session that goes on from a checkpoint: beside the one of this
// agent, with an id of its own, the conversation until then, and the files as they were
// in a directory of their own. This agent stays as it is, and may be at work meanwhile.
// An agent with [WithSession] and [WithWorkspace] goes on with the fork, and so does
// `pygent --resume` with its id; none has it open when ForkSession returns.
//
// The files go to dir, which must be empty or not there, and outside of what the
// agent's commands may change. If dir is empty, it is a new
// directory whose name ends with the id: beside the workspace, or in the working
// directory of the program if the workspace is temporary. What was left out of the
// checkpoint is not there, and neither are commands in the background and tasks.
//
// The result's Workspace is where the files are. If ForkSession fails, nothing is left
// of the fork. The error matches [ErrNoSession] or [ErrNoCheckpoints] where those are
// not kept.
func (a *Agent) ForkSession(ctx context.Context, id int64, dir string) (SessionInfo, error) {
	info, err := a.forkSession(ctx, id, dir)
	if err != nil {
		return SessionInfo{}, fmt.Errorf("fork the session at checkpoint %d: %w", id, err)
	}
	return info, nil
}

func (a *Agent) forkSession(ctx context.Context, id int64, dir string) (_ SessionInfo, err error) {
	if ctx == nil {
		return SessionInfo{}, errNilContext
	}
	if a.kept == nil {
		return SessionInfo{}, ErrNoSession
	}
	sessions, name := filepath.Dir(a.opts.sessionDir), NewSessionID()
	if dir == "" {
		dir = a.dirOfFork(name)
	} else if err := a.checkOutside(ctx, dir); err != nil {
		return SessionInfo{}, err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return SessionInfo{}, err
	}
	isNew, err := isUnused(dir)
	if err != nil {
		return SessionInfo{}, err
	}
	fork, err := a.fork(ctx, id, []Option{WithSession(filepath.Join(sessions, name)), WithWorkspace(dir)})
	if err == nil {
		err = errors.Join(fork.settleFork(a), fork.Close())
	}
	if err != nil {
		gone := RemoveSession(sessions, name)
		if errors.Is(gone, fs.ErrNotExist) {
			gone = nil
		}
		if isNew {
			gone = errors.Join(gone, os.RemoveAll(dir))
		}
		return SessionInfo{}, errors.Join(err, gone)
	}
	info, _ := fork.Session()
	info.Open = false
	return info, nil
}

// settleFork gives the session of a fork its title.
func (a *Agent) settleFork(of *Agent) error {
	if a.history.spoken() == 0 {
		return errors.New("nothing had been said then, so there is no conversation to go on with")
	}
	from, _ := of.Session()
	a.kept.mu.Lock()
	defer a.kept.mu.Unlock()
	a.kept.info.Title = titleOf("fork: " + from.Title)
	return nil
}

// dirOfFork returns where the files of a fork with an id go.
func (a *Agent) dirOfFork(id string) string {
	if rt, ours := RuntimeAs[*workspaceRuntime](a.runtime); ours && !rt.info.Temporary && rt.HostDir() != "" {
		return rt.HostDir() + "-" + id
	}
	return "pygent-" + id
}

// isUnused checks that a directory is empty or not there, and reports whether it is not
// there.
func isUnused(dir string) (isNew bool, err error) {
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return true, nil
	case err == nil && len(entries) > 0:
		err = fmt.Errorf("%s: %w", dir, errWorkspaceUsed)
	}
	return false, err
}
