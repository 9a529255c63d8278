package chatstream_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/openai/chatstream"
)

const (
	saysText = `"content":"I look."`
	callsLS  = `"content":null,"tool_calls":[{"id":"a","function":{"name":"bash","arguments":"{\"cmd\":\"ls\"}"}}]`
)

// TestChoicesAreOneAnswer has the forms of Copilot and of gateways to it.
func TestChoicesAreOneAnswer(t *testing.T) {
	whole := func(index, message string) string {
		return `{` + index + `"message":{` + message + `},"finish_reason":"tool_calls"}`
	}
	piece := func(index, message string) string {
		return `{` + index + `"delta":{` + message + `},"finish_reason":"tool_calls"}`
	}
	for name, chunks := range map[string][]string{
		"whole, without index":  {whole("", saysText) + "," + whole("", callsLS)},
		"whole, call first":     {whole("", callsLS) + "," + whole("", saysText)},
		"whole, with index":     {whole(`"index":0,`, saysText) + "," + whole(`"index":1,`, callsLS)},
		"whole, the same index": {whole(`"index":0,`, saysText) + "," + whole(`"index":0,`, callsLS)},
		"streamed together":     {piece(`"index":0,`, saysText) + "," + piece(`"index":1,`, callsLS)},
		"streamed apart":        {piece(`"index":0,`, saysText), piece(`"index":1,`, callsLS)},
		"said twice":            {whole("", saysText+","+callsLS[len(`"content":null,`):]) + "," + whole("", saysText) + "," + whole("", callsLS)},
		"without second reason": {piece(`"index":0,`, saysText), `{"index":1,"delta":{` + callsLS + `}}`},
	} {
		t.Run(name, func(t *testing.T) {
			for i, c := range chunks {
				chunks[i] = `{"choices":[` + c + `]}`
			}
			answer := assemble(t, chunks...)
			require.Equal(t, "I look.", answer.Content)
			require.Equal(t, []chatstream.ToolCall{{ID: "a", Name: "bash", Arguments: `{"cmd":"ls"}`}}, answer.ToolCalls)
			require.Equal(t, "tool_calls", answer.FinishReason)
		})
	}
}

func TestOfAlternativesTheFirstCounts(t *testing.T) {
	a := chatstream.Assembler{Alternatives: true}
	d, err := a.Add([]byte(`{"choices":[{"index":0,"delta":{"content":"a"}},{"index":1,"delta":{"content":"b"}},{"index":2,"delta":{"content":"c"}}]}`))
	require.NoError(t, err)
	require.Equal(t, "a", d.Text)
	_, err = a.Add([]byte(finishStop))
	require.NoError(t, err)
	answer, err := a.Finish()
	require.NoError(t, err)
	require.Equal(t, "a", answer.Content)
	require.Equal(t, 2, answer.Unread)
}

func TestEndsWithoutFinishReason(t *testing.T) {
	const (
		usage  = `{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":5}}`
		empty  = `{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":0}}`
		open   = `{"id":"a","function":{"name":"bash","arguments":"{\"cmd\":"}}`
		closed = `{"id":"a","function":{"name":"bash","arguments":"{}"}}`
		bare   = `{"id":"a","function":{"name":"stop"}}`
	)
	text := delta(`{"content":"Hello."}`)
	for name, c := range map[string]struct {
		chunks []string
		done   bool
		trust  bool
		want   string // the finish reason
		err    error
	}{
		"usage, done":                 {[]string{text, delta(`{"content":""}`), usage}, true, false, "stop", nil},
		"usage, cut":                  {[]string{text, usage}, false, false, "", chatstream.ErrUnfinished},
		"text after the usage":        {[]string{text, usage, text}, true, false, "", chatstream.ErrUnproven},
		"usage of the prompt alone":   {[]string{text, empty}, true, false, "", chatstream.ErrUnproven},
		"done":                        {[]string{text}, true, false, "", chatstream.ErrUnproven},
		"done, known":                 {[]string{text}, true, true, "stop", nil},
		"cut, known":                  {[]string{text}, false, true, "", chatstream.ErrUnfinished},
		"nothing":                     {[]string{delta(`{"role":"assistant"}`), usage}, true, true, "", chatstream.ErrUnfinished},
		"open call":                   {[]string{calls(open), usage}, true, true, "", chatstream.ErrUnfinished},
		"closed call":                 {[]string{calls(closed), usage}, true, false, "tool_calls", nil},
		"closed call, done":           {[]string{calls(closed)}, true, false, "", chatstream.ErrUnproven},
		"closed call, known":          {[]string{calls(closed)}, true, true, "tool_calls", nil},
		"call without arguments":      {[]string{calls(bare), usage}, true, false, "tool_calls", nil},
		"call without arguments, cut": {[]string{calls(bare)}, true, true, "", chatstream.ErrUnfinished},
	} {
		t.Run(name, func(t *testing.T) {
			a := chatstream.Assembler{TrustDone: c.trust}
			for _, chunk := range c.chunks {
				_, err := a.Add([]byte(chunk))
				require.NoError(t, err)
			}
			require.False(t, a.Finished())
			if c.done {
				a.Done()
			}
			answer, err := a.Finish()
			require.Equal(t, c.err, err)
			if err == nil {
				require.Equal(t, c.want, answer.FinishReason)
				require.True(t, answer.Unnamed)
			}
		})
	}
}

