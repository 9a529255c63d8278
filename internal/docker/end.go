package docker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/events"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/client"
	"github.com/docker/go-units"

	"github.com/x/pygent/internal/guest"
	"github.com/x/pygent/internal/sandbox"
)

// Waiting times for the end of a container.
const (
	// minEndTime and maxEndTime bound how long a command waits to learn what
	// became of the container under it: for as long as its limit leaves.
	minEndTime = 2 * time.Second
	maxEndTime = 10 * time.Second
	// ownEndTime is how long a container whose connection has ended may take to
	// end by itself, before it is ended.
	ownEndTime = 3 * time.Second
	// askAgain is the pause before the engine is asked again whether one has ended, or
	// to remove the volume of one that has.
	askAgain = 200 * time.Millisecond
	// releaseTime is how long an engine may take to release the volumes of a container that it
	// has removed.
	releaseTime = 5 * time.Second
	// discardTime is how long it is tried to remove a container that nobody uses.
	// What is left then is swept later.
	discardTime = 10 * time.Second
	// cleanupTime is how long Cleanup tries to remove what is on the engine.
	cleanupTime = 20 * time.Second
)

// diedNote is the note of a command whose container died under it.
func (b *Container) diedNote(ctx context.Context) string {
	why := ""
	if cause := b.memoryReached(ctx); cause != "" {
		why = ", since it " + cause
		b.explained.Store(true)
	}
	return "the container died while the command ran" + why + "; the next command gets a new one on the same workspace"
}

// memoryReached says what a container that has died did at its memory limit; nothing if
// that is not why it died.
func (b *Container) memoryReached(ctx context.Context) string {
	if b.spec.host.Memory <= 0 {
		return ""
	}
	limit := "its memory limit of " + units.BytesSize(float64(b.spec.host.Memory))
	switch b.outOfMemory(ctx) {
	case certain:
		return "reached " + limit
	case likely:
		return "was killed, most likely at " + limit
	default:
		return ""
	}
}

// Bounds of the search for why a container died.
const (
	eventsTime = time.Second            // for the engine to tell
	eventsLate = 100 * time.Millisecond // after the end, of which the engine may hear first
	oomBefore  = 2 * time.Second        // of the end at most, or it has another cause
)

// likelihood is how certain the cause of a container's end is.
type likelihood int

const (
	unlikely likelihood = iota
	likely
	certain
)

// outOfMemory tells whether a container that has died was out of memory then. It is
// removed at its end, so that only the engine's record of what happened has that. The
// record may lack it, since containerd does not tell of it once the container's control
// group is gone. A container that was killed, but not by the engine, was killed by the
// kernel, for which there is no other usual reason, or by the engine's machine.
func (b *Container) outOfMemory(ctx context.Context) likelihood {
	ctx, cancel := context.WithTimeout(ctx, eventsTime)
	defer cancel()
	happened, failed := b.engine.Events(ctx, events.ListOptions{
		Since: "1", // whatever the engine's clock says; it keeps few
		Filters: filters.NewArgs(filters.Arg("type", string(events.ContainerEventType)), filters.Arg("container", b.name),
			filters.Arg("event", string(events.ActionOOM)), filters.Arg("event", string(events.ActionKill)), filters.Arg("event", string(events.ActionDie))),
	})
	var oom, died int64
	var late <-chan time.Time
	otherwise := unlikely // if the record does not say that it was out of memory
	for oom == 0 || died == 0 {
		select {
		case e := <-happened:
			switch e.Action {
			case events.ActionOOM:
				oom = e.TimeNano
			case events.ActionKill:
				if e.Actor.Attributes["signal"] == "9" {
					return unlikely
				}
			default:
				died, late = e.TimeNano, time.After(eventsLate)
				if e.Actor.Attributes["exitCode"] == "137" {
					otherwise = likely
				}
			}
		case <-late:
			return otherwise
		case <-failed:
			return unlikely
		}
	}
	if died-oom < int64(oomBefore) {
		return certain
	}
	return otherwise
}

// containerEnd is what is known of the end of a container.
type containerEnd struct {
	asking  chan struct{} // a token for whoever asks the engine and changes what follows
	killed  bool          // by us, or the engine was asked to
	ended   bool          // it is known not to run
	died    bool          // and had ended by itself
	removed bool          // nothing of it is left
}

// confirmEnd makes sure that a container runs no longer, and kills it where it
// does. One that gets the time is first given a moment to end by itself: the
// engine may learn of its end after us. died tells that it needed no kill.
func (b *Container) confirmEnd(ctx context.Context, atOnce bool) (died bool, err error) {
	if err := b.takeEnd(ctx); err != nil {
		return false, err
	}
	defer b.giveEnd()
	if b.end.ended {
		return b.end.died, nil
	}
	runs, err := b.runs(ctx)
	if err != nil {
		return false, err
	}
	if runs && !atOnce && !b.end.killed {
		runs, err = b.awaitEnd(ctx)
	}
	if err == nil && runs {
		b.end.killed = true
		err = removeContainer(ctx, b.engine, b.name)
		b.end.removed = err == nil
	}
	if err != nil {
		return false, err
	}
	b.end.ended, b.end.died = true, !b.end.killed
	return b.end.died, nil
}

