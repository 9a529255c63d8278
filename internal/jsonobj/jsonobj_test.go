package jsonobj_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/jsonobj"
)

func TestUnknownFieldsComeBack(t *testing.T) {
	r, err := jsonobj.Read([]byte(`{"z":1, "name":"x", "none":null, "a":{"b": [2]}, "long\"name":null}`))
	require.NoError(t, err)
	var name, none string
	r.Field("name", &name)
	r.Field("none", &none)
	require.Nil(t, r.Take("absent"))
	require.NoError(t, r.Err())
	require.Equal(t, "x", name)

	var w jsonobj.Writer
	w.Text("name", name+"\"\n<é>")
	w.OptionalText("empty", "")
	w.OptionalText("given", "y")
	w.Raw("raw", []byte("[1]"))
	w.Field("field", map[string]int{"n": 1})
	w.Begin("object", '{')
	w.Text("inner", "")
	w.End('}')
	w.Begin("objects", '[')
	for i := range 2 {
		w.Element()
		w.Field("i", i)
		w.Text("is", "here")
		w.End('}')
	}
	w.End(']')
	w.Begin("no_objects", '[')
	w.End(']')
	w.Rest(r.Rest())
	data, err := w.Done()
	require.NoError(t, err)
	require.Equal(t, `{"name":"x\"\n<é>","given":"y","raw":[1],"field":{"n":1},"object":{"inner":""},`+
		`"objects":[{"i":0,"is":"here"},{"i":1,"is":"here"}],"no_objects":[],`+
		`"a":{"b":[2]},"long\"name":null,"z":1}`, string(data))
}

func TestNothingIsLeftOfKnownFields(t *testing.T) {
	r, err := jsonobj.Read([]byte(`{"n":1}`))
	require.NoError(t, err)
	var n int
	r.Field("n", &n)
	require.Nil(t, r.Rest())
	require.Equal(t, 1, n)
}

func TestTheFirstErrorIsTold(t *testing.T) {
	_, err := jsonobj.Read([]byte(`[]`))
	require.Error(t, err)
	r, err := jsonobj.Read([]byte(`{"n":"one","m":"two"}`))
	require.NoError(t, err)
	var n int
	r.Field("n", &n)
	r.Field("m", &n)
	require.ErrorContains(t, r.Err(), "n: ")

	var w jsonobj.Writer
	w.Field("bad", func() {})
	w.Field("good", 1)
	_, err = w.Done()
	require.Error(t, err)
	_, err = w.UpTo("more")
	require.Error(t, err)
}

func TestTheStandardLibraryReadsTheSame(t *testing.T) {
	for _, data := range []string{
		`{"a":"x\ny","b":1,"a":"z"}`, ` { "a" : null } `, `{}`, `null`, `[]`, `"a"`, `{"a":1`, `{"a":1}x`, ``, `{"\u0061":"\u00e9"}`,
		`{"a":` + strings.Repeat("[", 9_998) + strings.Repeat("]", 9_998) + `}`, strings.Repeat(`{"a":`, 10_001) + `1` + strings.Repeat(`}`, 10_001),
	} {
		var want map[string]json.RawMessage
		wrong := json.Unmarshal([]byte(data), &want)
		r, err := jsonobj.Read([]byte(data))
		require.Equal(t, wrong, err, "%.50q", data)
		if err != nil {
			continue
		}
		var text, same string
		_ = json.Unmarshal(want["a"], &same)
		r.Decode("a", want["a"], &text)
		require.Equal(t, same, text)
		require.Equal(t, len(want), len(r.Rest()))
		for name, raw := range r.Rest() {
			require.Equal(t, string(want[name]), string(raw))
		}
	}
}

func TestTheRestSharesNothingWithWhatWasRead(t *testing.T) {
	data := []byte(`{"a":"x"}`)
	r, err := jsonobj.Read(data)
	require.NoError(t, err)
	rest := r.Rest()
	clear(data)
	require.Equal(t, `"x"`, string(rest["a"]))
}

