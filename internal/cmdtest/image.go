package cmdtest

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

// Image is the image in which tests run commands. No registry can serve its name: the
// domain invalid is reserved (RFC 6761), so an engine that does not have it fetches nothing
// that somebody has registered under it.
func Image() string { return cmp.Or(os.Getenv("PYGENT_TEST_IMAGE"), "pygent.invalid/debian:latest") }

// HasImage returns an error that says what to do unless the engine at a host has an image.
// The empty host is the engine of the environment. Tests ask before they make a container,
// which would fetch it.
func HasImage(host, image string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "docker", "image", "inspect", "--format", "{{.Id}}", image)
	cmd.Env = os.Environ()
	if host != "" {
		cmd.Env = append(cmd.Env, "DOCKER_HOST="+host, "DOCKER_CONTEXT=")
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("the engine has no image %s (%w: %s): run make images", image, err, strings.TrimSpace(string(out)))
	}
	return nil
}
