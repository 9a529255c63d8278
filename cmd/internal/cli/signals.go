package cli

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/x/pygent"
)

// ended is the cause of the end of a context that a signal ended.
type ended struct{ syscall.Signal }

func (e ended) Error() string { return e.String() }

// Is makes it an end as any other one to those who ask.
func (e ended) Is(target error) bool { return target == context.Canceled }

// untilSignal returns a context that one of the signals ends.
func untilSignal(ctx context.Context, signals ...os.Signal) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	got := make(chan os.Signal, 1)
	signal.Notify(got, signals...)
	go func() {
		select {
		case s := <-got:
			cancel(ended{s.(syscall.Signal)})
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		signal.Stop(got)
		cancel(nil)
	}
}

// onePress is how long one Ctrl-C may take to come twice, as by a program that was started
// with pygent and passes it on, or by "timeout -s INT", which signals the process and its
// group. Nobody presses keys that fast.
const onePress = 50 * time.Millisecond

// sayEndAfter is how long the end of a run that was interrupted goes on in silence.
const sayEndAfter = 300 * time.Millisecond

// endAtSecondInterrupt has a Ctrl-C end the process at once if the run, whose context is
// ctx, was interrupted before, by another one or by the signal that ended ctx. It says
// what may be left then. If the first signal takes a while to end the run, it says so.
// Once cleans was called after a run that nothing interrupted, the first Ctrl-C ends the
// process, too. cleans is called once at most. It goes on until end is called.
//
// Only Ctrl-C counts as the second signal: one SIGTERM may come twice, too, and ends the
// run in a bounded time.
func endAtSecondInterrupt(ctx context.Context, left func() leftovers) (cleans, end func()) {
	got := make(chan os.Signal, 2)
	signal.Notify(got, os.Interrupt)
	over, cleaning := make(chan struct{}), make(chan bool, 1)
	go func() {
		defer signal.Stop(got)
		secondInterrupt(ctx, got, cleaning, over, left, leave)
	}()
	// The Ctrl-C that has ended ctx may still lie in got, behind what it has caused.
	return func() { cleaning <- ctx.Err() == nil }, func() { close(over) }
}

// secondInterrupt calls leave, which does not return, as [endAtSecondInterrupt] has it.
// cleaning says that the run is over, and whether nothing had interrupted it.
func secondInterrupt(ctx context.Context, got <-chan os.Signal, cleaning <-chan bool, over <-chan struct{}, left func() leftovers, leave func(again bool, l leftovers)) {
	var late <-chan time.Time
	var interrupted time.Time // by the last Ctrl-C that counts
	ended := ctx.Done()
	for worked := false; ; {
		select {
		case <-got:
			if time.Since(interrupted) < onePress {
				continue
			}
			again := !interrupted.IsZero() || isSignalled(ctx)
			if again || worked {
				leave(again, left())
			}
			interrupted = time.Now()
		case worked = <-cleaning:
		case <-ended:
			ended, late = nil, time.After(sayEndAfter)
		case <-late:
			again := "Ctrl-C again ends pygent at once"
			if isSignalled(ctx) {
				again = "Ctrl-C ends pygent at once"
			}
			complain("waiting for " + cmp.Or(containersNamed(left().containers), "what runs") + " to end; " + again)
		case <-over:
			return
		}
	}
}

// isSignalled reports whether a signal of [untilSignal] has ended a context.
func isSignalled(ctx context.Context) bool { return errors.As(context.Cause(ctx), new(ended)) }

// leftovers are what a process may leave that ends at once.
type leftovers struct {
	containers []string // the name of the one that each agent and task has started last, or is starting
	isolated   bool     // commands run in containers, and one without a name yet may be starting
}

// boxes are the containers of an agent and its tasks, by the task's id, which is empty for
// the agent itself.
type boxes map[string]box

// box names the container that was started last, and the one that has been starting for a
// while, before which the other one may not have ended. Either may be empty.
type box struct{ last, next string }

// note follows the containers by the events of the agent.
func (b boxes) note(e pygent.Event) {
	switch {
	case e.Type == pygent.EventRuntime && e.Runtime.Kind == pygent.RuntimeStarted:
		b[e.Task] = box{last: e.Runtime.Container}
	case e.Type == pygent.EventRuntime && e.Runtime.Kind == pygent.RuntimeStarting:
		b[e.Task] = box{b[e.Task].last, e.Runtime.Container}
	case e.Type == pygent.EventRuntime && e.Runtime.Kind == pygent.RuntimeFailed:
		b[e.Task] = box{last: b[e.Task].last}
	case e.TaskStatus != nil && e.TaskStatus.State.AtRest() && e.TaskStatus.State != pygent.TaskAwaitingUser:
		delete(b, e.Task) // it was removed before
	}
}

// names returns the names, first that of the agent's own container.
func (b boxes) names() (names []string) {
	for _, task := range slices.Sorted(maps.Keys(b)) {
		names = append(names, b[task].last, b[task].next)
	}
	return slices.DeleteFunc(names, func(name string) bool { return name == "" })
}

// leave ends the process, and says what may be left of it. again says that it was
// interrupted before.
func leave(again bool, l leftovers) {
	word := "interrupted"
	if again {
		word += " again"
	}
	switch {
	case len(l.containers) > 0:
		them := "it"
		if len(l.containers) > 1 {
			them = "them"
		}
		complain(word + ": " + containersNamed(l.containers) + " may still be running; \"pygent prune " + strings.Join(l.containers, " ") + "\" removes " + them)
	case l.isolated:
		complain(word + ": a container that was starting may be left over; \"pygent prune\" lists it")
	}
	os.Exit(exitCancel)
}

// containersNamed is what people call the containers with some names; empty for none.
func containersNamed(names []string) string {
	switch len(names) {
	case 0:
		return ""
	case 1:
		return "container " + names[0]
	}
	return "containers " + strings.Join(names, ", ")
}

// exitBySignal is the exit code of a process that a signal ended, as shells have
// it, or what report returns if none did. A terminal that takes no output does not
// keep the process from its end.
func exitBySignal(ctx context.Context, report func() int) int {
	e, ok := context.Cause(ctx).(ended)
	if !ok {
		return report()
	}
	code := exitCancel
	reported := make(chan int, 1)
	go func() { reported <- report() }()
	select {
	case code = <-reported:
	case <-time.After(3 * time.Second):
	}
	if code == exitCancel {
		return 128 + int(e.Signal)
	}
	return code
}
