// Package settings reads the settings of a program from TOML files, from the
// environment and from the overrides of a command line. Each setting is bound
// to the variable that takes its value, as package flag binds flags.
//
// The package knows how values are written, where each key stands in its file,
// which key a misspelt one stands for, and what a file may set that was perhaps
// written by a stranger. It knows no setting by name: package pygent has the
// table of them, and turns faults into its own type of error.
package settings

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Setting is one thing that can be configured, and what it is called in each
// source.
type Setting struct {
	Key     string   // in a file, with its table: "container.memory"; empty when it is in none
	Also    []string // other keys for the same
	Env     string   // the variable; empty when there is none
	Project bool     // whether a project's file may set it; a [Limit] it may always lower
	AddsUp  bool     // whether no source replaces what another one says
	Secret  bool     // whether a bad value must not be shown
	Value   Value    // takes what the sources say

	// After, where it is set, is called after each source that gave a value, to
	// check and complete it. project is the absolute directory of the project
	// whose file gave it, or empty for what the user says.
	After func(project string) error
}

// Value is what a setting is bound to.
type Value interface {
	// Set takes a value that one source gives: [Text] of a variable, or what
	// TOML has. Sources call it one after the other, the weakest first. An error
	// made by [Want] or [At] says which part of the value is wrong.
	Set(given any) error
}

// The names of the files that are read without being asked for.
const (
	ProjectFile = "pygent.toml"  // in the project's directory
	HomeFile    = ".pygent.toml" // in the user's home
)

// Sources says where settings come from.
type Sources struct {
	// Overrides are variables by name, which go before the environment.
	Overrides map[string]string
	// Lookup reads the environment; nil is os.LookupEnv. An empty variable
	// counts as not set.
	Lookup func(name string) (string, bool)
	// Environ lists the environment as "NAME=value". Nil is os.Environ, or
	// nothing where Lookup is given.
	Environ func() []string
	// Files are named by the user and must exist. The last one goes first.
	Files []string
	// Dir is the project's directory; empty is the working directory.
	Dir string
	// Home is the user's directory; empty is os.UserHomeDir.
	Home string
	// NoFiles leaves out the files of Dir and Home.
	NoFiles bool
}

func (s Sources) withDefaults() Sources {
	if s.Environ == nil && s.Lookup == nil {
		s.Environ = os.Environ
	}
	if s.Lookup == nil {
		s.Lookup = os.LookupEnv
	}
	if s.Home == "" {
		// Without a home there is no file in it, and "~/" stays as it is.
		s.Home, _ = os.UserHomeDir()
	}
	return s
}

// Fault is what is wrong with a source.
type Fault struct {
	Source string // the file's path, "environment" or "-e"
	Line   int    // in the file, from 1; 0 when there is none
	Column int    // in bytes, from 1
	Key    string // the key or variable; empty when the fault is no key's
	Err    error  // what is wrong
}

// Set is a set of settings, and what was found when they were read. Where two
// variables are bound to the same field, the later setting of the set wins.
type Set struct {
	Faults   []*Fault
	Warnings []string          // what has no effect
	Files    []string          // those that were read, the one with the last word last
	Home     string            // the user's own file, whether it exists or not; empty where none is read
	Env      map[string]string // overrides that are no settings

	settings []Setting
	sources  Sources
	asked    []askedLimit      // by the project's file
	users    map[*Setting]bool // set by the user where that goes before the project's file
}

// New returns a set of settings.
func New(settings ...Setting) *Set {
	return &Set{settings: settings, users: make(map[*Setting]bool)}
}

// Read gives the settings the values of all sources, the weakest first: the
// user's file at home, the project's file, the named files, the environment and
// the overrides. It goes on after a fault, to find them all. Limits of a
// project's file wait for [Set.Lower].
func (s *Set) Read(from Sources) {
	s.sources = from.withDefaults()
	s.readFiles()
	s.readEnvironment()
	s.readOverrides()
	for i := range s.settings {
		if path, ok := s.settings[i].Value.(homeExpander); ok {
			path.expandHome(s.sources.Home)
		}
	}
}

// readFiles reads the home file, the project's and the named ones.
func (s *Set) readFiles() {
	if !s.sources.NoFiles {
		if s.sources.Home != "" {
			s.Home = filepath.Join(s.sources.Home, HomeFile)
			s.readOptionalFile(s.Home, trusted)
		}
		// A project's file that the user names is read where it is named.
		if project := filepath.Join(s.sources.Dir, ProjectFile); !s.isNamed(project) {
			s.readOptionalFile(project, untrusted)
		}
	}
	for _, path := range s.sources.Files {
		seen := s.readFile(expandHome(path, s.sources.Home), trusted)
		s.userSet(slices.Collect(maps.Keys(seen))...)
	}
}

// isNamed reports whether the user named the file at path.
func (s *Set) isNamed(path string) bool {
	info, err := os.Stat(path)
	if err != nil {
		return false
	}
	return slices.ContainsFunc(s.sources.Files, func(name string) bool {
		named, err := os.Stat(expandHome(name, s.sources.Home))
		return err == nil && os.SameFile(info, named)
	})
}

// userSet notes settings that the user made where these go before the project's
// file.
func (s *Set) userSet(settings ...*Setting) {
	for _, one := range settings {
		s.users[one] = true
	}
}

// withKey returns the setting with this key, or nil.
func (s *Set) withKey(key string) *Setting {
	for i := range s.settings {
		if one := &s.settings[i]; key != "" && one.Key == key || slices.Contains(one.Also, key) {
			return one
		}
	}
	return nil
}

// isTable reports whether key names a table that holds settings.
func (s *Set) isTable(key string) bool {
	return slices.ContainsFunc(s.settings, func(one Setting) bool { return strings.HasPrefix(one.Key, key+".") })
}

// set gives a setting the value of one source; project is as in Setting.After.
func (s *Setting) set(value any, project string) error {
	if err := s.Value.Set(value); err != nil || s.After == nil {
		return err
	}
	return s.After(project)
}

// hide keeps a secret's value out of an error about it.
func (s *Setting) hide(err error) error {
	if bad := (*valueError)(nil); s.Secret && errors.As(err, &bad) {
		blank := *bad
		blank.got, blank.hidden = nil, true
		return &blank
	}
	return err
}

// homeExpander is a [Value] that holds paths.
type homeExpander interface{ expandHome(home string) }

// expandHome makes "~/" the user's home.
func expandHome(path, home string) string {
	rest, ok := strings.CutPrefix(path, "~")
	if !ok || home == "" || rest != "" && !os.IsPathSeparator(rest[0]) {
		return path
	}
	return filepath.Join(home, rest)
}
