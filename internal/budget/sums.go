package budget

import "math"

// What is counted of an amount.
const (
	Tokens = iota
	Cost   // in billionths, so that sums are exact
	kinds
)

// All is what an account asks for that wants as much as there is.
const All = math.MaxInt64

// Sums are an amount, or a limit, of each kind. None of them is negative, except
// in what is left of a limit.
type Sums [kinds]int64

// billion is how many parts of Cost a unit of money has.
const billion = 1e9

// CostOf returns an amount of money as it is counted. What is too large to be
// counted is as much as can be; NaN and negative amounts are nothing.
func CostOf(amount float64) int64 {
	switch n := math.Round(amount * billion); {
	case n >= math.MaxInt64:
		return math.MaxInt64
	case n > 0:
		return int64(n)
	}
	return 0
}

// Money is the inverse of CostOf.
func Money(cost int64) float64 { return float64(cost) / billion }

// plus adds sums. The result is not more than can be counted.
func (s Sums) plus(t Sums) Sums {
	for i, n := range t {
		if s[i] += n; s[i] < 0 && n > 0 {
			s[i] = math.MaxInt64
		}
	}
	return s
}

// larger returns the larger amount of each kind.
func (s Sums) larger(t Sums) Sums {
	for i, n := range t {
		s[i] = max(s[i], n)
	}
	return s
}
