package jsonobj_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/jsonobj"
)

func TestMembersAndElementsAreThoseOfTheStandardLibrary(t *testing.T) {
	for _, text := range []string{
		`{}`, `[]`, ` { "a" : 1 , "b\u0041":[1, {"x":"]}\\\""}, null ] } `, `[ 1 ,"," , [[]], {"a":{}} , -1e5,true ]`, `"x"`, `1`, `null`,
	} {
		requireSame(t, []byte(text))
	}
}

// requireSame requires that a walk finds the same as encoding/json.
func requireSame(t *testing.T, data []byte) {
	t.Helper()
	object := map[string]json.RawMessage{}
	if json.Unmarshal(data, &object) != nil || object == nil {
		object = map[string]json.RawMessage{}
	}
	members := map[string]json.RawMessage{}
	for name, raw := range jsonobj.Members(data) {
		members[string(name)] = raw
	}
	require.Equal(t, object, members)
	checked := map[string]json.RawMessage{}
	require.NoError(t, jsonobj.CheckMembers(data, 50, func(name []byte, raw json.RawMessage) { checked[string(name)] = raw }))
	require.Equal(t, object, checked)
	var list, elements []json.RawMessage
	if json.Unmarshal(data, &list) != nil || len(list) == 0 {
		list = nil
	}
	for raw := range jsonobj.Elements(data) {
		elements = append(elements, raw)
	}
	require.Equal(t, list, elements)
}

func TestNestingIsBounded(t *testing.T) {
	require.NoError(t, jsonobj.Check([]byte(`[[{"a":"[[[["}]]`), 3))
	require.ErrorIs(t, jsonobj.Check([]byte(`[[{"a":[]}]]`), 3), jsonobj.ErrDeep)
	require.ErrorIs(t, jsonobj.Check(bytes.Repeat([]byte("["), 1<<20), 100), jsonobj.ErrDeep)
	require.ErrorIs(t, jsonobj.Check([]byte(`{"a":1} x`), 3), jsonobj.ErrInvalid)
	require.ErrorIs(t, jsonobj.Check(nil, 3), jsonobj.ErrInvalid)
}

func TestOnlyJSONIsValid(t *testing.T) {
	for _, text := range []string{
		`0`, `-0`, `10`, `01`, `-`, `+1`, `1.`, `.5`, `1.5e10`, `1e`, `1e+`, `1E-3`, `0x1`, `1 2`, `-01`, `1.5.5`,
		`true`, `tru`, `truex`, `false`, `null`, `nul`, `NaN`,
		`""`, `"`, `"a`, `"\"`, `"\n\t\/\b\f\r\"\\"`, `"\x"`, `"\u00e9"`, `"\u00e"`, `"\u00eg"`, `"\`, `"\u`, "\"\t\"", "\"\xff\"", "\"\x7f\"",
		`[]`, `[`, `]`, `[1,]`, `[,1]`, `[1 2]`, `[1,2]`, ` [ 1 , 2 ] `, `[1`, `[1,`,
		`{}`, `{`, `{"a"}`, `{"a":}`, `{"a":1`, `{"a":1,`, `{"a":1,}`, `{,}`, `{1:2}`, `{"a" : 1 , "b" : [ ] }`, `{"a":1 "b":2}`, `{"a":1}}`,
		"", " ", "\ufeff{}", "\v1", "{}\x00",
	} {
		require.Equal(t, json.Valid([]byte(text)), jsonobj.Check([]byte(text), 50) == nil, "%q", text)
	}
}

func TestStringsAndNumbersAreThoseOfTheStandardLibrary(t *testing.T) {
	for _, raw := range []string{
		`"a"`, `""`, `"a\nb"`, `"\ud83d\ude00"`, `"\ud83d"`, "\"\xff\"", `1`, `null`, ``, `"`, `{}`,
		`"` + strings.Repeat("a long text, für alle ", 9) + `\"\\\/\b\f\n\r\t"`, `"\n\u00e9"`, "\"\\n\xff\"", `"\x"`,
		`0`, `7`, `123456789`, `1234567890`, `-3`, `1.0`, `1e2`, `99999999999999999999`, `"7"`, `[7]`, `true`,
	} {
		var text string
		if json.Unmarshal([]byte(raw), &text) != nil {
			text = ""
		}
		require.Equal(t, text, jsonobj.Text([]byte(raw)), "%q", raw)
		var number *int
		if json.Unmarshal([]byte(raw), &number) != nil {
			number = nil
		}
		got, ok := jsonobj.Int([]byte(raw))
		require.Equal(t, number != nil, ok, "%q", raw)
		if ok {
			require.Equal(t, *number, got)
		}
	}
}

func TestValuesAreCounted(t *testing.T) {
	require.Equal(t, 1, jsonobj.Values([]byte(`"a,{["`)))
	require.GreaterOrEqual(t, jsonobj.Values([]byte(`[`+strings.Repeat(`{"a":1},`, 99)+`1]`)), 200)
}

func FuzzWalk(f *testing.F) {
	for _, text := range []string{`{"a":[1,{"b":"\""}]}`, `[ {} , "x" ]`, `{"a`, `[1,]`, "\"\\"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		jsonobj.Values(data)
		for range jsonobj.Members(data) { // must end even if the input is invalid
		}
		for range jsonobj.Elements(data) {
		}
		err := jsonobj.Check(data, 50)
		if !errors.Is(err, jsonobj.ErrDeep) {
			require.Equal(t, json.Valid(data), err == nil)
		}
		if err == nil {
			requireSame(t, data)
		}
	})
}
