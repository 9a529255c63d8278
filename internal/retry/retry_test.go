package retry

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

var errBusy = errors.New("busy")

// pauses are those after the same failure again and again, until it is given up.
func pauses(ctx context.Context, p Policy, f Failure) (all []time.Duration, err error) {
	for c := p.Begin(); ; {
		next, err := c.Failed(ctx, f)
		if err != nil {
			return all, err
		}
		all = append(all, next.Wait)
		if err = Sleep(ctx, next.Wait); err != nil {
			return all, err
		}
	}
}

// A gateway that asks for a pause of a millisecond each time would get a hundred thousand
// requests in five minutes.
func TestAServerThatNamesShortPausesIsNotAskedAllTheTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		all, err := pauses(t.Context(), Policy{}, Failure{Err: errBusy, Passes: true, Overload: true, After: time.Millisecond})
		require.ErrorIs(t, err, errBusy)
		require.ErrorContains(t, err, "gave up after 5m0s")
		require.Equal(t, maxWait, time.Since(begun))
		require.Less(t, len(all), 50)
		require.Equal(t, time.Millisecond, all[0], "it is believed at first")
	})
}

// A pause of our own choice never costs the run its last chances.
func TestOurOwnPausesFitTheTimeOfTheRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const limit = time.Minute
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		begun := time.Now()
		_, err := pauses(ctx, Policy{}, Failure{Err: errBusy, Passes: true, Overload: true})
		require.ErrorIs(t, err, errBusy)
		require.ErrorContains(t, err, "no time remains for another attempt")
		require.Greater(t, time.Since(begun), limit-2*baseDelay)
		require.LessOrEqual(t, time.Since(begun), limit)
	})
}

func TestWhatAServerAsksForIsHonouredOrRefused(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		policy Policy
		after  time.Duration
		wait   time.Duration // the first pause; 0 if there is none
	}{
		"within":             {Policy{}, 4 * time.Minute, 4 * time.Minute},
		"at the end":         {Policy{}, maxWait, maxWait},
		"beyond":             {Policy{}, maxWait + 1, 0},
		"without a limit":    {Policy{MaxWait: -1}, 24 * time.Hour, 24 * time.Hour},
		"negative":           {Policy{MaxAttempts: 1}, -time.Second, 0},
		"one attempt":        {Policy{MaxAttempts: 1, MaxWait: time.Hour}, time.Second, 0},
		"two attempts":       {Policy{MaxAttempts: 2, MaxWait: -1}, time.Second, time.Second},
		"a limit of nothing": {Policy{MaxWait: 1}, time.Second, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				next, err := tt.policy.Begin().Failed(t.Context(), Failure{Err: errBusy, Passes: true, Overload: true, After: tt.after})
				require.Equal(t, tt.wait, next.Wait)
				require.Equal(t, tt.wait == 0, err != nil)
			})
		})
	}
}

// An answer that breaks off after minutes is no wait for a server.
func TestOnlyTheWaitForAServerIsLimitedByTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := Policy{}.Begin()
		fails := func(overload bool) error {
			_, err := c.Failed(t.Context(), Failure{Err: errBusy, Passes: true, Overload: overload})
			return err
		}
		for _, overload := range []bool{true, false, false, false, false} {
			require.NoError(t, fails(overload))
			time.Sleep(maxWait + time.Minute)
		}
		require.ErrorContains(t, fails(false), "gave up after 6 attempts")

		c = Policy{}.Begin()
		require.NoError(t, fails(true))
		time.Sleep(maxWait)
		require.ErrorContains(t, fails(true), "gave up after 5m0s")
	})
}

// What is said of the time or the number that is left is what ends the attempts.
func TestWhatIsLeftIsWhatEndsTheAttempts(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		policy   Policy
		overload bool
		tries    int // that are left after the first
		left     time.Duration
	}{
		"an error":                    {Policy{}, false, 4, maxWait},
		"with little time":            {Policy{MaxWait: time.Second}, false, 4, time.Second},
		"with any time":               {Policy{MaxWait: -1}, false, 4, 0},
		"an overload":                 {Policy{}, true, 0, maxWait},
		"an overload, any time":       {Policy{MaxWait: -1}, true, 0, 0},
		"an overload that is counted": {Policy{MaxAttempts: 3}, true, 2, maxWait},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := tt.policy.Begin()
				f := Failure{Err: errBusy, Passes: true, Overload: tt.overload}
				next, err := c.Failed(t.Context(), f)
				require.NoError(t, err)
				require.Equal(t, tt.tries, next.Tries)
				require.Equal(t, tt.left, next.Left)
				if tt.tries == 0 && tt.left == 0 {
					return
				}
				begun, more := time.Now(), 0
				for ; err == nil; more++ {
					require.NoError(t, Sleep(t.Context(), next.Wait))
					next, err = c.Failed(t.Context(), f)
				}
				if tt.tries > 0 {
					require.Equal(t, tt.tries, more)
					return
				}
				require.Equal(t, tt.left, time.Since(begun))
			})
		})
	}
}
