package testkit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/testkit/enginetest"
)

// RequireDocker skips a test, or fails it if PYGENT_TEST_REQUIRE_DOCKER is 1, unless
// [DockerAnswers].
func RequireDocker(t testing.TB) {
	t.Helper()
	if err := DockerAnswers(); err != nil {
		enginetest.Lacks(t, fmt.Sprintf("no engine: %v", err))
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
		enginetest.Lacks(t, variable+" is not set: scripts/remote.sh env prints it")
	}
	return host
}
