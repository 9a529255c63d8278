package chatstream_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/openai/chatstream"
)

// delta returns a chunk with the given delta.
func delta(d string) string { return fmt.Sprintf(`{"choices":[{"index":0,"delta":%s}]}`, d) }

func calls(fragments string) string { return delta(`{"tool_calls":[` + fragments + `]}`) }

const (
	finishStop  = `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`
	finishCalls = `{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}`
)

func assemble(t *testing.T, chunks ...string) *chatstream.Answer {
	t.Helper()
	var a chatstream.Assembler
	for _, c := range chunks {
		_, err := a.Add([]byte(c))
		require.NoError(t, err, c)
	}
	answer, err := a.Finish()
	require.NoError(t, err)
	return answer
}

func TestCallsAreToldApart(t *testing.T) {
	type want struct{ id, name, args string }
	cases := []struct {
		name   string
		chunks []string
		want   []want // an empty id stands for a generated one
	}{
		{"in fragments", []string{
			calls(`{"index":0,"id":"a","function":{"name":"bash","arguments":""}}`),
			calls(`{"index":0,"function":{"arguments":"{\"x\""}}`),
			calls(`{"index":1,"id":"b","function":{"name":"stop","arguments":"{"}}`),
			calls(`{"index":0,"function":{"arguments":":1}"}},{"index":1,"function":{"arguments":"}"}}`),
		}, []want{{"a", "bash", `{"x":1}`}, {"b", "stop", `{}`}}},
		{"repeated name and id", []string{
			calls(`{"index":0,"id":"a","function":{"name":"bash","arguments":"{"}}`),
			calls(`{"index":0,"id":"a","function":{"name":"bash","arguments":"}"}}`),
		}, []want{{"a", "bash", `{}`}}},
		{"repeated name before the arguments", []string{
			calls(`{"index":0,"id":"a","function":{"name":"bash"}}`),
			calls(`{"index":0,"id":"a","function":{"name":"bash"}}`),
			calls(`{"index":0,"function":{"arguments":"{}"}}`),
		}, []want{{"a", "bash", `{}`}}},
		{"repeated name without id or index", []string{
			calls(`{"function":{"name":"bash","arguments":"{\"a\":"}}`),
			calls(`{"function":{"name":"bash","arguments":"{}"}}`),
			calls(`{"function":{"name":"bash","arguments":"}"}}`),
		}, []want{{"", "bash", `{"a":{}}`}}},
		{"name in pieces", []string{
			calls(`{"index":0,"id":"a","function":{"name":"write_"}}`),
			calls(`{"index":0,"function":{"name":"file"}}`),
			calls(`{"index":0,"function":{"arguments":"{}"}}`),
		}, []want{{"a", "write_file", `{}`}}},
		{"growing name", []string{
			calls(`{"index":0,"id":"a","function":{"name":"ba"}}`),
			calls(`{"index":0,"id":"a","function":{"name":"bash","arguments":"{}"}}`),
		}, []want{{"a", "bash", `{}`}}},
		{"no index, different ids", []string{
			calls(`{"id":"a","function":{"name":"bash","arguments":"{}"}}`),
			calls(`{"id":"b","function":{"name":"bash","arguments":"{}"}}`),
		}, []want{{"a", "bash", `{}`}, {"b", "bash", `{}`}}},
		{"no index, fragments told by id", []string{
			calls(`{"id":"a","function":{"name":"bash","arguments":"{"}},{"id":"b","function":{"name":"stop","arguments":"{"}}`),
			calls(`{"id":"a","function":{"arguments":"\"x\":1}"}},{"id":"b","function":{"arguments":"}"}}`),
		}, []want{{"a", "bash", `{"x":1}`}, {"b", "stop", `{}`}}},
		{"neither index nor id", []string{
			calls(`{"function":{"name":"bash","arguments":"{}"}},{"function":{"name":"bash","arguments":"{}"}}`),
			calls(`{"function":{"name":"bash","arguments":"{\"y\":\"}\"}"}}`),
		}, []want{{"", "bash", `{}`}, {"", "bash", `{}`}, {"", "bash", `{"y":"}"}`}}},
		{"neither index nor id, in fragments", []string{
			calls(`{"function":{"name":"bash","arguments":"{"}}`),
			calls(`{"function":{"arguments":"}"}}`),
			calls(`{"function":{"name":"stop","arguments":"{"}}`),
			calls(`{"function":{"arguments":"}"}}`),
		}, []want{{"", "bash", `{}`}, {"", "stop", `{}`}}},
		{"neither index nor id, the first cut off", []string{
			calls(`{"function":{"name":"bash","arguments":"{"}}`),
			calls(`{"function":{"name":"stop","arguments":"{}"}}`),
		}, []want{{"", "bash", `{`}, {"", "stop", `{}`}}},
		{"all with index 0", []string{
			calls(`{"index":0,"id":"a","function":{"name":"bash","arguments":"{}"}}`),
			calls(`{"index":0,"id":"b","function":{"name":"bash","arguments":"{}"}}`),
		}, []want{{"a", "bash", `{}`}, {"b", "bash", `{}`}}},
		{"all with index 0 and no id", []string{
			calls(`{"index":0,"id":"","function":{"name":"bash","arguments":"{}"}}`),
			calls(`{"index":0,"id":"","function":{"name":"bash","arguments":"{\"x\":1}"}}`),
		}, []want{{"", "bash", `{}`}, {"", "bash", `{"x":1}`}}},
		{"a new id with each fragment", []string{
			calls(`{"index":0,"id":"a","function":{"name":"bash","arguments":""}}`),
			calls(`{"index":0,"id":"b","function":{"name":null,"arguments":"{"}}`),
			calls(`{"index":0,"id":"c","function":{"arguments":"}"}}`),
		}, []want{{"a", "bash", `{}`}}},
		{"the whole call again at its end", []string{
			calls(`{"index":0,"id":"a","function":{"name":"bash","arguments":"{\"x\":"}}`),
			calls(`{"index":0,"function":{"arguments":"1}"}}`),
			calls(`{"index":0,"id":"a","function":{"name":"bash","arguments":"{\"x\":1}"}}`),
		}, []want{{"a", "bash", `{"x":1}`}}},
		{"arguments as an object", []string{
			calls(`{"index":0,"id":"a","function":{"name":"bash","arguments":{"cmd": "a < b"}}}`),
		}, []want{{"a", "bash", `{"cmd":"a < b"}`}}},
		{"duplicate ids", []string{
			calls(`{"index":0,"id":"a","function":{"name":"bash","arguments":"{}"}},{"index":1,"id":"a","function":{"name":"stop","arguments":"{}"}}`),
		}, []want{{"a", "bash", `{}`}, {"", "stop", `{}`}}},
		{"nulls, and a phantom", []string{
			calls(`{"index":0,"id":null,"type":null,"function":{"name":null,"arguments":null}}`),
			calls(`{"index":1,"id":"b","function":null}`),
			calls(`{"index":1,"function":{"name":" bash ","arguments":"{}"}}`),
		}, []want{{"b", "bash", `{}`}}},
		{"all arguments so far in each fragment", []string{
			calls(`{"index":0,"id":"a","function":{"name":"bash","arguments":"{\"x\":"}}`),
			calls(`{"index":0,"id":"a","function":{"name":"bash","arguments":"{\"x\":\"\\ud83d"}}`),
			calls(`{"index":0,"function":{"arguments":"{\"x\":\"\\ud83d\\ude00\"}"}}`),
			calls(`{"index":0,"function":{"arguments":"{\"x\":\"\\ud83d\\ude00\"}"}}`),
		}, []want{{"a", "bash", `{"x":"\ud83d\ude00"}`}}},
		{"arguments that begin alike", []string{
			calls(`{"index":0,"id":"a","function":{"name":"bash","arguments":"{\"x\":"}}`),
			calls(`{"index":0,"function":{"arguments":"{\"x\":1}"}}`),
			calls(`{"index":0,"function":{"arguments":"}"}}`),
		}, []want{{"a", "bash", `{"x":{"x":1}}`}}},
		{"arguments once more, encoded twice", []string{
			calls(`{"index":0,"id":"a","function":{"name":"bash","arguments":"{\"x\":"}}`),
			calls(`{"index":0,"id":"a","function":{"arguments":"1}"}}`),
			calls(`{"index":0,"id":"a","function":{"name":"bash","arguments":"\"{\\\"x\\\":1}\""}}`),
		}, []want{{"a", "bash", `{"x":1}`}}},
		{"name and arguments beside the id", []string{
			calls(`{"index":0,"id":"a","name":"bash","arguments":"{\"x\":"}`),
			calls(`{"index":0,"arguments":"1}"}`),
		}, []want{{"a", "bash", `{"x":1}`}}},
		{"function_call", []string{
			delta(`{"role":"assistant","content":null,"function_call":{"name":"bash","arguments":""}}`),
			delta(`{"function_call":{"arguments":"{\"x\":"}}`),
			delta(`{"tool_calls":[],"function_call":{"name":null,"arguments":"1}"}}`),
			delta(`{"function_call":null}`),
		}, []want{{"", "bash", `{"x":1}`}}},
		{"function_call of a whole answer", []string{
			`{"choices":[{"message":{"role":"assistant","content":null,"function_call":{"name":"bash","arguments":"{}"}},"finish_reason":"function_call"}]}`,
		}, []want{{"", "bash", `{}`}}},
		{"function_call beside and before tool_calls", []string{
			delta(`{"function_call":{"name":"bash","arguments":"{}"}}`),
			delta(`{"function_call":{"name":"bash","arguments":"{}"},"tool_calls":[{"index":0,"id":"a","function":{"name":"bash","arguments":"{}"}}]}`),
			delta(`{"function_call":{"name":"bash","arguments":"{}"}}`),
		}, []want{{"a", "bash", `{}`}}},
		{"no name", []string{
			calls(`{"index":0,"id":"a","function":{"name":"","arguments":"{}"}}`),
		}, []want{{"a", "unknown", `{}`}}},
		{"an object instead of a list", []string{
			delta(`{"tool_calls":{"id":"a","function":{"name":"bash","arguments":"{}"}}}`),
		}, []want{{"a", "bash", `{}`}}},
		{"in one piece", []string{
			`{"choices":[{"message":{"role":"assistant","content":null,"tool_calls":[
				{"id":"a","function":{"name":"bash","arguments":"{}"}},
				{"id":"a","function":{"name":"bash","arguments":"{}"}},
				{"index":0,"function":{"name":"bash","arguments":{}}}]},"finish_reason":"tool_calls"}]}`,
		}, []want{{"a", "bash", `{}`}, {"", "bash", `{}`}, {"", "bash", `{}`}}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			answer := assemble(t, append(c.chunks, finishCalls)...)
			var got []want
			ids := map[string]bool{}
			for i, call := range answer.ToolCalls {
				require.NotEmpty(t, call.ID)
				require.False(t, ids[call.ID], "ids are unique")
				ids[call.ID] = true
				if i < len(c.want) && c.want[i].id == "" {
					require.Regexp(t, `^[A-Za-z0-9]{9}$`, call.ID)
					call.ID = ""
				}
				got = append(got, want{call.ID, call.Name, call.Arguments})
			}
			require.Equal(t, c.want, got)
		})
	}
}

