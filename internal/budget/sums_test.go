package budget

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// both is an amount of tokens, and what they cost.
type both struct {
	tokens int64
	cost   float64
}

func (b both) Add(c both) both { return both{b.tokens + c.tokens, b.cost + c.cost} }
func (b both) Sums() Sums      { return Sums{b.tokens, CostOf(b.cost)} }

func TestMoneyHasAShareOfItsOwn(t *testing.T) {
	a := New[both](Sums{Cost: CostOf(2)})
	b, err := a.Open(Sums{Tokens: 70})
	require.NoError(t, err)
	require.Equal(t, Sums{70, CostOf(0.5)}, b.Limit(), "a quarter of the money, and the tokens that it asked for")
	c, err := a.Open(Sums{Cost: CostOf(9)})
	require.NoError(t, err)
	require.Equal(t, Sums{0, CostOf(1.5)}, c.Limit(), "all that is left")
	_, err = a.Open(Sums{Tokens: 1})
	require.ErrorIs(t, err, ErrSpent)
	c.Spend(both{1, 0.25})
	c.Settle()
	require.Equal(t, CostOf(1.25), a.Left()[Cost], "what it did not spend is back")
	b.Spend(both{10, 0.5})
	require.True(t, b.Spent())
	require.False(t, a.Spent())
}

func TestTheFirstLimitThatIsReachedHolds(t *testing.T) {
	for name, tt := range map[string]struct {
		spent both
		words string // empty while something is left
	}{
		"none":   {both{99, 0.49}, ""},
		"tokens": {both{100, 0.1}, "100 of 100 tokens are used (MaxTokens)"},
		"money":  {both{1, 0.5}, "the cost is 0.500; the limit is 0.500 (MaxCost)"},
		"a bit":  {both{1, 0.50001}, "the cost is 0.500; the limit is 0.500 (MaxCost)"},
	} {
		t.Run(name, func(t *testing.T) {
			r := NewRun[both](nil, Sums{100, CostOf(0.5)})
			r.Spend(tt.spent)
			require.Equal(t, tt.words != "", r.Spent())
			if tt.words != "" {
				require.Equal(t, tt.words, r.SpentInWords())
			}
		})
	}
	r := NewRun[both](nil, Sums{Cost: CostOf(0.5)})
	_, err := r.Open(Sums{})
	require.NoError(t, err)
	r.Spend(both{1, 0.4})
	require.Equal(t, "the cost is 0.400, with 0.125 reserved for running tasks; the limit is 0.500 (MaxCost)", r.SpentInWords())
}

func TestMoneyIsCountedExactly(t *testing.T) {
	sum := both{}
	for range 8 {
		sum = sum.Add(both{cost: 0.1})
	}
	require.Less(t, sum.cost, 0.8, "the sum has drifted")
	a := New[both](Sums{Cost: CostOf(0.8)})
	a.Spend(sum)
	require.True(t, a.Spent())
	for amount, want := range map[float64]int64{
		0: 0, -1: 0, math.NaN(): 0, math.Inf(-1): 0, 1e-9: 1, 4e-10: 0, 1: 1e9, 1e300: math.MaxInt64, math.Inf(1): math.MaxInt64,
	} {
		require.Equal(t, want, CostOf(amount), "%v", amount)
	}
	require.Equal(t, 2.5, Money(CostOf(2.5)))
}

func TestHugeAmountsDoNotOverflow(t *testing.T) {
	a := New[both](Sums{math.MaxInt64, math.MaxInt64})
	for range 5 {
		b, err := a.Open(Sums{})
		require.NoError(t, err)
		b.Spend(both{math.MaxInt64 / 8, 1e300})
		b.Settle()
		a.below = both{a.below.tokens, 1e300}
		if a.Spent() {
			break
		}
	}
	require.True(t, a.Spent())
	_, err := a.Open(Sums{math.MaxInt64, math.MaxInt64})
	require.ErrorIs(t, err, ErrSpent)
}

func TestMoneyInWords(t *testing.T) {
	for amount, want := range map[float64]string{0: "0.00", 12.345: "12.35", 1: "1.00", 0.5: "0.500", 0.05: "0.0500", 0.000123: "0.000123", 1e-9: "0.000000001"} {
		require.Equal(t, want, InWords(CostOf(amount)))
	}
}

func TestTreesNeverSpendMoreMoneyThanTheirLimit(t *testing.T) {
	for seed := range uint64(100) {
		random := rand.New(rand.NewPCG(seed, 1))
		root := New[both](Sums{Cost: CostOf(1)})
		accounts, spent := []*Account[both]{root}, map[*Account[both]]both{}
		for range 300 {
			a := accounts[random.IntN(len(accounts))]
			switch random.IntN(6) {
			case 0:
				if b, err := a.Open(Sums{Cost: random.Int64N(3) * CostOf(0.1)}); err == nil {
					accounts = append(accounts, b)
				}
			case 1:
				a.Settle()
			default:
				if !a.settled && !a.Spent() {
					spent[a] = spent[a].Add(both{1, random.Float64() / 100})
					a.Spend(spent[a])
				}
			}
		}
		sum := root.own.Add(root.Below())
		require.LessOrEqual(t, sum.cost, 1+float64(len(accounts))/100, "seed %d", seed)
	}
}
