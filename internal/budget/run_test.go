package budget

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestRunBoundsTheTimeAndTheTokensOfThoseItStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := NewRun[tokens](nil, of(1000))
		r.Deadline = time.Now().Add(time.Minute)
		account, timeout, err := r.OpenWithin(of(0), time.Hour)
		require.NoError(t, err)
		require.EqualValues(t, 250, account.Limit()[Tokens])
		require.Equal(t, time.Minute, timeout)
		_, timeout, err = r.OpenWithin(of(0), time.Second)
		require.NoError(t, err)
		require.Equal(t, time.Second, timeout)
		require.Equal(t, "0 tokens are used and 500 reserved for running tasks, of 1000 (MaxTokens)", r.SpentInWords())
		r.Spend(500)
		require.ErrorIs(t, r.Check(), ErrSpent)
		time.Sleep(time.Minute)
		require.ErrorIs(t, r.Check(), ErrTime)
		_, _, err = r.OpenWithin(of(0), time.Hour)
		require.ErrorIs(t, err, ErrTime)
	})
}

func TestRunOfARunHasItsAccount(t *testing.T) {
	var none *Run[tokens]
	require.NoError(t, none.Check(), "outside of a run nothing is bounded")
	up := NewRun[tokens](nil, of(1000))
	share := open(t, up.Account, 400)
	r := NewRun(share, of(0))
	require.EqualValues(t, 400, r.Limit()[Tokens])
	require.EqualValues(t, 300, NewRun(share, of(300)).Limit()[Tokens])
	require.False(t, r.Over())
	r.End()
	require.True(t, r.Over())
	r.Spend(300)
	require.Equal(t, "300 of 300 tokens are used (MaxTokens)", r.SpentInWords())
}
