package pygent_test

import (
	"context"
	"encoding/json"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/pygenttest"
)

var fieldName = regexp.MustCompile(`"([^"\\]+)":`)

// roundTrip encodes a value and decodes it again. It requires the same value,
// and names in snake_case. It returns the JSON.
func roundTrip[T any](t *testing.T, value T) string {
	t.Helper()
	data, err := json.Marshal(value)
	require.NoError(t, err)
	var back T
	require.NoError(t, json.Unmarshal(data, &back), "%s", data)
	again, err := json.Marshal(back)
	require.NoError(t, err)
	require.Equal(t, string(data), string(again))
	for _, name := range fieldName.FindAllStringSubmatch(string(data), -1) {
		require.Regexp(t, `^[a-z][a-z_]*$`, name[1])
	}
	return string(data)
}

func TestTaskValuesReadBack(t *testing.T) {
	t.Parallel()
	// Tasks that are done, ask, timed out, and failed before or in their run.
	rt := localRuntime(t)
	require.NoError(t, rt.WriteFile(t.Context(), "f", []byte("x")))
	var spec pygent.TaskSpec
	see := pygent.TaskAgents(pygent.WithRetry(pygent.RetryPolicy{MaxAttempts: 1}))
	model := pygenttest.NewScriptedModel().
		On("Work 1", stop).RepeatLast().On("Work 2", pygenttest.Call("continue", map[string]any{"prompt": "Which?", "options": []string{"a"}})).
		On("Work 3", pygenttest.Status(400, "bad", "No such model")).
		On("Work 4", pygenttest.Text("").WithGate(nil))
	m := newTasks(t, model, see, pygent.MaxTasks(9), pygent.TaskPersonas(pygent.Persona{Name: "Tester", Description: "tests"}))
	states := map[pygent.TaskState]string{}
	for prompt, parent := range map[string]pygent.Runtime{"Work 1": rt, "Work 2": rt, "Work 3": rt, "Work 4": rt, "No runtime": nowhere{}} {
		id := startTask(t, m, prompt, parent, pygent.WithTaskLimits(pygent.Limits{MaxTime: 1500 * time.Millisecond}))
		status := waitTask(t, m, id)
		states[status.State] = roundTrip(t, status)
		var back pygent.TaskStatus
		require.NoError(t, json.Unmarshal([]byte(states[status.State]), &back))
		require.Equal(t, status.String(), back.String())
		require.Equal(t, status.Question(), back.Question())
		require.Equal(t, status.Summary(), back.Summary())
		require.Equal(t, status.Timeout, back.Timeout)
	}
	require.Len(t, states, 4)
	require.Contains(t, states[pygent.TaskTimedOut], `"timeout_seconds":1.5`)

	waitTask(t, m, startTask(t, m, "Work 1", rt, pygent.WithTaskFiles("f"), pygent.WithTaskQueue(),
		pygent.WithTaskModelName("m"), pygent.WithTaskLimits(pygent.Limits{MaxSteps: 3, MaxTokens: 9, StepTimeout: time.Minute}),
		pygent.WithTaskProfile(func(_ context.Context, s pygent.TaskSpec) ([]pygent.Option, error) {
			spec = s
			return nil, nil
		})))
	text := roundTrip(t, spec)
	require.Contains(t, text, `"limits":{"max_steps":3,"max_tokens":9,"step_timeout_seconds":60,"max_time_seconds":1200}`)
	roundTrip(t, spec.Limits)
	roundTrip(t, spec.Runtime)
	roundTrip(t, pygent.TaskStatus{})
	roundTrip(t, pygent.Limits{})
}
