package cli

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"
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
