package pygent_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/bridge"
	"github.com/x/pygent/openai"
	"github.com/x/pygent/pygenttest"
)

// sources is everything that a configuration is read from, in temporary
// directories.
type sources struct {
	t *testing.T
	pygent.ConfigSources
	env map[string]string
}

func newSources(t *testing.T) *sources {
	s := &sources{t: t, env: map[string]string{}}
	s.Dir, s.Home = t.TempDir(), t.TempDir()
	s.Lookup = func(name string) (string, bool) { v, ok := s.env[name]; return v, ok }
	s.Overrides = map[string]string{}
	return s
}

func (s *sources) write(path, content string) string {
	s.t.Helper()
	require.NoError(s.t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(s.t, os.WriteFile(path, []byte(content), 0o644))
	return path
}

func (s *sources) project(content string) string {
	return s.write(filepath.Join(s.Dir, "pygent.toml"), content)
}

func (s *sources) home(content string) string {
	return s.write(filepath.Join(s.Home, ".pygent.toml"), content)
}

func (s *sources) file(content string) string {
	path := s.write(filepath.Join(s.t.TempDir(), "named.toml"), content)
	s.Files = append(s.Files, path)
	return path
}

func (s *sources) load() pygent.Config {
	s.t.Helper()
	c, err := s.Load()
	require.NoError(s.t, err)
	return c
}

// fault loads the configuration and returns its only error.
func (s *sources) fault() *pygent.ConfigError {
	s.t.Helper()
	c, err := s.Load()
	require.Error(s.t, err)
	require.Zero(s.t, c)
	var bad *pygent.ConfigError
	require.ErrorAs(s.t, err, &bad)
	require.Equal(s.t, bad.Error(), err.Error(), "one fault")
	return bad
}

func TestConfigPrecedence(t *testing.T) {
	t.Parallel()
	// Each step adds the source of the next higher precedence.
	s := newSources(t)
	steps := []struct {
		name string
		add  func()
		want string
	}{
		{"default", func() {}, ""},
		{"home file", func() { s.home(`persona_name = "home"`) }, "home"},
		{"project file", func() { s.project(`persona_name = "project"`) }, "project"},
		{"named file", func() { s.file(`persona_name = "named"`) }, "named"},
		{"later named file", func() { s.file(`persona_name = "later"`) }, "later"},
		{"environment", func() { s.env["PYGENT_PERSONA_NAME"] = "environment" }, "environment"},
		{"override", func() { s.Overrides["PYGENT_PERSONA_NAME"] = "override" }, "override"},
	}
	for _, step := range steps {
		step.add()
		require.Equal(t, step.want, s.load().Persona.Name, step.name)
	}
	require.Len(t, s.load().Files, 4)

	s.Overrides["PYGENT_PERSONA_NAME"] = ""
	require.Equal(t, "later", s.load().Persona.Name, "an empty override takes the variable away")
	s.NoFiles, s.Files = true, nil
	require.Equal(t, "{}", s.load().String())
}

func TestConfigBansAddUp(t *testing.T) {
	t.Parallel()
	s := newSources(t)
	s.home("banned_commands = ['rm']\ndisabled_tools = ['bash']")
	s.project("banned_commands = []\nbanned_apps = ['curl']\ndisabled_tools = []")
	s.env["PYGENT_BANNED_COMMANDS"] = strings.Join([]string{"dd", "rm"}, string(os.PathListSeparator))
	c := s.load()
	require.Equal(t, []string{"rm", "dd"}, c.BannedCommands)
	require.Equal(t, []string{"curl"}, c.BannedApps)
	require.Equal(t, []string{"bash"}, c.DisabledTools)

	s.Overrides["PYGENT_BANNED_COMMANDS"] = "mkfs"
	require.Equal(t, []string{"rm", "dd", "mkfs"}, s.load().BannedCommands, "an override takes no ban away")
}

func TestConfigAllowedHostsAddUp(t *testing.T) {
	t.Parallel()
	s := newSources(t)
	s.home("[container]\nallowed_hosts = ['a.example', 'b.example']")
	s.env["PYGENT_ALLOW_HOSTS"] = "b.example,c.example"
	s.Overrides["PYGENT_ALLOW_HOSTS"] = "d.example"
	require.Equal(t, []string{"a.example", "b.example", "c.example", "d.example"}, s.load().Container.AllowedHosts)
	s.Overrides["PYGENT_ALLOW_HOSTS"] = "none"
	require.Empty(t, s.load().Container.AllowedHosts, "what weaker sources allow can be taken back")
	s.Overrides["PYGENT_ALLOW_HOSTS"] = "none, e.example"
	require.Equal(t, []string{"e.example"}, s.load().Container.AllowedHosts, "and others be allowed instead, as \"always\" adds them")
}

func TestConfigRefusesWhatIsNoHost(t *testing.T) {
	t.Parallel()
	for host, want := range map[string]string{
		"https://pypi.org/": "the name or address of a host alone",
		"10.0.0.5":          "a private address has to be named with its port",
		"localhost":         "a private address has to be named with its port",
		"*":                 "not the name or address of a host",
		"a.example:99999":   "is no port",
	} {
		s := newSources(t)
		s.home("[container]\nallowed_hosts = ['fine.example', '" + host + "']")
		bad := s.fault()
		require.Equal(t, 2, bad.Line, host)
		require.ErrorContains(t, bad, want, host)
		require.ErrorContains(t, bad, host)
	}
}

func TestConfigWarnsOfMisspeltVariables(t *testing.T) {
	t.Parallel()
	tests := []struct{ variable, want string }{
		{"PYGENT_MAX_STEP=5", "environment: PYGENT_MAX_STEP has no effect: no such setting, did you mean PYGENT_MAX_STEPS?"},
		{"pygent_model=m", "environment: pygent_model has no effect: no such setting, did you mean PYGENT_MODEL?"},
		{"PYGENT_IMAGINE_THAT=1", "environment: PYGENT_IMAGINE_THAT has no effect: no such setting; names in"},
		{"PYGENT_MODEL=m", ""},
		{"PYGENT_MODLE=", ""},
		{"OPENAI_LOG=debug", ""},
		{"PATH=/bin", ""},
	}
	for _, tt := range tests {
		t.Run(tt.variable, func(t *testing.T) {
			s := newSources(t)
			s.Environ = func() []string { return []string{"A=b", tt.variable, "Z"} }
			warnings := s.load().Warnings
			if tt.want == "" {
				require.Empty(t, warnings)
				return
			}
			require.Len(t, warnings, 1)
			require.Contains(t, warnings[0], tt.want)
		})
	}
}

func TestConfigWarningsAreLogged(t *testing.T) {
	t.Setenv("PYGENT_MODLE", "m")
	var log strings.Builder
	newAgentOn(t, nowhere{}, pygenttest.NewScriptedModel(), pygent.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
	require.Contains(t, log.String(), "did you mean PYGENT_MODEL?")
}

func TestConfigLimitsOfTheCallerAreDefaults(t *testing.T) {
	t.Parallel()
	s := newSources(t)
	s.Limits = pygent.Limits{MaxSteps: 100}
	require.Equal(t, 100, s.load().Limits.MaxSteps)
	s.project("[limits]\nmax_steps = 50")
	require.Equal(t, 50, s.load().Limits.MaxSteps)
}

func ptr[T any](v T) *T { return &v }

// settingCase is a variable, the same in TOML, and the result. An empty variable or file
// means that the setting cannot be made there.
type settingCase struct {
	env, value string
	toml       string
	get        func(pygent.Config) any
	want       any
}

// settingCases has a case for each setting.
var settingCases = []settingCase{
	{"PYGENT_MODEL", "m", `model = "m"`, func(c pygent.Config) any { return c.Model }, "m"},
	{"PYGENT_PERSONA_NAME", "n", `persona_name = "n"`, func(c pygent.Config) any { return c.Persona.Name }, "n"},
	{"PYGENT_PERSONA", "a friend", `persona = "a friend"`, func(c pygent.Config) any { return c.Persona.Description }, "a friend"},
	{"PYGENT_TASK_PERSONAS", "a" + sep + "b", `task_personas = ["a", "b"]`, func(c pygent.Config) any { return c.TaskPersonas }, []pygent.Persona{{Name: "a"}, {Name: "b"}}},
	{"PYGENT_TASK_PERSONAS", "a, b", `task_personas = ["a", "b"]`, func(c pygent.Config) any { return c.TaskPersonas }, []pygent.Persona{{Name: "a"}, {Name: "b"}}},
	{"PYGENT_TASK_PERSONAS", "a", `task_personas = "a"`, func(c pygent.Config) any { return c.TaskPersonas }, []pygent.Persona{{Name: "a"}}},
	{"PYGENT_TASK_PERSONAS_JSON", `[{"name":"a","description":"d"}]`, "[[task_personas]]\nname = 'a'\ndescription = 'd'", func(c pygent.Config) any { return c.TaskPersonas }, []pygent.Persona{{Name: "a", Description: "d"}}},
	{"PYGENT_WORKSPACE", "w", `workspace = "w"`, func(c pygent.Config) any { return c.Workspace }, "w"},
	{"PYGENT_INIT_FILES", "a" + sep + "b c", `initial_files = ["a", "b c"]`, func(c pygent.Config) any { return c.InitialFiles }, []string{"a", "b c"}},
	{"PYGENT_REPOSITORIES", "/a" + sep + "/b c", `git.repositories = ["/a", "/b c"]`, func(c pygent.Config) any { return c.Repositories }, []string{"/a", "/b c"}},
	{"", "", `init_files = "a"`, func(c pygent.Config) any { return c.InitialFiles }, []string{"a"}},
	{"PYGENT_HISTORY_FILE", "h", `history_file = "h"`, func(c pygent.Config) any { return c.HistoryFile }, "h"},
	{"PYGENT_SNAPSHOT", "s", `snapshot = "s"`, func(c pygent.Config) any { return c.Snapshot }, "s"},
	{"PYGENT_LOG_FILE", "l", `log_file = "l"`, func(c pygent.Config) any { return c.LogFile }, "l"},
	{"PYGENT_SESSIONS", "off", `sessions = false`, func(c pygent.Config) any { return c.Sessions }, ptr(false)},
	{"PYGENT_MAX_SESSIONS", "7", `max_sessions = 7`, func(c pygent.Config) any { return c.SessionLimits.Max }, 7},
	{"PYGENT_MAX_SESSIONS", "none", `max_sessions = "none"`, func(c pygent.Config) any { return c.SessionLimits.Max }, pygent.NoLimit},
	{"PYGENT_MAX_SESSIONS_SIZE", "1m", `max_sessions_size = "1m"`, func(c pygent.Config) any { return c.SessionLimits.MaxBytes }, int64(1 << 20)},
	{"PYGENT_MAX_SESSIONS_AGE", "30d", `max_sessions_age = "30d"`, func(c pygent.Config) any { return c.SessionLimits.MaxAge }, 30 * 24 * time.Hour},
	{"PYGENT_SCRIPT", "s", `script = "s"`, func(c pygent.Config) any { return c.Script }, "s"},
	{"PYGENT_SURVEY", "off", `survey = false`, func(c pygent.Config) any { return c.Survey }, ptr(false)},
	{"PYGENT_SKILLS", "off", `skills = false`, func(c pygent.Config) any { return c.Skills }, ptr(false)},
	{"PYGENT_SKILL_DIRS", "a" + sep + "b", `skill_dirs = ["a", "b"]`, func(c pygent.Config) any { return c.SkillDirs }, []string{"a", "b"}},
	{"PYGENT_COMPACTION", "off", `compaction = false`, func(c pygent.Config) any { return c.Compaction }, ptr(false)},
	{"PYGENT_CONTEXT_WINDOW", "32768", `context_window = 32768`, func(c pygent.Config) any { return c.ContextWindow }, int64(32768)},
	{"PYGENT_INSTRUCTIONS", "off", `instructions = false`, func(c pygent.Config) any { return c.Instructions }, ptr(false)},
	{"PYGENT_CONFIRM_BASH", "1", `confirm_bash = true`, func(c pygent.Config) any { return c.ConfirmBash }, ptr(true)},
	{"PYGENT_BANNED_COMMANDS", "rm" + sep + "dd", `banned_commands = ["rm", "dd"]`, func(c pygent.Config) any { return c.BannedCommands }, []string{"rm", "dd"}},
	{"PYGENT_BANNED_COMMANDS", "rm -rf, dd", `banned_commands = ["rm -rf", "dd"]`, func(c pygent.Config) any { return c.BannedCommands }, []string{"rm -rf", "dd"}},
	{"PYGENT_BANNED_APPS", "curl,wget", `banned_apps = ["curl", "wget"]`, func(c pygent.Config) any { return c.BannedApps }, []string{"curl", "wget"}},
	{"PYGENT_BANNED_APPS", "python", `banned_apps = "python"`, func(c pygent.Config) any { return c.BannedApps }, []string{"python"}},
	{"PYGENT_DISABLED_TOOLS", "bash, stop", `disabled_tools = ["bash", "stop"]`, func(c pygent.Config) any { return c.DisabledTools }, []string{"bash", "stop"}},
	{"", "", "[env]\nA = 'b'", func(c pygent.Config) any { return c.Env }, map[string]pygent.Secret{"A": "b"}},

	{"PYGENT_USE_DOCKER", "0", `use_docker = false`, func(c pygent.Config) any { return c.Container.Docker }, pygent.DockerNever},
	{"PYGENT_USE_DOCKER", "1", "container.use_docker = true", func(c pygent.Config) any { return c.Container.Docker }, pygent.DockerRequired},
	{"PYGENT_USE_DOCKER", "auto", `container.use_docker = "auto"`, func(c pygent.Config) any { return c.Container.Docker }, pygent.DockerAuto},
	{"PYGENT_IMAGE", "i:1", `image = "i:1"`, func(c pygent.Config) any { return c.Container.Image }, "i:1"},
	{"", "", `container.image = "i:1"`, func(c pygent.Config) any { return c.Container.Image }, "i:1"},
	{"PYGENT_NETWORK", "bridge", `container.network = "bridge"`, func(c pygent.Config) any { return c.Container.Network }, "bridge"},
	{"PYGENT_MEMORY", "512m", `container.memory = "512m"`, func(c pygent.Config) any { return c.Container.Memory }, int64(512 << 20)},
	{"PYGENT_MEMORY", "1.5GiB", `container.memory = 1610612736`, func(c pygent.Config) any { return c.Container.Memory }, int64(3 << 29)},
	{"PYGENT_CPUS", "1.5", `container.cpus = 1.5`, func(c pygent.Config) any { return c.Container.CPUs }, 1.5},
	{"PYGENT_CPUS", "2", `container.cpus = 2`, func(c pygent.Config) any { return c.Container.CPUs }, 2.0},
	{"PYGENT_MEMORY", "none", `container.memory = "none"`, func(c pygent.Config) any { return c.Container.Memory }, int64(pygent.NoLimit)},
	{"PYGENT_CPUS", "none", `container.cpus = "none"`, func(c pygent.Config) any { return c.Container.CPUs }, float64(pygent.NoLimit)},
	{"PYGENT_PIDS", "none", `container.pids = "none"`, func(c pygent.Config) any { return c.Container.Pids }, int64(pygent.NoLimit)},
	{"PYGENT_PIDS", "99", `container.pids = 99`, func(c pygent.Config) any { return c.Container.Pids }, int64(99)},
	{"PYGENT_USER", "1:2", `container.user = "1:2"`, func(c pygent.Config) any { return c.Container.User }, "1:2"},
	{"PYGENT_CAPS", "CHOWN,KILL", `container.capabilities = ["CHOWN", "KILL"]`, func(c pygent.Config) any { return c.Container.Capabilities }, []string{"CHOWN", "KILL"}},
	{"PYGENT_CAPS", "none", `container.capabilities = "none"`, func(c pygent.Config) any { return c.Container.Capabilities }, []string{}},
	{"PYGENT_READ_ONLY", "yes", `container.read_only = true`, func(c pygent.Config) any { return c.Container.ReadOnly }, ptr(true)},
	{"PYGENT_MOUNTS", "/a:/b:ro,c:/d", "[[container.mounts]]\nsource='/a'\ntarget='/b'\nread_only=true\n[[container.mounts]]\nsource='c'\ntarget='/d'", func(c pygent.Config) any { return c.Container.Mounts }, []pygent.Mount{{Source: "/a", Target: "/b", ReadOnly: true}, {Source: "c", Target: "/d"}}},
	{"PYGENT_MOUNTS", `C:\x:/b:rw`, `container.mounts = ['C:\x:/b']`, func(c pygent.Config) any { return c.Container.Mounts }, []pygent.Mount{{Source: `C:\x`, Target: "/b"}}},
	{"PYGENT_ALLOW_HOSTS", "example.org, *.example.net:8080", `container.allowed_hosts = ["example.org", "*.example.net:8080"]`, func(c pygent.Config) any { return c.Container.AllowedHosts }, []string{"example.org", "*.example.net:8080"}},
	{"PYGENT_PUBLISH", "8080,3000:80", `container.publish = ["8080", "3000:80"]`, func(c pygent.Config) any { return c.Container.Publish }, []string{"8080", "3000:80"}},
	{"PYGENT_SHARED_FILES", "no", `container.shared_files = false`, func(c pygent.Config) any { return *c.Container.SharedFiles }, false},
	{"PYGENT_GPUS", "2", `container.gpus = 2`, func(c pygent.Config) any { return c.Container.GPUs }, "2"},
	{"PYGENT_DOCKER_HOST", "tcp://h:1", `container.docker_host = "tcp://h:1"`, func(c pygent.Config) any { return c.Container.DockerHost }, "tcp://h:1"},

	{"PYGENT_LOCAL_PROTECTION", "required", `local.protection = "required"`, func(c pygent.Config) any { return c.Local.Protection }, pygent.ProtectionRequired},
	{"PYGENT_LOCAL_READABLE", "/a", `local.readable = ["/a"]`, func(c pygent.Config) any { return c.Local.Readable }, []string{"/a"}},
	{"PYGENT_LOCAL_WRITABLE", "/a", `local.writable = "/a"`, func(c pygent.Config) any { return c.Local.Writable }, []string{"/a"}},
	{"PYGENT_LOCAL_ENV", "A,B", `local.env = ["A", "B"]`, func(c pygent.Config) any { return c.Local.Env }, []string{"A", "B"}},

	{"PYGENT_MAX_STEPS", "7", `limits.max_steps = 7`, func(c pygent.Config) any { return c.Limits.MaxSteps }, 7},
	{"PYGENT_MAX_TOOL_CALLS", "7", `limits.max_tool_calls = 7`, func(c pygent.Config) any { return c.Limits.MaxToolCalls }, 7},
	{"PYGENT_STEP_TIMEOUT", "1.5", `step_timeout = 1.5`, func(c pygent.Config) any { return c.Limits.StepTimeout }, 1500 * time.Millisecond},
	{"PYGENT_STEP_TIMEOUT", "2m", `limits.step_timeout = "2m"`, func(c pygent.Config) any { return c.Limits.StepTimeout }, 2 * time.Minute},
	{"PYGENT_MAX_TIME", "1h", `limits.max_time = 3600`, func(c pygent.Config) any { return c.Limits.MaxTime }, time.Hour},
	{"PYGENT_MAX_TOKENS", "5000000000", `limits.max_tokens = 5_000_000_000`, func(c pygent.Config) any { return c.Limits.MaxTokens }, int64(5e9)},
	{"PYGENT_MAX_COST", "0.25", `limits.max_cost = 0.25`, func(c pygent.Config) any { return c.Limits.MaxCost }, 0.25},
	{"PYGENT_MAX_COST", "none", `limits.max_cost = "none"`, func(c pygent.Config) any { return c.Limits.MaxCost }, float64(pygent.NoLimit)},
	{"PYGENT_MAX_TASKS", "5", `max_tasks = 5`, func(c pygent.Config) any { return c.MaxTasks }, 5},
	{"PYGENT_TASK_TIMEOUT", "60", `task_timeout = 60`, func(c pygent.Config) any { return c.TaskLimits.MaxTime }, time.Minute},

	{"OPENAI_API_KEY", " sk-1\n", `openai.api_key = "sk-1"`, func(c pygent.Config) any { return c.OpenAI.APIKey }, pygent.Secret("sk-1")},
	{"OPENAI_BASE_URL", "http://localhost:11434/v1", `openai_base_url = "http://localhost:11434/v1"`, func(c pygent.Config) any { return c.OpenAI.BaseURL }, "http://localhost:11434/v1"},
	{"PYGENT_OPENAI_API", "responses", `openai.api = "responses"`, func(c pygent.Config) any { return c.OpenAI.API }, openai.Responses},
	{"OPENAI_ORG_ID", "o", `openai.organization = "o"`, func(c pygent.Config) any { return c.OpenAI.Organization }, "o"},
	{"OPENAI_PROJECT_ID", "p", `openai.project = "p"`, func(c pygent.Config) any { return c.OpenAI.Project }, "p"},
	{"PYGENT_PRICES", `{"gpt-4.1":{"prompt":2,"completion":8.5,"cached":0.5,"cache_write":2.5,"reasoning":9}}`, "[prices.'gpt-4.1']\nprompt = 2\ncompletion = 8.5\ncached = 0.5\ncache_write = 2.5\nreasoning = 9", func(c pygent.Config) any { return c.Prices }, map[string]pygent.Price{"gpt-4.1": {Prompt: 2, Completion: 8.5, Cached: 0.5, CacheWrite: 2.5, Reasoning: 9}}},
	{"PYGENT_OPENAI_HEADERS", `{"X-A":"1"}`, "[openai.headers]\nX-A = '1'", func(c pygent.Config) any { return c.OpenAI.Headers }, map[string]pygent.Secret{"X-A": "1"}},
	{"PYGENT_OPENAI_EXTRA_BODY", `{"a":{"b":true}}`, "[openai.extra_body.a]\nb = true", func(c pygent.Config) any { return c.OpenAI.ExtraBody }, map[string]any{"a": map[string]any{"b": true}}},
	{"PYGENT_OPENAI_CA_FILE", "f", `openai.ca_file = "f"`, func(c pygent.Config) any { return c.OpenAI.CAFile }, "f"},
	{"PYGENT_OPENAI_MAX_TOKENS", "9", `openai.max_tokens = 9`, func(c pygent.Config) any { return c.OpenAI.MaxTokens }, 9},
	{"PYGENT_OPENAI_MAX_TOKENS", "none", `openai.max_tokens = "none"`, func(c pygent.Config) any { return c.OpenAI.MaxTokens }, pygent.NoLimit},
	{"PYGENT_OPENAI_MAX_TOKENS_FIELD", "f", `openai.max_tokens_field = "f"`, func(c pygent.Config) any { return c.OpenAI.MaxTokensField }, "f"},
	{"PYGENT_OPENAI_PARALLEL_TOOL_CALLS", "false", `openai.parallel_tool_calls = false`, func(c pygent.Config) any { return c.OpenAI.ParallelToolCalls }, ptr(false)},
	{"PYGENT_RETRY_TIME", "90s", `retry_time = "90s"`, func(c pygent.Config) any { return c.RetryTime }, 90 * time.Second},
	{"PYGENT_RETRY_TIME", "none", `retry_time = "none"`, func(c pygent.Config) any { return c.RetryTime }, time.Duration(pygent.NoLimit)},
	{"PYGENT_OPENAI_STALL_FIRST", "none", `openai.stall_first = "none"`, func(c pygent.Config) any { return c.OpenAI.StallFirst }, time.Duration(pygent.NoLimit)},
	{"PYGENT_OPENAI_STALL_BETWEEN", "9s", `openai.stall_between = "9s"`, func(c pygent.Config) any { return c.OpenAI.StallBetween }, 9 * time.Second},
	{"PYGENT_OPENAI_ANSWER_TIME", "1h", `openai.answer_time = "1h"`, func(c pygent.Config) any { return c.OpenAI.AnswerTime }, time.Hour},
	{"PYGENT_OPENAI_SEND_REASONING", "no", `openai.send_reasoning = false`, func(c pygent.Config) any { return c.OpenAI.SendReasoning }, ptr(false)},
}

const sep = string(os.PathListSeparator)

func TestConfigSettings(t *testing.T) {
	t.Parallel()
	for _, test := range settingCases {
		if test.env != "" {
			t.Run(test.env+"="+test.value, func(t *testing.T) {
				s := newSources(t)
				s.env[test.env] = test.value
				require.Equal(t, test.want, test.get(s.load()))
				s.Overrides, s.env = s.env, nil
				require.Equal(t, test.want, test.get(s.load()), "as an override")
			})
		}
		t.Run(test.toml, func(t *testing.T) {
			s := newSources(t)
			s.file(test.toml)
			require.Equal(t, test.want, test.get(s.load()))
		})
	}
}

func TestEachSettingHasACase(t *testing.T) {
	t.Parallel()
	for _, s := range bridge.Settings() {
		require.True(t, slices.ContainsFunc(settingCases, func(c settingCase) bool {
			return s.Env != "" && c.env == s.Env || s.Env == "" && strings.HasPrefix(c.toml, "["+s.Key+"]")
		}), "settingCases has no case for %s%s", s.Key, s.Env)
	}
}

func TestConfigPersonasJSONGoesBeforeNames(t *testing.T) {
	t.Parallel()
	s := newSources(t)
	s.env["PYGENT_TASK_PERSONAS"] = "a"
	s.env["PYGENT_TASK_PERSONAS_JSON"] = `[{"name":"j"}]`
	require.Equal(t, []pygent.Persona{{Name: "j"}}, s.load().TaskPersonas)
	s.Overrides["PYGENT_TASK_PERSONAS"] = "o"
	require.Equal(t, []pygent.Persona{{Name: "o"}}, s.load().TaskPersonas, "but not before an override")
}

// What people paste is read alike wherever it comes from.
func TestConfigReadsWhatPeoplePaste(t *testing.T) {
	t.Parallel()
	for name, give := range map[string]func(s *sources){
		"environment": func(s *sources) {
			s.env["OPENAI_API_KEY"], s.env["OPENAI_BASE_URL"], s.env["PYGENT_MODEL"] = "Bearer sk-1\r\n", "\"http://h/v1/chat/completions\"\r", "\ufeffm\r"
			s.env["PYGENT_MAX_STEPS"], s.env["PYGENT_CONFIRM_BASH"], s.env["PYGENT_OPENAI_API"] = "5\r", "1\r\n", "chat\r"
		},
		"-e": func(s *sources) {
			s.Overrides = map[string]string{"OPENAI_API_KEY": "'sk-1' ", "OPENAI_BASE_URL": "http://h/v1/\u200b", "PYGENT_MODEL": "“m”", "PYGENT_MAX_STEPS": "5\n", "PYGENT_CONFIRM_BASH": "yes\r", "PYGENT_OPENAI_API": "chat\r"}
		},
		"a file": func(s *sources) {
			s.file("\ufeffmodel = \" m\\r\"\r\nconfirm_bash = true\r\n[limits]\r\nmax_steps = 5\r\n[openai]\r\napi = \"chat\"\r\napi_key = \"Authorization: Bearer sk-1\"\r\nbase_url = \" http://h/v1/responses\"\r\n")
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSources(t)
			give(s)
			c := s.load()
			require.Equal(t, pygent.Secret("sk-1"), c.OpenAI.APIKey)
			require.Equal(t, "http://h/v1", strings.TrimSuffix(c.OpenAI.BaseURL, "/"))
			require.Equal(t, "m", c.Model)
			require.Equal(t, 5, c.Limits.MaxSteps)
			require.True(t, *c.ConfirmBash)
			require.Equal(t, openai.Chat, c.OpenAI.API)
		})
	}
}

func TestConfigRefusesBadVariables(t *testing.T) {
	t.Parallel()
	tests := []struct{ env, value, says string }{
		{"PYGENT_CONFIRM_BASH", "maybe", `want 1 or 0, true or false, yes or no, on or off, not "maybe"`},
		{"PYGENT_USE_DOCKER", "podman", `want true (required), false (local) or "auto", not "podman"`},
		{"PYGENT_MEMORY", "lots", `want a size such as "512m" or "2g", or "none", not "lots"`},
		{"PYGENT_MEMORY", "-1", `want a size`},
		{"PYGENT_MEMORY", "9e99g", `want a size`},
		{"PYGENT_CPUS", "NaN", `want a number of CPUs such as 1.5`},
		{"PYGENT_CPUS", "0", `want a number of CPUs`},
		{"PYGENT_PIDS", "0", `want a whole number of at least 1, or "none", not "0"`},
		{"PYGENT_MAX_STEPS", "1.5", `want a whole number of at least 1`},
		{"PYGENT_MAX_STEPS", "99999999999", `want a whole number from 1 to 2147483647`},
		{"PYGENT_OPENAI_API", "soap", `want "auto", "chat" or "responses", not "soap"`},
		{"PYGENT_MAX_TASKS", "many", `want a whole number`},
		{"PYGENT_STEP_TIMEOUT", "soon", `want seconds, or a duration such as "90s" or "5m", or "none", not "soon"`},
		{"PYGENT_STEP_TIMEOUT", "0", `want a duration longer than nothing, or "none"`},
		{"PYGENT_OPENAI_STALL_FIRST", "0", `want a duration longer than nothing, or "none"`},
		{"PYGENT_TASK_TIMEOUT", "-1s", `want seconds`},
		{"PYGENT_MAX_TIME", "1e300", `want seconds`},
		{"PYGENT_PRICES", "2", "want a JSON object"},
		{"PYGENT_PRICES", `{"m":2}`, "want a table with prompt and completion, each what a million tokens cost, and perhaps cached"},
		{"PYGENT_PRICES", `{"m":{"prompt":1,"completion":-1}}`, "want the price of a million tokens, such as 0.4, not -1"},
		{"PYGENT_MOUNTS", "/only", `want "source:target"`},
		{"PYGENT_MOUNTS", "/a:relative", `want "source:target"`},
		{"PYGENT_TASK_PERSONAS_JSON", "{", `want a JSON array of objects with "name" and "description"`},
		{"PYGENT_TASK_PERSONAS_JSON", `[{"nme":"x"}]`, `want a JSON array`},
		{"PYGENT_OPENAI_EXTRA_BODY", "null", `want a JSON object`},
		{"PYGENT_OPENAI_HEADERS", `{"a b":"s3cret"}`, `want header names with a string each`},
		{"OPENAI_BASE_URL", "localhost:8080", `want an http or https URL`},
		{"OPENAI_BASE_URL", "https://user:s3cret@host/v1", `want an http or https URL such as "https://api.openai.com/v1", without user or password`},
		{"OPENAI_API_KEY", "s3cret\nX: y", `there is a line end (U+000A) as its character 7, which cannot be meant: paste it again without`},
	}
	for _, test := range tests {
		t.Run(test.env+"="+test.value, func(t *testing.T) {
			s := newSources(t)
			s.env[test.env] = test.value
			bad := s.fault()
			require.Equal(t, "environment", bad.Source)
			require.Equal(t, test.env, bad.Key)
			require.Contains(t, bad.Error(), "environment: "+test.env+": "+test.says)
			require.NotContains(t, bad.Error(), "s3cret")
		})
	}
}

func TestConfigTellsAllFaults(t *testing.T) {
	t.Parallel()
	s := newSources(t)
	path := s.file("\n[limits]\nmax_steps = 'x'\n\nmodle = 1\n[container]\nmemory = true\n")
	s.env["PYGENT_PIDS"] = "x"
	_, err := s.Load()
	require.EqualError(t, err, strings.Join([]string{
		path + `:3:1: limits.max_steps: want a whole number of at least 1, or "none", not "x"`,
		path + `:5:1: limits.modle: unknown key, did you mean model, above the first [table]?`,
		path + `:7:1: container.memory: want a size such as "512m" or "2g", or "none", not true`,
		`environment: PYGENT_PIDS: want a whole number of at least 1, or "none", not "x"`,
	}, "\n"))
}

func TestConfigRefusesBadFiles(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, toml string
		says       string // the message after the path
	}{
		{"misspelt key", "\n  modle = 'x'", `:2:3: modle: unknown key, did you mean model?`},
		{"misspelt in table", "[openai]\nbase_ulr = 'x'", `:2:1: openai.base_ulr: unknown key, did you mean openai.base_url?`},
		{"misspelt table", "[contaner]\nimage = 'x'", `:1:2: contaner: unknown key`},
		{"right name, wrong table", "memory = '1g'", `:1:1: memory: unknown key, did you mean container.memory, in the table [container]?`},
		{"nothing like it", "zzzzzzzz = 1", `:1:1: zzzzzzzz: unknown key; examples`},
		{"quoted dot is no table", `"container.image" = "x"`, `:1:1: "container.image": unknown key`},
		{"dotted", "limits.max_stepps = 3", `:1:8: limits.max_stepps: unknown key, did you mean limits.max_steps?`},
		{"inline table", "container = { image = 'a', memry = 'b' }", `:1:28: container.memry: unknown key, did you mean container.memory?`},
		{"not a table", "container = 3", `:1:1: container: want a table: [container], not 3`},
		{"array of tables", "[[limits]]\nmax_steps = 1", `:1:3: limits: want a table: [limits], not an array`},
		{"wrong type", "model = 3", `:1:1: model: want a string, not 3`},
		{"number as text", "limits.max_steps = '3'", `:1:8: limits.max_steps: want a whole number of at least 1, or "none", not "3"`},
		{"date", "limits.max_time = 2020-01-01", `:1:8: limits.max_time: want seconds`},
		{"bool as number", "confirm_bash = 1", `:1:1: confirm_bash: want true or false, not 1`},
		{"list item", "banned_apps = ['a', 3]", `:1:21: banned_apps[1]: want strings that are not empty, not 3`},
		{"price", "\n[prices.\"gpt-4.1\"]\nprompt = 'cheap'\ncompletion = 1", `:3:1: prices."gpt-4.1".prompt: want the price of a million tokens, such as 0.4, not "cheap"`},
		{"infinite price", "prices.m = { prompt = 1, completion = inf }", `:1:26: prices.m.completion: want the price of a million tokens, such as 0.4`},
		{"half a price", "prices.m.prompt = 1", `:1:8: prices.m: want a table with prompt and completion, each what a million tokens cost, and perhaps cached, cache_write and reasoning, not a table`},
		{"misspelt price", "prices.m = { promt = 1 }", `:1:14: prices.m.promt: unknown key; a table here has cache_write, cached, completion, prompt, reasoning`},
		{"infinite", "openai.extra_body.x = inf", `:1:8: openai.extra_body: want a table of JSON values`},
		{"same twice", "image = 'a'\n[container]\nimage = 'b'", `:1:1: image: says the same as container.image, which is there too`},
		{"syntax", "model = \n", `:1:9: bad TOML: `},
		{"duplicate", "model = 'a'\nmodel = 'b'", `:2:1: bad TOML: `},
		{"persona without name", "[[task_personas]]\nname='a'\n[[task_personas]]\ndescription='x'", `:3:3: task_personas[1]: want a persona`},
		{"persona's key", "[[task_personas]]\nname='a'\ndescriptoin='x'", `:3:1: task_personas[0].descriptoin: unknown key; a table here has description, name`},
		{"setting below a table", "[[task_personas]]\nname='a'\n\ninitial_files=['x']", `:4:1: task_personas[0].initial_files: is a setting that the [table] above it swallows here`},
		{"inline personas", "task_personas = [{name='a'}, {name=3}]", `:1:31: task_personas[1].name: want a string, not 3`},
		{"mount", "container.mounts = ['/a']", `:1:21: container.mounts[0]: want "source:target"`},
		{"our variable for commands", "[env]\nOPENAI_API_KEY = 's3cret'", `:2:1: env.OPENAI_API_KEY: want the name of a command's variable`},
		{"secret of the wrong type", "openai.api_key = 424242", `:1:8: openai.api_key: want a string`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := newSources(t)
			path := s.file(test.toml)
			bad := s.fault()
			require.Equal(t, path, bad.Source)
			require.Positive(t, bad.Line)
			require.Contains(t, bad.Error(), path+test.says)
			require.NotContains(t, bad.Error(), "s3cret")
			require.NotContains(t, bad.Error(), "424242")
		})
	}
}

