package jsonwalk_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/jsonwalk"
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
	for name, raw := range jsonwalk.Members(data) {
		members[name] = raw
	}
	require.Equal(t, object, members)
	var list, elements []json.RawMessage
	if json.Unmarshal(data, &list) != nil || len(list) == 0 {
		list = nil
	}
	for raw := range jsonwalk.Elements(data) {
		elements = append(elements, raw)
	}
	require.Equal(t, list, elements)
}

func TestNestingIsBounded(t *testing.T) {
	require.NoError(t, jsonwalk.Check([]byte(`[[{"a":"[[[["}]]`), 3))
	require.ErrorIs(t, jsonwalk.Check([]byte(`[[{"a":[]}]]`), 3), jsonwalk.ErrDeep)
	require.ErrorIs(t, jsonwalk.Check(bytes.Repeat([]byte("["), 1<<20), 100), jsonwalk.ErrDeep)
	require.ErrorIs(t, jsonwalk.Check([]byte(`{"a":1} x`), 3), jsonwalk.ErrInvalid)
	require.ErrorIs(t, jsonwalk.Check(nil, 3), jsonwalk.ErrInvalid)
}

func TestValuesAreCounted(t *testing.T) {
	require.Equal(t, 1, jsonwalk.Values([]byte(`"a,{["`)))
	require.GreaterOrEqual(t, jsonwalk.Values([]byte(`[`+strings.Repeat(`{"a":1},`, 99)+`1]`)), 200)
}

func FuzzWalk(f *testing.F) {
	for _, text := range []string{`{"a":[1,{"b":"\""}]}`, `[ {} , "x" ]`, `{"a`, `[1,]`, "\"\\"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		jsonwalk.Values(data)
		for range jsonwalk.Members(data) { // must end even if the input is invalid
		}
		for range jsonwalk.Elements(data) {
		}
		if jsonwalk.Check(data, 50) == nil {
			requireSame(t, data)
		}
	})
}
