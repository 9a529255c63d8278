package pygent_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/pygenttest"
)

// attempts runs an agent whose model fails n times. It returns the pauses that
// the retry events announce, and the run's error.
func attempts(t *testing.T, policy pygent.RetryPolicy, n int, reply pygenttest.Reply, opts ...pygent.RunOption) ([]time.Duration, error) {
	t.Helper()
	model := pygenttest.NewScriptedModel()
	for range n {
		model.Add(reply)
	}
	agent := newAgentOn(t, nowhere{}, model.Add(stop), pygent.WithRetry(policy))
	var waits []time.Duration
	last := time.Now()
	_, err := agent.RunUntilStop(t.Context(), "go", append(opts, pygent.OnEvent(func(e pygent.Event) {
		switch e.Type {
		case pygent.EventRetry:
			waits = append(waits, e.Retry.Wait)
			require.Equal(t, len(waits), e.Retry.Attempt)
			require.Contains(t, e.Retry.Error, "model's server")
			last = time.Now()
		case pygent.EventMessage:
			if len(waits) > 0 {
				require.Equal(t, waits[len(waits)-1], time.Since(last), "the wait told is the wait made")
			}
		}
	}))...)
	return waits, err
}

func TestRetryPauses(t *testing.T) {
	t.Parallel()
	const s = time.Second
	tests := []struct {
		name   string
		policy pygent.RetryPolicy
		fails  int
		most   []time.Duration // each pause is between half of this and all of it
		ok     bool
	}{
		{"defaults", pygent.RetryPolicy{}, 7, []time.Duration{s, 2 * s, 4 * s, 8 * s, 16 * s, 30 * s, 30 * s}, true},
		{"one failure too many", pygent.RetryPolicy{MaxAttempts: 5}, 5, []time.Duration{s, 2 * s, 4 * s, 8 * s}, false},
		{"negative is default", pygent.RetryPolicy{MaxAttempts: -1, BaseDelay: -s, MaxDelay: -s}, 4, []time.Duration{s, 2 * s, 4 * s, 8 * s}, true},
		{"never", pygent.RetryPolicy{MaxAttempts: 1}, 1, nil, false},
		{"up to the longest", pygent.RetryPolicy{MaxAttempts: 7, BaseDelay: 10 * s}, 6, []time.Duration{10 * s, 20 * s, 30 * s, 30 * s, 30 * s, 30 * s}, true},
		{"longest below first", pygent.RetryPolicy{BaseDelay: 10 * s, MaxDelay: 3 * s}, 2, []time.Duration{3 * s, 3 * s}, true},
		{"too large to double", pygent.RetryPolicy{MaxAttempts: 100, BaseDelay: 5 * time.Minute, MaxDelay: math.MaxInt64}, 1, []time.Duration{5 * time.Minute}, true},
		{"tiny", pygent.RetryPolicy{BaseDelay: 1}, 1, []time.Duration{1}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				waits, err := attempts(t, tt.policy, tt.fails, pygenttest.Overloaded())
				require.Equal(t, tt.ok, err == nil, err)
				require.Len(t, waits, len(tt.most))
				for i, most := range tt.most {
					require.LessOrEqual(t, waits[i], most)
					require.GreaterOrEqual(t, waits[i], most/2)
				}
			})
		})
	}
}

// Agents that failed at the same time do not retry at the same time.
func TestRetryPausesAreRandom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		policy := pygent.RetryPolicy{MaxAttempts: 21, BaseDelay: time.Minute, MaxDelay: time.Minute, MaxWait: time.Hour}
		waits, err := attempts(t, policy, 20, pygenttest.Overloaded())
		require.NoError(t, err)
		slices.Sort(waits)
		require.Len(t, slices.Compact(waits), 20)
	})
}

