package terminal

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
)

func TestTheStatusSaysHowFullTheContextIs(t *testing.T) {
	for want, c := range map[string]pygent.ContextUse{
		"":                     {Window: 400_000},
		"context <1 %":         {Used: 3_999, Window: 400_000},
		"context 1 %":          {Used: 4_000, Window: 400_000},
		"context 100 %":        {Used: 500_000, Window: 400_000},
		"context 2,250 tokens": {Used: 2_250},
	} {
		require.Equal(t, want, (&doing{context: c}).full())
	}
}

func TestTheStatusNamesTheModelThatIsSet(t *testing.T) {
	var d doing
	d.note(pygent.Event{Type: pygent.EventModelStart, Model: "first"})
	require.Equal(t, "first", d.model)
	d.note(pygent.Event{Type: pygent.EventSettings, Settings: &pygent.Settings{Model: "second", DefaultModel: "first"}})
	require.Equal(t, "second", d.model)
	d.note(pygent.Event{Type: pygent.EventSettings, Settings: &pygent.Settings{DefaultModel: "first"}})
	require.Equal(t, "first", d.model)
	d.note(pygent.Event{Type: pygent.EventSettings, Settings: &pygent.Settings{}})
	require.Equal(t, "first", d.model, "the model's own default is what it was")
}

func TestTheStatusSaysHowFarACheckpointIs(t *testing.T) {
	var d doing
	began := time.Now()
	const text = "keeping the files of the workspace"
	keeping := func(after time.Duration, far string, p pygent.ProgressInfo) {
		p.Text = text
		d.note(pygent.Event{Type: pygent.EventKeeping, Time: began.Add(after), Text: text + far, Progress: &p})
	}
	keeping(0, "", pygent.ProgressInfo{})
	require.Equal(t, "Keeping the files of the workspace", d.words)
	keeping(time.Second, ": 40,000 of 100,000", pygent.ProgressInfo{Current: 40_000, Total: 100_000})
	require.Equal(t, "Keeping the files of the workspace: 40,000 of 100,000", d.words)
	require.Equal(t, began, d.since)
}
