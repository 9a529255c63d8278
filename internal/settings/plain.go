package settings

import (
	"encoding"
	"math"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/docker/go-units"

	"github.com/x/pygent/internal/pasted"
	"github.com/x/pygent/internal/pathname"
)

// String binds a string.
func String[S ~string](at *S) *Var[S] { return &Var[S]{at, as[S](asString)} }

// Word binds a name, which is read as package pasted says.
func Word[S ~string](at *S) *Var[S] { return &Var[S]{at, as[S](asPasted(pasted.Word))} }

// Secret binds a key, which is read as package pasted says.
func Secret[S ~string](at *S) *Var[S] { return &Var[S]{at, as[S](asPasted(pasted.Key))} }

// URL binds an http or https URL without credentials, which is read as package pasted says. hint
// is the end of an error's text.
func URL(at *string, hint string) *Var[string] {
	return &Var[string]{at, func(v any) (string, error) {
		s, err := asPasted(pasted.URL)(v)
		if err != nil || s == "" {
			return "", err
		}
		u, err := url.Parse(s)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
			return "", Want("an http or https URL "+hint, v)
		}
		return s, nil
	}}
}

// Choice binds one of a few strings. want describes them in an error.
func Choice[S ~string](at *S, want string, choices ...S) *Var[S] {
	return &Var[S]{at, func(v any) (S, error) {
		s, err := asString(v)
		if err != nil || !slices.Contains(choices, S(s)) {
			return "", Want(want, v)
		}
		return S(s), nil
	}}
}

// Named binds a value that is given by its name. want describes the names in an
// error.
func Named(at encoding.TextUnmarshaler, want string) Value {
	return Func(func(v any) error {
		s, err := asString(v)
		if err != nil || at.UnmarshalText([]byte(s)) != nil {
			return Want(want, v)
		}
		return nil
	})
}

// Bool binds true or false. The pointer stays nil if no source sets it.
func Bool(at **bool) *Var[*bool] { return &Var[*bool]{at, pointer(asBool)} }

// Switch binds one of three values: on for true, off for false, and auto for
// "auto". want describes them in an error.
func Switch[T any](at *T, want string, on, off, auto T) *Var[T] {
	return &Var[T]{at, func(v any) (T, error) {
		if v == "auto" || v == Text("auto") {
			return auto, nil
		}
		set, err := asBool(v)
		switch {
		case err != nil:
			return auto, Want(want, v)
		case set:
			return on, nil
		}
		return off, nil
	}}
}

// Int binds a whole number of at least 1.
func Int(at *int) *Var[int] { return &Var[int]{at, asInt} }

// Count is Int for numbers that may need 64 bits.
func Count(at *int64) *Var[int64] { return &Var[int64]{at, asCount} }

// Money binds an amount of money above zero.
func Money(at *float64) *Var[float64] { return &Var[float64]{at, asMoney} }

// CPUs binds a number of CPUs, which may be a fraction.
func CPUs(at *float64) *Var[float64] { return &Var[float64]{at, asCPUs} }

// Bytes binds a size in bytes, given as a number or as text such as "512m".
func Bytes(at *int64) *Var[int64] { return &Var[int64]{at, asBytes} }

// Duration binds a duration above zero, given in seconds, in days such as "30d", or in
// Go's notation.
func Duration(at *time.Duration) *Var[time.Duration] { return &Var[time.Duration]{at, asDuration} }

// GPUs binds "all", a number, or device ids.
func GPUs(at *string) *Var[string] { return &Var[string]{at, asGPUs} }

// as turns a parser of strings into a parser of another string type.
func as[S ~string](parse func(any) (string, error)) func(any) (S, error) {
	return func(v any) (S, error) {
		s, err := parse(v)
		return S(s), err
	}
}

// pointer turns a parser into one that returns a pointer, so that nil can mean
// that no value was given.
func pointer[T any](parse func(any) (T, error)) func(any) (*T, error) {
	return func(v any) (*T, error) {
		value, err := parse(v)
		return &value, err
	}
}

func asString(v any) (string, error) {
	switch v := v.(type) {
	case Text:
		return string(v), nil
	case string:
		return v, nil
	}
	return "", Want("a string", v)
}

// asPasted is asString for what people paste.
func asPasted(read func(string) (string, error)) func(any) (string, error) {
	return func(v any) (string, error) {
		s, err := asString(v)
		if err != nil {
			return "", err
		}
		return read(s)
	}
}

