// Package settings reads the settings of a program from TOML files, from the
// environment and from the overrides of a command line. Each setting is bound
// to the variable that takes its value, as package flag binds flags.
//
// The package knows how values are written, where each key is in its file, which
// key a misspelt one may mean, and what a file that a stranger may have written
// is allowed to set. It knows no setting by name: package pygent has the table
// of them, and turns faults into its own type of error.
//
// [AddToList] adds to a list in a user's file, and leaves everything else in it as its author
// wrote it: order, comments and blanks.
package settings

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/x/pygent/internal/pathname"
)

// Setting is one thing that can be configured, with its name in each source.
type Setting struct {
	Key     string   // in a file, with its table: "container.memory"; empty if no file can set it
	Also    []string // other keys for the same setting
	Env     string   // the environment variable; empty if there is none
	Project bool     // whether a project's file may set it; it may lower a [Limit] in any case
	AddsUp  bool     // whether sources add to each other's values instead of replacing them
	Secret  bool     // whether errors must not show the value
	Value   Value    // receives the values of the sources

	// Show, if set, makes a text of a secret safe to be listed in [Set.Given].
	Show func(text string) string

	// After, if set, is called after each source that gave a value, to check and
	// complete it. project is the absolute directory of the project whose file
	// gave the value, or empty if the user gave it.
	After func(project string) error
}

// Value receives the value of a setting, and is bound to where it is kept.
type Value interface {
	// Set takes the value that one source gives: a [Text] from a variable, or a
	// value decoded from TOML. It is called for each source, the weakest first.
	// An error made by [Want] or [At] says which part of the value is wrong.
	Set(given any) error
}

// Names of the files that are read by default.
const (
	ProjectFile = "pygent.toml"  // in the project's directory
	HomeFile    = ".pygent.toml" // in the user's home
)

// Sources says where settings come from.
type Sources struct {
	// Overrides are variables by name. They take precedence over the environment.
	Overrides map[string]string
	// Lookup reads the environment; nil is os.LookupEnv. An empty variable
	// counts as not set.
	Lookup func(name string) (string, bool)
	// Environ lists the environment as "NAME=value". Nil is os.Environ, or an
	// empty list if Lookup is set.
	Environ func() []string
	// Files are named by the user and must exist. Later ones take precedence.
	Files []string
	// Tables are settings that the program itself read elsewhere. Those of the user
	// go before Files, and those of a project before the project's file.
	Tables []Table
	// Dir is the project's directory; empty is the working directory.
	Dir string
	// Home is the user's home directory; empty is os.UserHomeDir.
	Home string
	// NoFiles leaves out the files in Dir and Home.
	NoFiles bool
}

// Table is a source of settings that is no TOML file, such as a script.
type Table struct {
	Path    string         // where they are from, for faults
	Flag    string         // with which a user names a source of this kind to trust it, such as "--config"
	Project bool           // whether a stranger may have written it
	Values  map[string]any // as decoded from TOML
	Lines   map[string]int // the line of each key, "limits.max_steps" for example
}

func (s Sources) withDefaults() Sources {
	if s.Environ == nil && s.Lookup == nil {
		s.Environ = os.Environ
	}
	if s.Lookup == nil {
		s.Lookup = os.LookupEnv
	}
	if s.Home == "" {
		// Without a home, no file of it is read, and "~/" stays as it is.
		s.Home, _ = os.UserHomeDir()
	}
	return s
}

// Fault is a mistake in a source.
type Fault struct {
	Source string // the file's path, "environment" or "-e"
	Line   int    // in the file, from 1; 0 if there is none
	Column int    // in bytes, from 1
	Key    string // the key or variable; empty if the fault is not about one
	Err    error  // what is wrong
}

// Error has the form of a compiler's message: file, line, column, what is wrong.
func (f *Fault) Error() string {
	where := f.Source
	if f.Line > 0 {
		where = fmt.Sprintf("%s:%d:%d", f.Source, f.Line, f.Column)
	}
	if f.Key != "" {
		where += ": " + f.Key
	}
	return where + ": " + f.Err.Error()
}

// Unwrap returns what is wrong.
func (f *Fault) Unwrap() error { return f.Err }

// Given is a value that a source gave to a setting.
type Given struct {
	Key    string // of the setting; empty if no file can set it
	Source string // as in [Fault]
	Line   int    // in the file, from 1; 0 if there is none
	Name   string // what the source calls the setting: a key or a variable
	Value  string // as the environment has it, or as JSON; of a secret as its Show says, or "[redacted]"
}

