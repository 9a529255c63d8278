package pygent

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFieldsOfFormsAreReadAsTheyWereTyped(t *testing.T) {
	f, err := parseForm(json.RawMessage(`{"type":"object","required":["z"],"properties":{
		"a":{"type":"string"},"b":{"type":"boolean"},"c":{"type":"integer"},"d":{"type":"number"},"z":{"type":"string","enum":["x","y"]}}}`))
	require.NoError(t, err)
	require.Equal(t, []string{"z", "a", "b", "c", "d"}, f.names())
	for _, tt := range []struct {
		name, typed string
		want        any
	}{
		{"a", "7", "7"}, {"b", "Yes", true}, {"b", "n", false}, {"b", "maybe", nil}, {"c", "-7", int64(-7)}, {"c", "1.5", nil},
		{"d", "1.5", 1.5}, {"d", "x", nil}, {"z", "x", "x"}, {"z", "w", nil},
	} {
		value, ok := f.fields[tt.name].read(tt.typed)
		require.Equal(t, tt.want != nil, ok, tt.typed)
		if ok {
			require.Equal(t, tt.want, value)
		}
	}
	require.Equal(t, "z (one of x y): ", f.fields["z"].prompt("z", true))
	require.Equal(t, "b (yes or no, or nothing): ", f.fields["b"].prompt("b", false))
}

func TestASessionLeavesWhatSetAskHasSet(t *testing.T) {
	asks := func(text string) AskFunc {
		return func(context.Context, AskRequest) (Answer, error) { return Answer{Text: text}, nil }
	}
	agent := &Agent{}
	agent.setAskFor(asks("session"))()
	require.Nil(t, agent.asker())
	end := agent.setAskFor(asks("session"))
	agent.SetAsk(asks("program"))
	end()
	answer, err := agent.asker()(t.Context(), AskRequest{})
	require.NoError(t, err)
	require.Equal(t, "program", answer.Text)
}
