package web

import "net/http"

// Rights are what people may do beyond talking to an agent and answering it. Without
// [WithUser] the one person who has the token has them all. With it nobody has any,
// unless the host says so by [WithRights]: its own rules for calls do not cover them.
//
// To answer is to decide about the calls that need approval, with what they may reach by
// the agent's options, and for its session only: nobody at a page allows a host for good,
// or anything for another session. On a runtime without a container a call that is
// approved runs on the server's machine, so give agents of such users one, or decide
// yourself by [pygent.WithApproval].
//
// They are not about the commands of an agent ([pygent.WithCommands],
// [pygent.RegisterCommand]): people can give all of those. The ones of package commands
// have the rights of the process, and are not for users of a host.
type Rights struct {
	Settings bool // change the model, the persona, which tools there are, and whether bash calls need approval
	Shell    bool // run commands in the workspace, about which nobody is asked
	// Network lets them decide about hosts that commands in a container want to reach
	// and that the agent's options do not allow. Without it nobody is asked: such hosts
	// are denied, and the model is told only of those that are allowed.
	Network bool
	// Snapshots lets them save sessions in directories of the server's machine, and
	// begin others from there: see [Open].
	Snapshots bool
}

// allRights are those of somebody at their own machine.
var allRights = Rights{Settings: true, Shell: true, Network: true, Snapshots: true}

// WithRights says what people may do. It holds for all users of the server.
func WithRights(r Rights) Option { return func(o *options) { o.rights = &r } }

// allowed returns what people may do at this server.
func (o *options) allowed() Rights {
	switch {
	case o.rights != nil:
		return *o.rights
	case o.user != nil:
		return Rights{}
	}
	return allRights
}

// errNoRight is the answer to one who may not do what was asked for.
var errNoRight = fail(http.StatusForbidden, "no_right", "this server does not allow that")
