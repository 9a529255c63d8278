package pygent

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"

	"github.com/x/pygent/internal/egress"
	"github.com/x/pygent/internal/hostask"
)

// DefaultNetworkLimit is how many bytes the commands of a runtime may exchange
// with hosts that [WithAllowedHosts] names.
const DefaultNetworkLimit = 16 << 30

// HostUse tells of a host that commands wanted to reach.
type HostUse struct {
	Host    string `json:"host"` // lower case, in ASCII; an address without brackets
	Port    int    `json:"port"`
	Allowed bool   `json:"allowed"`
	Reason  string `json:"reason,omitempty"` // why it was refused
}

// pattern is what [WithAllowedHosts] takes to allow a host that was refused. A
// private address has to be named with its port.
func (u HostUse) pattern() string {
	if u.Reason == notAllowed {
		return hostask.Name(u.Host, u.Port)
	}
	return net.JoinHostPort(u.Host, strconv.Itoa(u.Port))
}

// WithAllowedHosts lets commands in a container without a network reach hosts by
// HTTP and HTTPS, and no others: "example.org" on the ports 80 (HTTP) and 443
// (HTTPS), "*.example.net" every name below example.net but not itself,
// "example.org:8443" that port alone. A private address, of this machine or its
// network, is reached only when it is named with its port, as in
// "10.0.0.5:8080"; link-local addresses only by themselves, not by a name. Calls
// add up.
//
// Commands see a proxy on 127.0.0.1, of which their environment tells
// (http_proxy, https_proxy and the like). The hosts are dialled from this
// machine, also when the engine is remote. What is not allowed is not even looked
// up. TLS passes untouched, so what is behind an allowed name is that server's
// choice. A proxy that the environment of this process names (HTTPS_PROXY) is
// used; addresses cannot be checked then, since it looks the names up.
//
// It is an error together with another network than "none", and has no effect on
// the local runtime, whose commands have the network of this machine; a
// [RuntimeLimited] event tells so.
func WithAllowedHosts(patterns ...string) RuntimeOption {
	return func(o *runtimeOptions) { o.allowedHosts = append(o.allowedHosts, slices.Clone(patterns)...) }
}

// WithNetworkLimit limits how many bytes, both ways together, commands may
// exchange with allowed hosts while the runtime lives. The default, 0, is
// [DefaultNetworkLimit]; a negative number is no limit.
func WithNetworkLimit(bytes int64) RuntimeOption {
	return func(o *runtimeOptions) { o.networkLimit = bytes }
}

// wantsHosts reports whether commands are to have a way out by permission.
func (o *runtimeOptions) wantsHosts() bool { return len(o.allowedHosts) > 0 || o.approveHost != nil }

// checkNetwork refuses hosts that make no sense.
func (o *runtimeOptions) checkNetwork() error {
	for _, s := range o.allowedHosts {
		if _, err := egress.ParsePattern(s); err != nil {
			return err
		}
	}
	if len(o.allowedHosts) > 0 && o.network != "none" && o.docker != DockerNever {
		return fmt.Errorf("the network %q reaches every host: leave it out, or the allowed hosts", o.network)
	}
	return nil
}

// openNetwork makes the way out of a runtime in containers, where it wants one.
func (o *runtimeOptions) openNetwork() (err error) {
	if !o.wantsHosts() || o.network != "none" {
		return nil
	}
	for _, s := range o.allowedHosts {
		if p, err := egress.ParsePattern(s); err == nil && p.IsInside() {
			o.queue.tell(RuntimeEvent{Kind: RuntimeLimited, Text: fmt.Sprintf("%s is the container itself for its programs, which use no proxy for it: allow this machine by its name or another address", s)})
		}
	}
	o.way, err = egress.New(egress.Config{
		Allow:   o.allowedHosts,
		Ask:     o.approveHost,
		Limit:   cmp.Or(o.networkLimit, DefaultNetworkLimit),
		Connect: o.connect,
		Tell:    func(u egress.Use) { o.queue.send(o.networkEvent(u)) },
	})
	return err
}

// allowed are the hosts that commands can reach.
func (o *runtimeOptions) allowed() []string {
	if o.way == nil {
		return nil
	}
	return o.way.Allowed()
}

// networkEvent tells of a host, and how it can be allowed.
func (o *runtimeOptions) networkEvent(u egress.Use) RuntimeEvent {
	use := HostUse(u)
	e := RuntimeEvent{Kind: RuntimeNetwork, Host: &use}
	switch {
	case u.Host == "":
		e.Host, e.Text = nil, "commands ask for further hosts, which are not named"
	case u.Allowed:
		e.Text = fmt.Sprintf("commands reach %s on port %d", u.Host, u.Port)
	default:
		e.Text = fmt.Sprintf("commands may not reach %s on port %d: %s", u.Host, u.Port, u.Reason)
		if !o.hosts.refuses(hostask.Name(u.Host, u.Port)) {
			e.Text += "; --allow-host " + use.pattern() + " allows it"
		}
	}
	return e
}

// tellOpenNetwork tells where allowed hosts are no limit.
func tellOpenNetwork(o *runtimeOptions) {
	if len(o.allowedHosts) > 0 {
		o.queue.tell(RuntimeEvent{Kind: RuntimeLimited, Text: "commands run on this machine and use its network: the allowed hosts are no limit"})
	}
}

// watchHosts returns a function that tells what was refused since, and what was
// allowed but could not be reached.
func (r *workspaceRuntime) watchHosts() (end func() (refused, missed []HostUse)) {
	if r.options.way == nil {
		return func() (refused, missed []HostUse) { return nil, nil }
	}
	watched := r.options.way.Watch()
	return func() (refused, missed []HostUse) {
		no, gone := watched()
		return hostUses(no), hostUses(gone)
	}
}

func hostUses(list []egress.Use) (uses []HostUse) {
	for _, u := range list {
		uses = append(uses, HostUse(u))
	}
	return uses
}

// withGit adds what git has to know: that it may work in a workspace of somebody
// else, and how repositories named as for ssh are reached.
func (r *workspaceRuntime) withGit(env []string) []string {
	settings := [][2]string{{"safe.directory", r.gitTrust}}
	if r.options.way != nil {
		settings = append(settings, r.options.way.GitRewrites()...)
	}
	return withGitConfig(env, settings...)
}

// openWay gives the commands of a container its way out: a proxy on a port inside,
// for as long as the guest runs.
func (b *dockerContainer) openWay(ctx context.Context, way *egress.Proxy) error {
	if way == nil {
		return nil
	}
	g, ok := b.commands.(*boxedGuest)
	if !ok {
		b.emit(RuntimeEvent{Kind: RuntimeLimited, Text: "no host can be allowed: " + errNoGuest.Error()})
		return nil
	}
	l, err := g.client.Listen(ctx, 0)
	if err != nil {
		return fmt.Errorf("open a way to the allowed hosts: %w", err)
	}
	g.client.SetEnv(egress.Environment(l.Port()))
	b.watched.Go(func() { way.Serve(l, g.client.Pause) })
	return nil
}
