//go:build !race

// These tests measure memory, or move so much that the race detector makes them take a
// minute; what may race in them runs with it in other tests.

package pygent_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/pygenttest"
)

func TestDelegationIsBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("makes 100,001 files")
	}
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	rt := localRuntime(t)
	made := bash(t, rt, `mkdir many big && head -c 1100000000 /dev/zero >big/a && cd many && seq 1 100001 | xargs touch`, pygent.BashTimeout(5*time.Minute))
	require.Zero(t, made.ExitCode, "%s", made)
	m := newTasks(t, pygenttest.NewScriptedModel(stop).RepeatLast())
	for what, want := range map[string]string{
		"many": "more than 100000 files",
		"big":  "limit of 1 GiB; name only the files that are needed",
	} {
		_, err := m.StartTask(t.Context(), "go", rt, pygent.WithTaskFiles(what))
		require.ErrorIs(t, err, pygent.ErrCopyTooLarge, what)
		require.ErrorContains(t, err, want)
	}
	require.NoError(t, filepath.WalkDir(temp, func(path string, d os.DirEntry, err error) error {
		if err == nil && strings.HasPrefix(d.Name(), "tar-") {
			t.Errorf("%s is left", path)
		}
		return nil
	}))
}

// A tool that returned ten images of 1 MiB made requests of 14 MB.
func TestRequestsDoNotGrowWithTheImagesOfTools(t *testing.T) {
	t.Parallel()
	const steps, size = 7, 2 << 20
	script := make([]pygenttest.Reply, steps)
	for i := range script {
		script[i] = pygenttest.Call("camera", map[string]any{"n": i})
	}
	server := pygenttest.NewServer(t, append(script, pygenttest.Call("stop", map[string]any{}))...)
	model, err := pygent.NewOpenAIModel(pygent.OpenAIBaseURL(server.URL()), pygent.OpenAIKey("k"))
	require.NoError(t, err)
	agent := newAgentOn(t, nowhere{}, model, pygent.WithModelName("m"), pygent.WithTools(camera(1, size)))
	_, err = agent.RunUntilStop(t.Context(), "go", pygent.MaxSteps(steps+1))
	require.NoError(t, err)

	rewritten := 0
	var before string
	for i, req := range server.Requests() {
		require.NoError(t, req.Err)
		body := string(req.Body)
		require.LessOrEqual(t, len(body), 9<<20, i)
		if len(body) < len(before) {
			rewritten++
			require.Contains(t, body, "[an image was here (image/png, ")
		}
		before = body
	}
	require.LessOrEqual(t, rewritten, steps/4+1)
	kept := 0
	for _, m := range agent.History().Messages() {
		if m.HasImages() {
			kept++
		}
	}
	require.Equal(t, steps, kept, "the history keeps them all")
}

func TestHostileAnswersTakeLittleMemory(t *testing.T) {
	for _, c := range hostileAnswers {
		t.Run(c.name, func(t *testing.T) {
			m := newModel(t, pygent.OpenAIHTTPClient(respond(c.body)), pygent.OpenAIAPI(c.api))
			var err error
			took := allocated(func() { _, err = m.ChatStream(t.Context(), ask(), func(pygent.Delta) {}) })
			require.Less(t, took>>20, c.mib)
			require.ErrorContains(t, err, c.want)
			require.Less(t, len(err.Error()), 10_000)
			if errors.Is(err, pygent.ErrAnswerTooLarge) {
				require.False(t, apiError(t, err).Retryable)
				require.ErrorContains(t, err, "is that a model server?")
			}
		})
	}
}

// What the model needs no more is kept by the file alone, and the record is whole
// nevertheless. No other test may run while memory is measured.
func TestALongRunKeepsOldTextsInItsFileAlone(t *testing.T) {
	var early uint64
	h := longHistory(t, filepath.Join(t.TempDir(), "history.json"), awaySteps, func(n int) {
		if n == awaySteps/3 {
			early = heap()
		}
	})
	late := heap()
	require.Less(t, int64(late)-int64(early), int64(awaySteps*awayResult/4), "%d results of %d bytes came in between", awaySteps*2/3, awayResult)
	requireWhole(t, h.Messages(), awaySteps)
	require.NoError(t, h.Close())
}
