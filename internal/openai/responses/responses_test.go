package responses_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/openai/chatstream"
	"github.com/x/pygent/internal/openai/responses"
)

func items(t *testing.T, in responses.Input, message string) string {
	t.Helper()
	b, err := in.Items([]byte(message))
	require.NoError(t, err)
	return string(b)
}

func TestMessagesBecomeItems(t *testing.T) {
	cases := []struct{ name, message, want string }{
		{"system", `{"role":"system","content":"Be <brief>."}`, `{"type":"message","role":"system","content":"Be <brief>."}`},
		{"user", `{"role":"user","content":"Hi","name":"a"}`, `{"type":"message","role":"user","content":"Hi"}`},
		{"image", `{"role":"user","content":[{"type":"text","text":"See:"},{"type":"image_url","image_url":{"url":"data:x","detail":"low"}},{"type":"image_url","image_url":{"url":"data:y"}}]}`,
			`{"type":"message","role":"user","content":[{"type":"input_text","text":"See:"},{"type":"input_image","image_url":"data:x","detail":"low"},{"type":"input_image","image_url":"data:y","detail":"auto"}]}`},
		{"file", `{"role":"user","content":[{"type":"file","file":{"filename":"a.pdf","file_data":"data:z"}}]}`,
			`{"type":"message","role":"user","content":[{"type":"input_file","filename":"a.pdf","file_data":"data:z"}]}`},
		{"result", `{"role":"tool","tool_call_id":"c1","content":"ok"}`, `{"type":"function_call_output","call_id":"c1","output":"ok"}`},
		{"result with an image", `{"role":"tool","tool_call_id":"c1","content":[{"type":"image_url","image_url":{"url":"data:x"}}]}`,
			`{"type":"function_call_output","call_id":"c1","output":[{"type":"input_image","image_url":"data:x","detail":"auto"}]}`},
		{"answer", `{"role":"assistant","content":"Yes.","reasoning_content":"Hm."}`, `{"type":"message","role":"assistant","content":"Yes."}`},
		{"answer in parts", `{"role":"assistant","content":[{"type":"text","text":"Y"},{"type":"refusal","refusal":"No"}]}`, `{"type":"message","role":"assistant","content":"YNo"}`},
		{"refusal", `{"role":"assistant","content":null,"refusal":"No."}`, `{"type":"message","role":"assistant","content":"No."}`},
		{"calls", `{"role":"assistant","content":"Look.","tool_calls":[{"id":"c1","type":"function","function":{"name":"bash","arguments":"{}"}},{"id":"c2","type":"function","function":{"name":"stop","arguments":"{}"}}]}`,
			`{"type":"message","role":"assistant","content":"Look."},{"type":"function_call","call_id":"c1","name":"bash","arguments":"{}"},{"type":"function_call","call_id":"c2","name":"stop","arguments":"{}"}`},
		{"nothing", `{"role":"assistant","content":""}`, ``},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.want, items(t, responses.Input{}, c.message))
		})
	}
}

func TestWhatHasNoItemIsAnError(t *testing.T) {
	for message, want := range map[string]string{
		`{"role":"function","content":"x"}`:                        `no role "function"`,
		`{"role":"user","content":[{"type":"input_audio"}]}`:       `type "input_audio"`,
		`{"role":"tool","content":[{"type":"video","text":"x"}]}`:  `type "video"`,
		`{"role":"user","content":[{"type":"text","text":[1,2]}]}`: `cannot unmarshal`,
	} {
		_, err := responses.Input{}.Items([]byte(message))
		require.ErrorContains(t, err, want)
	}
}

