package pygent

import (
	"context"
	"net"
)

// SiblingHosts returns the hosts that the runtime of a task may reach.
func SiblingHosts(r Runtime) []string {
	t, _ := r.(*workspaceRuntime).sibling()
	return t.Container.AllowedHosts
}

// WithTestServer connects every host to one server, whatever its address.
func WithTestServer(address string) RuntimeOption {
	return runtimeOption{"", func(o *runtimeOptions) {
		o.connect = func(ctx context.Context, _ *net.Dialer, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", address)
		}
	}}
}
