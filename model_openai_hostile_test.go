package pygent_test

import (
	"io"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/pygenttest"
)

// repeated reads a head, then a text over and over up to size bytes, then a
// tail.
func repeated(head, text string, size int, tail string) io.Reader {
	long := strings.Repeat(text, 1+4096/len(text)) // so that few copies are made, which the race detector slows down
	return io.MultiReader(strings.NewReader(head), io.LimitReader(&cycle{text: long}, int64(size/len(text)*len(text))), strings.NewReader(tail))
}

type cycle struct {
	text string
	at   int
}

func (c *cycle) Read(p []byte) (int, error) {
	n := 0
	for n < len(p) {
		copied := copy(p[n:], c.text[c.at:])
		n, c.at = n+copied, (c.at+copied)%len(c.text)
	}
	return n, nil
}

// numbered reads a head, then a text count times with "%x" replaced by rising
// numbers from 0, then a tail. It allocates almost nothing itself, since the
// tests measure allocations.
func numbered(head, text string, count int, tail string) io.Reader {
	before, after, _ := strings.Cut(text, "%x")
	var rest []byte
	buf := make([]byte, 0, 8<<10)
	i := 0
	return io.MultiReader(strings.NewReader(head), readFunc(func(p []byte) (int, error) {
		if len(rest) == 0 {
			if i == count {
				return 0, io.EOF
			}
			rest = buf[:0]
			for ; i < count && len(rest) < 4096; i++ { // many at once, since the race detector slows down each read
				rest = append(rest, before...)
				rest = strconv.AppendInt(rest, int64(i), 16)
				rest = append(rest, after...)
			}
		}
		n := copy(p, rest)
		rest = rest[n:]
		return n, nil
	}), strings.NewReader(tail))
}

type readFunc func(p []byte) (int, error)

func (f readFunc) Read(p []byte) (int, error) { return f(p) }

const (
	mega     = 1 << 20
	chatTail = "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n"
	respTail = "data: {\"type\":\"response.completed\",\"response\":{\"status\":\"completed\"}}\n\n"
)

