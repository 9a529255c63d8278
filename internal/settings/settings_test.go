package settings_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/settings"
)

// program has the fields that the settings of these tests are bound to.
type program struct {
	Name, Key, File string
	Names           []string
	Wait            time.Duration
	Steps           int
	Headers         map[string]string
	Mounts          []string
	projects        []string // the arguments of After
}

func (p *program) set(stepsInForce *int) *settings.Set {
	return settings.New(
		settings.Setting{Key: "name", Env: "PYGENT_NAME", Value: settings.String(&p.Name)},
		settings.Setting{Key: "key", Env: "PYGENT_KEY", Secret: true, Value: settings.Secret(&p.Key)},
		settings.Setting{Key: "file", Env: "PYGENT_FILE", Project: true, Value: settings.Path(&p.File),
			After: func(project string) error {
				p.projects = append(p.projects, project)
				if p.File == "bad" {
					return settings.At("", errors.New("is bad"))
				}
				return nil
			}},
		settings.Setting{Key: "bans.names", Env: "PYGENT_NAMES", Project: true, AddsUp: true, Value: settings.AddNames(&p.Names)},
		settings.Setting{Key: "limits.wait", Also: []string{"wait"}, Env: "PYGENT_WAIT", Value: settings.Duration(&p.Wait)},
		settings.Setting{Key: "limits.steps", Env: "PYGENT_STEPS", Value: settings.Limit(settings.Int(&p.Steps), stepsInForce)},
		settings.Setting{Key: "headers", Secret: true, Value: settings.Headers(&p.Headers)},
		settings.Setting{Key: "mounts", Env: "PYGENT_MOUNTS", Value: settings.Mounts(&p.Mounts, func(source, target string, readOnly bool) string {
			return strings.Join([]string{source, target, map[bool]string{true: "ro", false: "rw"}[readOnly]}, "|")
		})},
	)
}

// world is where the settings of a test come from.
type world struct {
	t *testing.T
	settings.Sources
}

func newWorld(t *testing.T, env ...string) *world {
	w := &world{t: t}
	w.Dir, w.Home = t.TempDir(), t.TempDir()
	w.Environ = func() []string { return env }
	w.Lookup = func(name string) (string, bool) {
		for _, entry := range env {
			if value, ok := strings.CutPrefix(entry, name+"="); ok {
				return value, true
			}
		}
		return "", false
	}
	return w
}

func (w *world) write(path, content string) string {
	require.NoError(w.t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

// read reads all sources, with a limit of ten steps in force.
func (w *world) read() (program, *settings.Set) {
	var p program
	inForce := 10
	set := p.set(&inForce)
	set.Read(w.Sources)
	set.Lower()
	return p, set
}

func TestReadTakesTheStrongestSource(t *testing.T) {
	w := newWorld(t, "PYGENT_NAME=environment", "PYGENT_NAMES=c")
	home := w.write(filepath.Join(w.Home, settings.HomeFile), "name = 'home'\nfile = '~/x'\nbans.names = 'a'\nwait = 3")
	named := w.write(filepath.Join(w.Home, "named.toml"), "name = 'named'\nbans.names = ['b', 'a']")
	w.Files = []string{"~/named.toml"}
	w.Overrides = map[string]string{"PYGENT_NAMES": "d", "LANG": "C"}
	p, set := w.read()
	require.Empty(t, set.Faults)
	require.Equal(t, "environment", p.Name)
	require.Equal(t, filepath.Join(w.Home, "x"), p.File)
	require.Equal(t, []string{"a", "b", "c", "d"}, p.Names)
	require.Equal(t, 3*time.Second, p.Wait)
	require.Equal(t, []string{home, named}, set.Files)
	require.Equal(t, home, set.Home)
	require.Equal(t, map[string]string{"LANG": "C"}, set.Env)

	w.NoFiles, w.Files = true, nil
	_, set = w.read()
	require.Empty(t, set.Files)
	require.Empty(t, set.Home)
}

func TestAProjectIsTrustedWithLittle(t *testing.T) {
	w := newWorld(t)
	project := w.write(filepath.Join(w.Dir, settings.ProjectFile), "file = 'f'\nname = 'n'\nwait = 1\n[limits]\nsteps = 3")
	p, set := w.read()
	require.Len(t, set.Faults, 1)
	require.ErrorContains(t, set.Faults[0].Err, "may not set name (line 2), wait (line 3), because ")
	require.Equal(t, program{File: "f", Steps: 3, projects: []string{w.Dir}}, p)

	w.Files = []string{project}
	p, set = w.read()
	require.Empty(t, set.Faults, "trusted once the user names it")
	require.Equal(t, program{Name: "n", File: "f", Steps: 3, Wait: time.Second, projects: []string{""}}, p)
}

func TestLowerRaisesNothing(t *testing.T) {
	for name, tt := range map[string]struct {
		project, env string
		want         int
		warns        bool
	}{
		"lower":          {"9", "", 9, false},
		"as high":        {"10", "", 10, false},
		"higher":         {"11", "", 0, true},
		"the user's own": {"9", "5", 5, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "PYGENT_STEPS="+tt.env)
			path := w.write(filepath.Join(w.Dir, settings.ProjectFile), "[limits]\nsteps = "+tt.project)
			p, set := w.read()
			require.Empty(t, set.Faults)
			require.Equal(t, tt.want, p.Steps)
			if !tt.warns {
				require.Empty(t, set.Warnings)
				return
			}
			require.Len(t, set.Warnings, 1)
			require.Contains(t, set.Warnings[0], path+":2:1: limits.steps = 11 has no effect")
			require.Contains(t, set.Warnings[0], "and 10 holds")
		})
	}
}

