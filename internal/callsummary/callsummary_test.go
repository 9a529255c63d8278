package callsummary_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/callsummary"
)

func TestCallsAreDescribed(t *testing.T) {
	long := strings.Repeat("ä", 9000)
	for name, tt := range map[string]struct {
		tool, args string
		title      string
		paths      []string
	}{
		"command":         {"bash", `{"cmd":" go test\n"}`, "$ go test", nil},
		"elsewhere":       {"bash", `{"cmd":"make","cwd":"sub","background":true}`, "(in sub) $ make &", nil},
		"write":           {"write_file", `{"path":"a b.txt","content":"x"}`, "write a b.txt", []string{"a b.txt"}},
		"collect":         {"collect_file", `{"task_id":"t1","path":"out","dest":"in"}`, "collect out of task t1 to in", []string{"in"}},
		"delegate":        {"delegate_task", `{"prompt":"Count."}`, "delegate: Count.", nil},
		"status":          {"task_status", `{}`, "ask for the tasks' status", nil},
		"odd arguments":   {"write_file", `{"path":7}`, `write_file path=7`, nil},
		"no arguments":    {"job_list", ``, `job_list`, nil},
		"unknown, a file": {"lint", `{"path":"a.go","fix":true}`, "lint a.go", []string{"a.go"}},
		"unknown":         {"weather", `{"city":"Rome"}`, `weather city=Rome`, nil},
		"several":         {"weather", `{"city":"New York","days":3,"units":null,"at":{"lat": 1.5},"note":""}`, `weather city="New York" days=3 units=null at={"lat":1.5} note=""`, nil},
		"odd names":       {"t", `{"a b":"x=y","\u001b[2J":"\u202e"}`, `t "a b"="x=y" "\x1b[2J"="\u202e"`, nil},
		"a long value":    {"t", `{"text":"` + strings.Repeat("x", 500) + `","more":1}`, "t text=" + strings.Repeat("x", 60) + "… more=1", nil},
		"no object":       {"t", "[1,\n 2]", "t [1, 2]", nil},
		"broken":          {"t", "{\"a\":1,\n\"b", `t {"a":1, "b`, nil},
		"long":            {"bash", `{"cmd":"` + long + `"}`, "$ " + long[:callsummary.MaxTitle-2], nil},
	} {
		t.Run(name, func(t *testing.T) {
			title, paths := callsummary.Of(tt.tool, tt.args)
			require.Equal(t, tt.title, title)
			require.ElementsMatch(t, tt.paths, paths)
		})
	}
}

func FuzzOf(f *testing.F) {
	f.Add("bash", `{"cmd":"ls","cwd":"\u0000"}`)
	f.Fuzz(func(t *testing.T, tool, args string) {
		title, paths := callsummary.Of(tool, args)
		if !json.Valid([]byte(args)) {
			require.Empty(t, paths)
		}
		require.LessOrEqual(t, len(title), callsummary.MaxTitle)
		require.True(t, utf8.ValidString(title))
	})
}

func TestUpperFirst(t *testing.T) {
	for words, want := range map[string]string{
		"": "", "no": "No", "Yes": "Yes", "über den Zaun": "Über den Zaun", "¿qué?": "¿qué?", "1 file": "1 file", "\xff": "\xff",
	} {
		require.Equal(t, want, callsummary.UpperFirst(words))
	}
}