func TestLongArgumentsMayComeAgainInEachFragment(t *testing.T) {
	whole := `{"x":"` + strings.Repeat("0123456789abcdef", 2000) + `"}`
	var a chatstream.Assembler
	for n := 16; n < len(whole)+16; n += 16 {
		_, err := a.Add([]byte(calls(fmt.Sprintf(`{"index":0,"id":"a","function":{"name":"bash","arguments":%q}}`, whole[:min(n, len(whole))]))))
		require.NoError(t, err)
	}
	_, err := a.Add([]byte(finishCalls))
	require.NoError(t, err)
	answer, err := a.Finish()
	require.NoError(t, err)
	require.Equal(t, whole, answer.ToolCalls[0].Arguments)
}

func TestIDsOfTheConversationAreNotTaken(t *testing.T) {
	a := chatstream.Assembler{TakenID: func(id string) bool { return id == "call_0" }}
	_, err := a.Add([]byte(`{"choices":[{"message":{"tool_calls":[{"id":"call_0","function":{"name":"bash"}}]}}]}`))
	require.NoError(t, err)
	answer, err := a.Finish()
	require.NoError(t, err)
	require.NotEqual(t, "call_0", answer.ToolCalls[0].ID)
	require.Equal(t, "tool_calls", answer.FinishReason)
}

