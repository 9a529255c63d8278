package terminal

import (
	"testing"

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