func TestConfigRefusesUnreadableFiles(t *testing.T) {
	t.Parallel()
	s := newSources(t)
	s.Files = []string{filepath.Join(s.Dir, "missing.toml")}
	require.ErrorIs(t, s.fault(), os.ErrNotExist)
	require.EqualError(t, s.fault(), s.Files[0]+": no such file or directory")

	s.Files = []string{s.Dir}
	require.EqualError(t, s.fault(), s.Dir+": not a regular file")

	s.Files = nil
	s.project(strings.Repeat("#", 1<<20))
	require.ErrorContains(t, s.fault(), "larger than 256 KiB")
}

func TestConfigOverridesForCommands(t *testing.T) {
	t.Parallel()
	s := newSources(t)
	s.file("[env]\nA = 'file'\nB = 'file'")
	s.env["C"] = "not asked for"
	s.Overrides = map[string]string{"B": "override", "D": "", "PYGENT_MODEL": "m"}
	c := s.load()
	require.Equal(t, map[string]pygent.Secret{"A": "file", "B": "override", "D": ""}, c.Env)
	require.Equal(t, "m", c.Model)

	for name, says := range map[string]string{
		"PYGENT_MODLE":   "no such setting, did you mean PYGENT_MODEL?",
		"OPENAI_WHATNOT": "no such setting; names in OPENAI_ and PYGENT_ are pygent's own",
		"openai_api_key": "no such setting",
		"A-B":            "not a variable's name",
		"1A":             "not a variable's name",
		"":               "not a variable's name",
	} {
		s.Overrides = map[string]string{name: "s3cret"}
		require.ErrorContains(t, s.fault(), says, name)
		require.NotContains(t, s.fault().Error(), "s3cret")
	}
}