func TestParametersAreTranslated(t *testing.T) {
	cases := []struct{ chat, want string }{
		{`{"max_completion_tokens":5,"temperature":1,"parallel_tool_calls":true}`, `{"max_output_tokens":5,"temperature":1,"parallel_tool_calls":true}`},
		{`{"max_tokens":5,"max_output_tokens":6}`, `{"max_output_tokens":6}`},
		{`{"reasoning_effort":"high","verbosity":"low"}`, `{"reasoning":{"effort":"high"},"text":{"verbosity":"low"}}`},
		{`{"reasoning_effort":"high","reasoning":{"summary":"auto"}}`, `{"reasoning":{"effort":"high","summary":"auto"}}`},
		{`{"reasoning_effort":null}`, `{}`},
		{`{"response_format":{"type":"json_object"}}`, `{"text":{"format":{"type":"json_object"}}}`},
		{`{"response_format":{"type":"json_schema","json_schema":{"name":"n","strict":true,"schema":{"type":"object"}}},"text":{"verbosity":"low"}}`,
			`{"text":{"verbosity":"low","format":{"type":"json_schema","name":"n","strict":true,"schema":{"type":"object"}}}}`},
		{`{"tool_choice":{"type":"function","function":{"name":"bash"}}}`, `{"tool_choice":{"type":"function","name":"bash"}}`},
		{`{"tool_choice":"required"}`, `{"tool_choice":"required"}`},
		{`{"stream_options":{"include_usage":true}}`, `{}`},
		{`{"stream_options":{"include_usage":true,"include_obfuscation":false}}`, `{"stream_options":{"include_obfuscation":false}}`},
		{`{"truncation":"auto"}`, `{"truncation":"auto"}`},
	}
	for _, c := range cases {
		var chat map[string]json.RawMessage
		require.NoError(t, json.Unmarshal([]byte(c.chat), &chat))
		got, err := responses.Params(chat)
		require.NoError(t, err)
		b, err := json.Marshal(got)
		require.NoError(t, err)
		require.JSONEq(t, c.want, string(b), c.chat)
	}
	for _, name := range []string{"seed", "stop", "logit_bias", "n", "previous_response_id", "background"} {
		_, err := responses.Params(map[string]json.RawMessage{name: json.RawMessage(`1`)})
		require.ErrorContains(t, err, name)
	}
	_, err := responses.Params(map[string]json.RawMessage{"verbosity": json.RawMessage(`"low"`), "text": json.RawMessage(`3`)})
	require.ErrorContains(t, err, "text")
}

// Events of a stream.
const (
	created   = `{"type":"response.created","response":{"id":"resp_1","model":"gpt-x-2026","status":"in_progress","output":[]}}`
	completed = `{"type":"response.completed","response":{"id":"resp_1","model":"gpt-x-2026","status":"completed","output":[],"usage":{"input_tokens":10,"input_tokens_details":{"cached_tokens":4},"output_tokens":6,"output_tokens_details":{"reasoning_tokens":3}}}}`
	reasoning = `{"id":"rs_1","type":"reasoning","summary":[],"content":[],"encrypted_content":"secret","status":null}`
)

func done(index int, item string) string {
	return fmt.Sprintf(`{"type":"response.output_item.done","output_index":%d,"item":%s}`, index, item)
}

func message(id, said string, fields ...string) string {
	return fmt.Sprintf(`{"id":%q,"type":"message","role":"assistant","status":"completed","content":[{"type":"output_text","text":%q,"annotations":[]}]%s}`, id, said, strings.Join(fields, ""))
}

func call(id, callID, args string) string {
	return fmt.Sprintf(`{"id":%q,"type":"function_call","status":"completed","call_id":%q,"name":"bash","arguments":%q}`, id, callID, args)
}

func assemble(t *testing.T, events ...string) (*chatstream.Answer, chatstream.Delta) {
	t.Helper()
	a := responses.Assembler{Model: "gpt-x"}
	var shown chatstream.Delta
	for _, e := range events {
		d, err := a.Add([]byte(e))
		require.NoError(t, err, e)
		shown.Text += d.Text
		shown.Reasoning += d.Reasoning
	}
	require.True(t, a.Finished())
	answer, err := a.Finish()
	require.NoError(t, err)
	return answer, shown
}

