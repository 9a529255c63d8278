package pygent_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/pygenttest"
)

func TestCancelledCallsReturnTheCause(t *testing.T) {
	t.Parallel()
	cause := errors.New("the user had enough")
	for name, reply := range map[string]pygenttest.Reply{
		"before the first byte": pygenttest.Text("a").WithGate(nil),
		"between chunks":        pygenttest.Text("a, b, c and d").WithChunkGate(nil),
	} {
		t.Run(name, func(t *testing.T) {
			m, s := serve(t, reply)
			ctx, cancel := context.WithCancelCause(t.Context())
			go func() {
				if s.WaitRequests(t.Context(), 1) == nil {
					cancel(cause)
				}
			}()
			_, err := m.ChatStream(ctx, ask(), func(pygent.Delta) {})
			require.ErrorIs(t, err, cause)
			var api *pygent.APIError
			require.False(t, errors.As(err, &api))
			_, err = m.Chat(ctx, ask())
			require.ErrorIs(t, err, cause)
			require.Len(t, s.Requests(), 1)
		})
	}
}

// pipeTransport answers with a body that the test writes. It needs no network,
// so it works in a bubble of synctest.
type pipeTransport struct {
	hang  bool // never respond
	write func(w *io.PipeWriter)
}

func (p pipeTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if p.hang {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	pr, pw := io.Pipe()
	go p.write(pw)
	return &http.Response{StatusCode: 200, Header: http.Header{}, Body: pr, Request: r}, nil
}

func TestStalledCallsEnd(t *testing.T) {
	t.Parallel()
	const chunk = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n"
	const last = "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n"
	cases := []struct {
		name  string
		rt    pipeTransport
		want  string // part of the error; empty if the call succeeds
		after time.Duration
	}{
		{"no response", pipeTransport{hang: true}, "no answer came within 5m0s (a model that needs longer needs a higher limit: openai.stall_first of the configuration, PYGENT_OPENAI_STALL_FIRST, or OpenAIStallTimeouts)", 5 * time.Minute},
		{"no first byte", pipeTransport{write: func(*io.PipeWriter) {}}, "no answer came within 5m0s", 5 * time.Minute},
		{"in the middle", pipeTransport{write: func(w *io.PipeWriter) {
			time.Sleep(4 * time.Minute)
			io.WriteString(w, chunk)
		}}, "nothing came for 3m0s in the middle of the answer (a model that needs longer needs a higher limit: openai.stall_between of the configuration, PYGENT_OPENAI_STALL_BETWEEN, or OpenAIStallTimeouts)", 7 * time.Minute},
		{"a slow server", pipeTransport{write: func(w *io.PipeWriter) {
			for range 5 {
				time.Sleep(2 * time.Minute)
				io.WriteString(w, chunk)
			}
			io.WriteString(w, last)
			w.Close()
		}}, "", 10 * time.Minute},
		{"comments", pipeTransport{write: everyMinute(": still here\n\n")}, "no answer came within 5m0s", 5 * time.Minute},
		{"empty data", pipeTransport{write: everyMinute("data:\n\n")}, "no answer came within 5m0s", 5 * time.Minute},
		{"chunks that say nothing", pipeTransport{write: everyMinute("data: {\"choices\":[]}\n\n")}, "no answer came within 5m0s", 5 * time.Minute},
		{"white space", pipeTransport{write: everyMinute("\n \n")}, "no answer came within 5m0s", 5 * time.Minute},
		{"empty deltas", pipeTransport{write: everyMinute(chunk, "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n")}, "nothing came for 3m0s", 4 * time.Minute},
		{"a call that is only announced", pipeTransport{write: everyMinute(chunk, "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"a\",\"function\":{\"name\":\"bash\",\"arguments\":\"\"}}]}}]}\n\n")}, "nothing came for 3m0s", 4 * time.Minute},
		{"open after the end", pipeTransport{write: func(w *io.PipeWriter) {
			io.WriteString(w, last+"data: [DONE]\n\n")
		}}, "", 50 * time.Millisecond},
		{"open after the finish reason", pipeTransport{write: func(w *io.PipeWriter) {
			io.WriteString(w, last)
		}}, "", 3 * time.Second},
		{"comments after the finish reason", pipeTransport{write: func(w *io.PipeWriter) {
			io.WriteString(w, last)
			for range 9 {
				time.Sleep(time.Second)
				io.WriteString(w, ": still here\n\n")
			}
		}}, "", 3 * time.Second},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newModel(t, pygent.OpenAIHTTPClient(&http.Client{Transport: c.rt}))
				start := time.Now()
				_, err := m.ChatStream(t.Context(), ask(), func(pygent.Delta) {})
				took := time.Since(start)
				time.Sleep(2 * time.Minute) // virtual time, in which the server's goroutine ends
				require.Equal(t, c.after, took)
				if c.want == "" {
					require.NoError(t, err)
					return
				}
				require.ErrorContains(t, err, c.want)
				require.True(t, apiError(t, err).Retryable)
			})
		})
	}
}

