package sessions

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/bridge"
	"github.com/x/pygent/internal/sessiondir"
)

// ErrNone is returned by [Fork] if the agent's conversation is not kept as a session: see
// [Keep].
var ErrNone = errors.New("the conversation is not kept as a session")

// keeperOf returns what keeps the session of an agent; nil for none.
func keeperOf(a *pygent.Agent) *keeper {
	_, k := bridge.Inside(a)
	kept, _ := k.(*keeper)
	return kept
}

// Of returns what was noted of an agent's session last, which [Keep] keeps. It reports
// false if none is kept.
func Of(a *pygent.Agent) (Info, bool) {
	k := keeperOf(a)
	if k == nil {
		return Info{}, false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	info := k.info
	info.Open = true
	return info, true
}

// Recap says in a line for people what there is of an agent's conversation: how many
// messages, the title of its session and what was said last. It has no control characters,
// and is empty if nothing was said, or nothing since [pygent.Agent.NewConversation].
func Recap(a *pygent.Agent) string {
	inside, _ := bridge.Inside(a)
	_, current, anew := inside.(agent).Messages()
	if anew == 0 {
		return ""
	}
	info, _ := Of(a)
	return sessiondir.RecapLine(current, info.Title, inside.(agent).Said())
}

// LastSaid is more of what [Recap] ends with, for people who go on with a
// conversation: the first lines of what the user said last, and the last lines of what
// the model said after that. They are few, and their control characters are made
// visible. Both are empty if the recap has all of it.
func LastSaid(a *pygent.Agent) (user, model []string) {
	inside, _ := bridge.Inside(a)
	return sessiondir.LastWords(Recap(a), inside.(agent).Said())
}

// Fork makes a session that goes on from a checkpoint: beside the one of the
// agent, with an id of its own, the conversation until then, and the files as they were
// in a directory of their own. The agent stays as it is, and may be at work meanwhile.
// An agent with [Keep] and [pygent.WithWorkspace] goes on with the fork, and so does
// `pygent --resume` with its id; none has it open when Fork returns.
//
// The files go to dir, which must be empty or not there, and outside of what the
// agent's commands may change. If dir is empty, it is a new
// directory whose name ends with the id: beside the workspace, or in the working
// directory of the program if the workspace is temporary. What was left out of the
// checkpoint is not there, and neither are commands in the background and tasks.
//
// The result's Workspace is where the files are. If Fork fails, nothing is left
// of the fork. The error matches [ErrNone] or [pygent.ErrNoCheckpoints] where those are
// not kept.
func Fork(ctx context.Context, a *pygent.Agent, id int64, dir string) (Info, error) {
	info, err := fork(ctx, a, id, dir)
	if err != nil {
		return Info{}, fmt.Errorf("fork the session at checkpoint %d: %w", id, err)
	}
	return info, nil
}

func fork(ctx context.Context, a *pygent.Agent, id int64, dir string) (_ Info, err error) {
	if ctx == nil {
		return Info{}, errors.New("the context is nil")
	}
	k := keeperOf(a)
	if k == nil {
		return Info{}, ErrNone
	}
	sessions, name := filepath.Dir(k.path), NewID()
	if dir == "" {
		dir = k.dirOfFork(name)
	} else if err := k.agent.MayWrite(ctx, dir); err != nil {
		return Info{}, err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return Info{}, err
	}
	isNew, err := isUnused(dir)
	if err != nil {
		return Info{}, err
	}
	made, err := k.agent.Fork(ctx, id, Keep(filepath.Join(sessions, name)), pygent.WithWorkspace(dir))
	if err == nil {
		err = errors.Join(keeperOf(made).forkedFrom(k), made.Close())
	}
	if err != nil {
		gone := Remove(sessions, name)
		if errors.Is(gone, fs.ErrNotExist) {
			gone = nil
		}
		if isNew {
			gone = errors.Join(gone, os.RemoveAll(dir))
		}
		return Info{}, errors.Join(err, gone)
	}
	info, _ := Of(made)
	info.Open = false
	return info, nil
}

// forkedFrom gives the session of a fork its title.
func (k *keeper) forkedFrom(from *keeper) error {
	if all, _, _ := k.agent.Messages(); all == 0 {
		return errors.New("the conversation was empty at that point: there is nothing to fork")
	}
	was, _ := Of(from.agent.Agent())
	k.mu.Lock()
	defer k.mu.Unlock()
	k.info.Title = titleOf("fork: " + was.Title)
	return nil
}

// dirOfFork returns where the files of a fork with an id go.
func (k *keeper) dirOfFork(id string) string {
	if _, info := k.agent.Workspace(); !info.Temporary && info.HostDir != "" {
		return info.HostDir + "-" + id
	}
	return "pygent-" + id
}

var errUsed = errors.New("the workspace already has files; choose a new directory, or leave it out to have one created")

// isUnused checks that a directory is empty or not there, and reports whether it is not
// there.
func isUnused(dir string) (isNew bool, err error) {
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return true, nil
	case err == nil && len(entries) > 0:
		err = fmt.Errorf("%s: %w", dir, errUsed)
	}
	return false, err
}