// takeEnd waits for the right to look at the end of the container.
func (b *Container) takeEnd(ctx context.Context) error {
	select {
	case b.end.asking <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (b *Container) giveEnd() { <-b.end.asking }

// runs asks the engine whether the container runs. A paused one does.
func (b *Container) runs(ctx context.Context) (bool, error) {
	info, err := b.engine.ContainerInspect(ctx, b.name)
	if errdefs.IsNotFound(err) {
		return false, nil
	}
	return err == nil && info.State != nil && info.State.Running, err
}

// awaitEnd gives the container time to end by itself, and reports whether it
// had to end: the guest of a container that is fine ends it with status 0, once
// nobody is connected.
func (b *Container) awaitEnd(ctx context.Context) (runs bool, err error) {
	own, cancel := context.WithTimeout(ctx, ownEndTime)
	defer cancel()
	ended, failed := b.engine.ContainerWait(own, b.name, container.WaitConditionNotRunning)
	select {
	case end := <-ended:
		b.end.killed = end.StatusCode == 0
		return false, nil
	case <-failed: // it has gone, or the engine has
		return b.runs(ctx)
	}
}

// remove removes the container, whatever its state, and waits until it has gone.
func (b *Container) remove(ctx context.Context) error {
	err := b.takeEnd(ctx)
	if err == nil {
		defer b.giveEnd()
		if b.end.removed {
			return nil
		}
		err = removeContainer(ctx, b.engine, b.name)
		b.end.removed = err == nil
		b.end.ended = b.end.ended || err == nil
	}
	if err != nil {
		return fmt.Errorf("remove container %s: %w", b.name, engineWords(ctx, err))
	}
	return nil
}

// removeContainer removes a container with its anonymous volumes, and waits
// until it has gone, also when the engine is removing it already.
func removeContainer(ctx context.Context, engine *client.Client, name string) error {
	err := engine.ContainerRemove(ctx, name, container.RemoveOptions{Force: true, RemoveVolumes: true})
	if errdefs.IsConflict(err) {
		removed, failed := engine.ContainerWait(ctx, name, container.WaitConditionRemoved)
		select {
		case end := <-removed:
			if end.Error == nil {
				return nil
			}
			err = errors.New(end.Error.Message)
		case err = <-failed:
		}
	}
	if errdefs.IsNotFound(err) {
		return nil
	}
	return err
}

// removeVolume removes a volume that no container uses. An engine that removes a container
// first forgets it and then releases its volumes, so a volume may be in use for a moment by a
// container that can no longer be found.
func removeVolume(ctx context.Context, engine *client.Client, name string, force bool) error {
	limit := time.NewTimer(releaseTime)
	defer limit.Stop()
	for {
		err := engine.VolumeRemove(ctx, name, force)
		if !errdefs.IsConflict(err) || isUsed(ctx, engine, name) {
			return err
		}
		select {
		case <-time.After(askAgain):
		case <-limit.C:
			return err
		case <-ctx.Done():
			return err
		}
	}
}

// isUsed reports whether a container has a volume that is not being removed, or whether that
// is unknown.
func isUsed(ctx context.Context, engine *client.Client, volume string) bool {
	users, err := engine.ContainerList(ctx, container.ListOptions{All: true, Filters: filters.NewArgs(filters.Arg("volume", volume))})
	return err != nil || slices.ContainsFunc(users, func(c container.Summary) bool { return c.State != container.StateRemoving })
}

// close gives up the container and removes it.
func (b *Container) close(ctx context.Context) error {
	b.closing.Store(true)
	return errors.Join(b.hangUp(), b.remove(ctx))
}

// abandon gives up a container that cannot be used any more, and says for a
// command what became of it. cause is what the command met.
func (b *Container) abandon(cause error, wait time.Duration) (note string) {
	b.lose(cause)
	_ = b.hangUp()
	what, atOnce := "the connection to the container was lost while the command ran", false
	switch {
	case errors.Is(cause, guest.ErrUnresponsive):
		what, atOnce = "the container did not answer", true
	case errors.Is(cause, errSurvivors):
		what, atOnce = "the container holds processes that cannot be killed", true
	}
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	died, err := b.confirmEnd(ctx, atOnce)
	switch {
	case err != nil:
		return fmt.Sprintf("%s, and the engine does not confirm its end (%v): the command may still run; the next one waits until it does not", what, engineWords(ctx, err))
	case died && !atOnce:
		return b.diedNote(ctx)
	default:
		return what + "; it was ended, and the next command gets a new one on the same workspace"
	}
}

// endTime is how long a command waits for the end of the container under it.
func endTime(cmd sandbox.Command, since time.Time) time.Duration {
	if cmd.Timeout < 0 {
		return maxEndTime
	}
	return min(max(cmd.Timeout-time.Since(since), minEndTime), maxEndTime)
}

// lose tells, once, that the container is given up. The cause may be unknown.
func (b *Container) lose(cause error) {
	what := "has ended, or cannot be reached"
	switch {
	case errors.Is(cause, guest.ErrUnresponsive):
		what = "does not answer"
	case errors.Is(cause, errSurvivors):
		what = "holds processes that cannot be killed"
	}
	b.lost.Do(func() {
		b.emit(sandbox.Event{Kind: sandbox.Lost, Container: b.name, Text: "container " + b.name + " " + what + "; the next command gets a new one"})
	})
}
