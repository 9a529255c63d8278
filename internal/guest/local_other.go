//go:build !linux

package guest

import "context"

// StartLocal starts a guest inside this process and connects to it. The
// commands' environment is env alone, and config.Env. They run in job objects
// on Windows, and elsewhere in process groups: see [Info].
func StartLocal(ctx context.Context, env []string, config Config) (*Client, error) {
	return startInside(ctx, env, config)
}
