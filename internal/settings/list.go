package settings

import (
	"slices"
	"strings"

	"github.com/x/pygent/internal/pathname"
)

// Names binds a list of strings. A variable separates them by commas.
func Names(at *[]string) *Var[[]string] { return &Var[[]string]{at, asNames} }

// NamesOrNone is Names, but "none" is an empty list. The list stays nil if no
// source sets it.
func NamesOrNone(at *[]string) *Var[[]string] {
	return &Var[[]string]{at, func(v any) ([]string, error) {
		if v == "none" || v == Text("none") {
			return []string{}, nil
		}
		return asNames(v)
	}}
}

// EachName calls a function with each string of a list, up to the first error. A
// variable separates the strings by commas.
func EachName(f func(name string) error) Func { return each(asNames, f) }

// AddNames binds a list of strings to which each source adds those that are not
// on it yet. A variable separates them by commas.
func AddNames(at *[]string) Func { return each(asNames, addTo(at)) }

// AddBans is AddNames, but a variable may separate the strings by commas or as
// in PATH. If a list were taken for one name, it would ban nothing.
func AddBans(at *[]string) Func { return each(asBans, addTo(at)) }

// Paths binds a list of paths. A variable separates them as in PATH. "~/" is the
// user's home.
func Paths(at *[]string) Value { return &paths{Var: &Var[[]string]{at, asPaths}} }

// PathsThat is [Paths] of which check has nothing against any.
func PathsThat(at *[]string, check func(path string) error) Value {
	return &paths{Var: Checked(&Var[[]string]{at, asPaths}, checkEach(check))}
}

// NamesThat is [Names] of which check has nothing against any.
func NamesThat(at *[]string, check func(name string) error) *Var[[]string] {
	return Checked(Names(at), checkEach(check))
}

// checkEach checks the items of a list.
func checkEach(check func(string) error) func([]string) error {
	return func(list []string) error {
		for i, one := range list {
			if err := check(one); err != nil {
				return item(i, err)
			}
		}
		return nil
	}
}

type paths struct{ *Var[[]string] }

func (p *paths) readPaths(home string) error {
	for i, one := range *p.at { // which may be more than a path, such as "src:dest"
		(*p.at)[i] = pathname.ExpandHome(one, home)
	}
	return nil
}

// each returns a value that parses a list and calls a function with each item.
func each(parse func(any) ([]string, error), f func(string) error) Func {
	return func(given any) error {
		list, err := parse(given)
		if err != nil {
			return err
		}
		return checkEach(f)(list)
	}
}

// addTo returns a function that adds a string to a list unless it is on it.
func addTo(at *[]string) func(string) error {
	return func(one string) error {
		if !slices.Contains(*at, one) {
			*at = append(*at, one)
		}
		return nil
	}
}

func asPaths(v any) ([]string, error) { return asList(v, separator) }
func asNames(v any) ([]string, error) { return asList(v, ',') }
func asBans(v any) ([]string, error)  { return asList(v, ',', separator) }

// asList reads an array of strings. One string is an array of one.
func asList(v any, separators ...rune) ([]string, error) {
	switch v := v.(type) {
	case Text:
		return split(string(v), separators...), nil
	case string:
		return []string{v}, nil
	case []any:
		list := make([]string, 0, len(v))
		for i, one := range v {
			s, ok := one.(string)
			if !ok || s == "" {
				return nil, item(i, Want("strings that are not empty", one))
			}
			list = append(list, s)
		}
		return list, nil
	}
	return nil, Want("an array of strings", v)
}

// split divides text at any of the separators and leaves out empty parts. The
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
