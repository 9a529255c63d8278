package pygent

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/client"

	"github.com/x/pygent/internal/guest"
)

// Starter is implemented by runtimes that can be asked to start before the
// first command does it. All runtimes of this package are.
type Starter interface {
	// Start waits until commands can run, or returns why they cannot. The error
	// matches [ErrRuntimeStart] where it would be the same the next time.
	Start(ctx context.Context) error
}

var _ Starter = (*workspaceRuntime)(nil)

// Start implements [Starter].
func (r *workspaceRuntime) Start(ctx context.Context) error {
	ctx, done, err := r.begin(ctx)
	if err != nil {
		return err
	}
	defer done()
	if _, err = r.commands.guest(ctx); errors.Is(err, errNoGuest) {
		err = nil // commands run without one
	}
	return r.errorOf(ctx, err)
}

// startError marks an error that a further attempt would meet again.
func startError(err error) error {
	if err == nil || passing(err) || errors.Is(err, ErrRuntimeStart) {
		return err
	}
	if remedy := remedyFor(err); remedy != "" {
		return fmt.Errorf("%w: %w; %s", ErrRuntimeStart, err, remedy)
	}
	return fmt.Errorf("%w: %w", ErrRuntimeStart, err)
}

// passing reports whether an error of the engine may be gone the next time:
// it does not answer, is busy, or was not given the time.
func passing(err error) bool {
	for _, is := range []error{context.Canceled, context.DeadlineExceeded, errEngineSilent, errDiedAtStart, guest.ErrUnresponsive, ErrRuntimeLost} {
		if errors.Is(err, is) {
			return true
		}
	}
	if client.IsErrConnectionFailed(err) || errdefs.IsUnavailable(err) || errdefs.IsDeadlineExceeded(err) || errdefs.IsCanceled(err) {
		return true
	}
	text := strings.ToLower(err.Error())
	for _, words := range []string{
		"context deadline exceeded", "context canceled", "resource temporarily unavailable", "connection reset", "connection refused",
		"unexpected eof", "too many open files",
	} {
		if strings.Contains(text, words) {
			return !strings.Contains(text, "pull image")
		}
	}
	return false
}

// remedies are what to do about words of an engine.
var remedies = []struct{ words, remedy string }{
	{"pull image", ""}, // says it itself
	{"network", "\"docker network ls\" lists the networks that there are"},
	{"bind source path", "the source of a mount has to exist on the engine's machine"},
	{"bind mount", "the source of a mount has to exist on the engine's machine"},
	{"capabilit", "check the names of the capabilities"},
	{"unable to find user", "the image has to know the user, or name a number such as 1000:1000"},
	{"unable to find group", "the image has to know the group, or name a number such as 1000:1000"},
	{"device driver", "the engine has no driver for GPUs"},
	{"cpu", "lower the limit of CPUs"},
	{"memory", "raise the limit of memory"},
	{"pids", "raise the limit of processes"},
}

// remedyFor returns what to do about an error, or "".
func remedyFor(err error) string {
	text := strings.ToLower(err.Error())
	for _, r := range remedies {
		if strings.Contains(text, r.words) {
			return r.remedy
		}
	}
	return ""
}
