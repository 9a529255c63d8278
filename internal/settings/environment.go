package settings

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/x/pygent/internal/spelling"
)

// readEnvironment applies the variables that no override replaces. Settings that
// add up, such as bans, are never replaced.
func (s *Set) readEnvironment() {
	s.warnOfUnknownVariables()
	for i := range s.settings {
		one := &s.settings[i]
		if one.Env == "" {
			continue
		}
		if _, replaced := s.sources.Overrides[one.Env]; replaced && !one.AddsUp {
			continue
		}
		if value, ok := s.sources.Lookup(one.Env); ok {
			s.setVariable("environment", one, value)
		}
	}
}

// warnOfUnknownVariables warns of variables that are named PYGENT_… and are no
// settings. It does not warn of OPENAI_…, which may be for other programs.
func (s *Set) warnOfUnknownVariables() {
	if s.sources.Environ == nil {
		return
	}
	for _, entry := range slices.Sorted(slices.Values(s.sources.Environ())) {
		name, value, _ := strings.Cut(entry, "=")
		upper := strings.ToUpper(name)
		if value == "" || !strings.HasPrefix(upper, "PYGENT_") || s.isVariable(name) {
			continue
		}
		// Windows ignores case, so there the variable does have an effect.
		if found, ok := s.sources.Lookup(upper); ok && found == value && s.isVariable(upper) {
			continue
		}
		s.Warnings = append(s.Warnings, fmt.Sprintf("environment: %s has no effect: %v", name, s.unknownVariable(name)))
	}
}

// readOverrides applies each "-e NAME=value". The settings come first, in the
// order of the set, so that of two variables for one field the same one wins as
// in the environment. The others are variables for commands.
func (s *Set) readOverrides() {
	for i := range s.settings {
		one := &s.settings[i]
		if value, ok := s.sources.Overrides[one.Env]; ok && one.Env != "" {
			s.setVariable("-e", one, value)
		}
	}
	s.Env = make(map[string]string)
	for _, name := range slices.Sorted(maps.Keys(s.sources.Overrides)) {
		if s.isVariable(name) {
			continue
		}
		if err := s.checkEnvName(name); err != nil {
			s.Faults = append(s.Faults, &Fault{Source: "-e", Key: name, Err: err})
			continue
		}
		s.Env[name] = s.sources.Overrides[name]
	}
}

// setVariable applies one setting given as text. Empty text counts as not set. The line ends
// of a file that the variable was read from are not part of it.
func (s *Set) setVariable(source string, one *Setting, value string) {
	if value = strings.TrimRight(value, "\r\n"); value == "" {
		return
	}
	s.userSet(one)
	if err := one.set(Text(value), ""); err != nil {
		s.Faults = append(s.Faults, &Fault{Source: source, Key: one.Env, Err: one.hide(err)})
		return
	}
	s.took(one, source, 0, one.Env, Text(value))
}

// checkEnvName refuses names that a command's variable cannot have: those that a
// shell does not accept, and those of pygent's settings, which commands must not
// see.
func (s *Set) checkEnvName(name string) error {
	switch {
	case !isEnvName(name):
		return errors.New("not a variable's name: letters, digits and underscores, no digit first")
	case isOurs(name):
		return s.unknownVariable(name)
	}
	return nil
}

// isVariable reports whether a setting has this variable.
func (s *Set) isVariable(name string) bool {
	return slices.ContainsFunc(s.settings, func(one Setting) bool { return one.Env == name && name != "" })
}

// unknownVariable returns the error for a variable that is named like a setting.
// It suggests the name that may have been meant.
func (s *Set) unknownVariable(name string) error {
	names := make([]string, len(s.settings))
	for i, one := range s.settings {
		names[i] = one.Env
	}
	if like := spelling.Nearest(name, names); like != "" {
		return fmt.Errorf("no such setting, did you mean %s?", like)
	}
	return errors.New("no such setting; names in OPENAI_ and PYGENT_ are pygent's own, and never passed to commands")
}

// isOurs reports whether a variable is named like a setting. It ignores case, as
// some systems do.
func isOurs(name string) bool {
	upper := strings.ToUpper(name)
	return strings.HasPrefix(upper, "OPENAI_") || strings.HasPrefix(upper, "PYGENT_")
}

func isEnvName(name string) bool {
	for i, r := range name {
		letter := r == '_' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
		if !letter && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return name != ""
}