func TestStreamsBecomeAnswers(t *testing.T) {
	answer, shown := assemble(t, created,
		`{"type":"response.output_item.added","output_index":0,"item":{"id":"rs_1","type":"reasoning","summary":[]}}`,
		`{"type":"response.reasoning_summary_part.added","output_index":0}`,
		`{"type":"response.reasoning_summary_text.delta","output_index":0,"delta":"I think."}`,
		`{"type":"response.reasoning_summary_part.added","output_index":0}`,
		`{"type":"response.reasoning_summary_text.delta","output_index":0,"delta":"More."}`,
		done(0, reasoning),
		`{"type":"response.output_item.added","output_index":1,"item":{"id":"msg_1","type":"message","content":[]}}`,
		`{"type":"response.output_text.delta","output_index":1,"delta":"I "}`,
		`{"type":"response.output_text.delta","output_index":1,"delta":"look."}`,
		done(1, message("msg_1", "I look.")),
		`{"type":"response.output_item.added","output_index":2,"item":{"id":"fc_1","type":"function_call","name":"bash","call_id":"c1","arguments":""}}`,
		`{"type":"response.output_item.added","output_index":3,"item":{"id":"fc_2","type":"function_call","name":"bash","call_id":"c2","arguments":""}}`,
		`{"type":"response.function_call_arguments.delta","output_index":3,"delta":"{}"}`,
		`{"type":"response.function_call_arguments.delta","output_index":2,"delta":"{\"a\":1}"}`,
		done(2, call("fc_1", "c1", `{"a":1}`)), done(3, call("fc_2", "c2", `{}`)),
		`{"type":"response.something.new","delta":{"x":1}}`, completed)
	require.Equal(t, chatstream.Delta{Text: "I look.", Reasoning: "I think.\n\nMore."}, shown)
	require.Equal(t, "I look.", answer.Content)
	require.Equal(t, []chatstream.ToolCall{{ID: "c1", Name: "bash", Arguments: `{"a":1}`}, {ID: "c2", Name: "bash", Arguments: `{}`}}, answer.ToolCalls)
	require.Equal(t, "tool_calls", answer.FinishReason)
	require.Equal(t, chatstream.Usage{Prompt: 10, Completion: 6, Cached: 4, Reasoning: 3}, answer.Usage)
	require.Equal(t, "resp_1", answer.ID)
	require.Equal(t, "gpt-x-2026", answer.Model)
	require.JSONEq(t, `{"model":"gpt-x","items":[{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"secret"},
		{"type":"message","id":"msg_1","length":7},{"type":"function_call","id":"fc_1"},{"type":"function_call","id":"fc_2"}]}`,
		string(answer.Extra[responses.Kept]))
}

