package pygent

import (
	"context"
	"time"

	"github.com/x/pygent/internal/guest"
	"github.com/x/pygent/internal/guest/confine"
	"github.com/x/pygent/internal/sandbox"
)

// WithTestPace shortens the waiting times around a guest: how long its answer may
// take, how often it is called, how long it lives without its host, and how long
// Cleanup tries to reach an engine. Zero is the default.
func WithTestPace(patience, keepAlive, silence, cleanup time.Duration) RuntimeOption {
	return runtimeOption{"", func(o *runtimeOptions) {
		o.pace = sandbox.Pace{Patience: patience, KeepAlive: keepAlive, Silence: silence, Cleanup: cleanup}
	}}
}

// Detach takes away the container of a runtime whose task is over, and returns a
// function that removes it.
func Detach(r Runtime) (remove func()) { return r.(*workspaceRuntime).Detach() }

// WithTestPlainExec has a container do without a guest, as on a platform that has
// none.
func WithTestPlainExec() RuntimeOption {
	return runtimeOption{"", func(o *runtimeOptions) { o.noGuest = true }}
}

// WithTestSupport has the machine allow what change makes of what it allows.
func WithTestSupport(change func(*confine.Support)) RuntimeOption {
	return runtimeOption{"", func(o *runtimeOptions) {
		o.confinement = func(ctx context.Context) confine.Support {
			s := guest.Confinement(ctx)
			change(&s)
			return s
		}
	}}
}

// SiblingOptions are those of a runtime for a task of a parent.
func SiblingOptions(parent Runtime) []RuntimeOption {
	t, env := parent.(*workspaceRuntime).sibling()
	return t.options(env)
}
