package budget

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

type tokens int64

func (t tokens) Add(u tokens) tokens { return t + u }
func (t tokens) Sums() Sums          { return Sums{Tokens: int64(t)} }

func of(n int64) Sums { return Sums{Tokens: n} }

func open(t *testing.T, a *Account[tokens], ask int64) *Account[tokens] {
	t.Helper()
	b, err := a.Open(of(ask))
	require.NoError(t, err)
	return b
}

func TestSharesAreSetAsideAndGivenBack(t *testing.T) {
	a := New[tokens](of(5000))
	one, two := open(t, a, 0), open(t, a, 0)
	require.EqualValues(t, 1250, one.Limit()[Tokens])
	require.EqualValues(t, 1250, two.Limit()[Tokens])
	require.EqualValues(t, 2500, a.Left()[Tokens], "both shares are set aside")
	a.Spend(1000)
	one.Spend(200)
	require.EqualValues(t, 1500, a.Left()[Tokens])
	require.EqualValues(t, 200, a.Below())
	one.Settle()
	one.Settle()
	require.EqualValues(t, 5000-1000-200-1250, a.Left()[Tokens], "what it did not spend is back, once")
	two.Spend(1400)
	require.EqualValues(t, 5000-1000-200-1400, a.Left()[Tokens], "its last call went over its share")
	two.Settle()
	require.EqualValues(t, 1600, a.Below())
}

func TestWhatIsAskedForIsSetAsideWhileThereIsSome(t *testing.T) {
	a := New[tokens](of(1000))
	require.EqualValues(t, 800, open(t, a, 800).Limit()[Tokens])
	require.EqualValues(t, 100, open(t, a, 0).Limit()[Tokens], "half of what is left")
	require.EqualValues(t, 100, open(t, a, 500).Limit()[Tokens], "all that is left")
	_, err := a.Open(of(1))
	require.ErrorIs(t, err, ErrSpent)
	_, err = a.Open(of(0))
	require.ErrorIs(t, err, ErrSpent)
}

func TestWithoutALimitThereIsNoShare(t *testing.T) {
	a := New[tokens](of(0))
	b := open(t, a, 0)
	require.Zero(t, b.Limit()[Tokens])
	require.EqualValues(t, 70, open(t, a, 70).Limit()[Tokens])
	require.Zero(t, open(t, a, All).Limit()[Tokens])
	b.Lower(of(50))
	b.Lower(of(60))
	b.Lower(of(0))
	require.EqualValues(t, 50, b.Limit()[Tokens])
	b.Spend(20)
	require.EqualValues(t, 20, a.Below())
}

func TestAccountsThatOutliveTheirsGoUp(t *testing.T) {
	a := New[tokens](of(1000))
	b := open(t, a, 400)
	c := open(t, b, 300)
	b.Spend(50)
	c.Spend(100)
	require.EqualValues(t, 600, a.Left()[Tokens])
	require.EqualValues(t, 150, a.Below())
	b.Settle()
	require.EqualValues(t, 1000-50-300, a.Left()[Tokens], "what the open one may still spend stays set aside")
	c.Spend(120)
	require.EqualValues(t, 170, a.Below())
	c.Settle()
	require.EqualValues(t, 1000-50-120, a.Left()[Tokens])
	require.EqualValues(t, 830, open(t, b, 900).Limit()[Tokens], "the one above takes the place of a settled one")
	require.Zero(t, a.Left()[Tokens])
}

func TestTreesNeverSpendMoreThanTheirLimit(t *testing.T) {
	const limit, call = 10_000, 100
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 0))
		root := New[tokens](of(limit))
		accounts := []*Account[tokens]{root}
		spent, calls := map[*Account[tokens]]tokens{}, 0
		for range 300 {
			a := accounts[random.IntN(len(accounts))]
			switch random.IntN(6) {
			case 0:
				if b, err := a.Open(of(random.Int64N(3) * 1000)); err == nil {
					accounts = append(accounts, b)
				}
			case 1:
				a.Settle()
			default:
				if !a.settled && a.Left()[Tokens] > 0 {
					spent[a] += tokens(random.IntN(call))
					a.Spend(spent[a])
					calls++
				}
			}
		}
		var sum tokens
		for _, n := range spent {
			sum += n
		}
		require.Equal(t, sum, root.own+root.Below(), "seed %d: nothing is lost", seed)
		require.LessOrEqual(t, int64(sum), int64(limit+len(accounts)*call), "seed %d", seed)
		require.NotZero(t, calls)
	}
}