// Set is a set of settings, with what was found when they were read. If two
// settings with different variables are bound to the same field, the later one
// of the set wins. Only one goroutine may use a Set.
type Set struct {
	Faults   []*Fault
	Warnings []string          // what has no effect
	Files    []string          // the files that were read, the strongest last
	Home     string            // the user's own file, even if it does not exist; empty if it is not read
	Env      map[string]string // the overrides that are not settings, for commands
	Given    []Given           // what took effect, or added to it; of one setting, the strongest is last

	settings []Setting
	sources  Sources
	asked    []askedLimit      // limits that the project's file asks for
	users    map[*Setting]bool // set by the user in a source above the project's file
}

// New returns a set of settings.
func New(settings ...Setting) *Set {
	return &Set{settings: settings, users: make(map[*Setting]bool)}
}

// Read applies all sources to the settings, the weakest first: the user's file
// at home, the project's file and tables, the named files, the user's tables, the
// environment and the overrides. It continues after a fault, to find them all. The
// limits of a project's file are applied by [Set.Lower].
func (s *Set) Read(from Sources) {
	s.sources = from.withDefaults()
	s.readFiles()
	s.readVariables()
}

// ReadVariables is [Set.Read] without files and tables. A program that reads no files
// does not link what decodes them.
func (s *Set) ReadVariables(from Sources) {
	s.sources = from.withDefaults()
	s.readVariables()
}

// readVariables applies the environment and the overrides.
func (s *Set) readVariables() {
	s.readEnvironment()
	s.readOverrides()
	s.readPaths()
}

// readFiles reads the home file, the project's and the named ones.
func (s *Set) readFiles() {
	if !s.sources.NoFiles {
		if s.sources.Home != "" {
			s.Home = filepath.Join(s.sources.Home, HomeFile)
			s.readOptionalFile(s.Home, trusted)
		}
		// A project's file that the user names is read with the named files.
		if project := filepath.Join(s.sources.Dir, ProjectFile); !s.isNamed(project) {
			s.readOptionalFile(project, untrusted)
		}
	}
	s.readTables(untrusted)
	for _, path := range s.sources.Files {
		seen := s.readFile(pathname.ExpandHome(path, s.sources.Home), trusted)
		s.userSet(slices.Collect(maps.Keys(seen))...)
	}
	s.readTables(trusted)
}

// isNamed reports whether the user named the file at path.
func (s *Set) isNamed(path string) bool {
	info, err := os.Stat(path)
	if err != nil {
		return false
	}
	return slices.ContainsFunc(s.sources.Files, func(name string) bool {
		named, err := os.Stat(pathname.ExpandHome(name, s.sources.Home))
		return err == nil && os.SameFile(info, named)
	})
}

// userSet records settings that the user made in a source that takes precedence
// over the project's file.
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

// took records that a setting has a value of a source.
func (s *Set) took(one *Setting, source string, line int, name string, value any) {
	shown := "[redacted]"
	if !one.Secret {
		shown = written(value)
	} else if text, err := asString(value); err == nil && one.Show != nil {
		shown = one.Show(text)
	}
	s.Given = append(s.Given, Given{Key: one.Key, Source: source, Line: line, Name: name, Value: shown})
}

// written is a value as a person would write it.
func written(value any) string {
	if text, ok := value.(Text); ok {
		return string(text)
	}
	data, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprint(value) // such as a number that JSON does not have
	}
	return string(data)
}

// hide removes the value of a secret from an error about it.
func (s *Setting) hide(err error) error {
	if bad := (*valueError)(nil); s.Secret && errors.As(err, &bad) {
		blank := *bad
		blank.got, blank.hidden = nil, true
		return &blank
	}
	return err
}

// pathValue is a [Value] of paths, which are read once all sources have been.
type pathValue interface{ readPaths(home string) error }

// readPaths reads the paths of all settings.
func (s *Set) readPaths() {
	for i := range s.settings {
		one := &s.settings[i]
		value, ok := one.Value.(pathValue)
		if !ok {
			continue
		}
		if err := value.readPaths(s.sources.Home); err != nil {
			fault := &Fault{Source: "environment", Key: cmp.Or(one.Env, one.Key), Err: err}
			for _, given := range s.Given {
				if given.Key == one.Key && given.Key != "" {
					fault.Source, fault.Line, fault.Key = given.Source, given.Line, given.Name
				}
			}
			s.Faults = append(s.Faults, fault)
		}
	}
}
