package docker

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/docker/docker/client"
	"github.com/stretchr/testify/require"
)

// waitingEngine is an engine that answers nothing until open is called, pings apart if
// it is only busy.
func waitingEngine(t *testing.T, busy bool) (engine *client.Client, open func()) {
	t.Helper()
	gate := make(chan struct{})
	open = sync.OnceFunc(func() { close(gate) })
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if busy && strings.HasSuffix(r.URL.Path, "/_ping") {
			return
		}
		<-gate
	}))
	t.Cleanup(server.Close)
	t.Cleanup(open)
	engine, err := client.NewClientWithOpts(client.WithHost("tcp://" + server.Listener.Addr().String()))
	require.NoError(t, err)
	t.Cleanup(func() { _ = engine.Close() })
	return engine, open
}

// remove is a request as any other.
func remove(engine *client.Client) func(context.Context) error {
	return func(ctx context.Context) error { return engine.VolumeRemove(ctx, "v", true) }
}

func TestASilentEngineIsGivenUp(t *testing.T) {
	t.Parallel()
	engine, _ := waitingEngine(t, false)
	require.Equal(t, errEngineSilent, askFor(t.Context(), engine, 50*time.Millisecond, remove(engine)))
	require.True(t, passing(errEngineSilent))
}

func TestABusyEngineIsWaitedFor(t *testing.T) {
	t.Parallel()
	engine, open := waitingEngine(t, true)
	time.AfterFunc(500*time.Millisecond, open) // ten times as late as a silent one would be given up
	require.NoError(t, askFor(t.Context(), engine, 50*time.Millisecond, remove(engine)))
}

func TestTheCallersEndIsNotTheEngines(t *testing.T) {
	t.Parallel()
	engine, _ := waitingEngine(t, false)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	require.ErrorIs(t, ask(ctx, engine, remove(engine)), context.Canceled)
	late, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	require.Equal(t, errEngineLate, ask(late, engine, remove(engine)))
}

// A request that would go on at the engine is undone once the engine has done it.
func TestWhatAnEngineMakesTooLateIsUndone(t *testing.T) {
	t.Parallel()
	engine, open := waitingEngine(t, true)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, askWhole(ctx, engine, "it", remove(engine), nil), context.Canceled, "it is not even asked for")

	ctx, cancel = context.WithCancel(t.Context())
	time.AfterFunc(50*time.Millisecond, cancel)
	undone := make(chan struct{})
	err := askWhole(ctx, engine, "it", remove(engine), func(context.Context) error {
		close(undone)
		return nil
	})
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorContains(t, err, "it may be left: the engine has not answered in time")
	require.True(t, errors.As(err, new(leftError)))
	open()
	<-undone
}

func TestFewContainersStartAtOnce(t *testing.T) {
	t.Parallel()
	engine, _ := waitingEngine(t, true)
	var free []func()
	for range startsAtOnce {
		end, err := awaitTurn(t.Context(), engine)
		require.NoError(t, err)
		free = append(free, end)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := awaitTurn(ctx, engine)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	free[0]()
	end, err := awaitTurn(t.Context(), engine)
	require.NoError(t, err)
	for _, f := range append(free[1:], end) {
		f()
	}
}
