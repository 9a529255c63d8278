package pygent

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// environment applies the variables that no override replaces.
func (l *configLoad) environment() {
	for i := range configSettings {
		s := &configSettings[i]
		if s.env == "" {
			continue
		}
		if _, replaced := l.sources.Overrides[s.env]; replaced {
			continue
		}
		if value, ok := l.sources.Lookup(s.env); ok {
			l.variable("environment", s, value)
		}
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
	if !isOurs(name) {
		return nil
	}
	var names []string
	for _, s := range configSettings {
		if s.env == name {
			return errors.New("a setting of pygent, which commands do not get to see")
		}
		names = append(names, s.env)
	}
	if like := nearest(name, names); like != "" {
		return fmt.Errorf("no such setting, did you mean %s?", like)
	}
	return errors.New("no such setting; names in OPENAI_ and PYGENT_ are never passed to commands")
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
