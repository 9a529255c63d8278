package jsonobj_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/jsonobj"
)

func TestWhatModelsWriteIsRead(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"nothing":                  {"", `{}`},
		"null":                     {" null ", `{}`},
		"an empty string":          {`""`, `{}`},
		"as it should be":          {`{ "cmd": "ls" }`, `{ "cmd": "ls" }`},
		"a byte order mark":        {"\ufeff{\"a\":1}", `{"a":1}`},
		"raw control characters":   {"{\"a\":\"x\n\ty\r\x01\"}", `{"a":"x\n\ty\r\u0001"}`},
		"a code fence":             {"```json\n{\"a\":1}\n```", `{"a":1}`},
		"a code fence on one line": {"```{\"a\":1}```\n", `{"a":1}`},
		"a brace too many":         {`{"a":{"b":1}}}`, `{"a":{"b":1}}`},
		"a bracket too many":       {`{"a":1}]`, `{"a":1}`},
		"a bracket missing inside": {`{"edits":[{"a":"b"},{"a":"c"}}`, `{"edits":[{"a":"b"},{"a":"c"}]}`},
		"commas at the end":        {`{"a":[1,2,],}`, `{"a":[1,2]}`},
		"Python":                   {`{'a': True, 'b': [None, False], 'c': 'say "hi"', 'd': 'don\'t'}`, `{"a":true,"b":[null,false],"c":"say \"hi\"","d":"don't"}`},
		"names without quotes":     {`{cmd: "ls", max-count: -1.5e3}`, `{"cmd":"ls","max-count":-1.5e3}`},
		"twice the same":           {`{"a":1}{"a":1}` + "\n" + `{"a":1}`, `{"a":1}`},
		"an empty object before":   {`{}{"a":1}`, `{"a":1}`},
		"JSON text":                {`"{\"a\":\"b\"}"`, `{"a":"b"}`},
		"a list of one":            {`[{"a":[1]}]`, `{"a":[1]}`},
		"a list of one as text":    {`"[{\"a\":1}]"`, `{"a":1}`},
		"JSON text of JSON text":   {`"\"{\\\"a\\\":1}\""`, `{"a":1}`},
		"marks of a template":      {"{\"a\":1}\n</tool_call><|im_end|>", `{"a":1}`},
		"regular expressions":      {`{"a":"\d+\.\w \\d \n"}`, `{"a":"\\d+\\.\\w \\d \n"}`},
		"braces in strings":        {"{\"a\":\"}{\n\"}", `{"a":"}{\n"}`},
		"other characters":         {"{'a': 'ä\u2028\\u00e4'}", "{\"a\":\"ä\u2028\\u00e4\"}"},
	} {
		t.Run(name, func(t *testing.T) {
			got, unclosed, err := jsonobj.RepairObject(c.text)
			require.NoError(t, err)
			require.False(t, unclosed)
			require.Equal(t, c.want, got)
		})
	}
}

func TestWhatCanBeReadInTwoWaysIsRefused(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"a string cut off":             {`{"path":"a","content":"half`, `a string is not closed: the text ends inside the one that begins at byte 22`},
		"a string cut off at a break":  {"{\"a\":\"x\n", "a string is not closed"},
		"a string cut off in Python":   {`{'a': 'x`, "a string is not closed"},
		"cut off after a backslash":    {`{"a":"x\`, "a string is not closed"},
		"cut off in an escape":         {`{"a":"x\u00`, "an escape that JSON does not have"},
		"a number cut off":             {`{"a":"x","n":12`, "the text ends before }"},
		"cut off in a list":            {`{"a":["x"`, "the text ends before ]"},
		"cut off in an inner object":   {`{"a":{"b":"c"`, "the text ends before }"},
		"cut off at a name":            {`{"a":"x","b"`, "want a colon"},
		"cut off after a comma":        {`{"a":"x",`, "the text ends before }"},
		"cut off before a value":       {`{"a":`, "a value is missing"},
		"quotes within a string":       {`{"cmd":"echo "hi" there"}`, `want a comma or }; a quote within a string is written \" at byte 14`},
		"an apostrophe in Python":      {`{'a': 'don't'}`, "want a comma or }"},
		"a shell's escape":             {`{"cmd":"echo \$HOME"}`, `an escape that JSON does not have; a backslash is written \\ at byte 13, near "{\"cmd\":\"echo \\$HOME\"}"`},
		"a word's edge":                {`{"cmd":"grep '\bfoo\d'"}`, "may mean a control character or itself"},
		"an escaped apostrophe":        {`{"cmd":"it\'s"}`, "an escape that JSON does not have"},
		"a value without quotes":       {`{"cmd": ls -la}`, "a value that is not JSON (a string needs quotes) at byte 8"},
		"two different objects":        {`{"a":1}{"a":2}`, "another, different object"},
		"an object after an empty one": {`{}{"a":"b"`, "not closed"},
		"prose after":                  {`{"a":1} is what I want`, "text after the JSON object"},
		"prose before":                 {`I call {"a":1}`, "not JSON"},
		"comments":                     {"{// x\n\"a\":1}", "want the name of a property"},
		"two commas":                   {`{"a":1,,"b":2}`, "want the name of a property"},
		"a list":                       {`[1]`, "no object"},
		"a number":                     {`7`, "no object"},
		"NaN":                          {`{"a":NaN}`, "a value that is not JSON"},
		"deep":                         {strings.Repeat("[", 100_000) + "'", "nested too deeply"},
		"a wrong end":                  {`{"a":1]`, "want a comma or }"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := jsonobj.RepairObject(c.text)
			require.ErrorContains(t, err, c.want)
			require.Less(t, len(err.Error()), 400)
		})
	}
}