func TestTextSurvivesWhatServersDo(t *testing.T) {
	cases := []struct {
		name   string
		chunks []string
		want   string
	}{
		{"another id", []string{
			`{"id":"1","choices":[{"delta":{"content":"Hello "}}]}`,
			`{"id":"2","choices":[{"delta":{"content":"world"}}]}`}, "Hello world"},
		{"a split surrogate pair", []string{delta(`{"content":"\ud83d"}`), delta(`{"content":"\ude00"}`)}, "😀"},
		{"a split UTF-8 sequence", []string{delta("{\"content\":\"\xc3\"}"), delta("{\"content\":\"\xa9\"}")}, "é"},
		{"other choices", []string{
			`{"choices":[{"index":0,"delta":{"content":"a"}},{"index":1,"delta":{"content":"X"},"finish_reason":"stop"}]}`}, "a\n\nX"},
		{"parts of text", []string{delta(`{"content":[{"type":"text","text":"a"},"b"]}`), delta(`{"content":"c"}`)}, "abc"},
		{"a refusal", []string{delta(`{"content":null,"refusal":"I "}`), delta(`{"refusal":"won't"}`)}, "I won't"},
		{"a message beside the delta", []string{
			`{"choices":[{"delta":{"content":"a"},"message":{"content":"a"}}]}`,
			`{"choices":[{"delta":{"content":"b"},"message":{"content":"ab"}}]}`}, "ab"},
		{"chunks of nothing", []string{`{}`, `{"choices":null}`, `{"choices":[{"delta":null}]}`, delta(`{"content":"a"}`)}, "a"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.want, assemble(t, append(c.chunks, finishStop)...).Content)
		})
	}
}

