package enginetest

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/docker/docker/client"
)

// Image is the image in which tests run commands.
func Image() string { return cmp.Or(os.Getenv("PYGENT_TEST_IMAGE"), "pygent.invalid/debian:latest") }

// Busybox is an image that has sh, but neither bash nor git.
func Busybox() string {
	return cmp.Or(os.Getenv("PYGENT_TEST_BUSYBOX_IMAGE"), "pygent.invalid/busybox:latest")
}

// Clients is an image with programs that speak HTTP, each in its own way.
func Clients() string {
	return cmp.Or(os.Getenv("PYGENT_TEST_CLIENTS_IMAGE"), "pygent.invalid/clients:latest")
}

// Need skips a test, or fails it if PYGENT_TEST_REQUIRE_DOCKER is 1, unless the engine of
// the environment has the images.
func Need(t testing.TB, images ...string) {
	t.Helper()
	NeedAt(t, "", images...)
}

// NeedAt is [Need] for the engine at a host.
func NeedAt(t testing.TB, host string, images ...string) {
	t.Helper()
	if err := Has(host, images...); err != nil {
		Lacks(t, err)
	}
}

// Lacks skips a test that lacks something of an engine, or fails it if that is [Required].
func Lacks(t testing.TB, what any) {
	t.Helper()
	if Required() {
		t.Fatal(what)
	}
	t.Skip(what)
}

// Required reports whether tests must not go without an engine: PYGENT_TEST_REQUIRE_DOCKER
// is 1.
func Required() bool { return os.Getenv("PYGENT_TEST_REQUIRE_DOCKER") == "1" }

// Has returns an error that says what to do unless the engine at a host has the images.
// The empty host is the engine of the environment.
func Has(host string, images ...string) error {
	opts := []client.Opt{client.FromEnv, client.WithAPIVersionNegotiation()}
	if host != "" {
		opts = append(opts, client.WithHost(host))
	}
	engine, err := client.NewClientWithOpts(opts...)
	if err != nil {
		return err
	}
	defer engine.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if _, err := engine.Ping(ctx); err != nil {
		return fmt.Errorf("no engine: %w", err)
	}
	for _, image := range images {
		if _, err := engine.ImageInspect(ctx, image); err != nil {
			return fmt.Errorf("the engine has no image %s: run make images (%w)", image, err)
		}
	}
	return nil
}
