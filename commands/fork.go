package commands

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/numeral"
	"github.com/x/pygent/internal/pathname"
	"github.com/x/pygent/internal/slash"
	"github.com/x/pygent/sessions"
)

// forkUsage is what the command fork takes.
const forkUsage = "[N] [DIR]"

// fork makes a session that goes on from a checkpoint.
func fork(ctx context.Context, a *pygent.Agent, args string, out io.Writer) error {
	names, err := arguments(args, 0, 2, "/fork "+forkUsage)
	if err != nil {
		return err
	}
	turns, dir := 0, ""
	if len(names) > 0 {
		if n, err := strconv.Atoi(names[0]); err == nil {
			turns, names = n, names[1:]
		}
	}
	switch {
	case len(names) > 1 || turns < 0:
		return errors.New("usage: /fork " + forkUsage)
	case len(names) == 1:
		if dir, err = pathname.Host().Read(names[0]); err != nil {
			return err
		}
	}
	from, err := forkPoint(a, turns)
	if err != nil {
		return err
	}
	info, err := sessions.Fork(ctx, a, from.ID, dir)
	switch {
	case errors.Is(err, fs.ErrPermission) && dir == "":
		return fmt.Errorf("%w; name a directory for the files: /fork N DIR", err)
	case err != nil:
		return err
	}
	return tellFork(a, from, info, out)
}

// forkPoint returns the checkpoint before the last turns; for none, the last one.
func forkPoint(a *pygent.Agent, turns int) (pygent.Checkpoint, error) {
	if turns > 0 {
		return a.CheckpointBefore(turns)
	}
	list := a.Checkpoints()
	if len(list) == 0 {
		_, err := a.CheckpointBefore(1) // says why none are kept
		if errors.Is(err, pygent.ErrNothingToUndo) {
			err = errors.New("there is nothing to fork yet: send a message first")
		}
		return pygent.Checkpoint{}, err
	}
	return list[len(list)-1], nil
}

// tellFork says where the fork is, and how to return.
func tellFork(a *pygent.Agent, from pygent.Checkpoint, info sessions.Info, out io.Writer) error {
	text := fmt.Sprintf("session %s has the %s up to ", info.ID, numeral.Count(info.Messages, "message"))
	switch {
	case from.Kind == pygent.CheckpointStart && from.Message != "":
		text += "your message: " + from.Message + "\n"
	default:
		text += "the checkpoint of " + from.Time.Local().Format("15:04:05") + "\n"
	}
	if from.Files {
		text += "Files from that point: " + slash.Quote(info.Workspace) + "\n"
	} else {
		text += "that checkpoint has no files: " + slash.Quote(info.Workspace) + " is empty\n"
	}
	text += "Continue there: pygent --resume " + info.ID + "\n"
	if here, ok := sessions.Of(a); ok {
		text += "This session is unchanged. Return to it: pygent --resume " + here.ID + "\n"
	}
	_, err := io.WriteString(out, text)
	return err
}