func TestConfigLeavesTheEnvironmentAlone(t *testing.T) {
	t.Setenv("PYGENT_MODEL", "from-env")
	t.Setenv("HOME", t.TempDir())
	t.Chdir(t.TempDir())
	require.NoError(t, os.WriteFile("pygent.toml", []byte("persona_name = 'P'"), 0o644))
	require.NoError(t, os.WriteFile("named.toml", []byte("image = 'i'\n[env]\nX_FROM_FILE = '1'"), 0o644))
	before := os.Environ()
	c, err := pygent.LoadConfig("named.toml")
	require.NoError(t, err)
	require.Equal(t, before, os.Environ())
	require.Equal(t, "from-env", c.Model)
	require.Equal(t, "P", c.Persona.Name)
	require.Equal(t, "i", c.Container.Image)
	require.Equal(t, []string{"pygent.toml", "named.toml"}, c.Files)
}

func TestConfigExpandsHome(t *testing.T) {
	t.Parallel()
	s := newSources(t)
	s.write(filepath.Join(s.Home, "c.toml"), "workspace = '~/w'\nhistory_file = '~/h'\nsnapshot = '~'\ncontainer.mounts = ['~/m:/m']")
	s.Files = []string{"~/c.toml"}
	c := s.load()
	require.Equal(t, filepath.Join(s.Home, "w"), c.Workspace)
	require.Equal(t, filepath.Join(s.Home, "h"), c.HistoryFile)
	require.Equal(t, s.Home, c.Snapshot)
	require.Equal(t, filepath.Join(s.Home, "m"), c.Container.Mounts[0].Source)

	s.write(filepath.Join(s.Home, "c.toml"), "history_file = '~user/h'")
	require.ErrorContains(t, s.fault(), "history_file: ~user/h: ~user is the home of another user")
}

