package safecall_test

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/x/pygent/internal/safecall"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// nilError is an error type whose Error method panics for a nil pointer.
type nilError struct{ text string }

func (e *nilError) Error() string { return e.text }

var errOwn = errors.New("its own error")

// foreign are functions of a caller, which end in all possible ways.
var foreign = map[string]struct {
	f      func() (int, error)
	value  int
	is     error
	panics bool
}{
	"returns":             {f: func() (int, error) { return 7, nil }, value: 7},
	"fails":               {f: func() (int, error) { return 7, errOwn }, value: 7, is: errOwn},
	"panics":              {f: func() (int, error) { panic("boom") }, panics: true},
	"ends its goroutine":  {f: func() (int, error) { runtime.Goexit(); return 0, nil }, is: safecall.ErrGoexit},
	"returns a nil error": {f: func() (int, error) { return 0, errors.Join(errOwn, (*nilError)(nil)) }, panics: true},
}

func TestEveryEndIsHandedOver(t *testing.T) {
	for name, tt := range foreign {
		for how, call := range map[string]func() (int, error){
			"in a goroutine of its own": func() (int, error) { return safecall.Outlive(t.Context(), tt.f) },
			"in that of a worker": func() (int, error) {
				var w safecall.Worker
				defer w.End()
				return safecall.OutliveIn(t.Context(), &w, func(safecall.Goroutine) (int, error) { return tt.f() })
			},
			"with a time limit": func() (value int, _ error) {
				err := safecall.Within(time.Minute, func() (err error) { value, err = tt.f(); return err })
				return value, err
			},
		} {
			t.Run(name+" "+how, func(t *testing.T) {
				value, err := call()
				require.Equal(t, tt.value, value)
				var p *safecall.PanicError
				require.Equal(t, tt.panics, errors.As(err, &p))
				if tt.panics {
					require.Contains(t, string(p.Stack), "safecall_test")
					require.NotContains(t, p.Error(), "safecall_test", "the stack is for the log")
					return
				}
				require.ErrorIs(t, err, tt.is)
			})
		}
	}
}

func TestWhatDoesNotReturnIsLeftBehind(t *testing.T) {
	for name, call := range map[string]func(ctx context.Context, f func() (int, error)) error{
		"in a goroutine of its own": func(ctx context.Context, f func() (int, error)) error {
			_, err := safecall.Outlive(ctx, f)
			return err
		},
		"in that of a worker": func(ctx context.Context, f func() (int, error)) error {
			var w safecall.Worker
			defer w.End()
			_, err := safecall.OutliveIn(ctx, &w, func(safecall.Goroutine) (int, error) { return f() })
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				free := make(chan struct{})
				defer close(free)
				ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, errOwn)
				defer cancel()
				begun := time.Now()
				err := call(ctx, func() (int, error) { <-free; return 0, nil })
				require.ErrorIs(t, err, errOwn)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.EqualError(t, err, "its own error; it did not react within 5s and was left behind")
				require.Equal(t, time.Minute+safecall.Grace, time.Since(begun))
			})
		})
	}
}

func TestLateAnswersCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		value, err := safecall.Outlive(ctx, func() (int, error) {
			<-ctx.Done()
			time.Sleep(safecall.Grace - 1)
			return 7, nil
		})
		require.NoError(t, err)
		require.Equal(t, 7, value)
	})
}

func TestWithinWaitsNoLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := make(chan struct{})
		defer close(free)
		begun := time.Now()
		require.Equal(t, safecall.ErrLeftBehind, safecall.Within(time.Minute, func() error { <-free; return nil }))
		require.Equal(t, time.Minute, time.Since(begun))
	})
}

func TestAWorkerIsOneGoroutineWhileItReturns(t *testing.T) {
	var w safecall.Worker
	defer w.End()
	self := func() safecall.Goroutine {
		id, err := safecall.OutliveIn(t.Context(), &w, func(self safecall.Goroutine) (safecall.Goroutine, error) {
			require.Equal(t, safecall.Current(), self)
			return self, nil
		})
		require.NoError(t, err)
		return id
	}
	first := self()
	require.Equal(t, first, self())
	_, err := safecall.OutliveIn(t.Context(), &w, func(safecall.Goroutine) (int, error) { runtime.Goexit(); return 0, nil })
	require.ErrorIs(t, err, safecall.ErrGoexit)
	require.NotEqual(t, first, self())
}

func TestAShutGateDropsWhatComes(t *testing.T) {
	var seen []int
	g := safecall.NewGate(func(v int) { seen = append(seen, v) })
	g.Pass(1)
	g.Shut()
	g.Pass(2)
	require.Equal(t, []int{1}, seen)
}

func TestABatonIsWaitedForUntilTheContextEnds(t *testing.T) {
	b := safecall.NewBaton()
	require.True(t, b.TryLock())
	require.False(t, b.TryLock())
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errOwn)
	err := b.LockContext(ctx)
	require.ErrorIs(t, err, errOwn)
	require.ErrorIs(t, err, context.Canceled)
	require.EqualError(t, err, "its own error")
	b.Unlock()
	require.NoError(t, b.LockContext(t.Context()))
}

func TestCallsAreNamedUntilTheyReturn(t *testing.T) {
	var c safecall.Calls
	b, a := c.Enter("b"), c.Enter("a")
	defer a()
	again := c.Enter("b")
	require.Equal(t, []string{"a", "b", "b"}, c.Names())
	b()
	again()
	require.Equal(t, []string{"a"}, c.Names())
}

func TestCatchReturnsAPanicAsAnError(t *testing.T) {
	for name, tt := range map[string]struct {
		f    func() (int, error)
		says string
	}{
		"a value":  {func() (int, error) { return 7, nil }, ""},
		"an error": {func() (int, error) { return 0, errOwn }, errOwn.Error()},
		"a panic":  {func() (int, error) { panic("boom") }, "panic: boom"},
	} {
		t.Run(name, func(t *testing.T) {
			value, err := safecall.Catch(tt.f)
			if tt.says == "" {
				require.NoError(t, err)
				require.Equal(t, 7, value)
				return
			}
			require.EqualError(t, err, tt.says)
		})
	}
}

func TestCallTellsOfAFunctionThatDoesNotReturn(t *testing.T) {
	var failed []error
	note := func(err error) { failed = append(failed, err) }
	safecall.Call(func() {}, note)
	require.Empty(t, failed)
	safecall.Call(func() { panic("boom") }, note)
	require.Len(t, failed, 1)
	require.EqualError(t, failed[0], "panic: boom")
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		safecall.Call(runtime.Goexit, note)
	}()
	<-ended
	require.ErrorIs(t, failed[1], safecall.ErrGoexit)
}
