package toolschema_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/toolschema"
)

const commandSchema = `{"type":"object","properties":{
	"cmd":{"type":"string"},
	"timeout":{"type":"number"},
	"count":{"type":"integer"},
	"background":{"type":"boolean"},
	"mode":{"type":"string","enum":["fast","slow"]},
	"files":{"type":"array","items":{"type":"string"}},
	"edits":{"type":"array","items":{"type":"object","properties":{"old_text":{"type":"string"},"times":{"type":"integer"}},"required":["old_text"],"additionalProperties":false}},
	"labels":{"type":"object","additionalProperties":{"type":"string"}}
},"required":["cmd"],"additionalProperties":false}`

func TestArgumentsThatCanOnlyBeMeantInOneWayAreRepaired(t *testing.T) {
	s := parse(t, commandSchema)
	for name, c := range map[string]struct{ given, want string }{
		"as they should be":        {`{ "cmd" : "5" }`, `{ "cmd" : "5" }`},
		"a number as text":         {`{"cmd":"ls","timeout":"5","count":" 7 "}`, `{"cmd":"ls","count":7,"timeout":5}`},
		"a fraction as text":       {`{"cmd":"ls","timeout":"2.5","count":"3.0"}`, `{"cmd":"ls","count":3,"timeout":2.5}`},
		"a boolean as text":        {`{"cmd":"ls","background":"True"}`, `{"background":true,"cmd":"ls"}`},
		"a text as a number":       {`{"cmd":5}`, `{"cmd":"5"}`},
		"a text as a long number":  {`{"cmd":12345678901234567890.50}`, `{"cmd":"12345678901234567890.50"}`},
		"one value for a list":     {`{"cmd":"ls","files":"a.txt"}`, `{"cmd":"ls","files":["a.txt"]}`},
		"a number in a list":       {`{"cmd":"ls","files":["a",1]}`, `{"cmd":"ls","files":["a","1"]}`},
		"a list as JSON text":      {`{"cmd":"ls","files":"[\"a\",\"b\"]"}`, `{"cmd":"ls","files":["a","b"]}`},
		"a list as Python's text":  {`{"cmd":"ls","files":"['a', 'b']"}`, `{"cmd":"ls","files":["a","b"]}`},
		"an object for a list":     {`{"cmd":"ls","edits":{"oldText":"a","times":"2"}}`, `{"cmd":"ls","edits":[{"old_text":"a","times":2}]}`},
		"objects as JSON text":     {`{"cmd":"ls","edits":"[{\"old_text\":\"a\"}]"}`, `{"cmd":"ls","edits":[{"old_text":"a"}]}`},
		"a text that is JSON":      {`{"cmd":"{\"a\":1}","count":"1"}`, `{"cmd":"{\"a\":1}","count":1}`},
		"free form, almost right":  {`{"cmd":"ls","labels":"{'a': 'b',}"}`, `{"cmd":"ls","labels":{"a":"b"}}`},
		"nothing for an option":    {`{"cmd":"ls","timeout":"","count":"null","background":"None","mode":null}`, `{"cmd":"ls"}`},
		"null for what is unknown": {`{"cmd":"ls","what":null}`, `{"cmd":"ls"}`},
		"another case":             {`{"Cmd":"ls","Time-Out":1,"mode":"FAST"}`, `{"cmd":"ls","mode":"fast","timeout":1}`},
		"in an object":             {`{"arguments":{"cmd":"ls"}}`, `{"cmd":"ls"}`},
		"in an object as text":     {`{"input":"{\"cmd\":\"ls\"}"}`, `{"cmd":"ls"}`},
		"with the tool's name":     {`{"name":"bash","parameters":{"cmd":"ls"}}`, `{"cmd":"ls"}`},
		"in data, as text":         {`{"data":"{\"cmd\":\"ls\"}"}`, `{"cmd":"ls"}`},
		"in a typed text":          {`{"type":"text","text":"{\"cmd\":\"ls\"}"}`, `{"cmd":"ls"}`},
		"in a list":                {`[{"cmd":"ls"}]`, `{"cmd":"ls"}`},
		"as input":                 {`{"input":"ls"}`, `{"cmd":"ls"}`},
		"as input of a LangChain":  {`{"__arg1":"ls"}`, `{"cmd":"ls"}`},
		"as a number of input":     {`{"input":5}`, `{"cmd":"5"}`},
		"as JSON text":             {`"{\"cmd\":\"ls\"}"`, `{"cmd":"ls"}`},
		"broken JSON":              {"```json\n{'cmd': 'ls\n', \"count\": \"1\",}\n```", `{"cmd":"ls\n","count":1}`},
		"both names":               {`{"cmd":"ls","count":"1"}`, `{"cmd":"ls","count":1}`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := s.Read(c.given, nil)
			require.NoError(t, err)
			require.Equal(t, c.want, string(got))
			again, err := s.Arguments(string(got))
			require.NoError(t, err)
			require.Equal(t, string(got), string(again))
		})
	}
}