func TestConfigHidesSecrets(t *testing.T) {
	t.Parallel()
	s := newSources(t)
	s.env["OPENAI_API_KEY"] = "s3cret-key"
	s.env["PYGENT_OPENAI_HEADERS"] = `{"Authorization":"s3cret-header"}`
	s.Overrides = map[string]string{"DB_PASSWORD": "s3cret-env"}
	c := s.load()
	require.Equal(t, "s3cret-key", string(c.OpenAI.APIKey))

	data, err := json.Marshal(c)
	require.NoError(t, err)
	var log strings.Builder
	slog.New(slog.NewTextHandler(&log, nil)).Info("t", "c", c, "p", &c, "o", c.OpenAI, "k", c.OpenAI.APIKey)
	slog.New(slog.NewJSONHandler(&log, nil)).Info("t", "c", c, "p", &c, "o", c.OpenAI, "k", c.OpenAI.APIKey)
	shown := []string{c.String(), string(data), log.String(), fmt.Sprint(errors.New(c.String()))}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%t"} {
		shown = append(shown, fmt.Sprintf(verb, c), fmt.Sprintf(verb, &c), fmt.Sprintf(verb, c.OpenAI),
			fmt.Sprintf(verb, c.OpenAI.APIKey), fmt.Sprintf(verb, c.OpenAI.Headers), fmt.Sprintf(verb, c.Env))
	}
	for _, text := range shown {
		require.NotContains(t, text, "s3cret")
		require.NotContains(t, strings.ToLower(text), fmt.Sprintf("%x", "s3cret"))
	}
	require.Contains(t, c.String(), `"api_key":"[redacted]"`)
	require.Contains(t, c.String(), `"DB_PASSWORD":"[redacted]"`)
}