// TestAReasonBesideEachPieceIsNoEnd has streams of servers that put a finish reason into every
// chunk.
func TestAReasonBesideEachPieceIsNoEnd(t *testing.T) {
	piece := func(delta string) string { return `{"choices":[{"delta":` + delta + `,"finish_reason":"stop"}]}` }
	hello, end := piece(`{"content":"Hello"}`), piece(`{}`)
	const usage = `{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":5}}`
	for name, c := range map[string]struct {
		chunks []string
		done   bool
		err    error
	}{
		"cut":                     {[]string{hello, hello}, false, chatstream.ErrUnfinished},
		"cut in thoughts":         {[]string{piece(`{"reasoning_content":"Hm"}`), piece(`{"reasoning_content":"Hm"}`)}, false, chatstream.ErrUnfinished},
		"cut, once without":       {[]string{hello, hello, delta(`{"content":"Hello"}`)}, false, chatstream.ErrUnfinished},
		"cut after an empty one":  {[]string{hello, hello, end, hello, hello}, false, chatstream.ErrUnfinished},
		"cut before all":          {[]string{piece(`{"role":"assistant"}`)}, false, chatstream.ErrUnfinished},
		"cut after the first":     {[]string{piece(`{"role":"assistant"}`), hello}, false, chatstream.ErrUnfinished},
		"done before all":         {[]string{piece(`{"role":"assistant"}`)}, true, nil},
		"done":                    {[]string{hello, hello}, true, nil},
		"usage":                   {[]string{hello, hello, usage}, false, nil},
		"a reason of its own":     {[]string{hello, hello, end}, false, nil},
		"nothing but a reason":    {[]string{end}, false, nil},
		"once":                    {[]string{hello}, false, nil},
		"once, after others":      {[]string{delta(`{"content":"Hello"}`), hello}, false, nil},
		"text after the reason":   {[]string{delta(`{"content":"Hello"}`), end, delta(`{"content":"Hello"}`)}, false, nil},
		"a call after the reason": {[]string{hello, piece(`{"tool_calls":[{"index":0,"id":"a","function":{"name":"bash","arguments":"{}"}}]}`)}, false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var a chatstream.Assembler
			for _, chunk := range c.chunks {
				_, err := a.Add([]byte(chunk))
				require.NoError(t, err)
			}
			if c.done {
				a.Done()
			}
			answer, err := a.Finish()
			require.Equal(t, c.err, err)
			if err == nil {
				require.Equal(t, "stop", answer.FinishReason)
				require.False(t, answer.Unnamed)
			}
		})
	}
}

// TestAHalfChoiceIsLeftOut has streams with a choice that does not end, beside one that may.
func TestAHalfChoiceIsLeftOut(t *testing.T) {
	const (
		half  = `{"choices":[{"index":1,"delta":{"content":"And this"}}]}`
		whole = `{"choices":[{"index":0,"delta":{"content":"I look."},"finish_reason":"stop"}]}`
		empty = `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`
		usage = `{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":5}}`
	)
	for name, c := range map[string]struct {
		chunks []string
		done   bool
		text   string
		halves int
		err    error
	}{
		"broken off":       {[]string{half, whole}, false, "I look.", 1, nil},
		"with an end":      {[]string{whole, half}, true, "I look.\n\nAnd this", 0, nil},
		"with its usage":   {[]string{whole, half, usage}, false, "I look.\n\nAnd this", 0, nil},
		"all that is said": {[]string{empty, half}, false, "", 0, chatstream.ErrUnfinished},
		"of nothing":       {[]string{whole, `{"choices":[{"index":1,"delta":{"role":"assistant"}}]}`}, false, "I look.", 0, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var a chatstream.Assembler
			for _, chunk := range c.chunks {
				_, err := a.Add([]byte(chunk))
				require.NoError(t, err)
			}
			if c.done {
				a.Done()
			}
			answer, err := a.Finish()
			require.Equal(t, c.err, err)
			if err == nil {
				require.Equal(t, c.text, answer.Content)
				require.Equal(t, c.halves, answer.Halves)
			}
		})
	}
}
