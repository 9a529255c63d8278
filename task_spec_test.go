package pygent_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/pygenttest"
)

func TestSpecRefusesWhatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	good := `{"version":2,"id":"a","prompt":"p","depth":1,"limits":{"max_steps":3,"max_time_seconds":60},"rules":{"banned_commands":["rm"]},"runtime":{"container":{"image":"i"}}}`
	var spec pygent.TaskSpec
	require.NoError(t, json.Unmarshal([]byte(good), &spec))
	require.Equal(t, time.Minute, spec.Limits.MaxTime)
	require.Equal(t, []string{"rm"}, spec.Rules.BannedCommands)
	for name, bad := range map[string]string{
		"top":     strings.Replace(good, `"depth"`, `"forbid":true,"depth"`, 1),
		"limits":  strings.Replace(good, `"max_steps"`, `"max_money":1,"max_steps"`, 1),
		"rules":   strings.Replace(good, `"banned_commands"`, `"banned_hosts":[],"banned_commands"`, 1),
		"runtime": strings.Replace(good, `"image"`, `"seal":true,"image"`, 1),
		"mail":    strings.Replace(good, `"depth"`, `"queue":true,"depth"`, 1),
		"version": strings.Replace(good, `"version":2`, `"version":1`, 1),
	} {
		t.Run(name, func(t *testing.T) {
			kept := spec
			require.ErrorContains(t, json.Unmarshal([]byte(bad), &kept), "task spec: ")
			require.Equal(t, spec, kept)
		})
	}
}

// specOf has an agent delegate a task in a run, and returns its spec.
func specOf(t *testing.T, run []pygent.RunOption, opts ...pygent.Option) (spec pygent.TaskSpec, agent *pygent.Agent) {
	t.Helper()
	hand := pygent.Tool{Name: "hand", Idempotent: true, ReadOnly: true, Run: func(ctx context.Context, rt pygent.Runtime, _ json.RawMessage) (*pygent.ToolResult, error) {
		id, err := agent.Tasks().StartTask(ctx, "Work", rt, pygent.WithTaskCall(ctx), pygent.WithTaskProfile(
			func(_ context.Context, s pygent.TaskSpec) ([]pygent.Option, error) {
				spec = s
				return nil, nil
			}))
		if err == nil {
			_, err = agent.Tasks().Wait(ctx, id)
		}
		return nil, err
	}}
	model := pygenttest.NewScriptedModel(pygenttest.Call("hand", nil), stop).On("Work", callBash("rm x"), pygenttest.Call("write_file", map[string]any{"path": "f", "content": "x"}), stop)
	agent = newAgentOn(t, newTestRuntime(t, pygent.NewLocalRuntime, pygent.WithEnv("TOKEN=secret", "MODE=fast")), model, append(opts, pygent.WithTools(hand))...)
	_, err := agent.RunUntilStop(t.Context(), "go", run...)
	require.NoError(t, err)
	return spec, agent
}

func TestRulesOfTheParentAreInTheSpec(t *testing.T) {
	t.Parallel()
	begin := time.Now()
	spec, agent := specOf(t, []pygent.RunOption{pygent.MaxTime(time.Hour)},
		pygent.WithBannedCommands("rm"), pygent.WithBannedApps("npm"), pygent.WithDisabledTools("write_file"),
		pygent.WithApprovalFor("collect_file"), pygent.WithConfirmBash(false), pygent.MaxTaskDepth(3))
	rules := spec.Rules
	require.WithinDuration(t, begin.Add(time.Hour), rules.Deadline, time.Minute)
	rules.Deadline = time.Time{}
	no := false
	require.Equal(t, pygent.TaskRules{
		Root: agent.ID(), MaxDepth: 3, BannedCommands: []string{"rm"}, BannedApps: []string{"npm"}, DisabledTools: []string{"write_file"},
		ApprovalFor: []string{"collect_file"}, ConfirmBash: &no, Env: []string{"TOKEN", "MODE"},
	}, rules)
	data, err := json.Marshal(spec)
	require.NoError(t, err)
	require.NotContains(t, string(data), "secret")
	task := byPrompt(t, agent)["Work"]
	messages, err := agent.Tasks().TaskHistory(t.Context(), task.ID)
	require.NoError(t, err)
	require.Contains(t, messages[3].Content, "banned")
	require.Contains(t, messages[5].Content, "disabled")
}

func TestFactsOfOneMachineAreNotInTheSpec(t *testing.T) {
	t.Parallel()
	spec, _ := specOf(t, nil)
	require.Empty(t, spec.Runtime.Container.DockerHost)
	require.Empty(t, spec.Runtime.Container.Mounts)
	require.Nil(t, spec.Runtime.Container.SharedFiles)
	require.Zero(t, spec.Rules.Deadline)
}
