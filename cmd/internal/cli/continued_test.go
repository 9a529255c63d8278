package cli

import (
	"cmp"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
	"github.com/x/pygent/internal/bridge"
	"github.com/x/pygent/internal/testkit"
	"github.com/x/pygent/project"
	"github.com/x/pygent/pygenttest"
	"github.com/x/pygent/sessions"
	"github.com/x/pygent/snapshot"
)

// continuedValues has two values for each setting that is continued: one that it has when
// the session begins, and one that overrides it. The first is not what holds without the setting. The second is empty where values add up.
var continuedValues = map[string][2]string{
	"model":                     {"m-1", "m-2"},
	"persona_name":              {"Ada", "Bob"},
	"persona":                   {"counts", "tests"},
	"task_personas":             {"Ada", "Bob"},
	"PYGENT_TASK_PERSONAS_JSON": {`[{"name":"Ada"}]`, `[{"name":"Bob"}]`},
	"workspace":                 {}, // directories that the test makes
	"git.repositories":          {"/a", "/b"},
	"instructions":              {"0", "1"},
	"survey":                    {"0", "1"},
	"skills":                    {"0", "1"},
	"compaction":                {"0", "1"},
	"context_window":            {"32000", "64000"},
	"confirm_bash":              {"1", "0"},
	"banned_commands":           {"git push"},
	"banned_apps":               {"curl"},
	"disabled_tools":            {"read_image"},
	"container.use_docker":      {"0", "auto"},
	"container.image":           {"i:1", "i:2"},
	"container.network":         {"bridge", "other"},
	"container.allowed_hosts":   {"a.example"},
	"container.memory":          {"1g", "2g"},
	"container.cpus":            {"1", "2"},
	"container.pids":            {"99", "none"},
	"container.user":            {"1:1", "2:2"},
	"container.capabilities":    {"none", "KILL"},
	"container.read_only":       {"1", "0"},
	"container.mounts":          {"/a:/a", "/b:/b"},
	"container.gpus":            {"1", "all"},
	"container.publish":         {"8080", "8081"},
	"container.shared_files":    {"0", "1"},
	"container.docker_host":     {"unix:///nowhere/1", "unix:///nowhere/2"},
	"local.protection":          {"off", "auto"},
	"local.readable":            {"/a", "/b"},
	"local.writable":            {"/a", "/b"},
	"local.env":                 {"A", "B"},
	"limits.max_steps":          {"7", "8"},
	"limits.max_tool_calls":     {"7", "8"},
	"limits.step_timeout":       {"1m", "2m"},
	"limits.max_time":           {"1h", "2h"},
	"limits.max_tokens":         {"1000", "2000"},
	"limits.max_cost":           {"1", "2"},
	"limits.max_tasks":          {"1", "2"},
	"limits.task_timeout":       {"1m", "2m"},
}

// ways are how something is continued. Each begins with some variables, continues with
// others, and returns what is in force then.
var ways = map[string]struct {
	takes     func(continuation) bool
	continued func(t *testing.T, begun, given map[string]string) inForce
}{
	"--continue": {func(c continuation) bool { return c.session }, continueSession},
	"--load":     {func(c continuation) bool { return c.snapshot }, continueSnapshot},
}

// A setting that nobody thought of would be lost with --continue, --resume and --load.
func TestEachSettingIsContinuedOrNotForAReason(t *testing.T) {
	t.Parallel()
	known := map[string]bool{}
	for _, s := range bridge.Settings() {
		key := cmp.Or(s.Key, s.Env)
		known[key] = true
		row, ok := continued[key]
		require.True(t, ok, "continued has no row for %s, which says whether --continue, --resume and --load take it from before", key)
		require.Equal(t, row.session && row.snapshot, row.why == "", "the row of %s in continued says why it is not continued, if it is not", key)
		for name, way := range ways {
			if way.takes(row) {
				t.Run(name+" "+key, func(t *testing.T) { t.Parallel(); isContinued(t, way.continued, key, s.Env) })
			}
		}
	}
	for key := range continued {
		require.True(t, known[key], "there is no setting %s", key)
	}
}

// isContinued checks that a setting is in force again, unless another value is given.
func isContinued(t *testing.T, continued func(t *testing.T, begun, given map[string]string) inForce, key, variable string) {
	values, ok := continuedValues[key]
	require.True(t, ok, "continuedValues has no values for %s", key)
	if key == "workspace" {
		values = [2]string{t.TempDir(), t.TempDir()}
	}
	begun := map[string]string{variable: values[0]}
	before := inForceOf(t, configOf(t, begun))
	require.NotEqual(t, inForceOf(t, configOf(t, nil)), before, "%s changes nothing that pygent.Setup describes", key)
	require.Equal(t, before, continued(t, begun, nil), "%s is lost", key)
	if values[1] != "" { // else what is given adds to it
		given := map[string]string{variable: values[1]}
		require.Equal(t, inForceOf(t, configOf(t, given)), continued(t, begun, given), "%s cannot be overridden", key)
	}
}

// inForce is how an agent is set up.
type inForce struct {
	setup     pygent.Setup
	workspace string
}

func inForceOf(t *testing.T, cfg pygent.Config, opts ...pygent.Option) inForce {
	t.Helper()
	return inForce{agentOf(t, append(cfg.Options(), opts...)...).Setup(), cfg.Workspace}
}

// configOf is the configuration of a start with nothing but variables of the command line,
// where no engine answers, and the model has a price.
func configOf(t *testing.T, variables map[string]string) pygent.Config {
	t.Helper()
	environment := map[string]string{
		"PYGENT_DOCKER_HOST": "unix:///nowhere/0", "PYGENT_MODEL": "m-0", "PYGENT_PRICES": `{"m-0":{"prompt":1,"completion":1}}`,
	}
	lookup := func(name string) (string, bool) { value, ok := environment[name]; return value, ok }
	cfg, err := pygent.ConfigSources{NoFiles: true, Lookup: lookup, Overrides: variables}.Load()
	require.NoError(t, err)
	return cfg
}

func agentOf(t *testing.T, opts ...pygent.Option) *pygent.Agent {
	t.Helper()
	return testkit.NewAgent(t, append(opts, project.Read(), pygent.WithModel(pygenttest.NewScriptedModel()))...)
}

func continueSession(t *testing.T, begun, given map[string]string) inForce {
	t.Helper()
	dir := t.TempDir()
	agent := agentOf(t, append(configOf(t, begun).Options(), sessions.Keep(filepath.Join(dir, sessions.NewID())))...)
	require.NoError(t, agent.History().Append(chat.Message{Role: chat.RoleUser, Content: "Hello."}))
	require.NoError(t, agent.Close())
	list, err := sessions.List(dir)
	require.NoError(t, err)
	require.Len(t, list, 1)
	k := keeping{before: list[0]}
	cfg := configOf(t, given)
	require.NoError(t, k.setUp(&cfg, &settings{}))
	return inForceOf(t, cfg)
}

func continueSnapshot(t *testing.T, begun, given map[string]string) inForce {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "snapshot")
	_, err := snapshot.Save(t.Context(), agentOf(t, configOf(t, begun).Options()...), dir)
	require.NoError(t, err)
	cfg := configOf(t, given)
	cfg.Snapshot = dir
	opts, err := (&settings{}).goOn(t.Context(), cfg, nil, true)
	require.NoError(t, err)
	return inForceOf(t, cfg, opts...)
}