func TestPartsThatAreNotTextAreKept(t *testing.T) {
	answer := assemble(t,
		delta(`{"content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]}]}`),
		delta(`{"content":"a"}`), delta(`{"content":"b"}`), finishStop)
	require.Empty(t, answer.Content)
	require.Len(t, answer.Parts, 2)
	require.JSONEq(t, `{"type":"thinking","thinking":[{"type":"text","text":"hm"}]}`, string(answer.Parts[0]))
	require.JSONEq(t, `{"type":"text","text":"ab"}`, string(answer.Parts[1]))
}

func TestUsageIsTheLastAndFinishReasonStays(t *testing.T) {
	answer := assemble(t,
		`{"id":"x","model":"m","choices":[{"delta":{"content":"a"}}],"usage":{"prompt_tokens":10,"completion_tokens":1}}`,
		`{"choices":[{"delta":{},"finish_reason":"length"}],"usage":{"prompt_tokens":10,"completion_tokens":2}}`,
		`{"choices":[{"delta":{"content":""},"finish_reason":null}]}`,
		`{"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":4},"completion_tokens_details":{"reasoning_tokens":2}}}`,
		`{"choices":[],"usage":{"prompt_tokens":0,"completion_tokens":0,"prompt_tokens_details":null}}`)
	require.Equal(t, "length", answer.FinishReason)
	require.Equal(t, chatstream.Usage{Prompt: 10, Completion: 3, Cached: 4, Reasoning: 2}, answer.Usage)
	require.Equal(t, "x", answer.ID)
	require.Equal(t, "m", answer.Model)
}

