package bench

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
	"github.com/x/pygent/internal/testkit/enginetest"
)

// errEnough ends a run whose first request is all that is wanted.
var errEnough = errors.New("enough")

// BenchmarkFirstRequest measures the time from nothing to an agent's first request
// to its model. The agent's end is not measured.
func BenchmarkFirstRequest(b *testing.B) {
	for _, place := range []struct {
		name string
		mode pygent.DockerMode
	}{{"local", pygent.DockerNever}, {"docker", pygent.DockerRequired}} {
		b.Run(place.name, func(b *testing.B) {
			if place.mode != pygent.DockerNever {
				enginetest.Need(b, testImage())
			}
			for b.Loop() {
				firstRequest(b, pygent.WithDocker(place.mode), pygent.WithImage(testImage()))
			}
		})
	}
}

// testImage is the image of the containers.
func testImage() string {
	return enginetest.Image()
}

func firstRequest(b *testing.B, opts ...pygent.Option) {
	var agent *pygent.Agent
	model := pygent.ModelFunc(func(context.Context, *pygent.ChatRequest) (*pygent.ChatResponse, error) {
		b.StopTimer()
		return nil, errEnough
	})
	agent, err := pygent.New(append(opts, pygent.WithModel(model))...)
	require.NoError(b, err)
	_, err = agent.Step(b.Context(), "go")
	require.ErrorIs(b, err, errEnough)
	require.NoError(b, agent.Close())
	b.StartTimer()
}

// BenchmarkFirstCommand measures how long the first command of an agent takes on this
// machine, from the model's answer to the command's result. The model writes the
// command for a while, as real ones do (written), or answers at once.
func BenchmarkFirstCommand(b *testing.B) {
	var written, atOnce []time.Duration
	firstCommand(b, 0) // unpacks what is kept for the next
	for b.Loop() {
		written = append(written, firstCommand(b, modelTakes))
		atOnce = append(atOnce, firstCommand(b, 0))
	}
	b.ReportMetric(0, "ns/op") // of both together, which says nothing
	for name, all := range map[string][]time.Duration{"written": written, "at-once": atOnce} {
		slices.Sort(all)
		b.ReportMetric(milliseconds(all[len(all)/2]), name+"-ms")
		b.ReportMetric(milliseconds(all[0]), name+"-min-ms")
	}
}

func firstCommand(b *testing.B, writes time.Duration) (took time.Duration) {
	var answered time.Time
	model := pygent.StreamFunc(func(_ context.Context, req *pygent.ChatRequest, emit func(pygent.Delta)) (*pygent.ChatResponse, error) {
		if !answered.IsZero() {
			took = time.Since(answered)
			return nil, errEnough
		}
		if writes > 0 {
			emit(pygent.Delta{Call: &chat.CallDelta{Tool: "bash"}})
			time.Sleep(writes)
		}
		answered = time.Now()
		call := pygent.ToolCall{ID: "c1", Name: "bash", Arguments: `{"cmd":"true"}`}
		return &pygent.ChatResponse{Message: pygent.Message{Role: chat.RoleAssistant, ToolCalls: []pygent.ToolCall{call}}}, nil
	})
	agent, err := pygent.New(pygent.WithModel(model), pygent.WithDocker(pygent.DockerNever))
	require.NoError(b, err)
	_, err = agent.RunUntilStop(b.Context(), "go")
	require.ErrorIs(b, err, errEnough)
	require.NoError(b, agent.Close())
	return took
}

// BenchmarkRequestPrefix tells how many bytes come before the conversation in each request
// of an agent in a container: the system message and the tools.
func BenchmarkRequestPrefix(b *testing.B) {
	enginetest.Need(b, testImage())
	var size int
	model := pygent.ModelFunc(func(_ context.Context, req *pygent.ChatRequest) (*pygent.ChatResponse, error) {
		tools, err := json.Marshal(req.Tools)
		size = len(req.Messages[0].Text()) + len(tools)
		return nil, cmp.Or(err, errEnough)
	})
	for b.Loop() {
		agent, err := pygent.New(pygent.WithModel(model), pygent.WithDocker(pygent.DockerRequired), pygent.WithImage(testImage()))
		require.NoError(b, err)
		_, err = agent.Step(b.Context(), "go")
		require.ErrorIs(b, err, errEnough)
		require.NoError(b, agent.Close())
	}
	b.ReportMetric(float64(size), "bytes")
}
