package pygent_test

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
)

func TestProjectFileMaySetWhatIsHarmless(t *testing.T) {
	t.Parallel()
	s := newSources(t)
	s.write(filepath.Join(s.Dir, "a", "b.txt"), "")
	s.project(`
persona_name = "P"
persona = "of the project"
task_personas = ["a"]
banned_commands = ["rm"]
banned_apps = ["curl"]
disabled_tools = ["bash"]
initial_files = ["a/b.txt", "a", ".", "missing"]
step_timeout = 3
[limits]
max_steps = 4
max_tool_calls = 5
max_time = 6
task_timeout = 7
`)
	c := s.load()
	require.Equal(t, "P", c.Persona.Name)
	require.Equal(t, 4, c.Limits.MaxSteps)
	require.Equal(t, []string{
		filepath.Join(s.Dir, "a/b.txt"), filepath.Join(s.Dir, "a"), s.Dir, filepath.Join(s.Dir, "missing"),
	}, c.InitialFiles)
}

func TestProjectFileMayNotSetWhatIsNot(t *testing.T) {
	t.Parallel()
	may := map[string]bool{
		"PYGENT_PERSONA_NAME": true, "PYGENT_PERSONA": true, "PYGENT_TASK_PERSONAS": true, "PYGENT_TASK_PERSONAS_JSON": true,
		"PYGENT_INIT_FILES": true, "PYGENT_BANNED_COMMANDS": true, "PYGENT_BANNED_APPS": true, "PYGENT_DISABLED_TOOLS": true,
		"PYGENT_MAX_STEPS": true, "PYGENT_MAX_TOOL_CALLS": true, "PYGENT_STEP_TIMEOUT": true, "PYGENT_MAX_TIME": true, "PYGENT_TASK_TIMEOUT": true,
		"PYGENT_MAX_TOKENS": true, "PYGENT_MAX_COST": true, "PYGENT_MAX_TASKS": true,
	}
	for _, test := range settingCases {
		if may[test.env] || test.toml == `init_files = "a"` {
			continue
		}
		t.Run(test.toml, func(t *testing.T) {
			s := newSources(t)
			path := s.project(test.toml)
			bad := s.fault()
			require.Equal(t, path, bad.Source)
			require.ErrorContains(t, bad, "a file found in the working directory may not set ")

			s.Files = []string{filepath.Join(s.Dir, ".", "pygent.toml")}
			require.Equal(t, test.want, test.get(s.load()), "trusted once the user names it")
		})
	}
}

// A link in somebody else's project leads nowhere out of it.
func TestAProjectFileIsNoLinkOutOfTheProject(t *testing.T) {
	t.Parallel()
	for name, target := range map[string]string{"another file": "named.toml", "the user's own": ".pygent.toml", "nothing": "none"} {
		t.Run(name, func(t *testing.T) {
			s := newSources(t)
			if target != "none" {
				s.write(filepath.Join(s.Home, target), "persona_name = 'P'")
			}
			path := filepath.Join(s.Dir, "pygent.toml")
			require.NoError(t, os.Symlink(filepath.Join(s.Home, target), path))
			bad := s.fault()
			require.Equal(t, path, bad.Source)
			require.ErrorContains(t, bad, "path escapes from parent")
		})
	}
	s := newSources(t)
	s.write(filepath.Join(s.Dir, "conf", "own.toml"), "persona_name = 'P'")
	require.NoError(t, os.Symlink("conf/own.toml", filepath.Join(s.Dir, "pygent.toml")))
	require.Equal(t, "P", s.load().Persona.Name, "a link within the project")
}