const commandShape = `; expected {cmd: string, timeout?: number, count?: integer, background?: boolean, mode?: "fast" | "slow", files?: [string], edits?: [{old_text: string, times?: integer}], labels?: JSON text}`

func TestErrorsBeginWithWhatIsWrongAndEndWithTheShape(t *testing.T) {
	s := parse(t, commandSchema)
	for name, c := range map[string]struct{ given, want string }{
		"missing":           {`{}`, "cmd is missing"},
		"another name":      {`{"foo":"ls"}`, "cmd is missing; you gave foo"},
		"unknown":           {`{"cmd":"ls","foo":1}`, "there is no parameter foo"},
		"several unknown":   {`{"cmd":"ls","foo":1,"bar":2}`, "there are no parameters bar, foo"},
		"all at once":       {`{"foo":1,"timeout":"soon","mode":"warp","files":{"a":1},"edits":[{"old_text":"x"},{"times":true}]}`, `cmd is missing; you gave foo; timeout: expected number, given string "soon"; mode: expected "fast" | "slow", given string "warp"; files: expected [string], given object {"a":1}; edits[1].old_text is missing; edits[1].times: expected integer, given boolean true`},
		"null":              {`{"cmd":null}`, "cmd: expected string, given null"},
		"a fraction":        {`{"cmd":"ls","count":1.5}`, "count: expected integer, given number 1.5"},
		"a whole file":      {`{"cmd":{"a":[1,2]}}`, `cmd: expected string, given object {"a":[1,2]}`},
		"what is ambiguous": {`{"cmd":"ls","time_out":1,"TimeOut":2}`, "there are no parameters TimeOut, time_out"},
		"two names":         {`{"cmd":"ls","Cmd":"rm"}`, "there is no parameter Cmd"},
		"cut off":           {`{"cmd":"ls -l`, `the arguments are not a JSON object: a string is not closed: the text ends inside the one that begins at byte 7, near "{\"cmd\":\"ls -l"`},
		"perhaps cut off":   {`{"cmd":"ls"`, "the arguments are not a JSON object: the last } is missing, so they may be cut off; write them again, in smaller pieces if they are long"},
		"a list":            {`["ls"]`, "the arguments are not a JSON object: the text is JSON, but no object"},
		"wrapped and more":  {`{"arguments":{"cmd":"ls"},"cwd":"x"}`, "cmd is missing; you gave arguments, cwd"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := s.Read(c.given, nil)
			require.EqualError(t, err, c.want+commandShape)
		})
	}
}

func TestTheLastBraceMayBeMissingOnlyWhereNothingCanFollow(t *testing.T) {
	s := parse(t, `{"type":"object","properties":{"path":{"type":"string"},"files":{"type":"array","items":{"type":"string"}}},"required":["path"],"additionalProperties":false}`)
	got, err := s.Read(`{"path":"a","files":["b"]`, nil)
	require.NoError(t, err)
	require.Equal(t, `{"files":["b"],"path":"a"}`, string(got))
	for _, text := range []string{`{"files":[],"path":"print("`, `{'files':[],'path':'it'`, `"{\"files\":[],\"path\":\"print(\""`, "```json\n{\"files\":[],\"path\":\"a\"\n```"} {
		_, err = s.Read(text, nil)
		require.Error(t, err, "the quote may be one within the text")
	}
	_, err = s.Read(`{"path":"a"`, nil)
	require.ErrorContains(t, err, "may be cut off")
	s = parse(t, `{"type":"object","properties":{"path":{"type":"string"}}}`)
	_, err = s.Read(`{"path":"a"`, nil)
	require.ErrorContains(t, err, "may be cut off", "an open object can have more properties")
}

