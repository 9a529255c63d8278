package sandbox

import (
	"context"
	"slices"
	"time"

	"github.com/x/pygent/internal/guest"
)

// restAfter is how long a guest that is soon made anew is kept without a call. It is
// longer than a model takes for most of its answers.
const restAfter = 30 * time.Second

// Parker is a commander that can give up what it keeps running. Its Park returns
// at once, with a function that does the work. The next use starts anew.
type Parker interface{ Park() func() }

// Rester is a commander that starts its guest so fast that it need not keep one that
// has nothing to do. Its Rest returns at once, with a function that ends the guest,
// unless that is busy or spared, and reports whether it is busy, with a connection or
// a process that has outlived its call. What commands have left in files stays. No call
// uses the guest when Rest is called, and the next one waits for that function.
type Rester interface {
	Rest(spared func(*guest.Client) bool) (end func() (busy bool))
}

// Park ends what a sandbox keeps running that nobody uses at the moment: a container
// with all that runs in it, or a guest on this machine, unless jobs run there. The
// workspace stays, and the next call starts anew.
func (r *Sandbox) Park() { r.Detach()() }

// Detach takes away what Park is to end, and returns a function that ends it. It
// does not hold the lock until then, since every call needs it.
func (r *Sandbox) Detach() (end func()) {
	work := r.detach(runsJobs)
	return func() { work() }
}

// detach is Detach, but the guest of a [Rester] stays if it is spared. The function
// reports whether that guest is busy.
func (r *Sandbox) detach(spared func(*guest.Client) bool) (end func() (busy bool)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	work := func() bool { return false }
	if r.closed || r.active > 0 {
		return work
	}
	switch c := r.commands.(type) {
	case Parker:
		park := c.Park()
		work = func() bool { park(); return false }
	case Rester:
		work = c.Rest(spared)
	default:
		return work
	}
	r.calls.Add(1) // Cleanup waits for it; calls that begin meanwhile do not
	return func() bool {
		defer r.calls.Done()
		return work()
	}
}

// jobsAsked bounds how long it is waited for what a guest says of its jobs.
const jobsAsked = 5 * time.Second

// runsJobs reports whether a job may run.
func runsJobs(g *guest.Client) bool {
	ctx, cancel := context.WithTimeout(context.Background(), jobsAsked)
	defer cancel()
	jobs, err := g.Jobs(ctx)
	return err != nil || slices.ContainsFunc(jobs, func(j guest.Job) bool { return j.Running })
}

// restWhenIdle has the guest of a [Rester] end whenever it has had nothing to do for a
// time.
func (r *Sandbox) restWhenIdle(idle time.Duration) {
	if _, ok := r.commands.(Rester); !ok {
		return
	}
	r.idle = idle
	r.rest = time.AfterFunc(idle, r.restNow)
	r.rest.Stop() // until a call has ended
}

// restNow ends a guest that has nothing to do. It is tried again of one that is busy,
// since the end of a connection is no call.
func (r *Sandbox) restNow() {
	if busy := r.detach(r.hasWork)(); busy {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.restLater()
	}
}

// restLater puts the rest off. The caller holds mu.
func (r *Sandbox) restLater() {
	if r.rest != nil && r.active == 0 && !r.closed {
		r.rest.Reset(r.idle)
	}
}

// stopRest ends the waiting for a rest. The caller holds mu, and has set closed.
func (r *Sandbox) stopRest() {
	if r.rest != nil {
		r.rest.Stop()
	}
}

// hasWork reports whether something would be missed of a guest: its jobs, also such
// that have ended and whose output can be read, and the whole of a long output.
func (r *Sandbox) hasWork(g *guest.Client) bool {
	return r.jobsOn.Load() == g || r.outputsOn.Load() == g
}
