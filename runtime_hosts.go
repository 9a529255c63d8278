package pygent

import (
	"cmp"
	"context"
	"fmt"

	"github.com/x/pygent/internal/hostask"
)

// HostRequest asks whether commands may reach hosts that nothing allows yet.
type HostRequest struct {
	// Hosts are names as [WithAllowedHosts] takes them, without ports: 8 at most, in
	// lower case and ASCII. Commands chose them, so treat them as a stranger's words.
	Hosts []string
}

// HostDecision is the answer of a [HostApprovalFunc], for all hosts of the
// request. The zero HostDecision refuses them.
type HostDecision struct {
	Allow bool
	// Session allows the hosts for as long as the runtime lives, and to the
	// tasks that begin later. Otherwise they are allowed until the commands that
	// run have ended.
	Session bool
	Reason  string // told to the model when the hosts are refused
}

// HostApprovalFunc decides whether commands may reach hosts. An error refuses
// them. It must honour ctx, which ends when the answer is of no use any more. It
// is called by one goroutine of the runtime at a time.
type HostApprovalFunc func(ctx context.Context, r HostRequest) (HostDecision, error)

// WithHostApproval sets who decides about hosts that [WithAllowedHosts] does not
// allow. The connection of a command waits for the answer, as does its time
// limit. However many connections want a host, it is asked about once, with the
// others that are wanted at the time. A refusal holds for as long as the runtime
// lives, and so does an answer with Session. Nobody is asked about private
// addresses and other ports than the web's: they have to be named in advance.
//
// The decision concerns this runtime. Those of tasks that an agent delegates
// may reach what is allowed when they begin, and ask nobody.
//
// Default: in a terminal session of an [Agent] the user is asked; otherwise such
// hosts are refused. It has no effect in a container that was given a network.
func WithHostApproval(f HostApprovalFunc) RuntimeOption {
	return func(o *runtimeOptions) { o.askHosts = f }
}

// hostApproval is who decides about hosts for a runtime.
type hostApproval struct {
	*hostask.Broker
	canAsk func() bool // whether there is anybody to ask now; nil is always
}

// newHostApproval returns what decides about hosts as the options say, or nil
// where nobody does.
func newHostApproval(o *runtimeOptions) *hostApproval {
	if o.askHosts == nil || o.network != "none" {
		return nil
	}
	ask := func(ctx context.Context, hosts []string) (hostask.Answer, error) {
		d, err := outlive(ctx, func() (HostDecision, error) { return o.askHosts(ctx, HostRequest{Hosts: hosts}) })
		logPanic(o.logger, "approval of hosts", err)
		if err != nil {
			return hostask.Answer{}, fmt.Errorf("nobody could be asked about it: %w", err)
		}
		return hostask.Answer{Allow: d.Allow, Keep: d.Session, Reason: cmp.Or(d.Reason, "the user said no")}, nil
	}
	return &hostApproval{Broker: hostask.New(ask), canAsk: o.canAskHosts}
}

// notAllowed is why a host is refused about which nobody can be asked.
const notAllowed = "it is not an allowed host"

// permit reports whether a host may be reached, asking if need be, and why not.
func (h *hostApproval) permit(ctx context.Context, host string, port int) (ok bool, reason string) {
	// A name that is kept with its port would open private addresses as well.
	web := port == 80 || port == 443
	if !web || h.canAsk != nil && !h.canAsk() {
		return false, notAllowed
	}
	return h.Permit(ctx, host, port)
}

// close has nobody asked any more. A nil hostApproval asks nobody.
func (h *hostApproval) close() {
	if h != nil {
		h.Close()
	}
}

// kept are the hosts that were allowed for as long as the runtime lives.
func (h *hostApproval) kept() []string {
	if h == nil {
		return nil
	}
	return h.Kept()
}

// command says that a command runs until end is called.
func (h *hostApproval) command() (end func()) {
	if h == nil {
		return func() {}
	}
	return h.Command()
}

// refuses reports whether somebody refused a host, named as a [HostRequest] does.
func (h *hostApproval) refuses(host string) bool { return h != nil && h.Refused(host) }