func TestSourcesShowURLsWithoutTheirSecrets(t *testing.T) {
	t.Parallel()
	for given, shown := range map[string]string{
		"http://localhost:11434/v1":                              "http://localhost:11434/v1",
		"https://one.example.org/v1?key=s3cret":                  "https://one.example.org/v1?key=redacted",
		"https://one.example.org/v1?api-version=2024&sig=s3cret": "https://one.example.org/v1?api-version=2024&sig=redacted",
		"https://one.example.org/v1#s3cret":                      "https://one.example.org/v1",
	} {
		s := newSources(t)
		s.file(fmt.Sprintf("openai_base_url = %q", given))
		s.env["OPENAI_BASE_URL"] = "https://two.example.org/v1?key=s3cret"
		var all []string
		for _, setting := range s.load().Sources() {
			if setting.Key == "openai.base_url" {
				all = append(all, setting.Value)
			}
		}
		require.Equal(t, []string{shown, "https://two.example.org/v1?key=redacted"}, all, "the one that is replaced is shown too")
	}
}

func TestSampleConfigLoads(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("examples/sample_config.toml")
	require.NoError(t, err)
	s := newSources(t)
	s.file(string(data))
	c := s.load()
	require.Equal(t, "ConfigBot", c.Persona.Name)
	require.Len(t, c.TaskPersonas, 2)

	// The lines that are commented out must be valid too, and name every
	// variable.
	var all []string
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, "# "); ok && (strings.Contains(rest, " = ") || strings.HasPrefix(rest, "[[")) {
			line = rest
		}
		all = append(all, line)
	}
	s = newSources(t)
	s.file(strings.Join(all, ""))
	c = s.load()
	require.NotEmpty(t, c.OpenAI.APIKey)
	require.NotEmpty(t, c.Container.Mounts)
	for _, test := range settingCases {
		require.Contains(t, string(data), test.env)
	}
}

