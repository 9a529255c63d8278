package faces_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/faces"
)

func TestTheStatusNamesTheModelThatIsSet(t *testing.T) {
	var d faces.Doing
	d.Note(pygent.Event{Type: pygent.EventModelStart, Model: "first"})
	require.Equal(t, "first", d.Model)
	d.Note(pygent.Event{Type: pygent.EventSettings, Settings: &pygent.Settings{Model: "second", DefaultModel: "first"}})
	require.Equal(t, "second", d.Model)
	d.Note(pygent.Event{Type: pygent.EventSettings, Settings: &pygent.Settings{DefaultModel: "first"}})
	require.Equal(t, "first", d.Model)
	d.Note(pygent.Event{Type: pygent.EventSettings, Settings: &pygent.Settings{}})
	require.Equal(t, "first", d.Model, "the model's default is what it was")
}

func TestTheStatusSaysHowFarACheckpointIs(t *testing.T) {
	var d faces.Doing
	began := time.Now()
	const text = "saving the files of the workspace"
	keeping := func(after time.Duration, far string, p pygent.ProgressInfo) {
		p.Text = text
		d.Note(pygent.Event{Type: pygent.EventKeeping, Time: began.Add(after), Text: text + far, Progress: &p})
	}
	keeping(0, "", pygent.ProgressInfo{})
	require.Equal(t, "Saving the files of the workspace", d.Words)
	keeping(time.Second, ": 40,000 of 100,000", pygent.ProgressInfo{Current: 40_000, Total: 100_000})
	require.Equal(t, "Saving the files of the workspace: 40,000 of 100,000", d.Words)
	require.Equal(t, began, d.Since)
}

func TestTheStatusSaysThatTheContainerStarts(t *testing.T) {
	var d faces.Doing
	began := time.Now()
	happens := func(kind pygent.RuntimeEventKind) {
		d.Note(pygent.Event{Type: pygent.EventRuntime, Runtime: &pygent.RuntimeEvent{Kind: kind}})
	}
	d.Note(pygent.Event{Type: pygent.EventToolStart, Time: began, Call: &pygent.ToolCall{Name: "bash"}})
	happens(pygent.RuntimeStarting)
	require.Equal(t, "Running a command · the container is starting", d.WithStart(d.Words))
	happens(pygent.RuntimeSilent)
	require.Equal(t, "Running a command · the container is starting", d.WithStart(d.Words), "the engine goes on with it")
	happens(pygent.RuntimeFailed)
	require.Equal(t, "Running a command", d.WithStart(d.Words))
	require.Equal(t, began, d.Since)
}
