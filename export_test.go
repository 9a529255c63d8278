// These functions open to the tests of package pygent_test what the package exports to
// nobody else.

package pygent

import (
	"context"
	"net"
	"time"

	"github.com/docker/docker/client"

	"github.com/x/pygent/internal/docker"
	"github.com/x/pygent/internal/guest"
	"github.com/x/pygent/internal/guest/confine"
	"github.com/x/pygent/internal/owner"
	"github.com/x/pygent/internal/sandbox"
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

// WithTestPace shortens waiting times: how long the host waits for a guest's
// answer, how often it sends a keepalive, how long a guest lives without its
// host, and how long Cleanup tries to reach an engine. Zero is the default.
func WithTestPace(patience, keepAlive, silence, cleanup time.Duration) RuntimeOption {
	return runtimeOption{"", func(o *runtimeOptions) {
		o.pace = sandbox.Pace{Patience: patience, KeepAlive: keepAlive, Silence: silence, Cleanup: cleanup}
	}}
}

// Detach takes the container from a runtime whose task is over, and returns a
// function that removes it.
func Detach(r Runtime) (remove func()) { return r.(*workspaceRuntime).Detach() }

// WithTestPlainExec runs a container without a guest, as on a platform for
// which there is no guest.
func WithTestPlainExec() RuntimeOption {
	return runtimeOption{"", func(o *runtimeOptions) { o.noGuest = true }}
}

// WithTestSupport applies change to what the machine supports.
func WithTestSupport(change func(*confine.Support)) RuntimeOption {
	return runtimeOption{"", func(o *runtimeOptions) {
		o.confinement = func(ctx context.Context) confine.Support {
			s := guest.Confinement(ctx, sandbox.MakeTemp)
			change(&s)
			return s
		}
	}}
}

// SiblingOptions returns the options of a runtime for a task of parent.
func SiblingOptions(parent Runtime) []RuntimeOption {
	t, env := parent.(*workspaceRuntime).sibling()
	return t.options(env)
}

// WithTestAttached keeps the guest of a container from the socket, as an engine does
// that has another kernel. What it says passes the engine then.
func WithTestAttached() RuntimeOption {
	return runtimeOption{"", func(o *runtimeOptions) { o.noSocket = true }}
}

// WithTestOwner makes a runtime belong to another process, perhaps one on
// another machine.
func WithTestOwner(self *owner.Self) RuntimeOption {
	return runtimeOption{"", func(o *runtimeOptions) { o.ownedBy = self }}
}

// SweepEngine sweeps an engine as the first runtime of a process does.
func SweepEngine(ctx context.Context, engine *client.Client, self *owner.Self, opts ...RuntimeOption) {
	o, err := newRuntimeOptions(append(opts, WithTestOwner(self)))
	if err != nil {
		panic(err)
	}
	docker.Sweep(ctx, engine, o.dockerConfig())
}
