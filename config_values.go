package pygent

import (
	"errors"
	"fmt"
	"math"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/docker/go-units"
)

// text is the value of a variable: everything is text there, while a file
// tells strings from numbers and is held to the difference.
type text string

// valueError is a value that a setting does not take.
type valueError struct {
	path   string // where in the value, as ".name" or "[2].name"; empty for all of it
	want   string // what is accepted
	got    any
	hidden bool // got is a secret

	// reason is said instead when the fault is not the value's kind.
	reason string
	field  string // a name that reason calls unknown
}

// Error says what is accepted and, unless it is a secret, what came instead.
func (e *valueError) Error() string {
	if e.reason != "" {
		return e.reason
	}
	if e.hidden {
		return "want " + e.want
	}
	return "want " + e.want + ", not " + show(e.got)
}

func want(what string, got any) error { return &valueError{want: what, got: got} }

// at says where in a larger value an error is.
func at(path string, err error) error {
	if bad := (*valueError)(nil); errors.As(err, &bad) {
		moved := *bad
		moved.path = path + bad.path
		return &moved
	}
	return err
}

// show is a value as an error quotes it: short, and never a whole table.
func show(v any) string {
	switch v := v.(type) {
	case text:
		return quote(string(v))
	case string:
		return quote(v)
	case map[string]any:
		return "a table"
	case []any:
		return "an array"
	case nil:
		return "nothing"
	}
	return fmt.Sprint(v)
}

func quote(s string) string {
	const most = 60
	if runes := []rune(s); len(runes) > most {
		s = string(runes[:most]) + "…"
	}
	return strconv.Quote(s)
}

func asString(v any) (string, error) {
	switch v := v.(type) {
	case text:
		return string(v), nil
	case string:
		return v, nil
	}
	return "", want("a string", v)
}

// asSecret takes a key. The newline of a file it was read from is dropped;
// other control characters would break the header it goes into.
func asSecret(v any) (Secret, error) {
	s, err := asString(v)
	if err != nil {
		return "", err
	}
	s = strings.TrimSpace(s)
	if strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return "", want("a key in one line", v)
	}
	return Secret(s), nil
}

func asURL(v any) (string, error) {
	const what = `an http or https URL such as "https://api.openai.com/v1", without user or password (the key goes into api_key)`
	s, err := asString(v)
	if err != nil || s == "" {
		return "", err
	}
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
		return "", want(what, v)
	}
	return s, nil
}

func asProtocol(v any) (OpenAIProtocol, error) {
	s, err := asString(v)
	api := OpenAIProtocol(s)
	if err != nil || api != OpenAIAuto && api != OpenAIChat && api != OpenAIResponses {
		return "", want(`"auto", "chat" or "responses"`, v)
	}
	return api, nil
}

func asProtection(v any) (Protection, error) {
	s, err := asString(v)
	var p Protection
	if err != nil || p.UnmarshalText([]byte(s)) != nil {
		return 0, want(`"auto", "required" or "off"`, v)
	}
	return p, nil
}

func asBool(v any) (bool, error) {
	switch v := v.(type) {
	case bool:
		return v, nil
	case text:
		switch strings.ToLower(string(v)) {
		case "1", "true", "yes", "on":
			return true, nil
		case "0", "false", "no", "off":
			return false, nil
		}
		return false, want("1 or 0, true or false, yes or no, on or off", v)
	}
	return false, want("true or false", v)
}

// asUseDocker returns nil for "auto".
func asUseDocker(v any) (*bool, error) {
	if v == "auto" || v == text("auto") {
		return nil, nil
	}
	b, err := asBool(v)
	if err != nil {
		return nil, want(`true (required), false (local) or "auto"`, v)
	}
	return &b, nil
}

func asCount(v any) (int64, error) {
	n, ok := v.(int64)
	if t, isText := v.(text); isText {
		parsed, err := strconv.ParseInt(string(t), 10, 64)
		n, ok = parsed, err == nil
	}
	if !ok || n < 1 {
		return 0, want("a whole number of at least 1", v)
	}
	return n, nil
}

func asInt(v any) (int, error) {
	n, err := asCount(v)
	if err == nil && n > math.MaxInt32 {
		return 0, want("a whole number from 1 to 2147483647", v)
	}
	return int(n), err
}

// number reads what may be whole or not; ok is false for infinities too.
func number(v any) (f float64, ok bool) {
	switch v := v.(type) {
	case int64:
		f, ok = float64(v), true
	case float64:
		f, ok = v, true
	case text:
		parsed, err := strconv.ParseFloat(string(v), 64)
		f, ok = parsed, err == nil
	}
	return f, ok && !math.IsNaN(f) && !math.IsInf(f, 0)
}

func asCPUs(v any) (float64, error) {
	f, ok := number(v)
	if !ok || f <= 0 || f > 1<<20 {
		return 0, want("a number of CPUs such as 1.5", v)
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
	return 0, want(`a size such as "512m" or "2g"`, v)
}

func asDuration(v any) (time.Duration, error) {
	d, err := asDurationOrZero(v)
	if err == nil && d == 0 {
		return 0, want("a duration longer than nothing", v)
	}
	return d, err
}

// asDurationOrZero takes seconds, as the Python Pygent does, or Go's notation.
func asDurationOrZero(v any) (time.Duration, error) {
	if f, ok := number(v); ok && f >= 0 && f < math.MaxInt64/float64(time.Second) {
		return time.Duration(f * float64(time.Second)), nil
	}
	if s, err := asString(v); err == nil {
		if d, err := time.ParseDuration(s); err == nil && d >= 0 {
			return d, nil
		}
	}
	return 0, want(`seconds, or a duration such as "90s" or "5m"`, v)
}

// asPaths takes a list whose text is divided like PATH.
func asPaths(v any) ([]string, error) { return asList(v, os.PathListSeparator) }

// asNames takes a list whose text is divided by commas.
func asNames(v any) ([]string, error) { return asList(v, ',') }

// asBans takes a list whose text is divided by commas or like PATH: a list that
// was taken for one name would ban nothing.
func asBans(v any) ([]string, error) { return asList(v, ',', os.PathListSeparator) }

// asList takes an array of strings, or one string for an array of one.
func asList(v any, separators ...rune) ([]string, error) {
	switch v := v.(type) {
	case text:
		return split(string(v), separators...), nil
	case string:
		return []string{v}, nil
	case []any:
		list := make([]string, 0, len(v))
		for i, item := range v {
			s, ok := item.(string)
			if !ok || s == "" {
				return nil, at(fmt.Sprintf("[%d]", i), want("strings that are not empty", item))
			}
			list = append(list, s)
		}
		return list, nil
	}
	return nil, want("an array of strings", v)
}

// split divides text at any of the separators and drops what is empty. The
// result is never nil.
func split(s string, separators ...rune) []string {
	list := []string{}
	for part := range strings.FieldsFuncSeq(s, func(r rune) bool { return slices.Contains(separators, r) }) {
		if part = strings.TrimSpace(part); part != "" {
			list = append(list, part)
		}
	}
	return list
}

// asCapabilities gives an empty list, not nil, for "none".
func asCapabilities(v any) ([]string, error) {
	if v == "none" || v == text("none") {
		return []string{}, nil
	}
	return asNames(v)
}

func asGPUs(v any) (string, error) {
	if n, ok := v.(int64); ok && n > 0 {
		return strconv.FormatInt(n, 10), nil
	}
	s, err := asString(v)
	if err != nil {
		return "", want(`"all", a number, or device ids`, v)
	}
	return s, nil
}
