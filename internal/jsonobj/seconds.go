package jsonobj

import (
	"encoding/json"
	"fmt"
	"iter"
	"math"
	"reflect"
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

// MarshalSeconds encodes a struct as encoding/json does, and behind that its durations with
// a tag such as `seconds:"elapsed_seconds,omitempty"`, each as [Seconds]. They also have the
// tag `json:"-"`. The methods of the struct are called: one that calls this function in its
// MarshalJSON passes a type without methods.
func MarshalSeconds(v any) ([]byte, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	data = data[:len(data)-1]
	for tag, field := range durations(reflect.ValueOf(v)) {
		name, option, _ := strings.Cut(tag, ",")
		if option == "omitempty" && field.IsZero() {
			continue
		}
		if len(data) > 1 {
			data = append(data, ',')
		}
		number, err := Seconds(field.Int()).MarshalJSON()
		if err != nil {
			return nil, err
		}
		data = append(append(strconv.AppendQuote(data, name), ':'), number...)
	}
	return append(data, '}'), nil
}

// UnmarshalSeconds is the inverse of [MarshalSeconds], for a pointer to a struct. What data
// does not have, or has as null, stays as it is.
func UnmarshalSeconds(data []byte, v any) error {
	if err := json.Unmarshal(data, v); err != nil {
		return err
	}
	given, err := Fields(data)
	if err != nil {
		return err
	}
	for tag, field := range durations(reflect.ValueOf(v).Elem()) {
		name, _, _ := strings.Cut(tag, ",")
		if value, ok := given[name]; ok {
			if err := (*Seconds)(field.Addr().Interface().(*time.Duration)).UnmarshalJSON(value); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	return nil
}

// durations are the fields of a struct that have a tag seconds, with it.
func durations(v reflect.Value) iter.Seq2[string, reflect.Value] {
	return func(yield func(string, reflect.Value) bool) {
		for i := range v.NumField() {
			if tag, ok := v.Type().Field(i).Tag.Lookup("seconds"); ok && !yield(tag, v.Field(i)) {
				return
			}
		}
	}
}
