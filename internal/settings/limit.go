package settings

import (
	"errors"
	"fmt"
	"time"
)

// Limit returns a value that a project's file can lower but never raise. inForce
// is the limit that holds without that file, defaults included; [Set.Lower]
// reads it. Zero or less means that there is no limit: see [OrNone].
func Limit[T int | int64 | float64 | time.Duration](value *Var[T], inForce *T) Value {
	return &limited[T]{Var: value, inForce: inForce}
}

// IsLimit reports whether the setting is a [Limit], which any source may lower.
func (s Setting) IsLimit() bool {
	_, is := s.Value.(limit)
	return is
}

// OrNone returns a value that also accepts "none", and is set to none then.
func OrNone[T int | int64 | float64 | time.Duration](value *Var[T], none T) *Var[T] {
	return &Var[T]{value.at, func(v any) (T, error) {
		if v == "none" || v == Text("none") {
			return none, nil
		}
		parsed, err := value.parse(v)
		if bad := (*valueError)(nil); errors.As(err, &bad) {
			err = Want(bad.want+`, or "none"`, v)
		}
		return parsed, err
	}}
}

type limited[T int | int64 | float64 | time.Duration] struct {
	*Var[T]
	inForce *T
}

// limit is a [Value] made by [Limit].
type limit interface {
	ask(given any) (asked, error)
}

// asked is the value of a limit that a project's file asks for.
type asked interface {
	// tooHigh returns a warning if the value is above the limit in force, and ""
	// if it is not.
	tooHigh(where, flag string) string
	apply()
}

// askedLimit is a limit that a project's file asks for.
type askedLimit struct {
	asked
	setting *Setting
	where   string // the file, the line, and the key as it is written there
	flag    string // with which a user names such a file to trust it
	took    func() // records that it took effect
}

func (l *limited[T]) ask(given any) (asked, error) {
	value, err := l.parse(given)
	return &askedValue[T]{limit: l, value: value}, err
}

type askedValue[T int | int64 | float64 | time.Duration] struct {
	limit *limited[T]
	value T
}

func (a *askedValue[T]) tooHigh(where, flag string) string {
	holds := *a.limit.inForce
	if holds <= 0 || 0 < a.value && a.value <= holds {
		return ""
	}
	return fmt.Sprintf("%s = %v has no effect: a file found in the working directory may only lower a limit, and %v holds; if you trust the file, load it with %s",
		where, a.value, holds, flag)
}

func (a *askedValue[T]) apply() { *a.limit.at = a.value }

// Lower applies the limits of a project's file, which a stranger may have
// written. It warns of a limit above the one in force, which is the user's or
// the default, and ignores it. A limit that the user set in a source above the
// project's file stays as it is.
func (s *Set) Lower() {
	for _, one := range s.asked {
		if warning := one.tooHigh(one.where, one.flag); warning != "" {
			s.Warnings = append(s.Warnings, warning)
		} else if !s.users[one.setting] {
			one.apply()
			one.took()
		}
	}
	s.asked = nil
}