func TestProjectFileOnlyLowersLimits(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, home, env, project string
		want                     pygent.Limits
		warning                  string // the message after the key
	}{
		{"the default", "", "", "max_steps = 20", pygent.Limits{MaxSteps: 20}, ""},
		{"above the default", "", "", "max_steps = 21", pygent.Limits{}, "21 has no effect: a file found in the working directory may only lower a limit, and 20 holds"},
		{"calls", "", "", "max_tool_calls = 101", pygent.Limits{}, "and 100 holds"},
		{"calls by the user's steps", "max_steps = 200", "", "max_tool_calls = 1000", pygent.Limits{MaxSteps: 200, MaxToolCalls: 1000}, ""},
		{"calls above the user's steps", "max_steps = 200", "", "max_tool_calls = 1001", pygent.Limits{MaxSteps: 200}, "and 1000 holds"},
		{"calls by steps that the file lowers", "", "", "max_steps = 2\nmax_tool_calls = 100", pygent.Limits{MaxSteps: 2, MaxToolCalls: 100}, ""},
		{"the user's", "max_steps = 5", "", "max_steps = 6", pygent.Limits{MaxSteps: 5}, "6 has no effect: a file found in the working directory may only lower a limit, and 5 holds"},
		{"the environment's", "", "5", "max_steps = 6", pygent.Limits{MaxSteps: 5}, "and 5 holds"},
		{"the environment goes before the file", "", "9", "max_steps = 6", pygent.Limits{MaxSteps: 9}, ""},
		{"calls by the environment's steps", "", "60", "max_tool_calls = 301", pygent.Limits{MaxSteps: 60}, "and 300 holds"},
		{"no limit", "", "", "max_time = 7200\nmax_tokens = 1", pygent.Limits{MaxTime: 2 * time.Hour, MaxTokens: 1}, ""},
		{"a step of a task", "", "", "step_timeout = '6m'", pygent.Limits{}, "6m0s has no effect: a file found in the working directory may only lower a limit, and 5m0s holds"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newSources(t)
			s.home("[limits]\n" + tt.home)
			if tt.env != "" {
				s.env["PYGENT_MAX_STEPS"] = tt.env
			}
			path := s.project("[limits]\n" + tt.project)
			c := s.load()
			require.Equal(t, tt.want, c.Limits)
			if tt.warning == "" {
				require.Empty(t, c.Warnings)
			} else {
				require.Len(t, c.Warnings, 1)
				require.True(t, strings.HasPrefix(c.Warnings[0], path+":2:1: limits."), c.Warnings[0])
				require.Contains(t, c.Warnings[0], tt.warning)
				require.Contains(t, c.Warnings[0], "--config")
			}
			s.Files = []string{path}
			require.Empty(t, s.load().Warnings, "trusted once the user names it")
		})
	}
}

// A project may lower each limit but not raise it. The test finds the limits by
// reflection, so that it covers later ones too.
func TestProjectFileRaisesNoLimit(t *testing.T) {
	t.Parallel()
	limits := map[string]func(pygent.Config) float64{
		"max_tasks":    func(c pygent.Config) float64 { return float64(c.MaxTasks) },
		"task_timeout": func(c pygent.Config) float64 { return float64(c.TaskLimits.MaxTime) },
	}
	capital := regexp.MustCompile(`\B[A-Z]`)
	for _, field := range reflect.VisibleFields(reflect.TypeFor[pygent.Limits]()) {
		key := strings.ToLower(capital.ReplaceAllString(field.Name, "_$0"))
		limits[key] = func(c pygent.Config) float64 {
			return reflect.ValueOf(c.Limits).FieldByIndex(field.Index).Convert(reflect.TypeFor[float64]()).Float()
		}
	}
	for key, value := range limits {
		t.Run(key, func(t *testing.T) {
			load := func(home, project string) pygent.Config {
				s := newSources(t)
				if home != "" {
					s.home("[limits]\n" + key + " = " + home)
				}
				s.project("[limits]\n" + key + " = " + project)
				return s.load()
			}
			user, lower := load("10", "10"), load("10", "9")
			require.Empty(t, user.Warnings)
			require.Empty(t, lower.Warnings)
			require.Less(t, value(lower), value(user))

			raised := load("10", "11")
			require.Equal(t, value(user), value(raised))
			require.Len(t, raised.Warnings, 1)
			require.Contains(t, raised.Warnings[0], "pygent.toml:2:1: limits."+key+" = 11")

			for _, unlimited := range []string{"0", "-1"} {
				s := newSources(t)
				s.project("[limits]\n" + key + " = " + unlimited)
				require.ErrorContains(t, s.fault(), "want ")
			}
			if unset := load("", "2_000_000_000"); value(unset) != 0 {
				require.Contains(t, []string{"max_time", "max_tokens", "max_cost"}, key, "without the user's word there is no limit of these")
			}
		})
	}
}