func TestAnswersAreReadWhereverTheyStand(t *testing.T) {
	final := strings.Replace(completed, `"output":[]`, `"output":[`+message("msg_1", "Hi.")+`,`+call("fc_1", "c1", "{}")+`]`, 1)
	cases := map[string][]string{
		"only deltas": {created,
			`{"type":"response.output_text.delta","item_id":"msg_1","delta":"Hi."}`,
			`{"type":"response.output_item.added","output_index":1,"item":{"id":"fc_1","type":"function_call","name":"bash","call_id":"c1"}}`,
			`{"type":"response.function_call_arguments.delta","item_id":"fc_1","output_index":1,"delta":"{}"}`, completed},
		"only complete items": {done(0, message("msg_1", "Hi.")), done(1, call("fc_1", "c1", "{}")), completed},
		"only the end":        {final},
		"an item missing":     {done(0, message("msg_1", "Hi.")), final},
		"plain":               {`{"object":"response","id":"resp_1","status":"completed","output":[` + message("msg_1", "Hi.") + `,` + call("fc_1", "c1", "{}") + `]}`},
		"out of order":        {done(1, call("fc_1", "c1", "{}")), done(0, message("msg_1", "Hi.")), completed},
		"only complete parts": {
			`{"type":"response.output_item.added","output_index":0,"item":{"id":"msg_1","type":"message"}}`,
			`{"type":"response.output_item.added","output_index":1,"item":{"id":"fc_1","type":"function_call","name":"bash","call_id":"c1"}}`,
			`{"type":"response.output_text.done","output_index":0,"text":"Hi."}`,
			`{"type":"response.function_call_arguments.done","output_index":1,"arguments":"{}"}`, completed},
		"one index for all": {done(0, message("msg_1", "Hi.")),
			`{"type":"response.output_item.added","output_index":0,"item":{"id":"fc_1","type":"function_call","name":"bash","call_id":"c1"}}`,
			`{"type":"response.function_call_arguments.delta","output_index":0,"delta":"{}"}`,
			done(0, call("fc_1", "c1", "{}")), completed},
		"neither index nor id": {
			`{"type":"response.output_item.done","item":` + message("", "Hi.") + `}`,
			`{"type":"response.output_item.done","item":` + call("", "c1", "{}") + `}`, completed},
		"counted late": {created, `{"type":"response.output_text.delta","item_id":"msg_1","delta":"Hi."}`,
			done(0, message("msg_1", "Hi.")), done(1, call("fc_1", "c1", "{}")), completed},
		"arguments as an object": {done(0, message("msg_1", "Hi.")), done(1, strings.Replace(call("fc_1", "c1", "{}"), `"{}"`, `{}`, 1)), completed},
		"gaps in the count":      {done(1, message("msg_1", "Hi.")), done(4, call("fc_1", "c1", "{}")), completed},
	}
	for name, events := range cases {
		t.Run(name, func(t *testing.T) {
			answer, shown := assemble(t, events...)
			require.Equal(t, "Hi.", answer.Content)
			require.Contains(t, []string{"", "Hi."}, shown.Text)
			require.Equal(t, []chatstream.ToolCall{{ID: "c1", Name: "bash", Arguments: "{}"}}, answer.ToolCalls)
			require.Empty(t, answer.Extra, "nothing but what the message says")
		})
	}
}

func TestItemsStandInTheOrderOfTheirIndexes(t *testing.T) {
	answer, _ := assemble(t, done(2, call("fc_2", "c2", "{}")), done(1, call("fc_1", "c1", "{}")), done(0, reasoning), completed)
	require.Equal(t, "c1", answer.ToolCalls[0].ID)
	require.Equal(t, "c2", answer.ToolCalls[1].ID)
	require.Regexp(t, `secret.*fc_1.*fc_2`, string(answer.Extra[responses.Kept]))
}

func TestCallsGetIDsOfTheirOwn(t *testing.T) {
	a := responses.Assembler{TakenID: func(id string) bool { return id == "old" }}
	for i, id := range []string{"", "old", "same", "same"} {
		_, err := a.Add([]byte(done(i, call("fc", id, "{}"))))
		require.NoError(t, err)
	}
	_, err := a.Add([]byte(completed))
	require.NoError(t, err)
	answer, err := a.Finish()
	require.NoError(t, err)
	seen := map[string]bool{"": true, "old": true}
	for _, c := range answer.ToolCalls {
		require.False(t, seen[c.ID])
		seen[c.ID] = true
	}
	require.Len(t, seen, 6)
}

func TestFinishReasons(t *testing.T) {
	for want, fields := range map[string]string{
		"stop":              `"status":"completed"`,
		"length":            `"status":"incomplete"`,
		"max_output_tokens": `"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"}`,
		"content_filter":    `"status":"incomplete","incomplete_details":{"reason":"content_filter"}`,
		"other":             `"status":"incomplete","incomplete_details":{"reason":"other"}`,
	} {
		answer, _ := assemble(t, done(0, message("m", "Hi.")), `{"type":"response.incomplete","response":{`+fields+`}}`)
		require.Equal(t, want, answer.FinishReason)
	}
}