func FuzzConfigFile(f *testing.F) {
	sample, err := os.ReadFile("examples/sample_config.toml")
	require.NoError(f, err)
	f.Add(sample)
	for _, test := range settingCases {
		f.Add([]byte(test.toml))
	}
	f.Add([]byte("initial_files = ['../x', '/etc', '.', '']\n[[a.b]]\n[[a.b]]\nc = [[{d=1}],{}]"))
	f.Add([]byte("\"\\u0000\" = 1\n'' = 2\n\"a.b\".c = nan"))
	f.Add([]byte("x = " + strings.Repeat("[", 9000) + strings.Repeat("]", 9000)))
	f.Fuzz(func(t *testing.T, data []byte) {
		dir := t.TempDir()
		path := filepath.Join(dir, "pygent.toml")
		require.NoError(t, os.WriteFile(path, data, 0o644))
		none := func(string) (string, bool) { return "", false }
		for _, s := range []pygent.ConfigSources{
			{Dir: dir, Home: filepath.Join(dir, "home"), Lookup: none},
			{Dir: filepath.Join(dir, "other"), Home: dir, Files: []string{path}, Lookup: none},
		} {
			c, err := s.Load()
			if err != nil {
				require.Zero(t, c)
				require.NotEmpty(t, err.Error())
			}
			_ = c.String()
		}
	})
}

