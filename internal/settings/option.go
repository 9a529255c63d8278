package settings

import (
	"fmt"
	"math"
	"time"
)

// NoLimit switches a limit off.
const NoLimit = -1

// CheckLimit refuses values that are no limits.
func CheckLimit[T int | int64 | float64 | time.Duration](name string, limit T) error {
	if !(limit >= 0 || limit == NoLimit) || math.IsInf(float64(limit), 0) { // NaN is neither
		return fmt.Errorf("%s: want a positive number, 0 for the default, or NoLimit, and not %v", name, limit)
	}
	return nil
}

// IfGiven appends an option for a value that is not zero.
func IfGiven[O any, T comparable](opts []O, value T, option func(T) O) []O {
	var zero T
	if value == zero {
		return opts
	}
	return append(opts, option(value))
}

// IfSet appends an option for a setting that was given, even as zero.
func IfSet[O, T any](opts []O, value *T, option func(T) O) []O {
	if value == nil {
		return opts
	}
	return append(opts, option(*value))
}
