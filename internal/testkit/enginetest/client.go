package enginetest

import (
	"context"
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/client"
	"github.com/stretchr/testify/require"
)

// Client returns a client of the engine of the environment, to inspect what runtimes have
// made. Without the engine and the images of the tests it does what [Need] does.
func Client(t testing.TB) *client.Client {
	t.Helper()
	Need(t, Image(), Busybox())
	engine, err := client.NewClientWithOpts(client.FromEnv, client.WithAPIVersionNegotiation())
	require.NoError(t, err)
	t.Cleanup(func() { engine.Close() })
	engine.NegotiateAPIVersion(t.Context()) // ContainerList reads the version unguarded, which the first request sets
	return engine
}

// ImageOf makes an image like another one that names a user of its own, until the end of
// the test.
func ImageOf(t testing.TB, user, base string) (id string) {
	t.Helper()
	engine := Client(t)
	made, err := engine.ContainerCreate(t.Context(), &container.Config{Image: base, Cmd: []string{"true"}}, nil, nil, nil, "")
	require.NoError(t, err)
	defer func() {
		require.NoError(t, engine.ContainerRemove(t.Context(), made.ID, container.RemoveOptions{Force: true}))
	}()
	committed, err := engine.ContainerCommit(t.Context(), made.ID, container.CommitOptions{Changes: []string{"USER " + user}})
	require.NoError(t, err)
	t.Cleanup(func() {
		_, err := engine.ImageRemove(context.Background(), committed.ID, image.RemoveOptions{Force: true})
		require.NoError(t, err)
	})
	return committed.ID
}
