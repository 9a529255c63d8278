package docker

import (
	"context"
	"sync"

	"github.com/docker/docker/client"
)

// startsAtOnce is how many containers this process starts on an engine at the same time.
// An engine does not start more any faster, but each takes longer then, until all of them
// look as if the engine were silent.
const startsAtOnce = 6

// turns are, by the address of an engine, the tokens of the starts that go on there.
var turns sync.Map

// awaitTurn waits until a container may be started. free ends its start.
func awaitTurn(ctx context.Context, engine *client.Client) (free func(), err error) {
	made, _ := turns.LoadOrStore(engine.DaemonHost(), make(chan struct{}, startsAtOnce))
	tokens := made.(chan struct{})
	select {
	case tokens <- struct{}{}:
		return func() { <-tokens }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