func asBool(v any) (bool, error) {
	switch v := v.(type) {
	case bool:
		return v, nil
	case Text:
		switch strings.ToLower(string(v)) {
		case "1", "true", "yes", "on":
			return true, nil
		case "0", "false", "no", "off":
			return false, nil
		}
		return false, Want("1 or 0, true or false, yes or no, on or off", v)
	}
	return false, Want("true or false", v)
}

func asCount(v any) (int64, error) {
	n, ok := v.(int64)
	if t, isText := v.(Text); isText {
		parsed, err := strconv.ParseInt(string(t), 10, 64)
		n, ok = parsed, err == nil
	}
	if !ok || n < 1 {
		return 0, Want("a whole number of at least 1", v)
	}
	return n, nil
}

func asInt(v any) (int, error) {
	n, err := asCount(v)
	if err == nil && n > math.MaxInt32 {
		return 0, Want("a whole number from 1 to 2147483647", v)
	}
	return int(n), err
}

// number reads a whole number or a fraction. ok is false if it is not finite.
func number(v any) (f float64, ok bool) {
	switch v := v.(type) {
	case int64:
		f, ok = float64(v), true
	case float64:
		f, ok = v, true
	case Text:
		parsed, err := strconv.ParseFloat(string(v), 64)
		f, ok = parsed, err == nil
	}
	return f, ok && !math.IsNaN(f) && !math.IsInf(f, 0)
}

func asMoney(v any) (float64, error) {
	amount, ok := number(v)
	if !ok || amount <= 0 {
		return 0, Want("an amount of money above 0, such as 0.5", v)
	}
	return amount, nil
}

func asCPUs(v any) (float64, error) {
	f, ok := number(v)
	if !ok || f <= 0 || f > 1<<20 {
		return 0, Want("a number of CPUs such as 1.5", v)
	}
	return f, nil
}

func asBytes(v any) (int64, error) {
	const most = 1 << 50 // no machine has more; keeps the arithmetic exact
	if n, ok := v.(int64); ok && n > 0 && n <= most {
		return n, nil
	}
	if s, err := asString(v); err == nil {
		if n, err := units.RAMInBytes(s); err == nil && n > 0 && n <= most {
			return n, nil
		}
	}
	return 0, Want(`a size such as "512m" or "2g"`, v)
}

func asDuration(v any) (time.Duration, error) {
	d, err := asDurationOrZero(v)
	if err == nil && d == 0 {
		return 0, Want("a duration longer than nothing", v)
	}
	return d, err
}

// asDurationOrZero reads seconds, as the Python Pygent does, or Go's notation.
func asDurationOrZero(v any) (time.Duration, error) {
	if f, ok := number(v); ok && f >= 0 && f < math.MaxInt64/float64(time.Second) {
		return time.Duration(f * float64(time.Second)), nil
	}
	if s, err := asString(v); err == nil {
		if d, ok := ParseDuration(s); ok {
			return d, nil
		}
	}
	return 0, Want(`seconds, or a duration such as "90s" or "5m"`, v)
}

// ParseDuration reads a duration in Go's notation, or in days such as "30d".
func ParseDuration(s string) (d time.Duration, ok bool) {
	const day = 24 * time.Hour
	if number, isDays := strings.CutSuffix(s, "d"); isDays {
		n, err := strconv.ParseFloat(number, 64)
		if err != nil || !(n >= 0 && n < float64(math.MaxInt64/day)) {
			return 0, false
		}
		return time.Duration(n * float64(day)), true
	}
	d, err := time.ParseDuration(s)
	return d, err == nil && d >= 0
}

func asGPUs(v any) (string, error) {
	if n, ok := v.(int64); ok && n > 0 {
		return strconv.FormatInt(n, 10), nil
	}
	s, err := asString(v)
	if err != nil {
		return "", Want(`"all", a number, or device ids`, v)
	}
	return s, nil
}

// Path binds the name of a file or directory, which is read as package pathname says:
// "~/" is the user's home.
func Path(at *string) Value { return &homePath{Var: String(at)} }

type homePath struct{ *Var[string] }

func (p *homePath) readPaths(home string) (err error) {
	place := pathname.Host()
	place.Home = home
	*p.at, err = place.Read(*p.at)
	return err
}

// separator separates the paths of a list in a variable, as in PATH.
const separator = os.PathListSeparator
