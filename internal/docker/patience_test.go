package docker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/docker/docker/client"
	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/sandbox"
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
	time.AfterFunc(1500*time.Millisecond, open) // later than a silent one would be given up
	require.NoError(t, askFor(t.Context(), engine, 500*time.Millisecond, remove(engine)))
}

// pinged is an engine without a connection, for a test with synthetic time: it answers
// pings while alive says so, and nothing else.
type pinged func() bool

func (alive pinged) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.HasSuffix(r.URL.Path, "/_ping") && alive() {
		return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: r}, nil
	}
	<-r.Context().Done()
	return nil, r.Context().Err()
}

func (alive pinged) client(t *testing.T) *client.Client {
	t.Helper()
	engine, err := client.NewClientWithOpts(client.WithHost("tcp://"+t.Name()), client.WithHTTPClient(&http.Client{Transport: alive}))
	require.NoError(t, err)
	return engine
}

func TestAnEngineThatOnlyAnswersPingsIsGivenUp(t *testing.T) {
	t.Parallel()
	for within, after := range map[time.Duration]time.Duration{engineTimeout: busyTime, time.Second: busyTime + time.Second, 2 * busyTime: 2 * busyTime} {
		synctest.Test(t, func(t *testing.T) {
			engine := pinged(func() bool { return true }).client(t)
			begun := time.Now()
			require.Equal(t, errEngineBusy, askFor(t.Context(), engine, within, remove(engine)))
			require.Equal(t, after, time.Since(begun))
			require.False(t, stateOf(engine).silent.Load())
		})
	}
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

// The starts that go on may wait for a silent engine, one after the other. Another engine's
// starts have turns of their own.
func TestATurnIsNotAwaitedOnASilentEngine(t *testing.T) {
	t.Parallel()
	silent, _ := waitingEngine(t, false)
	other, _ := waitingEngine(t, true)
	for range startsAtOnce {
		free, err := awaitTurn(t.Context(), silent)
		require.NoError(t, err)
		defer free()
	}
	_, err := awaitTurnLooking(t.Context(), silent, 50*time.Millisecond)
	require.Equal(t, errEngineSilent, err)
	free, err := awaitTurn(t.Context(), other)
	require.NoError(t, err)
	free()
}

// However long the starts before it take: an engine that answers pings is only slow.
func TestATurnIsAwaitedWhileTheEngineLives(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begun, lives := time.Now(), time.Hour
		engine := pinged(func() bool { return time.Since(begun) < lives }).client(t)
		for range startsAtOnce {
			free, err := awaitTurn(t.Context(), engine)
			require.NoError(t, err)
			defer free()
		}
		short, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := awaitTurn(short, engine)
		require.Equal(t, context.DeadlineExceeded, err)
		_, err = awaitTurn(t.Context(), engine)
		require.Equal(t, errEngineSilent, err)
		require.Equal(t, lives+signTime, time.Since(begun).Truncate(time.Second))
		short, cancel = context.WithTimeout(t.Context(), engineTimeout+signTime/2)
		defer cancel()
		_, err = awaitTurn(short, engine)
		require.Equal(t, context.DeadlineExceeded, err, "the caller's time was over before the engine's")
	})
}

// A run makes several requests at its end, and each would wait as long as the first.
func TestAnEngineThatWasSilentIsPingedSooner(t *testing.T) {
	t.Parallel()
	engine, open := waitingEngine(t, false)
	require.Equal(t, errEngineSilent, askFor(t.Context(), engine, 50*time.Millisecond, remove(engine)))
	require.Equal(t, signEvery, stateOf(engine).pingAfter(engineTimeout))
	require.Equal(t, time.Second, stateOf(engine).pingAfter(time.Second))
	open()
	require.NoError(t, ask(t.Context(), engine, remove(engine)))
	require.Equal(t, engineTimeout, stateOf(engine).pingAfter(engineTimeout), "it has answered")
}