func TestRetryAfterIsHonoured(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		after time.Duration
		opts  []pygent.RunOption
		want  string // part of the error; "" if the call is retried
	}{
		{"shorter than the backoff", time.Millisecond, nil, ""},
		{"longer than the longest pause", 5 * time.Minute, nil, ""},
		{"within the time limit", 50 * time.Second, []pygent.RunOption{pygent.MaxTime(time.Minute)}, ""},
		{"beyond the run", 2 * time.Minute, []pygent.RunOption{pygent.MaxTime(time.Minute)}, "the server allows a retry in 2m0s, at "},
		{"beyond the step", 2 * time.Minute, []pygent.RunOption{pygent.StepTimeout(time.Minute)}, "the server allows a retry in 2m0s, at "},
		{"beyond patience", 5*time.Minute + time.Second, nil, "or RetryPolicy.MaxWait)"},
		{"beyond reckoning", math.MaxInt64, nil, "the server allows a retry in 106751 days or more"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				waits, err := attempts(t, pygent.RetryPolicy{}, 1, pygenttest.RateLimited(tt.after), tt.opts...)
				if tt.want == "" {
					require.NoError(t, err)
					require.Equal(t, []time.Duration{tt.after}, waits)
					return
				}
				require.ErrorContains(t, err, tt.want)
				require.ErrorContains(t, err, "which is too late")
				var api *pygent.APIError
				require.ErrorAs(t, err, &api)
				require.Zero(t, time.Since(start))
			})
		})
	}
}

func TestRetryGivesUpWithTheLastError(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, err := attempts(t, pygent.RetryPolicy{MaxAttempts: 3}, 3, pygenttest.Overloaded())
		require.ErrorContains(t, err, "gave up after 3 attempts")
		_, err = attempts(t, pygent.RetryPolicy{MaxAttempts: 1}, 3, pygenttest.Overloaded())
		require.NotContains(t, err.Error(), "gave up")
	})
}

// Who has started a long piece of work wants it to go on when the server is back.
func TestOverloadsAreWaitedOutByTime(t *testing.T) {
	t.Parallel()
	status := func(code int) pygenttest.Reply { return pygenttest.Status(code, "", "not now") }
	for name, tt := range map[string]struct {
		reply  pygenttest.Reply
		policy pygent.RetryPolicy
		least  time.Duration // that it is tried
		most   time.Duration
	}{
		"429":                {pygenttest.RateLimited(0), pygent.RetryPolicy{}, 5 * time.Minute, 5 * time.Minute},
		"503":                {status(503), pygent.RetryPolicy{}, 5 * time.Minute, 5 * time.Minute},
		"529":                {status(529), pygent.RetryPolicy{}, 5 * time.Minute, 5 * time.Minute},
		"for longer":         {status(503), pygent.RetryPolicy{MaxWait: time.Hour}, time.Hour, time.Hour},
		"for as often":       {status(503), pygent.RetryPolicy{MaxAttempts: 3}, time.Second, 3 * time.Second},
		"another error":      {status(500), pygent.RetryPolicy{}, 7 * time.Second, 15 * time.Second},
		"a broken answer":    {pygenttest.Text("x").CutAfter(1), pygent.RetryPolicy{}, 7 * time.Second, 15 * time.Second},
		"an exhausted quota": {pygenttest.QuotaExceeded(), pygent.RetryPolicy{}, 0, 0},
		"a wrong key":        {status(401), pygent.RetryPolicy{}, 0, 0},
		"a bad request":      {status(400), pygent.RetryPolicy{}, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				agent := newAgentOn(t, nowhere{}, pygenttest.NewScriptedModel(tt.reply).RepeatLast(), pygent.WithRetry(tt.policy))
				start, left := time.Now(), time.Duration(math.MaxInt64)
				_, err := agent.RunUntilStop(t.Context(), "go", pygent.OnEvent(func(e pygent.Event) {
					if e.Type == pygent.EventRetry {
						require.LessOrEqual(t, e.Retry.Left, left)
						require.LessOrEqual(t, e.Retry.Wait, min(e.Retry.Left, 30*time.Second))
						left = e.Retry.Left
					}
				}))
				require.Error(t, err)
				require.GreaterOrEqual(t, time.Since(start), tt.least)
				require.LessOrEqual(t, time.Since(start), tt.most)
				if tt.least >= 5*time.Minute {
					require.ErrorContains(t, err, "gave up after "+tt.least.String())
				}
			})
		})
	}
}

