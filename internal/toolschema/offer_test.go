package toolschema_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/toolschema"
)

func TestAModelIsOfferedSomeValuesOnly(t *testing.T) {
	author := `{"type":"object","properties":{"what":{"type":"string"},"who":{"type":"string","description":"the one"}},"required":["what"]}`
	s, err := toolschema.Parse(json.RawMessage(author))
	require.NoError(t, err)
	for name, tt := range map[string]struct {
		values []string
		wire   string
		shape  string
	}{
		"two":  {[]string{"Ada", "Bob"}, `{"type":"object","properties":{"what":{"type":"string"},"who":{"type":"string","description":"the one","enum":["Ada","Bob"]}},"required":["what"]}`, `{what: string, who?: "Ada" | "Bob"}`},
		"none": {nil, `{"type":"object","properties":{"what":{"type":"string"}},"required":["what"]}`, `{what: string}`},
	} {
		t.Run(name, func(t *testing.T) {
			offered, err := s.Offered("who", tt.values)
			require.NoError(t, err)
			require.Equal(t, tt.wire, string(offered.Wire()))
			args, err := offered.Arguments(`{"what":"x","who":"ada"}`)
			require.NoError(t, err, "the tool says what is wrong with it")
			require.JSONEq(t, `{"what":"x","who":"ada"}`, string(args))
			_, err = offered.Arguments(`{}`)
			require.ErrorContains(t, err, tt.wire[:60])
			_, err = offered.Read(`{}`, nil)
			require.EqualError(t, err, "what is missing; expected "+tt.shape)
		})
	}
	require.NotContains(t, string(s.Wire()), "enum", "it is not changed itself")
}
