package terminal

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
)

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