func TestAnOverloadMayBeWaitedOutForEver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		waits, err := attempts(t, pygent.RetryPolicy{MaxWait: pygent.NoLimit}, 1000, pygenttest.Overloaded())
		require.NoError(t, err)
		require.Len(t, waits, 1000)
	})
}

func TestCancelEndsTheWaitForARetry(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		why := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		model := pygenttest.NewScriptedModel(pygenttest.RateLimited(time.Minute)).RepeatLast()
		agent := newAgentOn(t, nowhere{}, model)
		start := time.Now()
		time.AfterFunc(90*time.Second, func() { cancel(why) })
		result, err := agent.RunUntilStop(ctx, "go")
		require.ErrorIs(t, err, why)
		require.Equal(t, pygent.StatusCancelled, result.Status)
		require.Equal(t, 90*time.Second, time.Since(start))
		require.Len(t, model.Requests(), 2)
	})
}

func TestWrappedErrorsAreRetried(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		wrapped := fmt.Errorf("my proxy: %w", &pygent.APIError{Status: 503, Retryable: true})
		waits, err := attempts(t, pygent.RetryPolicy{}, 1, pygenttest.Error(wrapped))
		require.NoError(t, err)
		require.Len(t, waits, 1)
	})
}

func TestOnlyPassingErrorsAreRetried(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		reply pygenttest.Reply
		calls int
		ok    bool
	}{
		{"overloaded", pygenttest.Overloaded(), 2, true},
		{"rate limit", pygenttest.RateLimited(time.Second), 2, true},
		{"disconnect", pygenttest.Disconnect(), 2, true},
		{"quota", pygenttest.QuotaExceeded(), 1, false},
		{"bad request", pygenttest.Status(400, "bad", "no"), 1, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				model := pygenttest.NewScriptedModel(tt.reply, stop)
				retries := 0
				_, err := newAgentOn(t, nowhere{}, model).RunUntilStop(t.Context(), "go", pygent.OnEvent(func(e pygent.Event) {
					if e.Type == pygent.EventRetry {
						retries++
					}
				}))
				require.Equal(t, tt.ok, err == nil, err)
				require.Len(t, model.Requests(), tt.calls)
				require.Equal(t, tt.calls-1, retries)
			})
		})
	}
}

func TestRetriesEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		model := pygenttest.NewScriptedModel(pygenttest.Status(500, "", "broken")).RepeatLast()
		_, err := newAgentOn(t, nowhere{}, model).RunUntilStop(t.Context(), "go")
		require.ErrorContains(t, err, "gave up after 5 attempts")
		require.Len(t, model.Requests(), 5)
	})
}

func TestRetryAfterBeyondTheBudgetFailsAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		model := pygenttest.NewScriptedModel(pygenttest.RateLimited(time.Hour))
		start := time.Now()
		_, err := newAgentOn(t, nowhere{}, model).RunUntilStop(t.Context(), "go", pygent.MaxTime(time.Minute))
		require.ErrorContains(t, err, "the server allows a retry in 1h0m0s, at ")
		require.Zero(t, time.Since(start))
	})
}

func TestDefaultModelServesNewAgents(t *testing.T) {
	model := pygenttest.NewScriptedModel(pygenttest.Text("from the default"))
	pygent.SetDefaultModel(model)
	t.Cleanup(func() { pygent.SetDefaultModel(nil) })
	agent := newAgent(t, nil)
	result, err := agent.Step(t.Context(), "hi")
	require.NoError(t, err)
	require.Equal(t, "from the default", result.Message.Text())
}