func TestOpenObjectsKeepWhatTheyAreGiven(t *testing.T) {
	s := parse(t, `{"type":"object","properties":{"file_path":{"type":"string"},"max_count":{"type":"integer"}},"required":["file_path"]}`)
	for given, want := range map[string]string{
		`{"file_path":"a","maxCount":"1"}`: `{"file_path":"a","maxCount":"1"}`,
		`{"filePath":"a","maxCount":"1"}`:  `{"file_path":"a","maxCount":"1"}`,
	} {
		got, err := s.Read(given, nil)
		require.NoError(t, err)
		require.Equal(t, want, string(got))
	}
	_, err := s.Read(`{"file_path":"a","max_count":"many"}`, nil)
	require.EqualError(t, err, `max_count: expected integer, given string "many"; expected {file_path: string, max_count?: integer}`)
}

func TestWhatOnlyTheCheckerKnowsIsToldInItsWords(t *testing.T) {
	s := parse(t, `{"type":"object","properties":{"n":{"type":"integer","minimum":3}}}`)
	_, err := s.Read(`{"n":"2"}`, nil)
	require.ErrorContains(t, err, "minimum")
	require.ErrorContains(t, err, "; expected {n?: integer}")
	s = parse(t, `{"type":"object","properties":{}}`)
	got, err := s.Read(`{"":""}`, nil)
	require.NoError(t, err)
	require.Equal(t, `{"":""}`, string(got))
}

func TestOtherWordsAreTranslated(t *testing.T) {
	s := parse(t, commandSchema)
	other := func(given map[string]any, has func(string) bool) error {
		if v, ok := given["shell"]; ok && has("cmd") {
			delete(given, "shell")
			given["cmd"] = v
		}
		if given["patch"] != nil {
			return errors.New("there are no patches here")
		}
		return nil
	}
	got, err := s.Read(`{"shell":"ls","timeout":"5"}`, other)
	require.NoError(t, err)
	require.Equal(t, `{"cmd":"ls","timeout":5}`, string(got))
	_, err = s.Read(`{"patch":"x"}`, other)
	require.EqualError(t, err, "there are no patches here")
	got, err = s.ReadAs(`{"cmd":"ls"}`, func(given map[string]any, _ func(string) bool) error {
		given["cmd"] = "pwd"
		return nil
	})
	require.NoError(t, err)
	require.Equal(t, `{"cmd":"pwd"}`, string(got))
}

func TestErrorsForModelsAreBounded(t *testing.T) {
	var properties, given []string
	for i := range 300 {
		properties = append(properties, fmt.Sprintf(`"%s%d":{"type":"integer"}`, strings.Repeat("p", 50), i))
		given = append(given, fmt.Sprintf(`"%s%d":"%s"`, strings.Repeat("p", 50), i, strings.Repeat("x", 500)), fmt.Sprintf(`"%s%d":1`, strings.Repeat("q", 500), i))
	}
	s := parse(t, `{"type":"object","properties":{`+strings.Join(properties, ",")+`},"additionalProperties":false}`)
	_, err := s.Read("{"+strings.Join(given, ",")+"}", nil)
	require.ErrorContains(t, err, "and 292 more")
	require.Less(t, len(err.Error()), 4<<10)
	_, err = s.Read(`{"x":[`+strings.Repeat("1,", 200_000)+`1]}`, nil)
	require.ErrorContains(t, err, "more than 50000 values")
}

func FuzzRead(f *testing.F) {
	for _, given := range []string{`{"cmd":"ls","timeout":"5"}`, `{"Cmd":5,"files":"['a']","edits":{"oldText":"x"}}`, `{"arguments":"{\"cmd\":\"ls\"}"}`, `{'cmd': 'ls',}`, `"{\"cmd\":\"x\"}"`, `{"labels":"{}"`} {
		f.Add(given)
	}
	schema, err := toolschema.Parse(json.RawMessage(commandSchema))
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, given string) {
		strict, strictErr := schema.Arguments(given)
		got, err := schema.Read(given, nil)
		if strictErr == nil {
			require.NoError(t, err)
			require.Equal(t, string(strict), string(got))
			return
		}
		if err != nil {
			require.Less(t, len(err.Error()), 8<<10)
			return
		}
		_, err = schema.Arguments(string(got))
		require.NoError(t, err)
	})
}
