package sandbox

import (
	"context"

	"github.com/x/pygent/internal/approval"
)

// hostApproval is who decides about hosts for a sandbox.
type hostApproval struct {
	*approval.Broker
	canAsk func() bool // whether there is anybody to ask now; nil is always
}

// newHostApproval returns what asks about hosts, or nil where nobody is asked.
func newHostApproval(c NetworkConfig) *hostApproval {
	if c.Ask == nil {
		return nil
	}
	return &hostApproval{Broker: approval.New(c.Ask), canAsk: c.CanAsk}
}

// notAllowed is why a host is refused when nobody can be asked about it.
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

// close ends the asking. A nil hostApproval asks nobody.
func (h *hostApproval) close() {
	if h != nil {
		h.Close()
	}
}

// kept are the hosts that were allowed for as long as the sandbox lives.
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

// refuses reports whether somebody refused a host, named as in a question.
func (h *hostApproval) refuses(host string) bool { return h != nil && h.Refused(host) }