func TestErrorsOfAStream(t *testing.T) {
	cases := map[string]struct {
		event, body string
		err         error
	}{
		"event":         {`{"type":"error","code":"rate_limit_exceeded","message":"m","param":null}`, `"code":"rate_limit_exceeded"`, nil},
		"nested event":  {`{"type":"error","error":{"code":"c"}}`, `{"code":"c"}`, nil},
		"failed":        {`{"type":"response.failed","response":{"status":"failed","error":{"code":"server_error","message":"m"}}}`, `server_error`, nil},
		"only failed":   {`{"type":"response.failed","response":{"status":"failed"}}`, `the response is failed`, nil},
		"cancelled":     {`{"object":"response","status":"cancelled"}`, `the response is cancelled`, nil},
		"bare error":    {`{"error":{"message":"m"}}`, `{"message":"m"}`, nil},
		"not done":      {`{"object":"response","status":"queued"}`, ``, chatstream.ErrUnfinished},
		"a chat chunk":  {`{"object":"chat.completion.chunk","choices":[]}`, ``, chatstream.ErrMalformed},
		"not JSON":      {`{`, ``, chatstream.ErrMalformed},
		"no response":   {`{"type":"response.completed"}`, ``, chatstream.ErrMalformed},
		"a broken item": {`{"type":"response.output_item.done","item":3}`, ``, chatstream.ErrMalformed},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var a responses.Assembler
			_, err := a.Add([]byte(c.event))
			if c.err != nil {
				require.ErrorIs(t, err, c.err)
				return
			}
			var server *chatstream.ServerError
			require.ErrorAs(t, err, &server)
			require.Contains(t, string(server.Body), c.body)
		})
	}
	var a responses.Assembler
	_, err := a.Add([]byte(created))
	require.NoError(t, err)
	require.False(t, a.Finished())
	_, err = a.Finish()
	require.ErrorIs(t, err, chatstream.ErrUnfinished)
}

// replayed makes a message of an answer with the given items, applies change to
// it, and returns the items that the model gets back.
func replayed(t *testing.T, in responses.Input, change func(map[string]any), output ...string) string {
	t.Helper()
	events := []string{created}
	for i, item := range output {
		events = append(events, done(i, item))
	}
	answer, _ := assemble(t, append(events, completed)...)
	msg := map[string]any{"role": "assistant", "content": answer.Content, responses.Kept: answer.Extra[responses.Kept]}
	var calls []any
	for _, c := range answer.ToolCalls {
		calls = append(calls, map[string]any{"id": c.ID, "type": "function", "function": map[string]any{"name": c.Name, "arguments": c.Arguments}})
	}
	if calls != nil {
		msg["tool_calls"] = calls
	}
	if change != nil {
		change(msg)
	}
	b, err := json.Marshal(msg)
	require.NoError(t, err)
	return "[" + items(t, in, string(b)) + "]"
}

func TestReasoningGoesBackAsItCame(t *testing.T) {
	const (
		kept  = `{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"secret"}`
		first = `{"type":"message","id":"m1","role":"assistant","status":"completed","phase":"commentary","content":[{"type":"output_text","text":"One é.","annotations":[]}]}`
		last  = `{"type":"message","id":"m2","role":"assistant","status":"completed","content":[{"type":"output_text","text":"\n\nTwo.","annotations":[]}]}`
		calls = `{"type":"function_call","id":"fc_1","call_id":"c1","name":"bash","arguments":"{}"}`
		plain = `{"type":"message","role":"assistant","content":"One é.\n\n\n\nTwo."},{"type":"function_call","call_id":"c1","name":"bash","arguments":"{}"}`
	)
	output := []string{reasoning, message("m1", "One é.", `,"phase":"commentary"`), call("fc_1", "c1", "{}"), message("m2", "\n\nTwo.")}
	mine := responses.Input{Model: "gpt-x", Reasoning: true}
	require.JSONEq(t, "["+kept+","+first+","+calls+","+last+"]", replayed(t, mine, nil, output...))
	require.JSONEq(t, "["+plain+"]", replayed(t, responses.Input{Model: "gpt-y", Reasoning: true}, nil, output...), "another model")
	require.JSONEq(t, `[{"type":"message","role":"assistant","content":"One é.","phase":"commentary"},
		{"type":"function_call","call_id":"c1","name":"bash","arguments":"{}"},
		{"type":"message","role":"assistant","content":"\n\nTwo."}]`, replayed(t, responses.Input{Model: "gpt-x"}, nil, output...), "reasoning is not sent")
	for name, change := range map[string]func(map[string]any){
		"text":    func(m map[string]any) { m["content"] = "One é.\n\n\n\nTwo. And more." },
		"no text": func(m map[string]any) { m["content"] = "" },
		"calls":   func(m map[string]any) { delete(m, "tool_calls") },
		"field":   func(m map[string]any) { m[responses.Kept] = "mine" },
	} {
		got := replayed(t, mine, change, output...)
		require.NotContains(t, got, "secret", name)
		require.NotContains(t, got, "rs_1", name)
		require.NotContains(t, got, "m1", name)
	}
}

