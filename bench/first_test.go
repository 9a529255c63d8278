package bench

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
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
			for b.Loop() {
				firstRequest(b, pygent.WithDocker(place.mode), pygent.WithImage(testImage()))
			}
		})
	}
}

// testImage is the image of the containers.
func testImage() string {
	return cmp.Or(os.Getenv("PYGENT_TEST_IMAGE"), "pygent-test/debian:latest")
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

// BenchmarkRequestPrefix tells how many bytes come before the conversation in each request
// of an agent in a container: the system message and the tools.
func BenchmarkRequestPrefix(b *testing.B) {
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
