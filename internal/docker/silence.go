package docker

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/x/pygent/internal/sandbox"
)

// While a command waits, what it waits for is pinged every pingEvery, and has
// pingAnswer to answer. Otherwise people are told, after the sum of both.
const (
	pingEvery  = time.Second
	pingAnswer = 2 * time.Second
)

// tellSilence tells, once, when the container that a command uses does not answer, as
// one that is paused, or the engine while there is no container yet. It ends when the
// returned function is called. A command that prints nothing looks just the same
// otherwise.
func (c *commander) tellSilence(used *atomic.Pointer[Container]) (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var watching sync.WaitGroup
	watching.Go(func() {
		tick := time.NewTicker(pingEvery)
		defer tick.Stop()
		for silent := ""; silent == ""; {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				silent = c.silent(ctx, used.Load())
			}
			if silent != "" && ctx.Err() == nil {
				c.emit(sandbox.Event{Kind: sandbox.Silent, Text: silent + " does not answer yet"})
			}
		}
	})
	return func() {
		cancel()
		watching.Wait()
	}
}

// silent names what does not answer: the container, or the engine if that is nil.
func (c *commander) silent(ctx context.Context, box *Container) string {
	limited, cancel := context.WithTimeout(ctx, pingAnswer)
	defer cancel()
	if box == nil {
		if _, err := c.engine.Ping(limited); err != nil && limited.Err() != nil {
			return "the engine"
		}
		return ""
	}
	if g, ok := box.commands.(*boxedGuest); ok && !g.Client.Answers(limited) {
		return "container " + box.name
	}
	return ""
}