func TestTablesAreReadBesideFiles(t *testing.T) {
	t.Parallel()
	table := func(project bool, name string) pygent.ConfigTable {
		return pygent.ConfigTable{Path: name, Project: project, Values: map[string]any{"persona_name": name}}
	}
	s := newSources(t)
	s.project(`persona_name = "the project's file"`)
	s.Tables = []pygent.ConfigTable{table(true, "the project's script")}
	require.Equal(t, "the project's script", s.load().Persona.Name)
	s.file(`persona_name = "named"`)
	require.Equal(t, "named", s.load().Persona.Name)
	s.Tables = append(s.Tables, table(false, "the user's script"))
	require.Equal(t, "the user's script", s.load().Persona.Name)
	s.env["PYGENT_PERSONA_NAME"] = "environment"
	require.Equal(t, "environment", s.load().Persona.Name)
}

func TestTablesOfAProjectHaveItsRights(t *testing.T) {
	t.Parallel()
	s := newSources(t)
	s.Tables = []pygent.ConfigTable{{
		Path: "config.star", Flag: "--script", Project: true,
		Values: map[string]any{"model": "m", "banned_apps": []any{"curl"}, "limits": map[string]any{"max_steps": int64(2)}, "container": map[string]any{"image": "i"}},
		Lines:  map[string]int{"model": 7, "container.image": 3},
	}}
	bad := s.fault()
	require.Equal(t, "config.star", bad.Source)
	require.Equal(t, 3, bad.Line)
	require.ErrorContains(t, bad, "a file found in the working directory may not set container.image (line 3), model (line 7), because ")
	require.ErrorContains(t, bad, "load it with --script config.star, or set these in ~/.pygent.toml")

	s.Tables[0].Values = map[string]any{"limits": map[string]any{"max_steps": int64(2)}, "banned_apps": []any{"curl"}}
	s.env["PYGENT_BANNED_APPS"] = "wget"
	c := s.load()
	require.Equal(t, 2, c.Limits.MaxSteps)
	require.ElementsMatch(t, []string{"curl", "wget"}, c.BannedApps)
	require.Empty(t, c.Warnings)

	s.env["PYGENT_MAX_STEPS"] = "1"
	c = s.load()
	require.Equal(t, 1, c.Limits.MaxSteps)
	require.Len(t, c.Warnings, 1)
	require.Contains(t, c.Warnings[0], "config.star:1:1: limits.max_steps = 2 has no effect")
	require.Contains(t, c.Warnings[0], "load it with --script")

	s.Tables[0].Project = false
	delete(s.env, "PYGENT_MAX_STEPS")
	s.Tables[0].Values = map[string]any{"limits": map[string]any{"max_steps": int64(2000)}, "model": "m"}
	require.Equal(t, 2000, s.load().Limits.MaxSteps)
	require.Equal(t, "m", s.load().Model)
}

func TestFaultsOfTablesSayWhere(t *testing.T) {
	t.Parallel()
	s := newSources(t)
	s.Tables = []pygent.ConfigTable{{Path: "own.star", Values: map[string]any{"modle": "m"}, Lines: map[string]int{"modle": 4}}}
	require.EqualError(t, s.fault(), "own.star:4:1: modle: unknown key, did you mean model?")
	s.Tables[0].Values = map[string]any{"limits": map[string]any{"max_steps": "many"}}
	require.ErrorContains(t, s.fault(), "own.star:1:1: limits.max_steps: ")
}

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
		"image (line 2), openai.base_url (line 4), openai.api_key (line 5), "+
		"because its author could send your key elsewhere or reach files outside the project; "+
		"if you trust the file, load it with --config "+path+", or set these in ~/.pygent.toml")
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
