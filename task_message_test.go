package pygent_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/pygenttest"
)

// userTexts returns the messages of the user in a conversation.
func userTexts(t *testing.T, m *pygent.TaskManager, id string) (texts []string) {
	t.Helper()
	messages, err := m.TaskHistory(t.Context(), id)
	require.NoError(t, err)
	for _, msg := range messages {
		if msg.Role == pygent.RoleUser {
			texts = append(texts, msg.Content)
		}
	}
	return texts
}

func TestMessageToATaskAtWorkWaitsUntilItRests(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	m := newTasks(t, pygenttest.NewScriptedModel(stop.WithGate(gate), stop).RepeatLast())
	id := startTask(t, m, "go", hollow{})
	for i, want := range []int64{1, 2, 2, 3} {
		n, err := m.Send(t.Context(), id, fmt.Sprint("message ", want), pygent.WithMessageID(fmt.Sprint(want)))
		require.NoError(t, err)
		require.Equal(t, want, n, "message %d", i)
	}
	status, err := m.Status(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, 3, status.Waiting)
	require.Zero(t, status.Input)
	close(gate)
	status = waitTask(t, m, id)
	require.Equal(t, pygent.TaskFinished, status.State)
	require.Equal(t, 4, status.Runs)
	require.EqualValues(t, 3, status.Input)
	require.Zero(t, status.Waiting)
	require.Equal(t, []string{"go", "message 1", "message 2", "message 3"}, userTexts(t, m, id))
	rests, inputs := 0, []int64{}
	for e, err := range m.Events(t.Context(), id, 0) {
		require.NoError(t, err)
		require.Equal(t, id, e.Task)
		if e.Type == pygent.EventRunEnd {
			inputs = append(inputs, e.Input)
		}
		if e.TaskStatus != nil && e.TaskStatus.State.AtRest() {
			rests++
		}
		if e.Seq == status.Seq {
			break
		}
	}
	require.Equal(t, []int64{0, 1, 2, 3}, inputs, "the end of the run of each")
	require.Equal(t, 1, rests, "it rests only when there is no more to do")
}

func TestCancelDropsTheMessagesOfATask(t *testing.T) {
	t.Parallel()
	model := pygenttest.NewScriptedModel(pygenttest.Text("").WithGate(nil), stop)
	m := newTasks(t, model)
	id := startTask(t, m, "go", hollow{})
	require.NoError(t, model.WaitRequests(t.Context(), 1))
	require.NoError(t, errOf(m.Send(t.Context(), id, "hurry")))
	require.NoError(t, m.Cancel(t.Context(), id))
	status := waitTask(t, m, id)
	require.Equal(t, pygent.TaskCancelled, status.State)
	require.Zero(t, status.Waiting)
	require.Equal(t, 1, status.Runs)
	n, err := m.Send(t.Context(), id, "go on after all")
	require.NoError(t, err)
	require.EqualValues(t, 2, n)
	require.Equal(t, pygent.TaskFinished, waitTask(t, m, id).State)
	require.NotContains(t, userTexts(t, m, id), "hurry")
}

func TestTooManyMessagesWait(t *testing.T) {
	t.Parallel()
	m := newTasks(t, pygenttest.NewScriptedModel(pygenttest.Text("").WithGate(nil)))
	id := startTask(t, m, "go", hollow{})
	var err error
	for i := 0; err == nil && i < 1000; i++ {
		_, err = m.Send(t.Context(), id, "again")
	}
	require.ErrorIs(t, err, pygent.ErrTaskBusy)
}

