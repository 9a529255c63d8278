package sandbox

import (
	"context"
	"fmt"
	"net"

	"github.com/x/pygent/internal/approval"
	"github.com/x/pygent/internal/egress"
)

// NetworkConfig is what commands may reach that have no network of their own.
type NetworkConfig struct {
	Allowed []string // patterns of package egress
	Limit   int64    // bytes, both ways together; none when negative
	// Ask decides about hosts that are not allowed; nil refuses them.
	Ask func(ctx context.Context, hosts []string) (approval.Answer, error)
	// CanAsk reports whether there is anybody to ask now; nil is always.
	CanAsk func() bool
	// Connect dials hosts in tests; nil does it as usual.
	Connect func(ctx context.Context, d *net.Dialer, address string) (net.Conn, error)
}

// Network lets commands without a network of their own reach the hosts that are
// allowed. It is nil for commands that have a network.
type Network struct {
	allowed []string // as given
	hosts   *hostApproval
	way     *egress.Proxy // nil where nothing can be allowed
}

// OpenNetwork makes a Network. Its caller closes its Way.
func OpenNetwork(c NetworkConfig, events *Events) (*Network, error) {
	n := &Network{allowed: c.Allowed, hosts: newHostApproval(c)}
	if len(c.Allowed) == 0 && n.hosts == nil {
		return n, nil
	}
	for _, s := range c.Allowed {
		if p, err := egress.ParsePattern(s); err == nil && p.IsInside() {
			events.Tell(Event{Kind: Limited, Text: fmt.Sprintf("%s is the container itself for its programs, which use no proxy for it: allow this machine by its name or another address", s)})
		}
	}
	config := egress.Config{
		Allow:   c.Allowed,
		Limit:   c.Limit,
		Connect: c.Connect,
		Tell:    func(u egress.Use) { events.Send(n.event(u)) },
	}
	if n.hosts != nil {
		config.Ask = n.hosts.permit
	}
	var err error
	n.way, err = egress.New(config)
	return n, err
}

// Way is the proxy to the allowed hosts, or nil where nothing can be allowed.
func (n *Network) Way() *egress.Proxy {
	if n == nil {
		return nil
	}
	return n.way
}

// Allowed are the hosts that commands can reach.
func (n *Network) Allowed() []string {
	if n.Way() == nil {
		return nil
	}
	return n.way.Allowed()
}

// kept are the hosts that somebody allowed for as long as the sandbox lives.
func (n *Network) kept() []string {
	if n == nil {
		return nil
	}
	return n.hosts.kept()
}

// stopAsking ends the questions about hosts.
func (n *Network) stopAsking() {
	if n != nil {
		n.hosts.close()
	}
}

// command says that a command runs until end is called, which tells what was
// refused since, and what was allowed but could not be reached.
func (n *Network) command() (end func() (refused, missed []egress.Use)) {
	if n == nil {
		return func() (refused, missed []egress.Use) { return nil, nil }
	}
	ended := n.hosts.command()
	watched := func() (refused, missed []egress.Use) { return nil, nil }
	if n.way != nil {
		watched = n.way.Watch()
	}
	return func() (refused, missed []egress.Use) {
		ended()
		return watched()
	}
}

// gitRewrites are settings of git by which it reaches repositories that are named
// as for ssh.
func (n *Network) gitRewrites() [][2]string {
	if n.Way() == nil {
		return nil
	}
	return n.way.GitRewrites()
}

// event tells of a host, and how it can be allowed.
func (n *Network) event(u egress.Use) Event {
	e := Event{Kind: NetworkUsed, Host: &u}
	switch {
	case u.Host == "":
		e.Host, e.Text = nil, "commands ask for further hosts, which are not named"
	case u.Allowed:
		e.Text = fmt.Sprintf("commands reach %s on port %d", u.Host, u.Port)
	default:
		e.Text = fmt.Sprintf("commands may not reach %s on port %d: %s", u.Host, u.Port, u.Reason)
		if u.Allow != "" && !n.hosts.refuses(approval.Name(u.Host, u.Port)) {
			e.Text += "; allow " + u.Allow + " if it should"
		}
	}
	return e
}
