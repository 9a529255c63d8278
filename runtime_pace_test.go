package pygent

import "time"

// WithTestPace shortens the waiting times around a guest: how long its answer may
// take, how often it is called, how long it lives without its host, and how long
// Cleanup tries to reach an engine. Zero is the default.
func WithTestPace(patience, keepAlive, silence, cleanup time.Duration) RuntimeOption {
	return func(o *runtimeOptions) { o.pace = pace{patience, keepAlive, silence, cleanup} }
}

// Detach takes away the container of a runtime whose task is over, and returns a
// function that removes it.
func Detach(r Runtime) (remove func()) { return r.(*workspaceRuntime).detach() }

// WithTestPlainExec has a container do without a guest, as on a platform that has
// none.
func WithTestPlainExec() RuntimeOption {
	return func(o *runtimeOptions) {
		o.guestFor = func(string, string) (*guestProgram, error) { return nil, nil }
	}
}

// SiblingOptions are those of a runtime for a task of a parent.
func SiblingOptions(parent Runtime) []RuntimeOption {
	t, env := parent.(*workspaceRuntime).sibling()
	return t.options(env)
}