func TestFaultsSayWhere(t *testing.T) {
	type place struct {
		line, column int
		key, says    string
	}
	for name, tt := range map[string]struct {
		toml string
		want place
	}{
		"a misspelt key":       {"\n nmae = 'x'", place{2, 2, "nmae", "unknown key, did you mean name?"}},
		"another table":        {"[limits]\nname = 'x'", place{2, 1, "limits.name", "unknown key, did you mean name, above the first [table]?"}},
		"below no table":       {"steps = 1", place{1, 1, "steps", "unknown key, did you mean limits.steps, in the table [limits]?"}},
		"nothing like it":      {"zzzzzzzz = 1", place{1, 1, "zzzzzzzz", "unknown key; examples/sample_config.toml shows them all"}},
		"an item":              {"bans = {names = ['a',\n  '']}", place{2, 3, "bans.names[1]", `want strings that are not empty, not ""`}},
		"a table of an array":  {"[[mounts]]\nsource='s'\ntarget='/t'\n[[mounts]]\nsource='s'\ntarget=3", place{6, 1, "mounts[1].target", "want a string, not 3"}},
		"a table in an array":  {"[[mounts]]\nsource='s'\ntarget='/t'\n[mounts.x]\ny=1", place{4, 9, "mounts[0].x", "unknown key; a table here has read_only, source, target"}},
		"a swallowed setting":  {"[[mounts]]\nsource='s'\ntarget='/t'\n\nname='x'", place{5, 1, "mounts[0].name", "is a setting that the [table] above it swallows here; move it above the first [table] of the file"}},
		"a quoted key":         {"\"limits.steps\" = 3", place{1, 1, `"limits.steps"`, "unknown key, did you mean limits.steps?"}},
		"twice":                {"wait = 1\nlimits.wait = 2", place{1, 1, "wait", "says the same as limits.wait, which is there too"}},
		"a secret":             {"key = 12345", place{1, 1, "key", "want a string"}},
		"a secret in a table":  {"headers.x = 12345", place{1, 9, "headers.x", "want header names with a string each, in one line"}},
		"what a setting finds": {"file = 'bad'", place{1, 1, "file", "is bad"}},
		"bad TOML":             {"name = \n", place{1, 8, "", ""}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			path := w.write(filepath.Join(w.Home, settings.HomeFile), tt.toml)
			_, set := w.read()
			require.Len(t, set.Faults, 1)
			f := set.Faults[0]
			require.Equal(t, path, f.Source)
			if tt.want.says == "" {
				require.ErrorContains(t, f.Err, "bad TOML: ")
				require.Equal(t, tt.want.line, f.Line)
				return
			}
			require.Equal(t, tt.want, place{f.Line, f.Column, f.Key, f.Err.Error()})
		})
	}
}

func TestVariablesThatAreNoSettings(t *testing.T) {
	w := newWorld(t, "PYGENT_NMAE=x", "OPENAI_LOG=x", "PYGENT_NOTHING=", "A=b")
	w.Overrides = map[string]string{"PYGENT_KEYY": "s3cret", "1A": "x", "B": ""}
	_, set := w.read()
	require.Equal(t, []string{"environment: PYGENT_NMAE has no effect: no such setting, did you mean PYGENT_NAME?"}, set.Warnings)
	require.Equal(t, map[string]string{"B": ""}, set.Env)
	require.Len(t, set.Faults, 2)
	require.EqualError(t, set.Faults[0].Err, "not a variable's name: letters, digits and underscores, no digit first")
	require.EqualError(t, set.Faults[1].Err, "no such setting, did you mean PYGENT_KEY?")
}

func TestReadExpandsHome(t *testing.T) {
	w := newWorld(t, "PYGENT_FILE=~", "PYGENT_MOUNTS=~/a:/a,~b:/b:ro")
	p, set := w.read()
	require.Empty(t, set.Faults)
	require.Equal(t, w.Home, p.File)
	require.Equal(t, []string{filepath.Join(w.Home, "a") + "|/a|rw", "~b|/b|ro"}, p.Mounts)
}
