package jsonobj

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Seconds is a duration whose JSON is a number of seconds, with fractions.
// Fields of this type are named *_seconds.
type Seconds time.Duration

// MarshalJSON writes all digits, so that no precision is lost.
func (s Seconds) MarshalJSON() ([]byte, error) {
	n, sign := uint64(s), ""
	if s < 0 {
		n, sign = -n, "-"
	}
	const second = uint64(time.Second)
	text := fmt.Sprintf("%s%d.%09d", sign, n/second, n%second)
	return []byte(strings.TrimRight(strings.TrimRight(text, "0"), ".")), nil
}

// UnmarshalJSON reads any number.
func (s *Seconds) UnmarshalJSON(data []byte) error {
	text := string(data)
	if text == "null" {
		return nil
	}
	if d, err := time.ParseDuration(text + "s"); err == nil { // exact, but it knows no exponents
		*s = Seconds(d)
		return nil
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || math.Abs(f) > time.Duration(math.MaxInt64).Seconds() {
		return fmt.Errorf("%s is no number of seconds", text)
	}
	*s = Seconds(math.Round(f * float64(time.Second)))
	return nil
}
