//go:build !linux

package guest

import "context"

// StartLocal starts a guest inside this process and connects to it. The
// environment of its commands is env and config.Env, and nothing else. They run
// in job objects on Windows and in process groups elsewhere; see [Info].
func StartLocal(ctx context.Context, env []string, config Config) (*Client, error) {
	return startInside(ctx, env, config)
}