func TestAnArrayCanBeLeftOpen(t *testing.T) {
	var w jsonobj.Writer
	w.Text("model", "m")
	head, err := w.UpTo("messages")
	require.NoError(t, err)
	require.Equal(t, `{"model":"m","messages":[`, string(head))
}

func TestNullsMeanNothing(t *testing.T) {
	for raw, want := range map[string]bool{"": true, "null": true, " null\n": true, "0": false, `""`: false, "{}": false} {
		require.Equal(t, want, jsonobj.IsNull(json.RawMessage(raw)), raw)
	}
	fields := map[string]json.RawMessage{"a": json.RawMessage("1"), "b": json.RawMessage("null")}
	require.Equal(t, map[string]json.RawMessage{"a": json.RawMessage("1")}, jsonobj.WithoutNulls(fields))
	require.Len(t, fields, 2, "the caller's own stays as it is")
}

func TestObjectsAreToldFromOtherJSON(t *testing.T) {
	for text, want := range map[string]bool{"{}": true, " \t{\"a\":1}\n": true, "[]": false, "": false, "{": false, `"{}"`: false, "{}{}": false} {
		require.Equal(t, want, jsonobj.IsObject(text), text)
	}
}

func TestClonesShareNothing(t *testing.T) {
	require.Nil(t, jsonobj.Clone(nil))
	fields := map[string]json.RawMessage{"a": json.RawMessage("1")}
	clone := jsonobj.Clone(fields)
	require.True(t, jsonobj.Equal(fields, clone))
	clone["a"][0] = '2'
	require.Equal(t, "1", string(fields["a"]))
	require.False(t, jsonobj.Equal(fields, clone))
}

func TestSecondsLoseNothing(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0", time.Second: "1", 1500 * time.Millisecond: "1.5", 10 * time.Second: "10", 1: "0.000000001", -time.Minute: "-60",
		math.MaxInt64: "9223372036.854775807", math.MinInt64: "-9223372036.854775808",
	} {
		data, err := json.Marshal(jsonobj.Seconds(d))
		require.NoError(t, err)
		require.Equal(t, want, string(data))
		var back jsonobj.Seconds
		require.NoError(t, json.Unmarshal(data, &back))
		require.Equal(t, d, time.Duration(back))
	}
	var s jsonobj.Seconds
	require.NoError(t, json.Unmarshal([]byte("2.5e-1"), &s))
	require.Equal(t, 250*time.Millisecond, time.Duration(s))
	for _, bad := range []string{"1e300", `"1s"`, "true"} {
		require.Error(t, json.Unmarshal([]byte(bad), &s), bad)
	}
}

func TestDurationsOfAStructAreSeconds(t *testing.T) {
	type times struct {
		Name string        `json:"name,omitempty"`
		Wait time.Duration `json:"-" seconds:"wait_seconds"`
		Left time.Duration `json:"-" seconds:"left_seconds,omitempty"`
	}
	for text, v := range map[string]times{
		`{"wait_seconds":0}`:                                         {},
		`{"name":"a","wait_seconds":0}`:                              {Name: "a"},
		`{"name":"a","wait_seconds":1.5,"left_seconds":0.000000001}`: {"a", 1500 * time.Millisecond, 1},
	} {
		data, err := jsonobj.MarshalSeconds(v)
		require.NoError(t, err)
		require.Equal(t, text, string(data))
		var back times
		require.NoError(t, jsonobj.UnmarshalSeconds(data, &back))
		require.Equal(t, v, back)
	}
	v := times{"a", time.Second, time.Minute}
	require.NoError(t, jsonobj.UnmarshalSeconds([]byte(`{"name":"b","left_seconds":null}`), &v))
	require.Equal(t, times{"b", time.Second, time.Minute}, v, "what is not said stays")
	require.ErrorContains(t, jsonobj.UnmarshalSeconds([]byte(`{"wait_seconds":"1"}`), &v), `wait_seconds: "1" is no number of seconds`)
	require.Error(t, jsonobj.UnmarshalSeconds([]byte(`{`), &v))
	_, err := jsonobj.MarshalSeconds(struct{ F func() }{})
	require.Error(t, err)
}
