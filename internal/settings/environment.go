package settings

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/x/pygent/internal/spelling"
)

// readEnvironment applies the variables that no override replaces. What adds up,
// such as bans, is never replaced.
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

// warnOfUnknownVariables warns of variables that are named like settings and are
// none. Those named OPENAI_… may be meant for other programs.
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
		// Windows does not tell case: then the variable has its effect.
		if found, ok := s.sources.Lookup(upper); ok && found == value && s.isVariable(upper) {
			continue
		}
		s.Warnings = append(s.Warnings, fmt.Sprintf("environment: %s has no effect: %v", name, s.unknownVariable(name)))
	}
}

// readOverrides applies "-e NAME=value": first the settings, in their own order,
// so that of two variables for one setting the same wins as in the environment;
// then what is meant for commands.
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

// setVariable applies one setting given as text. Empty text says nothing.
func (s *Set) setVariable(source string, one *Setting, value string) {
	if value == "" {
		return
	}
	s.userSet(one)
	if err := one.set(Text(value), ""); err != nil {
		s.Faults = append(s.Faults, &Fault{Source: source, Key: one.Env, Err: one.hide(err)})
	}
}

// checkEnvName refuses what cannot be the name of a command's variable: names
// a shell would not take, and those of our own settings, which commands must
// not see.
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

// unknownVariable is the error for a variable that is named like ours, with
// the one that was perhaps meant.
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

// isOurs reports whether a variable is named like our settings. Case counts
// for little: some systems do not tell the difference.
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
