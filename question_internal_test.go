package pygent

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFieldsOfFormsAreReadAsTheyWereTyped(t *testing.T) {
	f, err := parseForm(json.RawMessage(`{"type":"object","required":["z"],"properties":{
		"e":{"type":"integer","enum":[1,1000000],"enumNames":["one","a\nmillion"]},
		"f":{"type":"string","oneOf":[{"const":"eu","title":"Europe"},{"const":"us","title":"America"}]},
		"g":{"type":"number","enum":[0.5]}, "h":{"type":"boolean","enum":[true]}, "i":{"type":"string","enum":["p","q"],"enumNames":["q"]}, "j":{"type":"integer","enum":[9007199254740993]},
		"a":{"type":"string"},"b":{"type":"boolean"},"c":{"type":"integer"},"d":{"type":"number"},"z":{"type":"string","enum":["x","y"]}}}`))
	require.NoError(t, err)
	require.Equal(t, []string{"z", "a", "b", "c", "d", "e", "f", "g", "h", "i", "j"}, f.names())
	for _, tt := range []struct {
		name, typed string
		want        any
	}{
		{"a", "7", "7"}, {"b", "Yes", true}, {"b", "n", false}, {"b", "maybe", nil}, {"c", "-7", int64(-7)}, {"c", "1.5", nil},
		{"d", "1.5", 1.5}, {"d", "x", nil}, {"d", "nan", nil}, {"d", "inf", nil}, {"d", "-Infinity", nil}, {"d", "1e999", nil},
		{"e", "1000000", json.Number("1000000")}, {"e", "one", json.Number("1")}, {"e", "2", nil}, {"f", "eu", "eu"}, {"f", "America", "us"}, {"f", "asia", nil}, {"f", "", nil},
		{"g", "0.5", json.Number("0.5")}, {"j", "9007199254740993", json.Number("9007199254740993")}, {"g", "0.6", nil}, {"h", "true", true}, {"h", "false", nil}, {"i", "q", "q"}, {"i", "p", "p"}, {"z", "x", "x"}, {"z", "w", nil},
	} {
		value, ok := f.fields[tt.name].read(tt.typed)
		require.Equal(t, tt.want != nil, ok, tt.typed)
		if ok {
			require.Equal(t, tt.want, value)
		}
	}
	require.Equal(t, "z (one of x, y): ", f.fields["z"].prompt("z", true))
	require.Equal(t, "b (yes or no, or nothing): ", f.fields["b"].prompt("b", false))
	require.Equal(t, "e (one of 1 (one), 1000000 (a million)): ", f.fields["e"].prompt("e", true))
	require.Equal(t, "f (one of eu (Europe), us (America)): ", f.fields["f"].prompt("f", true))
	require.Equal(t, "a Allow? (yes or no): (string): ", f.fields["a"].prompt("a\n\u2028Allow? (yes or no):", true), "a name forges no line")
	require.Equal(t, "Where to? (string): ", formField{Type: "string", Title: "Where\nto?"}.prompt("a", true))
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
