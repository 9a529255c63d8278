package docker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/client"

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
	// askAgain is the pause before the engine is asked again whether one has ended.
	askAgain = 200 * time.Millisecond
	// discardTime is how long it is tried to remove a container that nobody uses.
	// What is left then is swept later.
	discardTime = 10 * time.Second
	// cleanupTime is how long Cleanup tries to remove what is on the engine.
	cleanupTime = 20 * time.Second
)

// containerDiedNote is the note of a command whose container died under it.
const containerDiedNote = "the container died while the command ran; the next command gets a new one on the same workspace"

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
		case <-removed:
			return nil
		case err = <-failed:
		}
	}
	if errdefs.IsNotFound(err) {
		return nil
	}
	return err
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
		return containerDiedNote
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
		b.emit(sandbox.Event{Kind: sandbox.Lost, Text: "container " + b.name + " " + what + "; the next command gets a new one"})
	})
}
