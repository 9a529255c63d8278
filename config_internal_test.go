package pygent

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/bridge"
	"github.com/x/pygent/internal/sandbox"
	"github.com/x/pygent/openai"
)

// optionsOf loads a configuration from environment variables and applies its
// options.
func optionsOf(t *testing.T, variables map[string]string) options {
	t.Helper()
	c, err := ConfigSources{
		NoFiles:   true,
		Lookup:    func(string) (string, bool) { return "", false },
		Overrides: variables,
	}.Load()
	require.NoError(t, err)
	return applyOptions(c.Options())
}

func TestConfigOptionsReachTheAgent(t *testing.T) {
	t.Parallel()
	o := optionsOf(t, map[string]string{
		"PYGENT_MODEL": "m", "PYGENT_PERSONA_NAME": "P", "PYGENT_HISTORY_FILE": "h", "PYGENT_INSTRUCTIONS": "0", "PYGENT_SURVEY": "0", "PYGENT_SKILL_DIRS": "sk",
		"PYGENT_CONFIRM_BASH": "1", "PYGENT_BANNED_COMMANDS": "rm", "PYGENT_BANNED_APPS": "curl", "PYGENT_DISABLED_TOOLS": "stop",
		"PYGENT_MAX_STEPS": "1", "PYGENT_MAX_TOOL_CALLS": "2", "PYGENT_STEP_TIMEOUT": "3", "PYGENT_MAX_TIME": "4", "PYGENT_MAX_TOKENS": "5", "PYGENT_MAX_COST": "0.6",
		"PYGENT_COMPACTION": "0", "PYGENT_CONTEXT_WINDOW": "32768", "PYGENT_RETRY_TIME": "7m",
	})
	require.Equal(t, "m", o.modelName)
	require.Equal(t, &Persona{"P", defaultPersonaDescription}, o.persona)
	require.Equal(t, "h", o.historyFile)
	require.Equal(t, bridge.Project{NoInstructions: true, NoSurvey: true, SkillDirs: []string{"sk"}}, o.project)
	require.Equal(t, bridge.Project{NoWorkspaceSkills: true}, optionsOf(t, map[string]string{"PYGENT_SKILLS": "0", "PYGENT_SKILL_DIRS": "sk"}).project)
	require.True(t, o.compaction.Disabled)
	require.Equal(t, int64(32768), o.window)
	require.Equal(t, RetryPolicy{MaxWait: 7 * time.Minute}, o.retry)
	require.True(t, o.needsApproval(Tool{Name: "bash"}, o.confirmBash))
	require.Equal(t, []string{"rm"}, o.banned)
	require.Equal(t, []string{"curl"}, o.bannedApps)
	require.Equal(t, []string{"stop"}, o.disabled)
	run, err := newRunOptions(o.run, nil)
	require.NoError(t, err)
	require.Equal(t, 1, run.MaxSteps)
	require.Equal(t, 2, run.MaxToolCalls)
	require.Equal(t, 3*time.Second, run.StepTimeout)
	require.Equal(t, 4*time.Second, run.MaxTime)
	require.Equal(t, int64(5), run.MaxTokens)
	require.Equal(t, 0.6, run.MaxCost)
}

func TestConfigOptionsReachTheRuntime(t *testing.T) {
	t.Parallel()
	rt, err := newRuntimeOptions(optionsOf(t, map[string]string{
		"PYGENT_USE_DOCKER": "1", "PYGENT_IMAGE": "i", "PYGENT_WORKSPACE": "w", "PYGENT_INIT_FILES": "f", "PYGENT_REPOSITORIES": "/r", "PYGENT_NETWORK": "bridge",
		"PYGENT_MEMORY": "1g", "PYGENT_CPUS": "2", "PYGENT_PIDS": "33", "PYGENT_USER": "u", "PYGENT_CAPS": "none", "PYGENT_READ_ONLY": "1",
		"PYGENT_MOUNTS": "/a:/b:ro", "PYGENT_GPUS": "all", "PYGENT_DOCKER_HOST": "tcp://h:1", "B": "2", "A": "1",
	}).runtimeOpts)
	require.NoError(t, err)
	require.Equal(t, DockerRequired, rt.docker)
	require.Equal(t, "i", rt.image)
	require.Equal(t, "w", rt.workspace)
	require.Equal(t, []sandbox.InitialFile{{Text: "f"}}, rt.initialFiles)
	require.Equal(t, []string{"/r"}, rt.repositories)
	require.Equal(t, "bridge", rt.network)
	require.Equal(t, int64(1<<30), rt.memory)
	require.Equal(t, 2.0, rt.cpus)
	require.Equal(t, int64(33), rt.pids)
	require.Equal(t, "u", rt.user)
	require.Empty(t, rt.capabilities)
	require.True(t, rt.readOnlyRoot)
	require.Equal(t, []Mount{{Source: "/a", Target: "/b", ReadOnly: true}}, rt.mounts)
	require.Equal(t, "all", rt.gpus)
	require.Equal(t, "tcp://h:1", rt.dockerHost)
	require.Equal(t, []string{"A=1", "B=2"}, rt.env)
}

func TestConfigOptionsOfNothingChangeNothing(t *testing.T) {
	t.Parallel()
	o, plain := applyOptions(Config{}.Options()), defaultOptions()
	require.Nil(t, o.persona)
	require.Equal(t, plain.project, o.project)
	require.Empty(t, o.openai)
	require.Empty(t, o.run)
	require.Empty(t, o.disabled)
	rt, err := newRuntimeOptions(o.runtimeOpts)
	require.NoError(t, err)
	require.Equal(t, defaultCapabilities, rt.capabilities)
	require.Equal(t, DockerAuto, rt.docker)
}

func TestEnvironmentIsReadOnceUnlessAConfigurationIncludesIt(t *testing.T) {
	t.Setenv("PYGENT_MODEL", "of the environment")
	t.Setenv("PYGENT_IMAGE", "of the environment")
	t.Setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")

	o, err := resolveOptions(Config{}.Options())
	require.NoError(t, err)
	require.Equal(t, "of the environment", o.modelName, "a Config made by hand leaves the environment to New")
	o, err = resolveOptions([]Option{nil, WithModelName("n")})
	require.NoError(t, err)
	require.Equal(t, "n", o.modelName)
	rt, err := newRuntimeOptions(o.runtimeOpts)
	require.NoError(t, err)
	require.Equal(t, "of the environment", rt.image)

	applied := 0
	counting := option(func(*options) { applied++ })
	loaded, err := ConfigSources{NoFiles: true, Lookup: func(string) (string, bool) { return "", false }}.Load()
	require.NoError(t, err)
	for _, opts := range [][]Option{{counting}, append(loaded.Options(), counting)} {
		applied = 0
		_, err = resolveOptions(opts)
		require.NoError(t, err)
		require.Equal(t, 1, applied)
	}
	o, err = resolveOptions(loaded.Options())
	require.NoError(t, err)
	require.Empty(t, o.modelName)
	rt, err = newRuntimeOptions(o.runtimeOpts)
	require.NoError(t, err)
	require.Equal(t, DefaultImage, rt.image)
	_, err = openai.New(o.openai...)
	require.ErrorIs(t, err, ErrNoModel)
}
