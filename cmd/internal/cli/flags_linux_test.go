package cli

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/project"
	"github.com/x/pygent/pygenttest"
	"github.com/x/pygent/snapshot"
)

// setup is that of the only session.
func (u *user) setup() pygent.Setup {
	s, err := u.session().Setup()
	require.NoError(u.t, err)
	return s
}

// What a script says that the command line names holds before what the session had.
func TestSettingsOfANamedScriptHold(t *testing.T) {
	t.Parallel()
	u := newUser(t, stop("1"), stop("2"), stop("3"))
	u.does("run", "--no-docker", "--model", "gpt-x", "-e", "PYGENT_MAX_STEPS=9", "-e", "PYGENT_COMPACTION=0", "begin")
	path := filepath.Join(t.TempDir(), "own.star")
	require.NoError(t, os.WriteFile(path, []byte("settings(model = 'gpt-s', compaction = True, limits = {'max_steps': 4})"), 0o600))
	u.does("run", "-c", "--script", path, "on")
	require.Equal(t, []any{"gpt-s", 4, false}, []any{u.setup().Model, u.setup().Limits.MaxSteps, u.setup().Compaction.Disabled})
	u.does("run", "-c", "--script", path, "--model", "gpt-f", "on")
	require.Equal(t, []any{"gpt-f", 4}, []any{u.setup().Model, u.setup().Limits.MaxSteps}, "a flag is stronger still")
}

// Settings that are only found lose to the session.
func TestSettingsOfAScriptThatWasFoundLoseToTheSession(t *testing.T) {
	t.Parallel()
	u := newUser(t, stop("1"), stop("2"))
	u.does("run", "--no-docker", "--cwd", "-e", "PYGENT_MAX_STEPS=9", "begin")
	require.NoError(t, os.WriteFile(filepath.Join(u.dir, "config.star"), []byte("settings(limits = {'max_steps': 4})"), 0o600))
	u.does("run", "-c", "--cwd", "on")
	require.Equal(t, 9, u.setup().Limits.MaxSteps)
}

func TestFlagsBesideLoadHold(t *testing.T) {
	t.Parallel()
	agent, err := pygent.New(pygent.WithDocker(pygent.DockerNever), pygent.WithModel(pygenttest.NewScriptedModel()), pygent.WithModelName("gpt-x"),
		pygent.WithCompaction(pygent.CompactionPolicy{Disabled: true}), project.Read(project.Instructions(false), project.Survey(false), project.WorkspaceSkills(false)),
		pygent.WithContextWindow(50_000), pygent.MaxSteps(3), pygent.MaxTokens(1000), pygent.MaxToolCalls(3), pygent.MaxTasks(1), pygent.WithConfirmBash(true))
	require.NoError(t, err)
	snap := filepath.Join(t.TempDir(), "snap")
	_, err = snapshot.Save(t.Context(), agent, snap)
	require.NoError(t, err)
	require.NoError(t, agent.Close())

	u := newUser(t, stop("1"))
	u.does("run", "--no-docker", "--load", snap, "go")
	setup := u.setup()
	require.Equal(t, []any{true, true, true, true, int64(50_000), 3}, []any{setup.Compaction.Disabled, setup.NoInstructions, setup.NoSurvey, setup.NoSkills, setup.ContextWindow, setup.Limits.MaxSteps})

	u = newUser(t, stop("1"))
	u.does("run", "--no-docker", "--load", snap, "-e", "PYGENT_COMPACTION=1", "-e", "PYGENT_INSTRUCTIONS=1", "-e", "PYGENT_SURVEY=1", "-e", "PYGENT_SKILLS=1",
		"-e", "PYGENT_CONTEXT_WINDOW=90000", "--max-steps", "9", "-e", "PYGENT_MAX_TOKENS=5000", "-e", "PYGENT_MAX_TOOL_CALLS=90", "-e", "PYGENT_MAX_TASKS=7",
		"-e", "PYGENT_TASK_TIMEOUT=77", "-e", "PYGENT_STEP_TIMEOUT=66", "-e", "PYGENT_CONFIRM_BASH=0", "--timeout", "300", "go")
	setup = u.setup()
	require.Equal(t, []any{false, false, false, false, int64(90_000)}, []any{setup.Compaction.Disabled, setup.NoInstructions, setup.NoSurvey, setup.NoSkills, setup.ContextWindow})
	require.Equal(t, []any{9, int64(5000), 90, "1m6s", "5m0s"}, []any{setup.Limits.MaxSteps, setup.Limits.MaxTokens, setup.Limits.MaxToolCalls, setup.Limits.StepTimeout.String(), setup.Limits.MaxTime.String()})
	require.Equal(t, []any{7, "1m17s"}, []any{setup.MaxTasks, setup.TaskLimits.MaxTime.String()})
	require.False(t, *setup.ConfirmBash)

	file := filepath.Join(t.TempDir(), "own.star")
	require.NoError(t, os.WriteFile(file, []byte("settings(model = 'gpt-s', survey = True)"), 0o600))
	u = newUser(t, stop("1"))
	u.does("run", "--no-docker", "--load", snap, "--script", file, "go")
	require.Equal(t, []any{"gpt-s", false, true}, []any{u.setup().Model, u.setup().NoSurvey, u.setup().NoInstructions})
}
