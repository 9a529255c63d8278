package pygent

import (
	"context"
	"errors"
)

// withHostApproval has the runtime ask about hosts whom its own options name,
// or else the agent's session. The time limit of the step stands still meanwhile.
func (a *Agent) withHostApproval() RuntimeOption {
	return func(o *runtimeOptions) {
		given := o.askHosts
		o.canAskHosts = func() bool { return given != nil || a.hostApproval() != nil }
		o.askHosts = func(ctx context.Context, r HostRequest) (HostDecision, error) {
			ask := given
			if ask == nil {
				ask = a.hostApproval()
			}
			if ask == nil {
				return HostDecision{}, errors.New("the session is over")
			}
			defer a.asking.Close()()
			defer a.enter(&a.calling, "the approval of hosts")()
			return ask(ctx, r)
		}
		a.asksHosts = o.canAskHosts
	}
}

// setHostApproval changes who decides about hosts where the runtime's options
// name nobody.
func (a *Agent) setHostApproval(f HostApprovalFunc) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.opts.approveHosts = f
	a.system.stale.Store(true) // the model is told whether the user is asked
}

// hostApproval returns what setHostApproval sets.
func (a *Agent) hostApproval() HostApprovalFunc {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.opts.approveHosts
}
