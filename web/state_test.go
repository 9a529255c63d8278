package web

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
)

func TestTheStatusSaysHowFarACheckpointIs(t *testing.T) {
	var d doing
	began := time.Now()
	const text = "keeping the files of the workspace"
	d.note(pygent.Event{Type: pygent.EventKeeping, Time: began, Text: text, Progress: &pygent.ProgressInfo{Text: text}})
	require.Equal(t, "Keeping the files of the workspace", d.words)
	d.note(pygent.Event{Type: pygent.EventKeeping, Time: began.Add(time.Second), Text: text + ": 40,000 of 100,000", Progress: &pygent.ProgressInfo{Text: text, Current: 40_000, Total: 100_000}})
	require.Equal(t, "Keeping the files of the workspace: 40,000 of 100,000", d.words)
	require.Equal(t, began, d.since)
}

func TestTheStatusSaysThatTheContainerStarts(t *testing.T) {
	s := &session{view: view{log: newReplay(func() {})}}
	d := &s.view.doing
	began := time.Now()
	happens := func(kind pygent.RuntimeEventKind) {
		s.runtimeEvent(pygent.Event{Type: pygent.EventRuntime, Runtime: &pygent.RuntimeEvent{Kind: kind}})
	}
	d.note(pygent.Event{Type: pygent.EventToolStart, Time: began, Call: &pygent.ToolCall{Name: "bash"}})
	happens(pygent.RuntimeStarting)
	require.Equal(t, "Running a command · the container is starting", d.shown())
	happens(pygent.RuntimeSilent)
	require.Equal(t, "Running a command · the container is starting", d.shown(), "the engine goes on with it")
	happens(pygent.RuntimeFailed)
	require.Equal(t, "Running a command", d.shown())
	require.Equal(t, began, d.since)
}
