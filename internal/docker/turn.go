package docker

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/docker/docker/client"
)

// startsAtOnce is how many containers this process starts on an engine at the same time.
// An engine does not start more any faster, but each takes longer then, until all of them
// look as if the engine were silent.
const startsAtOnce = 6

// engineState is what this process knows of an engine, whoever asks it.
type engineState struct {
	turns  chan struct{} // tokens of the starts that go on there
	silent atomic.Bool   // it did not answer when it was last given up, and nothing since
}

// engines are the states, by the address of the engine.
var engines sync.Map

func stateOf(engine *client.Client) *engineState {
	made, _ := engines.LoadOrStore(engine.DaemonHost(), &engineState{turns: make(chan struct{}, startsAtOnce)})
	return made.(*engineState)
}

// pingAfter is when an engine is pinged that has a time for a request.
func (s *engineState) pingAfter(within time.Duration) time.Duration {
	if s.silent.Load() {
		return min(within, signEvery)
	}
	return within
}

// awaitTurn waits until a container may be started. free ends its start. The others may
// wait for an engine that has become silent: it is not waited for after them, too.
func awaitTurn(ctx context.Context, engine *client.Client) (free func(), err error) {
	return awaitTurnLooking(ctx, engine, engineTimeout)
}

func awaitTurnLooking(ctx context.Context, engine *client.Client, every time.Duration) (free func(), err error) {
	turns := stateOf(engine).turns
	look := time.NewTicker(every)
	defer look.Stop()
	for {
		select {
		case turns <- struct{}{}:
			return func() { <-turns }, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-look.C:
			if !answers(ctx, engine, signTime) && ctx.Err() == nil {
				return nil, errEngineSilent
			}
		}
	}
}