func TestUnknownFieldsAreKept(t *testing.T) {
	answer := assemble(t,
		delta(`{"role":"assistant","reasoning_content":"I ","reasoning_details":[{"type":"reasoning.text","text":"a","format":"f","index":0}],"plain":[1]}`),
		delta(`{"role":"assistant","reasoning_content":"think","reasoning_details":[{"type":"reasoning.text","text":"b","format":"f","signature":"s","index":0},{"type":"reasoning.encrypted","data":"d","index":0}],"plain":[2]}`),
		delta(`{"number":1,"once":"\u00e9 ","other":{"a":1},"nothing":null}`),
		delta(`{"number":2,"reasoning_content":null}`),
		calls(`{"index":0,"id":"a","extra_content":{"google":{"thought_signature":"x"}},"function":{"name":"bash","arguments":"{}"}}`),
		finishCalls)
	got := map[string]string{}
	for name, raw := range answer.Extra {
		got[name] = string(raw)
	}
	require.Equal(t, map[string]string{
		"reasoning_content": `"I think"`,
		"reasoning_details": `[{"format":"f","index":0,"signature":"s","text":"ab","type":"reasoning.text"},{"type":"reasoning.encrypted","data":"d","index":0}]`,
		"plain":             `[1,2]`,
		"number":            `2`,
		"once":              `"\u00e9 "`,
		"other":             `{"a":1}`,
	}, got)
	require.JSONEq(t, `{"google":{"thought_signature":"x"}}`, string(answer.ToolCalls[0].Extra["extra_content"]))
}

func TestWholeMessagesAreKeptByteForByte(t *testing.T) {
	details := `[{"index":0, "text":"a"},{"index":0, "text":"b"}]`
	answer := assemble(t, `{"choices":[{"message":{"content":"x","reasoning_details":`+details+`},"finish_reason":"stop"}]}`)
	require.Equal(t, details, string(answer.Extra["reasoning_details"]))
}

func TestDeltasAreForDisplay(t *testing.T) {
	var a chatstream.Assembler
	d, err := a.Add([]byte(delta(`{"content":"t","reasoning_content":"r","reasoning":"r"}`)))
	require.NoError(t, err)
	require.Equal(t, chatstream.Delta{Text: "t", Reasoning: "r"}, d)
	d, err = a.Add([]byte(delta(`{"reasoning":"s"}`)))
	require.NoError(t, err)
	require.Equal(t, chatstream.Delta{Reasoning: "s"}, d)
}

func TestBrokenAnswersAreErrors(t *testing.T) {
	cases := []struct {
		name   string
		chunks []string
		want   error
	}{
		{"nothing", nil, chatstream.ErrNoChoice},
		{"no choices", []string{`{"choices":[]}`}, chatstream.ErrNoChoice},
		{"no finish reason", []string{delta(`{"content":"a"}`)}, chatstream.ErrUnfinished},
		{"an empty finish reason", []string{`{"choices":[{"delta":{"content":"a"},"finish_reason":""}]}`}, chatstream.ErrUnfinished},
		{"no JSON", []string{`{"choices":[{`}, chatstream.ErrMalformed},
		{"no object", []string{`[]`}, chatstream.ErrMalformed},
		{"a number for a message", []string{delta(`1`)}, chatstream.ErrMalformed},
		{"a number for content", []string{delta(`{"content":1}`)}, chatstream.ErrMalformed},
		{"a number for a call", []string{calls(`1`)}, chatstream.ErrMalformed},
		{"a string for a function", []string{calls(`{"function":"f"}`)}, chatstream.ErrMalformed},
		{"calls without end", []string{calls(strings.TrimSuffix(strings.Repeat(`{"id":"","function":{"name":"f","arguments":"{}"}},`, 300), ","))}, chatstream.ErrTooLarge},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var a chatstream.Assembler
			for _, chunk := range c.chunks {
				if _, err := a.Add([]byte(chunk)); err != nil {
					require.ErrorIs(t, err, c.want)
					return
				}
			}
			_, err := a.Finish()
			require.ErrorIs(t, err, c.want)
		})
	}
}

func TestErrorEventsAreServerErrors(t *testing.T) {
	cases := []struct{ chunk, body string }{
		{`{"error":{"code":429}}`, `{"code":429}`},
		{`{"error":"oops"}`, `"oops"`},
		{`{"choices":[{"delta":{},"finish_reason":"error","error":{"code":502}}]}`, `{"code":502}`},
		{`{"object":"error","code":400}`, `{"object":"error","code":400}`},
	}
	for _, c := range cases {
		var a chatstream.Assembler
		_, err := a.Add([]byte(c.chunk))
		var server *chatstream.ServerError
		require.ErrorAs(t, err, &server)
		require.Equal(t, c.body, string(server.Body))
	}
}