func TestReasoningThatCannotGoBackTakesTheIDsWithIt(t *testing.T) {
	in := responses.Input{Model: "gpt-x", Reasoning: true}
	got := replayed(t, in, nil, `{"id":"rs_1","type":"reasoning","summary":[]}`, message("m1", "Hi.", `,"phase":"final_answer"`))
	require.JSONEq(t, `[{"type":"message","role":"assistant","content":"Hi.","phase":"final_answer"}]`, got)
	open := replayed(t, in, nil, `{"id":"rs_1","type":"reasoning","summary":[],"content":[{"type":"reasoning_text","text":"Hm."}]}`, message("m1", "Hi."))
	require.Contains(t, open, `"text":"Hm."`)
	other := replayed(t, in, nil, `{"id":"cmp_1","type":"compaction","encrypted_content":"x"}`, message("m1", "Hi."))
	require.Contains(t, other, `{"id":"cmp_1","type":"compaction","encrypted_content":"x"}`)
}

func FuzzAssembler(f *testing.F) {
	f.Add(created + "\n" + done(0, reasoning) + "\n" + done(1, message("m", "Hi.")) + "\n" + completed)
	f.Add(`{"type":"response.output_text.delta","output_index":-1,"delta":"a"}` + "\n" + `{"type":"response.completed","response":{"output":[{}]}}`)
	f.Add(`{"type":"response.output_item.added","item":{"type":"function_call"}}` + "\n" + completed)
	f.Add(`{"type":"response.completed","response":{"status":"completed","output":[` + strings.Repeat("0,", 20) + `{"type":"message","content":{}}]}}`)
	f.Add(`{"type":"response.output_item.done","output_index":9e99,"item":{"type":"message","content":[{"text":1},null,"x"]}}` + "\n" + completed)
	f.Fuzz(func(t *testing.T, stream string) {
		a := responses.Assembler{Model: "m"}
		for line := range strings.Lines(stream) {
			data := []byte(line)
			_, err := a.Add(data)
			clear(data) // the bytes are not kept
			if err != nil {
				var server *chatstream.ServerError
				known := errors.As(err, &server) || errors.Is(err, chatstream.ErrMalformed) ||
					errors.Is(err, chatstream.ErrTooLarge) || errors.Is(err, chatstream.ErrUnfinished)
				require.True(t, known, "%v", err)
				return
			}
		}
		answer, err := a.Finish()
		if err != nil {
			return
		}
		ids := map[string]bool{}
		for _, c := range answer.ToolCalls {
			require.NotEmpty(t, c.Name)
			require.NotEmpty(t, c.ID)
			require.False(t, ids[c.ID])
			ids[c.ID] = true
		}
		if raw, ok := answer.Extra[responses.Kept]; ok {
			b, err := json.Marshal(map[string]any{"role": "assistant", "content": answer.Content, responses.Kept: raw})
			require.NoError(t, err)
			_, err = responses.Input{Model: "m", Reasoning: true}.Items(b)
			require.NoError(t, err)
		}
	})
}