// hostileAnswers are bodies of answers that try to use up the client's memory.
var hostileAnswers = []struct {
	name string
	api  pygent.OpenAIProtocol
	mib  uint64 // allowed allocations in total; for what is refused early, little more than its size
	want string // part of the error
	body func() io.Reader
}{
	{"20 MB of choices", pygent.OpenAIChat, 160, "more than 17 MiB", func() io.Reader { return repeated(`{"choices":[`, "{},", 20*mega, `{}]}`) }},
	{"20 MB of choices in a chunk", pygent.OpenAIChat, 160, "an event of more than 17 MiB", func() io.Reader { return repeated(`data: {"choices":[`, "{},", 20*mega, "{}]}\n\n") }},
	{"3 MB of choices", pygent.OpenAIChat, 32, "more than 128 choices", func() io.Reader { return repeated(`{"choices":[`, "{},", 3*mega, `{}]}`) }},
	{"3 MB of choices in a chunk", pygent.OpenAIChat, 32, "more than 128 choices", func() io.Reader { return repeated(`data: {"choices":[`, "{},", 3*mega, "{}]}\n\n") }},
	{"millions of fields of a message", pygent.OpenAIChat, 32, "more than 16 MiB are to be kept", func() io.Reader {
		return numbered(`{"choices":[{"message":{`, `"%x":0,`, 300_000, `"content":"x"}}]}`)
	}},
	{"millions of fields of a call", pygent.OpenAIChat, 32, "more than 16 MiB are to be kept", func() io.Reader {
		return numbered(`{"choices":[{"message":{"tool_calls":[{`, `"%x":0,`, 300_000, `"id":"a"}]}}]}`)
	}},
	{"millions of fields of an unknown field", pygent.OpenAIChat, 32, "more than 16 MiB are to be kept", func() io.Reader {
		return numbered(`{"choices":[{"message":{"content":"x","more":{`, `"%x":0,`, 300_000, `"a":1}}}]}`)
	}},
	{"a new field in each chunk", pygent.OpenAIChat, 32, "more than 256 fields", func() io.Reader {
		return numbered("", "data: {\"choices\":[{\"delta\":{\"%x\":0}}]}\n\n", 300_000, chatTail)
	}},
	{"millions of items", pygent.OpenAIChat, 32, "more than 16 MiB are to be kept", func() io.Reader { return repeated(`{"choices":[{"message":{"x":[`, "0,", 3*mega, `0]}}]}`) }},
	{"items in each chunk", pygent.OpenAIChat, 32, "more than 16 MiB are to be kept", func() io.Reader {
		return repeated("", "data: {\"choices\":[{\"delta\":{\"x\":[0,0,0,0,0,0,0,0,0,0]}}]}\n\n", 3*mega, chatTail)
	}},
	{"millions of parts", pygent.OpenAIChat, 32, "more than 16 MiB are to be kept", func() io.Reader {
		return repeated(`{"choices":[{"message":{"content":[`, "{},", 3*mega, `{}]}}]}`)
	}},
	{"millions of texts", pygent.OpenAIChat, 32, "more than 16 MiB are to be kept", func() io.Reader {
		return repeated(`data: {"choices":[{"delta":{"content":[`, `"a",`, 3*mega, "\"b\"]}}]}\n\n"+chatTail)
	}},
	{"millions of calls", pygent.OpenAIChat, 32, "more than 16 MiB are to be kept", func() io.Reader {
		return repeated(`{"choices":[{"message":{"tool_calls":[`, "{},", 3*mega, `{}]}}]}`)
	}},
	{"a million calls in chunks", pygent.OpenAIChat, 32, "more than 256 tool calls", func() io.Reader {
		return numbered("", "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":-4294967296,\"id\":\"%x\",\"function\":{\"name\":\"f\"}}]}}]}\n\n", 300_000, chatTail)
	}},
	{"an argument of 2 GB", pygent.OpenAIChat, 160, "an event of more than 17 MiB", func() io.Reader {
		head := `data: {"choices":[{"delta":{"tool_calls":[{"index":4294967296,"id":"a","function":{"name":"f","arguments":"`
		return repeated(head, strings.Repeat("x", 4096), 2<<30, "\"}}]}}]}\n\n"+chatTail)
	}},
	{"an argument of 2 GB in chunks", pygent.OpenAIChat, 160, "more than 16 MiB are to be kept", func() io.Reader {
		chunk := `data: {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"` + strings.Repeat("x", 32<<10) + "%x\"}}]}}]}\n\n"
		return numbered("", chunk, 1<<16, chatTail)
	}},
	{"deep nesting", pygent.OpenAIChat, 160, "more than 17 MiB", func() io.Reader { return repeated("", "[", 20*mega, "") }},
	{"deep nesting in an event", pygent.OpenAIChat, 160, "an event of more than 17 MiB", func() io.Reader { return repeated("data: ", "[", 20*mega, "\n\n") }},
	{"deep nesting in a field", pygent.OpenAIChat, 32, "more than 100 levels", func() io.Reader {
		return repeated(`{"choices":[{"message":{"x":`, "[", 3*mega, "")
	}},
	{"a line of 1 GB", pygent.OpenAIChat, 160, "an event of more than 17 MiB", func() io.Reader { return repeated("data: ", strings.Repeat("x", 4096), 1<<30, "\n\n") }},
	{"an event of many lines", pygent.OpenAIChat, 32, "not valid JSON", func() io.Reader { return repeated("", "data: x\n", 20*mega, "\n") }},
	{"white space", pygent.OpenAIChat, 32, "256 KiB of white space", func() io.Reader { return repeated("", " \n", 20*mega, "") }},
	{"an error of many fields in an event", pygent.OpenAIChat, 32, `{"0":0,`, func() io.Reader {
		return numbered(`data: {"error":{`, `"%x":0,`, 300_000, "\"message\":\"x\"}}\n\n")
	}},
	{"an error whose message is 3 MB", pygent.OpenAIChat, 32, `{"message":"escape`, func() io.Reader {
		return repeated(`data: {"error":{"message":"`, "escape \\u001b", 3*mega, "\"}}\n\n")
	}},
	{"a huge usage", pygent.OpenAIChat, 32, "no choices", func() io.Reader {
		return numbered(`data: {"choices":[],"usage":{`, `"%x":0,`, 300_000, "\"prompt_tokens\":1}}\n\n")
	}},
	{"trailing garbage", pygent.OpenAIChat, 160, "more than 17 MiB", func() io.Reader { return repeated(`{"choices":[]}`, "x", 20*mega, "") }},

	{"items of a response", pygent.OpenAIResponses, 32, "its items have more than 16 MiB or 100000 values", func() io.Reader {
		return repeated(`{"object":"response","status":"completed","output":[`, "0,", 3*mega, `0]}`)
	}},
	{"items of the last event", pygent.OpenAIResponses, 32, "its items have more than 16 MiB or 100000 values", func() io.Reader {
		return repeated(`data: {"type":"response.completed","response":{"status":"completed","output":[`, "{},", 3*mega, "{}]}}\n\n")
	}},
	{"a million reasoning items", pygent.OpenAIResponses, 32, "more than 1024 items", func() io.Reader {
		return numbered("", "data: {\"type\":\"response.output_item.done\",\"item\":{\"type\":\"reasoning\",\"id\":\"%x\",\"encrypted_content\":\"x\"}}\n\n", 300_000, respTail)
	}},
	{"parts of a message", pygent.OpenAIResponses, 32, "its items have more than 16 MiB or 100000 values", func() io.Reader {
		return repeated(`data: {"type":"response.output_item.done","output_index":0,"item":{"type":"message","content":[`, "{},", 3*mega, "{}]}}\n\n"+respTail)
	}},
	{"fields of an announced item", pygent.OpenAIResponses, 32, "its items have more than 16 MiB or 100000 values", func() io.Reader {
		return numbered(`data: {"type":"response.output_item.added","output_index":0,"item":{"type":"message",`, `"%x":0,`, 300_000, "\"id\":\"x\"}}\n\n"+respTail)
	}},
	{"fields of an unknown item", pygent.OpenAIResponses, 32, "its items have more than 16 MiB or 100000 values", func() io.Reader {
		return numbered(`data: {"type":"response.output_item.done","output_index":0,"item":{"type":"other",`, `"%x":0,`, 300_000, "\"id\":\"x\"}}\n\n"+respTail)
	}},
	{"arguments in deltas", pygent.OpenAIResponses, 160, "more than 16 MiB", func() io.Reader {
		chunk := `data: {"type":"response.function_call_arguments.delta","output_index":0,"delta":"` + strings.Repeat("x", 32<<10) + "%x\"}\n\n"
		return numbered("", chunk, 1<<16, respTail)
	}},
	{"a line of 1 GB in a response", pygent.OpenAIResponses, 160, "an event of more than 17 MiB", func() io.Reader {
		return repeated(`data: {"type":"response.output_text.delta","delta":"`, strings.Repeat("x", 4096), 1<<30, "\"}\n\n")
	}},
}