func TestAnswersWithoutEndAreRefused(t *testing.T) {
	var a chatstream.Assembler
	chunk := []byte(delta(`{"content":"` + strings.Repeat("x", 1<<20) + `"}`))
	for range 64 {
		if _, err := a.Add(chunk); err != nil {
			require.ErrorIs(t, err, chatstream.ErrTooLarge)
			return
		}
	}
	t.Fatal("no limit")
}

func FuzzAssembler(f *testing.F) {
	f.Add(delta(`{"content":"a","x":"y"}`) + "\n" + finishStop)
	f.Add(calls(`{"index":0,"id":"a","function":{"name":"bash","arguments":"{"}}`) + "\n" + calls(`{"function":{"arguments":{}}}`) + "\n" + finishCalls)
	f.Add(delta(`{"d":[{"index":0,"t":"a"}]}`) + "\n" + delta(`{"d":[{"index":0,"t":["b"]},1,null]}`) + "\n" + finishStop)
	f.Add(`{"choices":[{"message":{"content":[{"type":"text","text":"\ud83d"},"b",{}],"tool_calls":[{}]}}],"usage":{"prompt_tokens":1e300}}`)
	f.Add(`{"error":"x"}`)
	f.Add(`{"choices":[` + strings.Repeat("{},", 40) + `{}]}` + "\n" + finishStop)
	f.Add(delta(`{"x":`+strings.Repeat("[", 200)+strings.Repeat("]", 200)+`}`) + "\n" + finishStop)
	f.Add(delta(`{"a\u0062":"x","ab":"y","":[{"index":-1},{"index":-1,"":null}]}`) + "\n" + finishStop)
	f.Add(calls(`{"index":99999999999,"id":"a","function":{"name":"f"}},{"index":-2,"function":{"name":"f"}}`) + "\n" + finishCalls)
	f.Fuzz(func(t *testing.T, stream string) {
		var a chatstream.Assembler
		for chunk := range strings.Lines(stream) {
			before := a.Progress()
			data := []byte(chunk)
			if _, err := a.Add(data); err != nil {
				var server *chatstream.ServerError
				known := errors.As(err, &server) || errors.Is(err, chatstream.ErrMalformed) || errors.Is(err, chatstream.ErrTooLarge)
				require.True(t, known, "%v", err)
				return
			}
			require.GreaterOrEqual(t, a.Progress(), before)
			clear(data) // the assembler must not keep these bytes
		}
		answer, err := a.Finish()
		if err != nil {
			return
		}
		require.NotEmpty(t, answer.FinishReason)
		ids := map[string]bool{}
		for _, c := range answer.ToolCalls {
			require.NotEmpty(t, c.Name)
			require.NotEmpty(t, c.ID)
			require.False(t, ids[c.ID])
			ids[c.ID] = true
			requireValid(t, c.Extra)
		}
		requireValid(t, answer.Extra)
		for _, p := range answer.Parts {
			require.True(t, json.Valid(p))
		}
	})
}

func TestOnlyDataIsProgress(t *testing.T) {
	var a chatstream.Assembler
	add := func(chunk string) bool {
		before := a.Progress()
		_, err := a.Add([]byte(chunk))
		require.NoError(t, err)
		return a.Progress() > before
	}
	for _, chunk := range []string{
		`{"choices":[]}`, `{"choices":[],"usage":{"prompt_tokens":1}}`, delta(`{}`), delta(`null`), delta(`{"role":"assistant","content":""}`),
		delta(`{"content":null,"reasoning":"","tool_calls":[]}`), delta(`{"x":[],"y":{},"z":1,"type":"t"}`),
		calls(`{"index":0,"id":"a","function":{"name":"f","arguments":""}}`),
	} {
		require.False(t, add(chunk), chunk)
	}
	for _, chunk := range []string{
		delta(`{"content":"a"}`), delta(`{"reasoning_content":"a"}`), delta(`{"content":[{"type":"text","text":"a"}]}`),
		delta(`{"reasoning_details":[{"index":0,"data":"x"}]}`), calls(`{"index":0,"function":{"arguments":"{"}}`), finishStop,
	} {
		require.True(t, add(chunk), chunk)
	}
}

func requireValid(t *testing.T, fields map[string]json.RawMessage) {
	t.Helper()
	for name, raw := range fields {
		require.True(t, json.Valid(raw), "%s: %s", name, raw)
	}
}
