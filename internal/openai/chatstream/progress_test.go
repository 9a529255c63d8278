package chatstream_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/openai/chatstream"
)

func pathIn(args string, piece int) string {
	var p chatstream.CallProgress
	for ; len(args) > piece; args = args[piece:] {
		p.Add(args[:piece])
	}
	p.Add(args)
	return p.Delta(0, "", "").Path
}

func TestThePathOfACallIsFound(t *testing.T) {
	for args, want := range map[string]string{
		`{"path":"a/b.go","content":"x"}`:                "a/b.go",
		`{ "content" : "path" , "path" : "b" }`:          "b",
		`{"file":"c"}`:                                   "c",
		`{"path":"a \"quoted\" \u00e9","x":1}`:           `a "quoted" é`,
		`{"other":{"path":"nested"},"path":"outer"}`:     "outer",
		`{"list":["path","x"],"n":{"path":"y"}}`:         "",
		`{"path":["x"],"y":"z"}`:                         "",
		`{"path":7,"content":"path"}`:                    "",
		`{"content":"half of a text with \"path\":\"x\"`: "",
		`{"path":"not comple`:                            "",
		`{"path":"first","path":"second"}`:               "first",
		`{"path":"` + strings.Repeat("x", 2000) + `"}`:   "",
		`["path","x"]`:                                   "",
		``:                                               "",
	} {
		for piece := range 5 {
			require.Equal(t, want, pathIn(args, piece+1), "%s in pieces of %d", args, piece+1)
		}
	}
}

func TestAnAssemblerTellsOfCalls(t *testing.T) {
	var a chatstream.Assembler
	var got []chatstream.CallDelta
	for _, chunk := range []string{
		`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"c1","function":{"name":"write_file","arguments":""}}]}}]}`,
		`{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"path\":\"a.go\","}}]}}]}`,
		`{"choices":[{"delta":{"tool_calls":[{"index":1,"id":"c2","function":{"name":"bash","arguments":"{}"}}]}}]}`,
	} {
		d, err := a.Add([]byte(chunk))
		require.NoError(t, err)
		got = append(got, d.Call)
	}
	require.Equal(t, []chatstream.CallDelta{
		{Index: 0, ID: "c1", Tool: "write_file"},
		{Index: 0, ID: "c1", Tool: "write_file", Bytes: 15, Path: "a.go"},
		{Index: 1, ID: "c2", Tool: "bash", Bytes: 2},
	}, got)
}

func FuzzThePathOfACall(f *testing.F) {
	f.Add(`{"path":"a","file":"b"}`, 3)
	f.Add(`{"x":[{"path":"a"}],"path":"\ud83d\ude00"}`, 1)
	f.Fuzz(func(t *testing.T, args string, piece int) {
		path := pathIn(args, max(1, piece%100+1))
		if path != pathIn(args, max(1, len(args))) {
			t.Error("it depends on the pieces")
		}
		var in map[string]json.RawMessage
		if path == "" || json.Unmarshal([]byte(args), &in) != nil {
			return
		}
		for _, name := range []string{"path", "file"} {
			if _, ok := in[name]; ok {
				return
			}
		}
		t.Errorf("%q has no path %q", args, path)
	})
}