// everyMinute writes a text each minute, and repeats the last one for ever.
func everyMinute(texts ...string) func(*io.PipeWriter) {
	return func(w *io.PipeWriter) {
		for i := 0; ; i++ {
			time.Sleep(time.Minute)
			if _, err := io.WriteString(w, texts[min(i, len(texts)-1)]); err != nil {
				return
			}
		}
	}
}

func TestAnswersWithoutEndAreEnded(t *testing.T) {
	t.Parallel()
	const thought = "data: {\"type\":\"response.reasoning_text.delta\",\"delta\":\"a\"}\n\n"
	cases := []struct {
		name, text string
		api        pygent.OpenAIProtocol
		opts       []pygent.OpenAIOption
		after      time.Duration
	}{
		{"text", "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n", pygent.OpenAIChat, nil, 30 * time.Minute},
		{"reasoning", thought, pygent.OpenAIResponses, nil, 30 * time.Minute},
		{"a plain answer", "[", pygent.OpenAIChat, nil, 30 * time.Minute},
		{"a limit of one's own", thought, pygent.OpenAIResponses, []pygent.OpenAIOption{pygent.OpenAIAnswerTime(time.Hour)}, time.Hour},
		{"events that say nothing", "data: {\"type\":\"response.in_progress\",\"response\":{}}\n\n", pygent.OpenAIResponses, nil, 5 * time.Minute},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := &http.Client{Transport: pipeTransport{write: everyMinute(c.text)}}
				m := newModel(t, append(c.opts, pygent.OpenAIHTTPClient(client), pygent.OpenAIAPI(c.api))...)
				start := time.Now()
				_, err := m.ChatStream(t.Context(), ask(), func(pygent.Delta) {})
				took := time.Since(start)
				time.Sleep(2 * time.Minute) // virtual time, in which the server's goroutine ends
				require.Equal(t, c.after, took)
				if c.after > 5*time.Minute {
					require.ErrorContains(t, err, "OpenAIAnswerTime")
					require.False(t, apiError(t, err).Retryable)
				}
			})
		})
	}
}

func TestASilentResponseNamesItsSetting(t *testing.T) {
	t.Parallel()
	for want, opts := range map[string][]pygent.OpenAIOption{
		"nothing came for 5m0s in the middle of the answer (a model that needs longer needs a higher limit: openai.stall_first ":   nil,
		"nothing came for 3m0s in the middle of the answer (a model that needs longer needs a higher limit: openai.stall_between ": {pygent.OpenAIStallTimeouts(time.Minute, 3*time.Minute)},
	} {
		synctest.Test(t, func(t *testing.T) {
			client := &http.Client{Transport: pipeTransport{write: func(w *io.PipeWriter) {
				io.WriteString(w, "data: {\"type\":\"response.output_text.delta\",\"delta\":\"a\"}\n\n")
			}}}
			m := newModel(t, append(opts, pygent.OpenAIHTTPClient(client), pygent.OpenAIAPI(pygent.OpenAIResponses))...)
			_, err := m.ChatStream(t.Context(), ask(), func(pygent.Delta) {})
			require.ErrorContains(t, err, want)
		})
	}
}

func TestStallTimeoutsCanBeTurnedOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rt := pipeTransport{write: func(w *io.PipeWriter) {
			time.Sleep(time.Hour)
			io.WriteString(w, "{\"choices\":[{\"message\":")
			time.Sleep(time.Hour)
			io.WriteString(w, "{\"content\":\"late\"}}]}")
			w.Close()
		}}
		m := newModel(t, pygent.OpenAIHTTPClient(&http.Client{Transport: rt}), pygent.OpenAIStallTimeouts(pygent.NoLimit, pygent.NoLimit), pygent.OpenAIAnswerTime(pygent.NoLimit))
		resp, err := m.Chat(t.Context(), ask())
		require.NoError(t, err)
		require.Equal(t, "late", resp.Message.Content)
		require.Equal(t, pygent.FinishStop, resp.FinishReason)
	})
}

func TestASlowListenerIsNoStall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rt := pipeTransport{write: func(w *io.PipeWriter) {
			io.WriteString(w, "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n")
			io.WriteString(w, "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n")
			w.Close()
		}}
		m := newModel(t, pygent.OpenAIHTTPClient(&http.Client{Transport: rt}))
		_, err := m.ChatStream(t.Context(), ask(), func(pygent.Delta) { time.Sleep(time.Hour) })
		require.NoError(t, err)
	})
}
