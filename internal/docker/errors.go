package docker

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/client"

	"github.com/x/pygent/internal/guest"
	"github.com/x/pygent/internal/sandbox"
)

// startError marks an error that trying again would not mend.
func startError(err error) error {
	if err == nil || passing(err) || errors.Is(err, sandbox.ErrStart) {
		return err
	}
	if remedy := remedyFor(err); remedy != "" {
		return fmt.Errorf("%w: %w; %s", sandbox.ErrStart, err, remedy)
	}
	return fmt.Errorf("%w: %w", sandbox.ErrStart, err)
}

// passing reports whether an error of the engine may be gone the next time:
// it does not answer, is busy, or was not given the time.
func passing(err error) bool {
	for _, is := range []error{context.Canceled, context.DeadlineExceeded, errEngineSilent, errEngineBusy, errEngineLate, errDiedAtStart, guest.ErrUnresponsive, ErrLost} {
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

// remedies say what to do when an engine's error has certain words. Words that may
// also be part of a path or a name in the error come last.
var remedies = []struct{ words, remedy string }{
	{"pull image", ""}, // says it itself
	{"invalid reference format", "an image is named as NAME, NAME:TAG or REGISTRY/NAME:TAG, in small letters and without spaces: python:3.12-slim"},
	{"bind source path", "the source of a mount has to exist on the engine's machine"},
	{"bind mount", "the source of a mount has to exist on the engine's machine"},
	{"device driver", "the engine has no driver for GPUs"}, // it names their capabilities
	{"capabilit", "check the names of the capabilities"},
	{"unable to find user", "the image has to know the user, or name a number such as 1000:1000"},
	{"unable to find group", "the image has to know the group, or name a number such as 1000:1000"},
	{"network", "\"docker network ls\" lists the networks that there are"},
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