func TestOnlyTheLastBraceOfAnObjectMayBeMissing(t *testing.T) {
	got, unclosed, err := jsonobj.RepairObject(`{"a":"x","b":["y"] `)
	require.NoError(t, err)
	require.True(t, unclosed)
	require.Equal(t, `{"a":"x","b":["y"]}`, got)
}

// calls are valid arguments, in which every kind of value stands somewhere.
var calls = []string{
	`{"path":"a.txt","content":"line 1\nline \"2\"\\n'x' {}[],: \u00e4 ä","n":120,"list":["a","bc",{"d":"e f"}],"t":true}`,
	`{"cmd":"echo 'a','b' | sed -n '1,2p' # }{\"x\":1}","cwd":"sub"}`,
	`{'a': 'it is', 'b': ['c, d'], 'e': {'f': "g"}}`,
	"```json\n{\"a\": \"b c\",\n \"d\": [\"e\", 12]}\n```",
}

// textsOf returns all strings and numbers of a value.
func textsOf(v any, into map[string]bool) {
	switch v := v.(type) {
	case map[string]any:
		for name, value := range v {
			into[name] = true
			textsOf(value, into)
		}
	case []any:
		for _, value := range v {
			textsOf(value, into)
		}
	case string:
		into[v] = true
	case json.Number:
		into[v.String()] = true
	}
}

func decode(t *testing.T, text string) map[string]bool {
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	var v any
	require.NoError(t, dec.Decode(&v), text)
	texts := map[string]bool{}
	textsOf(v, texts)
	return texts
}

func TestNoPrefixOfACallIsReadWithAShorterValue(t *testing.T) {
	for _, call := range calls {
		whole, _, err := jsonobj.RepairObject(call)
		require.NoError(t, err)
		all := decode(t, whole)
		for n := range call {
			fixed, unclosed, err := jsonobj.RepairObject(call[:n])
			if err != nil || fixed == "{}" && strings.TrimSpace(call[:n]) == "" {
				continue
			}
			require.True(t, unclosed || strings.HasPrefix(call, "```") && strings.HasPrefix(whole, fixed), "%q", call[:n])
			for text := range decode(t, fixed) {
				require.True(t, all[text], "%q of %q", text, call[:n])
			}
		}
	}
}

func FuzzRepair(f *testing.F) {
	for _, call := range calls {
		f.Add(call)
	}
	for _, seed := range []string{`{"a":1}}`, "{}{'a':[1,],}", `{a:True,"b":"\d"}`, `{"a":["x"}`, `"{\"a\":1}"`, "{\"a\":\"\n", `{"a":1}</x><|y|>;`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		fixed, _, err := jsonobj.Repair(text)
		if json.Valid([]byte(text)) {
			require.NoError(t, err)
			require.Equal(t, text, fixed)
			return
		}
		if err != nil {
			require.Empty(t, fixed)
			return
		}
		require.True(t, json.Valid([]byte(fixed)))
		for value := range decode(t, fixed) {
			requireTakenFrom(t, text, value)
		}
		object, _, err := jsonobj.RepairObject(text)
		if err == nil {
			require.Equal(t, byte('{'), strings.TrimSpace(object)[0])
		}
	})
}

// requireTakenFrom checks that the letters of a value stand in the text, in
// their order: nothing is made up. Escapes are the exception.
func requireTakenFrom(t *testing.T, text, value string) {
	if strings.ContainsAny(text, `\`) || !utf8.ValidString(text) {
		return
	}
	require.Contains(t, text, value)
}

func BenchmarkLongText(b *testing.B) {
	text := "{'a': '" + strings.Repeat("x\ny", 1<<20) + "'}"
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if _, _, err := jsonobj.RepairObject(text); err != nil {
			b.Fatal(err)
		}
	}
}
