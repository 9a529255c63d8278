package toolschema

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

// plainSchema has properties of each kind.
const plainSchema = `{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object","properties":{
	"s":{"type":"string","description":"d"},"i":{"type":"integer"},"n":{"type":"number"},"b":{"type":"boolean"},
	"os":{"type":["null","string"]},"oi":{"type":["integer","null"],"title":"t"},"si":{"type":["string","integer"]},
	"e":{"type":"string","enum":["a","b"]},"l":{"type":"array","items":{"type":"string"}},"any":{}},
	"required":["s"],"additionalProperties":false}`

var plainArguments = []string{
	`{"s":"a"}`, ` {"s" : "" } `, `{"s":"a","i":1,"n":-1.5,"b":true}`, `{"s":"a","os":"x","oi":-3}`, `{"s":"{\"a\":[1]}"}`, `{"s":"\ud800"}`, "{\"s\":\"\xff\"}",
	`{"s":"a","os":null,"oi":null}`, `{"s":"a","i":null}`, `{"s":null}`, `{"s":1}`, `{}`, ``, ` `, `null`, `[]`, `{"s":"a"`, `{"s":"a"} x`, `{"s":"a","s":"b"}`, `{"\u0073":"a"}`,
	`{"s":"a","i":5.0}`, `{"s":"a","i":5.5}`, `{"s":"a","i":1e2}`, `{"s":"a","i":123456789012345}`, `{"s":"a","i":12345678901234567890}`, `{"s":"a","n":1e999}`, `{"s":"a","n":01}`,
	`{"s":"a","si":1}`, `{"s":"a","e":"a"}`, `{"s":"a","e":"c"}`, `{"s":"a","l":["x"]}`, `{"s":"a","l":"[\"x\"]"}`, `{"s":"a","any":{"x":[1]}}`, `{"s":"a","any":"1"}`, `{"s":"a","other":1}`,
	`{"s":"a","b":"true"}`, `{"s":"a","b":1}`, `{"S":"a"}`,
}

// requireAsChecked requires that a plain check says what the library's would.
func requireAsChecked(t *testing.T, quick, slow *Schema, text string) {
	t.Helper()
	got, err := quick.Arguments(text)
	want, wantErr := slow.Arguments(text)
	require.Equal(t, wantErr == nil, err == nil, "%q: %v", text, err)
	require.Equal(t, string(want), string(got), "%q", text)
}

// bothChecks returns a schema, and one whose arguments only the library checks.
func bothChecks(t require.TestingT, author string) (quick, slow *Schema) {
	quick, err := Parse(json.RawMessage(author))
	require.NoError(t, err)
	other := *quick
	other.plain = nil
	return quick, &other
}

func TestPlainArgumentsAreCheckedAlike(t *testing.T) {
	for _, author := range []string{
		plainSchema, `{"type":"object","properties":{"s":{"type":"string"}},"required":["s"]}`, `{"type":"object","properties":{"s":{"type":"string"},"i":{"type":"integer"}},"additionalProperties":true}`,
		`{"type":"object","properties":{"s":{"type":"string"},"i":{"type":"integer"}},"minProperties":2}`, `{"type":"object","properties":{"s":{"type":"string"}},"required":["s","t"]}`,
		`{"type":"object","additionalProperties":false}`,
	} {
		quick, slow := bothChecks(t, author)
		for _, text := range plainArguments {
			requireAsChecked(t, quick, slow, text)
		}
	}
}

func TestUsualArgumentsNeedNoOtherCheck(t *testing.T) {
	quick, _ := bothChecks(t, plainSchema)
	for _, text := range plainArguments[:4] {
		require.True(t, quick.plain.fits([]byte(text)), text)
	}
	quick, _ = bothChecks(t, `{"type":"object","properties":{"s":{"type":"string"}},"minProperties":1}`)
	require.Nil(t, quick.plain)
}

func FuzzPlainArguments(f *testing.F) {
	for _, text := range plainArguments {
		f.Add(text)
	}
	quick, slow := bothChecks(f, plainSchema)
	f.Fuzz(func(t *testing.T, text string) { requireAsChecked(t, quick, slow, text) })
}
