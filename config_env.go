package pygent

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// environment applies the variables that no override replaces. Bans are never
// replaced: they add up.
func (l *configLoad) environment() {
	l.warnOfStrangers()
	for i := range configSettings {
		s := &configSettings[i]
		if s.env == "" {
			continue
		}
		if _, replaced := l.sources.Overrides[s.env]; replaced && !s.addsUp {
			continue
		}
		if value, ok := l.sources.Lookup(s.env); ok {
			l.variable("environment", s, value)
		}
	}
}

// warnOfStrangers warns of variables that are named like settings and are none.
// Those named OPENAI_… may be meant for other programs.
func (l *configLoad) warnOfStrangers() {
	if l.sources.Environ == nil {
		return
	}
	for _, entry := range slices.Sorted(slices.Values(l.sources.Environ())) {
		name, value, _ := strings.Cut(entry, "=")
		if value == "" || !strings.HasPrefix(strings.ToUpper(name), "PYGENT_") {
			continue
		}
		if isSetting(name) {
			continue
		}
		// Windows does not tell case: then the variable has its effect.
		if found, ok := l.sources.Lookup(strings.ToUpper(name)); ok && found == value && isSetting(strings.ToUpper(name)) {
			continue
		}
		l.config.Warnings = append(l.config.Warnings, fmt.Sprintf("environment: %s has no effect: %v", name, unknownVariable(name)))
	}
}

// overrides applies "-e NAME=value": first the settings, in their own order,
// so that of two variables for one setting the same wins as in the
// environment; then what is meant for commands.
func (l *configLoad) overrides() {
	ours := make(map[string]bool)
	for i := range configSettings {
		s := &configSettings[i]
		if value, ok := l.sources.Overrides[s.env]; ok && s.env != "" {
			ours[s.env] = true
			l.variable("-e", s, value)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(l.sources.Overrides)) {
		if ours[name] {
			continue
		}
		if err := checkEnvName(name); err != nil {
			l.faults = append(l.faults, &ConfigError{Source: "-e", Key: name, Err: err})
			continue
		}
		if l.config.Env == nil {
			l.config.Env = make(map[string]Secret)
		}
		l.config.Env[name] = Secret(l.sources.Overrides[name])
	}
}

// variable applies one setting given as text. Empty text says nothing.
func (l *configLoad) variable(source string, s *setting, value string) {
	if value == "" {
		return
	}
	l.userSet(s)
	if err := s.set(&l.config, text(value)); err != nil {
		l.faults = append(l.faults, &ConfigError{Source: source, Key: s.env, Err: s.hide(err)})
	}
}

// checkEnvName refuses what cannot be the name of a command's variable: names
// a shell would not take, and those of our own settings, which commands must
// not see.
func checkEnvName(name string) error {
	if !isEnvName(name) {
		return errors.New("not a variable's name: letters, digits and underscores, no digit first")
	}
	switch {
	case !isOurs(name):
		return nil
	case isSetting(name):
		return errors.New("a setting of pygent, which commands do not get to see")
	}
	return unknownVariable(name)
}

// isSetting reports whether a variable is one of ours.
func isSetting(name string) bool {
	return slices.ContainsFunc(configSettings, func(s setting) bool { return s.env == name && name != "" })
}

// unknownVariable is the error for a variable that is named like ours, with
// the one that was perhaps meant.
func unknownVariable(name string) error {
	var names []string
	for _, s := range configSettings {
		names = append(names, s.env)
	}
	if like := nearest(name, names); like != "" {
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
