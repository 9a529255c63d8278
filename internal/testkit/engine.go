package testkit

import (
	"context"
	"errors"
	"os"
	"sync"
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/client"
	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/enginetest"
)

// RequireDocker skips a test, or fails it if PYGENT_TEST_REQUIRE_DOCKER is 1, unless
// [DockerAnswers].
func RequireDocker(t testing.TB) {
	t.Helper()
	if err := DockerAnswers(); err != nil {
		if os.Getenv("PYGENT_TEST_REQUIRE_DOCKER") == "1" {
			t.Fatalf("an engine is required: %v", err)
		}
		t.Skipf("no engine: %v", err)
	}
}

// DockerAnswers returns an error unless a runtime can be made on the engine of the
// environment, which has the images of the tests.
var DockerAnswers = sync.OnceValue(func() error {
	r, err := pygent.NewDockerRuntime(context.Background(), pygent.WithImage(enginetest.Image()))
	if err != nil {
		return err
	}
	return errors.Join(r.Cleanup(), enginetest.Has("", enginetest.Image(), enginetest.Busybox()))
})

// OnRemote returns the options of a runtime on an engine that does not see our
// file system, such as the one that scripts/remote.sh starts.
func OnRemote(t testing.TB) []pygent.RuntimeOption {
	t.Helper()
	host := RequireEngine(t, "PYGENT_TEST_REMOTE_ENGINE")
	enginetest.NeedAt(t, host, enginetest.Image())
	return []pygent.RuntimeOption{pygent.WithDockerHost(host), pygent.WithImage(enginetest.Image())}
}

// RequireEngine returns the address of an engine from an environment variable. It skips the
// test, or fails it if PYGENT_TEST_REQUIRE_DOCKER is 1, if the variable is not set.
func RequireEngine(t testing.TB, variable string) string {
	t.Helper()
	host := os.Getenv(variable)
	if host == "" {
		if os.Getenv("PYGENT_TEST_REQUIRE_DOCKER") == "1" {
			t.Fatalf("%s is required: scripts/remote.sh env prints it", variable)
		}
		t.Skipf("%s is not set: see scripts/remote.sh", variable)
	}
	return host
}

// Engine returns a client of the engine of the environment, to inspect what runtimes have
// made.
func Engine(t testing.TB) *client.Client {
	t.Helper()
	RequireDocker(t)
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
	engine := Engine(t)
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
