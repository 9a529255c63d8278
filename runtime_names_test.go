package pygent

import (
	"context"
	"net"
)

// SiblingHosts are the hosts that a task's runtime may reach.
func SiblingHosts(r Runtime) []string {
	t, _ := r.(*workspaceRuntime).sibling()
	return t.Container.AllowedHosts
}

// WithTestServer has every host lead to one server, wherever that is.
func WithTestServer(address string) RuntimeOption {
	return runtimeOption{"", func(o *runtimeOptions) {
		o.connect = func(ctx context.Context, _ *net.Dialer, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", address)
		}
	}}
}
