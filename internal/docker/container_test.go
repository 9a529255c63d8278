package docker

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/sandbox"
)

// An engine without GPUs cannot show what it is asked for.
func TestGPUsThatAreAskedFor(t *testing.T) {
	t.Parallel()
	for gpus, want := range map[string]container.DeviceRequest{
		"all":          {Count: -1},
		"1":            {Count: 1},
		"12":           {Count: 12},
		"device=0":     {DeviceIDs: []string{"0"}},
		"device=0,1-a": {DeviceIDs: []string{"0", "1-a"}},
	} {
		want.Capabilities = [][]string{{"gpu"}}
		require.NoError(t, CheckGPUs(gpus), gpus)
		require.Equal(t, []container.DeviceRequest{want}, resources(Config{GPUs: gpus}).DeviceRequests, gpus)
	}
	require.NoError(t, CheckGPUs(""))
	require.Empty(t, resources(Config{}).DeviceRequests)
	for _, gpus := range []string{"0", "-1", "some", "device=", "1,2", "ALL"} {
		require.ErrorContains(t, CheckGPUs(gpus), "want all, a number, or device=0,1", gpus)
	}
}

func TestAUserWithoutAHomeGetsOne(t *testing.T) {
	t.Parallel()
	for user, want := range map[string]bool{
		"": false, "0": false, "0:0": false, "0:1000": false, "root": false, "alice": false, "alice:1000": false, "9a": false, "a9": false,
		"1000": true, "1000:1000": true, "9": true, "90:0": true,
	} {
		require.Equal(t, want, len(containerEnv(Config{User: user})) > 0, user)
		require.Equal(t, []string{"HOME=/tmp"}, containerEnv(Config{User: user, ReadOnlyRoot: true}), "nobody can write another one")
	}
}

// Nobody waits for long for the removal of what a start has left that nobody waits for, or
// that a silent engine would have to remove. What an engine may yet make is removed later.
func TestHowLongAFailedStartIsRemoved(t *testing.T) {
	t.Parallel()
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for name, tt := range map[string]struct {
		ctx    context.Context
		failed error
		want   time.Duration
	}{
		"any failure":      {t.Context(), errDiedAtStart, discardTime},
		"a silent engine":  {t.Context(), fmt.Errorf("start: %w", errEngineSilent), lateTime},
		"nobody waits":     {over, errDiedAtStart, lateTime},
		"neither of these": {over, errEngineSilent, lateTime},
	} {
		require.Equal(t, tt.want, patienceAfter(tt.ctx, tt.failed), name)
	}
	engine, open := waitingEngine(t, true)
	b := newContainer(engine, containerSpec{}, "pygent-x-1", nil)
	require.NoError(t, b.discardAfter(t.Context(), fmt.Errorf("create: %w", leftError{error: errEngineLate})), "it is not asked")
	left := leftError{}
	require.True(t, errors.As(b.discardWithin(50*time.Millisecond), &left))
	require.Equal(t, "pygent-x-1", left.container, "so that the end tries it again")
	open()
	require.NoError(t, b.discardAfter(t.Context(), errDiedAtStart))
	require.True(t, b.end.removed)
}

// A model is told once what a new container lacks, and why there is one if that is known.
func TestANewContainerIsToldOnce(t *testing.T) {
	t.Parallel()
	b := newContainer(nil, containerSpec{}, "pygent-x-1", nil)
	res := sandbox.Result{}
	b.tellNew(&res)
	require.Empty(t, res.Note, "it is the first one")
	b.second.Store(true)
	b.tellNew(&res)
	require.Equal(t, "this is a new container on the same workspace: what was installed or ran outside the workspace is gone", res.Note)
	res.Note = "killed"
	b.tellNew(&res)
	require.Equal(t, "killed", res.Note)
	b.second.Store(true)
	b.reached = "ran out of memory"
	b.tellNew(&res)
	require.Equal(t, "killed; this is a new container on the same workspace, since the last one ran out of memory: what was installed or ran outside the workspace is gone", res.Note)
}

// The end of a container is told at once, unless it was wanted.
func TestTheEndOfAContainerIsTold(t *testing.T) {
	t.Parallel()
	for _, closing := range []bool{false, true} {
		var told []sandbox.Event
		b := newContainer(nil, containerSpec{}, "pygent-x-1", func(e sandbox.Event) { told = append(told, e) })
		b.commands = &execCommander{box: b}
		b.stream.Reader = bufio.NewReader(strings.NewReader("said at the end"))
		b.closing.Store(closing)
		require.False(t, b.isGone())
		b.watchStream()
		require.True(t, b.isGone())
		require.Zero(t, b.stream.Reader.Buffered(), "what it said was read")
		if closing {
			require.Empty(t, told)
			continue
		}
		require.Len(t, told, 1)
		require.Equal(t, []any{sandbox.Lost, "pygent-x-1"}, []any{told[0].Kind, told[0].Container})
	}
}