func TestAnEngineThatIsAwayHasHalfAMinuteInAll(t *testing.T) {
	t.Parallel()
	away := fmt.Errorf("%w: connection refused", ErrLost)
	for name, tt := range map[string]struct {
		since  time.Duration // for how long it has been asked
		doubt  *error
		wait   time.Duration // that the caller has
		waited time.Duration
	}{
		"at first":         {0, &away, -1, engineTimeout},
		"later":            {20 * time.Second, &away, -1, 10 * time.Second},
		"much later":       {time.Hour, &away, -1, minEndTime},
		"for a short call": {0, &away, 5 * time.Second, 5 * time.Second},
		"one that is slow": {time.Hour, nil, time.Minute, time.Minute},
		"very slow":        {time.Hour, nil, -1, 2 * busyTime},
		"and a short call": {time.Hour, &away, time.Second, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begun := time.Now()
				s := &containerStart{before: "pygent-x-1", cleared: make(chan struct{}), since: begun.Add(-tt.since)}
				s.doubt.Store(tt.doubt)
				err := s.awaitCleared(t.Context(), tt.wait)
				require.ErrorIs(t, err, ErrLost)
				require.Equal(t, tt.waited, time.Since(begun))
				if tt.doubt != nil {
					require.Equal(t, away, err)
				}
			})
		})
	}
}

// answering is an engine without a connection, for a test with synthetic time.
type answering func(*http.Request) (*http.Response, error)

func (a answering) RoundTrip(r *http.Request) (*http.Response, error) { return a(r) }

// The half minute is one for all starts that wait for the same container's end. The next
// container is asked about anew.
func TestAnEngineIsAwayFromTheFirstDoubtOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var back atomic.Bool
		engine, err := client.NewClientWithOpts(client.WithHost("tcp://"+t.Name()), client.WithHTTPClient(&http.Client{
			Transport: answering(func(r *http.Request) (*http.Response, error) {
				if !back.Load() {
					return nil, errors.New("connection refused")
				}
				status := http.StatusInternalServerError // no other container can start
				if strings.Contains(r.URL.Path, "/containers/") {
					status = http.StatusNotFound
				}
				return &http.Response{StatusCode: status, Body: http.NoBody, Request: r}, nil
			}),
		}))
		require.NoError(t, err)
		stateOf(engine).silent.Store(false) // whatever an earlier run of this test has left
		c := &commander{engine: engine, emit: func(sandbox.Event) {}}
		c.life, c.end = context.WithCancel(t.Context())
		defer c.end()
		begin := func() *containerStart {
			c.mu.Lock()
			defer c.mu.Unlock()
			return c.begin()
		}
		lost := func(name string) *Container {
			b := newContainer(engine, containerSpec{}, name, c.emit)
			b.commands = &execCommander{box: b}
			b.stream.Conn, _ = net.Pipe()
			return b
		}

		c.last = lost("pygent-x-1")
		begun := time.Now()
		first := begin()
		require.ErrorContains(t, first.awaitCleared(t.Context(), 5*time.Second), "Cannot connect", "why it is not known")
		<-first.done
		require.ErrorIs(t, first.err, ErrLost)

		asked := time.Now()
		second := begin()
		require.Equal(t, begun, second.since)
		err = second.awaitCleared(t.Context(), -1)
		require.ErrorContains(t, err, "container pygent-x-1")
		require.ErrorContains(t, err, "Cannot connect")
		require.Equal(t, minEndTime, time.Since(asked), "the half minute is over")
		back.Store(true)
		<-second.done
		require.NotErrorIs(t, second.err, ErrLost)

		third := begin()
		require.Empty(t, third.before)
		require.NoError(t, third.awaitCleared(t.Context(), -1))
		<-third.done

		back.Store(false)
		c.last = lost("pygent-x-2")
		asked = time.Now()
		fourth := begin()
		require.Equal(t, asked, fourth.since)
		<-fourth.done
	})
}

// What the starts of a run have left is not forgotten when a later one fails otherwise, or
// succeeds.
func TestTheEndRemovesWhatFailedStartsHaveLeft(t *testing.T) {
	t.Parallel()
	engine, open := waitingEngine(t, true)
	c := &commander{engine: engine, strays: []leftError{
		{error: errors.New("remove container pygent-x-1: not now"), container: "pygent-x-1"},
		{error: errors.New("container pygent-x-2 may be left")},
	}}
	late, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	require.EqualError(t, c.removeStrays(late), "remove container pygent-x-1: not now\ncontainer pygent-x-2 may be left")
	open()
	require.EqualError(t, c.removeStrays(t.Context()), "container pygent-x-2 may be left")
}