// allocated returns how many bytes f allocates in total, which is more than it
// holds at any one time.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func TestHostileErrorsTakeLittleMemory(t *testing.T) {
	for name, body := range map[string]func() io.Reader{
		"a body of 1 GB":     func() io.Reader { return repeated("", strings.Repeat("x", 4096), 1<<30, "") },
		"a long message":     func() io.Reader { return repeated(`{"error":{"message":"`, "x", 200<<10, `"}}`) },
		"a long code":        func() io.Reader { return repeated(`{"error":{"message":"m","code":"`, "x", 200<<10, `"}}`) },
		"many fields":        func() io.Reader { return numbered(`{"error":{`, `"%x":0,`, 20_000, `"message":"m"}}`) },
		"deep nesting":       func() io.Reader { return repeated(`{"error":`, "[", 200<<10, "") },
		"errors in an error": func() io.Reader { return repeated("", `{"error":`, 200<<10, "") },
	} {
		t.Run(name, func(t *testing.T) {
			client := &http.Client{Transport: transportFunc(func(r *http.Request) (*http.Response, error) {
				h := http.Header{"X-Request-Id": {strings.Repeat("id", 10_000)}}
				return &http.Response{StatusCode: 400, Header: h, Body: io.NopCloser(body()), Request: r}, nil
			})}
			m := newModel(t, pygent.OpenAIHTTPClient(client))
			var err error
			took := allocated(func() { _, err = m.Chat(t.Context(), ask()) })
			require.Less(t, took>>20, uint64(32))
			require.Equal(t, 400, apiError(t, err).Status)
			require.Less(t, len(err.Error()), 10_000)
		})
	}
}

func TestAServerCannotHaveTheClientWaitForLong(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]time.Duration{
		"1e18": 31 * 24 * time.Hour, "-5": 0, "-1e300": 0, "1e999": 0, "NaN": 0, "Inf": 31 * 24 * time.Hour,
		"Fri, 31 Dec 9999 23:59:59 GMT": 31 * 24 * time.Hour, "Thu, 01 Jan 1970 00:00:00 GMT": 0,
	} {
		m, s := serve(t, pygenttest.Status(429, "", "Slow down.").WithHeader("Retry-After", value))
		_, err := m.Chat(t.Context(), ask())
		require.Equal(t, want, apiError(t, err).RetryAfter, value)
		require.Len(t, s.Requests(), 1)
	}
	m, s := serve(t, pygenttest.Status(429, "", "Slow down.").WithHeader("Retry-After", "1e18"))
	_, err := newAgentOn(t, nowhere{}, m).Step(t.Context(), "Go.")
	require.ErrorContains(t, err, "past the time that is left")
	require.Len(t, s.Requests(), 1, "a person decides")
}