func TestProjectFileRefusalNamesEveryKeyAndTheWayOut(t *testing.T) {
	t.Parallel()
	s := newSources(t)
	path := s.project("persona = 'x'\nimage = 'i'\n[openai]\nbase_url = 'https://evil.example/v1'\napi_key = 's3cret'\n")
	bad := s.fault()
	require.Equal(t, 2, bad.Line)
	require.EqualError(t, bad, path+":2:1: a file found in the working directory may not set "+
		"image (line 2), openai.base_url (line 4), openai.api_key (line 5): "+
		"whoever wrote the project could send your key elsewhere or reach files outside of it; "+
		"if you trust the file, name it with --config "+path+", or set these in ~/.pygent.toml")
}

func TestProjectFileInitialFilesStayInside(t *testing.T) {
	t.Parallel()
	s := newSources(t)
	outside := s.write(filepath.Join(s.Home, "secret", "key"), "s3cret")
	inside := s.write(filepath.Join(s.Dir, "data", "x"), "")
	link := func(target, name string) {
		path := filepath.Join(s.Dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.Symlink(target, path))
	}
	link(outside, "absolute")
	link("../"+filepath.Base(s.Home)+"/secret/key", "relative")
	link(filepath.Dir(outside), "dir/link")
	link("../dir", "around/again") // to a directory that contains links which lead outside
	link("../data", "fine/link")
	link(".", "fine/loop")
	link("nowhere", "fine/dangling")

	for _, path := range []string{
		"../x", outside, "/etc/passwd", "data/../../x", "absolute", "relative", "dir/link", "dir/link/key", "around/again/link",
		"absolute:d", "relative:d", "dir/link:d", "dir/link/key:d", "../x:d", outside + ":d", "dir/link:",
	} {
		t.Run("refuses "+path, func(t *testing.T) {
			s.project("initial_files = ['data', '" + path + "']")
			bad := s.fault()
			require.Equal(t, "initial_files[1]", bad.Key)
			require.ErrorContains(t, bad, "leads out of the project")
		})
	}
	for _, path := range []string{
		"data", "data/x", "./data", "data/../data", "fine", "fine/link/x", "missing/x", "data:d", "fine/link:d", "missing:d",
		".", "dir", "around", "dir:d", // links below a directory are copied as links
	} {
		t.Run("accepts "+path, func(t *testing.T) {
			s.project("initial_files = ['" + path + "']")
			require.Equal(t, []string{filepath.Join(s.Dir, path)}, s.load().InitialFiles)
		})
	}
	t.Run("takes a tilde for a name", func(t *testing.T) {
		s.project("initial_files = ['~/secret']")
		require.Equal(t, []string{filepath.Join(s.Dir, "~/secret")}, s.load().InitialFiles)
	})
	t.Run("leaves the user's own files alone", func(t *testing.T) {
		s.project("")
		s.file("initial_files = ['" + outside + "', '../x', '" + inside + "']")
		require.Equal(t, []string{outside, "../x", inside}, s.load().InitialFiles)
	})
}

