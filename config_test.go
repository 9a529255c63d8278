package pygent_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
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

// settingCases has a case for each setting: a variable, the same in TOML, and
// the result. An empty variable or file means that the setting cannot be made
// there.
var settingCases = []struct {
	env, value string
	toml       string
	get        func(pygent.Config) any
	want       any
}{
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
	{"PYGENT_OPENAI_API", "responses", `openai.api = "responses"`, func(c pygent.Config) any { return c.OpenAI.API }, pygent.OpenAIResponses},
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
			require.Equal(t, pygent.OpenAIChat, c.OpenAI.API)
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