func TestEventsOfATaskGoOnWhileItRests(t *testing.T) {
	t.Parallel()
	m := newTasks(t, pygenttest.NewScriptedModel(stop).RepeatLast())
	id := startTask(t, m, "go", hollow{})
	first := waitTask(t, m, id)
	rested, done := make(chan int64), make(chan error, 1)
	go func() {
		for e, err := range m.Events(t.Context(), id, first.Seq) {
			if err != nil {
				done <- err
				return
			}
			if e.TaskStatus != nil && e.TaskStatus.State.AtRest() {
				rested <- e.Seq
			}
		}
		done <- nil
	}()
	for range 2 {
		require.NoError(t, errOf(m.Send(t.Context(), id, "again")))
		require.Greater(t, <-rested, first.Seq)
		waitTask(t, m, id)
	}
	require.NoError(t, m.Remove(t.Context(), id))
	require.NoError(t, <-done, "they end with the task")

	for _, err := range m.Events(t.Context(), id, 0) {
		require.ErrorIs(t, err, pygent.ErrUnknownTask)
	}
	id = startTask(t, m, "go", hollow{})
	waitTask(t, m, id)
	ctx, cancel := context.WithCancel(t.Context())
	var last error
	for e, err := range m.Events(ctx, id, 0) {
		if last = err; err == nil && e.TaskStatus != nil && e.TaskStatus.State.AtRest() {
			cancel()
		}
	}
	cancel()
	require.ErrorIs(t, last, context.Canceled)
}

func TestPartsGoWithPromptsAndMessages(t *testing.T) {
	t.Parallel()
	picture := pygent.Part{ImageURL: "data:image/png;base64,iVBORw0KGgo="}
	var foreign pygent.Part
	require.NoError(t, json.Unmarshal([]byte(`{"type":"input_audio","input_audio":{"data":"AAAA","format":"wav"}}`), &foreign))
	gate := make(chan struct{})
	model := pygenttest.NewScriptedModel(stop.WithGate(gate), stop).RepeatLast()
	m := newTasks(t, model)
	spec := make(chan pygent.TaskSpec, 1)
	read := pygent.WithTaskProfile(func(_ context.Context, s pygent.TaskSpec) ([]pygent.Option, error) {
		spec <- s
		return nil, nil
	})
	with := []pygent.TaskOption{pygent.WithTaskID("t"), read, pygent.WithTaskParts(picture, foreign)}
	id := startTask(t, m, "Look", hollow{}, with...)
	startTask(t, m, "Look", hollow{}, with...) // the same request
	_, err := m.StartTask(t.Context(), "Look", hollow{}, pygent.WithTaskID("t"), pygent.WithTaskParts(foreign))
	require.ErrorIs(t, err, pygent.ErrTaskExists)
	for _, text := range []string{"And this", ""} {
		_, err = m.Send(t.Context(), id, text, pygent.WithMessageParts(picture))
		require.NoError(t, err)
	}
	close(gate)
	require.Equal(t, 3, waitTask(t, m, id).Runs)
	history, err := m.TaskHistory(t.Context(), id)
	require.NoError(t, err)
	var parts [][]pygent.Part
	for _, msg := range history {
		if msg.Role == pygent.RoleUser {
			parts = append(parts, msg.Parts)
		}
	}
	require.Equal(t, [][]pygent.Part{{{Text: "Look"}, picture, foreign}, {{Text: "And this"}, picture}, {picture}}, parts)

	written := <-spec
	data, err := json.Marshal(written)
	require.NoError(t, err)
	var decoded pygent.TaskSpec
	require.NoError(t, json.Unmarshal(data, &decoded))
	again, err := json.Marshal(decoded)
	require.NoError(t, err)
	require.JSONEq(t, string(data), string(again))
	require.Contains(t, string(again), `"input_audio"`)
}

func TestMessagesThatNoTaskTakes(t *testing.T) {
	t.Parallel()
	m := newTasks(t, pygenttest.NewScriptedModel(stop).RepeatLast())
	huge := pygent.Part{Text: strings.Repeat("x", 33<<20)}
	_, err := m.StartTask(t.Context(), "Look", hollow{}, pygent.WithTaskParts(huge))
	require.ErrorContains(t, err, "more than 33554432")
	_, err = m.StartTask(t.Context(), "", hollow{}, pygent.WithTaskParts(pygent.Part{Text: "x"}))
	require.ErrorContains(t, err, "the prompt is empty")
	id := startTask(t, m, "go", hollow{})
	waitTask(t, m, id)
	for name, tt := range map[string]struct {
		text string
		part []pygent.Part
		want string
	}{
		"nothing":  {"", nil, "the message is empty"},
		"too much": {"look", []pygent.Part{huge}, "more than 33554432"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := m.Send(t.Context(), id, tt.text, pygent.WithMessageParts(tt.part...))
			require.ErrorContains(t, err, tt.want)
		})
	}
	require.Equal(t, 1, waitTask(t, m, id).Runs)
}