func TestProjectFileInitialFilesAreOpenedInside(t *testing.T) {
	t.Parallel()
	s := newSources(t)
	s.write(filepath.Join(s.Home, ".ssh", "id"), "s3cret")
	s.write(filepath.Join(s.Dir, "data", "x"), "the project's")
	link := func(target, name string) {
		require.NoError(t, os.Symlink(target, filepath.Join(s.Dir, name)))
	}
	link(filepath.Join(s.Home, ".ssh"), "data/keys")
	link("data", "inside")

	t.Run("links below stay links", func(t *testing.T) {
		s.project("initial_files = ['data:d', 'inside/x:y']")
		rt := newTestRuntime(t, pygent.NewLocalRuntime, s.load().RuntimeOptions()...)
		require.Equal(t, map[string]string{
			"d/": "755", "d/x": "644 the project's", "d/keys": "->" + filepath.Join(s.Home, ".ssh"), "y": "644 the project's",
		}, read(t, workspaceOf(t, rt)))
		_, err := rt.ReadFile(t.Context(), "d/keys/id")
		require.ErrorIs(t, err, pygent.ErrOutsideWorkspace)
	})
	for _, file := range []string{"later", "later:d", "later/id", "later/id:d"} {
		t.Run(file+" becomes a link after the check", func(t *testing.T) {
			s.write(filepath.Join(s.Dir, "later", "id"), "")
			s.project("initial_files = ['" + file + "']")
			config := s.load()
			require.NoError(t, os.RemoveAll(filepath.Join(s.Dir, "later")))
			link(filepath.Join(s.Home, ".ssh"), "later")
			_, err := pygent.NewLocalRuntime(t.Context(), config.RuntimeOptions()...)
			require.ErrorContains(t, err, "leads out of the project")
			require.NoError(t, os.Remove(filepath.Join(s.Dir, "later")))
		})
	}
	t.Run("a file with a colon appears after the check", func(t *testing.T) {
		s.project("initial_files = ['data:keys']")
		config := s.load()
		link(filepath.Join(s.Home, ".ssh"), "data:keys")
		_, err := pygent.NewLocalRuntime(t.Context(), config.RuntimeOptions()...)
		require.ErrorContains(t, err, "leads out of the project")
	})
	t.Run("the user may name what the project may not", func(t *testing.T) {
		s.project("initial_files = ['data']")
		s.env["PYGENT_INIT_FILES"] = filepath.Join(s.Dir, "data", "keys")
		rt := newTestRuntime(t, pygent.NewLocalRuntime, s.load().RuntimeOptions()...)
		require.Equal(t, map[string]string{"keys/": "755", "keys/id": "644 s3cret"}, read(t, workspaceOf(t, rt)))
	})
}

// TestProjectFileNamesNoOtherPaths fails if a project may set a new setting
// that contains a path and has no test like those above.
func TestProjectFileNamesNoOtherPaths(t *testing.T) {
	t.Parallel()
	s := newSources(t)
	key := s.write(filepath.Join(s.Home, "key"), "s3cret")
	for _, name := range []string{"workspace", "history_file", "snapshot", "log_file", "openai.ca_file", "container.docker_host", "skill_dirs"} {
		s.project(name + " = '" + key + "'")
		require.ErrorContains(t, s.fault(), "may not set "+name, name)
	}
	s.project("instructions = true")
	require.ErrorContains(t, s.fault(), "may not set instructions")
	s.project("[[container.mounts]]\nsource = '" + key + "'\ntarget = '/x'")
	require.ErrorContains(t, s.fault(), "may not set container.mounts")
}

func TestProjectFileMustBeAFile(t *testing.T) {
	t.Parallel()
	s := newSources(t)
	path := filepath.Join(s.Dir, "pygent.toml")
	require.NoError(t, os.Symlink("/dev/zero", path))
	require.ErrorContains(t, s.fault(), "path escapes from parent")
	require.NoError(t, os.Remove(path))
	require.NoError(t, os.Mkdir(path, 0o755))
	require.ErrorContains(t, s.fault(), "not a regular file")
}
