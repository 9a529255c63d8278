package openai_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
	"github.com/x/pygent/openai"
	"github.com/x/pygent/pygenttest"
)

// redirector redirects every request, and counts the requests.
func redirector(t *testing.T, status int, to func(*http.Request) string) (*httptest.Server, *int) {
	t.Helper()
	got := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got++
		w.Header().Set("Location", to(r))
		w.WriteHeader(status)
	}))
	t.Cleanup(s.Close)
	return s, &got
}

func TestCredentialsGoToNoOtherPlace(t *testing.T) {
	t.Parallel()
	other := pygenttest.NewServer(t, pygenttest.Text("a"))
	port := other.URL()
	host := strings.Replace(port, "127.0.0.1", "localhost", 1)
	for name, to := range map[string]string{
		"another host":   host + "/chat/completions?key=s3cret",
		"another port":   port + "/chat/completions?key=s3cret",
		"another scheme": "https" + strings.TrimPrefix(port, "http") + "/chat/completions",
		"a user":         strings.Replace(port, "//", "//u:s3cret@", 1) + "/chat/completions",
	} {
		for _, status := range []int{301, 302, 303, 307, 308} {
			t.Run(fmt.Sprintf("%s %d", name, status), func(t *testing.T) {
				s, got := redirector(t, status, func(*http.Request) string { return to })
				m := newModel(t, openai.BaseURL(s.URL+"/v1"), openai.Header("api-key", "azure-secret"), openai.Header("X-Mine", "my-own"))
				_, err := m.Chat(t.Context(), ask())
				require.ErrorIs(t, err, openai.ErrRedirected)
				require.False(t, apiError(t, err).Retryable)
				require.ErrorContains(t, err, s.URL+"/v1/chat/completions sends requests on to ")
				u, parseErr := url.Parse(to)
				require.NoError(t, parseErr)
				require.ErrorContains(t, err, fmt.Sprintf("give that in the base URL: %s://%s", u.Scheme, u.Host))
				require.NotContains(t, err.Error(), "s3cret")
				require.Equal(t, 1, *got, "it is not tried again")
				require.Empty(t, other.Requests())
			})
		}
	}
}

func TestARunEndsAtARefusedRedirect(t *testing.T) {
	t.Parallel()
	s, got := redirector(t, 307, func(*http.Request) string { return "http://localhost:1/v1" })
	agent := newAgentOn(t, nowhere{}, newModel(t, openai.BaseURL(s.URL+"/v1")))
	_, err := agent.Step(t.Context(), "Go.")
	require.ErrorIs(t, err, openai.ErrRedirected)
	require.Equal(t, 1, *got)
}

func TestRedirectsOnTheSameServer(t *testing.T) {
	t.Parallel()
	real := pygenttest.NewServer(t, pygenttest.Text("a"), pygenttest.Text("a"))
	target, err := url.Parse(real.URL())
	require.NoError(t, err)
	for _, status := range []int{302, 307} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasPrefix(r.URL.Path, "/old/") {
				http.Redirect(w, r, strings.Replace(r.URL.Path, "/old/", "/v1/", 1), status)
				return
			}
			out := r.Clone(r.Context())
			out.URL.Scheme, out.URL.Host, out.RequestURI, out.Host = "http", target.Host, "", ""
			out.URL.Path = "/v1/chat/completions"
			res, err := http.DefaultTransport.RoundTrip(out)
			if err != nil {
				w.WriteHeader(http.StatusBadGateway)
				return
			}
			defer res.Body.Close()
			w.WriteHeader(res.StatusCode)
			_ = res.Write(w)
		}))
		defer s.Close()
		_, err := newModel(t, openai.BaseURL(s.URL+"/old")).Chat(t.Context(), ask())
		if status == 302 {
			require.ErrorIs(t, err, openai.ErrRedirected)
			require.ErrorContains(t, err, "makes POST a GET")
			continue
		}
		require.NotErrorIs(t, err, openai.ErrRedirected)
		require.Len(t, real.Requests(), 1)
		require.Equal(t, "Bearer "+testKey, real.Requests()[0].Header.Get("Authorization"))
	}
	loop, got := redirector(t, 307, func(r *http.Request) string { return r.URL.Path })
	_, err = newModel(t, openai.BaseURL(loop.URL)).Chat(t.Context(), ask())
	require.ErrorIs(t, err, openai.ErrRedirected)
	require.Equal(t, 4, *got)
	require.ErrorContains(t, err, "and so again and again (is the base URL right?)")
}

// turnAway speaks HTTP/2. It ends the connection by GOAWAY as soon as a request
// comes, so that the client sends the request again on another connection.
func turnAway(_ *http.Server, conn *tls.Conn, _ http.Handler) {
	const frameHead, headers = 9, 1
	frame := func(kind byte, data string) string {
		return string([]byte{0, 0, byte(len(data)), kind, 0, 0, 0, 0, 0}) + data
	}
	_, _ = io.WriteString(conn, frame(4, "")) // an error here shows in the client
	r := bufio.NewReader(conn)
	_, _ = r.Discard(len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))
	for {
		head := make([]byte, frameHead)
		if _, err := io.ReadFull(r, head); err != nil {
			return
		}
		if head[3] == headers {
			break
		}
		_, _ = r.Discard(int(head[0])<<16 | int(head[1])<<8 | int(head[2]))
	}
	_, _ = io.WriteString(conn, frame(7, strings.Repeat("\x00", 8)))
}

func TestAServerThatTurnsRequestsAwayIsLeft(t *testing.T) {
	t.Parallel()
	var got atomic.Int32
	s := httptest.NewUnstartedServer(nil)
	s.EnableHTTP2 = true
	s.Config.TLSNextProto = map[string]func(*http.Server, *tls.Conn, http.Handler){
		"h2": func(s *http.Server, conn *tls.Conn, h http.Handler) {
			got.Add(1)
			turnAway(s, conn, h)
		},
	}
	s.StartTLS()
	defer s.Close()
	_, err := newModel(t, openai.BaseURL(s.URL), openai.HTTPClient(s.Client())).Chat(t.Context(), ask())
	require.ErrorContains(t, err, "the server turns requests away")
	require.True(t, apiError(t, err).Retryable)
	require.LessOrEqual(t, got.Load(), int32(6))
}

func TestHeadersAreBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("reads hostile answers")
	}
	for name, write := range map[string]func(net.Conn, int) error{
		"headers": func(c net.Conn, i int) error {
			if i == 0 {
				fmt.Fprint(c, "HTTP/1.1 200 OK\r\n")
			}
			_, err := fmt.Fprintf(c, "x%d:\r\n", i)
			return err
		},
		"informational responses": func(c net.Conn, i int) error {
			_, err := fmt.Fprintf(c, "HTTP/1.1 103 Early Hints\r\nx%d: y\r\n\r\n", i)
			return err
		},
		"one long line": func(c net.Conn, i int) error {
			_, err := fmt.Fprint(c, strings.Repeat("x", 4096))
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if _, err := io.Copy(io.Discard, r.Body); err != nil { // read it all, or the client's write may fail first
					return
				}
				conn, _, err := w.(http.Hijacker).Hijack()
				if err != nil {
					return
				}
				defer conn.Close()
				const most = 1_000_000
				for i := 0; i < most && write(conn, i) == nil; i++ {
				}
			}))
			defer s.Close()
			m := newModel(t, openai.BaseURL(s.URL))
			took := allocated(func() {
				_, err := m.Chat(t.Context(), ask())
				var refused *pygent.APIError
				require.ErrorAs(t, err, &refused)
				require.False(t, refused.Retryable, "%v", err)
			})
			require.Less(t, took>>20, uint64(64))
		})
	}
}

func TestTimesOfAConfigurationAreShownInSeconds(t *testing.T) {
	t.Parallel()
	c := pygent.Config{RetryTime: 90 * time.Second, SessionLimits: pygent.SessionLimits{MaxAge: time.Hour}}
	c.OpenAI = openai.Config{StallFirst: time.Minute, StallBetween: 1500 * time.Millisecond, AnswerTime: time.Hour}
	require.JSONEq(t, `{
		"retry_time_seconds": 90,
		"session_limits": {"max_age_seconds": 3600},
		"openai": {"stall_first_seconds": 60, "stall_between_seconds": 1.5, "answer_time_seconds": 3600}
	}`, c.String())
	require.JSONEq(t, "{}", pygent.Config{}.String())
	var back openai.Config
	require.NoError(t, json.Unmarshal([]byte(c.OpenAI.String()), &back))
	require.Equal(t, c.OpenAI, back)
}

func TestFaultsOfTheEnvironmentAreConfigErrors(t *testing.T) {
	t.Parallel()
	for _, variable := range []string{"PYGENT_OPENAI_API", "PYGENT_OPENAI_STALL_FIRST"} {
		env := openai.Env(func(name string) (string, bool) { return "nonsense", name == variable })
		_, err := openai.New(env, openai.Key("k"))
		_, ofAgent := pygent.New(pygent.WithOpenAI(env))
		for _, err := range []error{err, ofAgent} {
			var fault *pygent.ConfigError
			require.ErrorAs(t, err, &fault)
			require.Equal(t, variable, fault.Key)
		}
	}
}

func TestBaseURLsAreShownWithoutSecrets(t *testing.T) {
	t.Parallel()
	const base = "http://127.0.0.1:1/v1?key=s3cret-key-1&api-version=2024-10-21"
	var c pygent.Config
	c.OpenAI.BaseURL = base
	encoded, err := json.Marshal(c)
	require.NoError(t, err)
	var logged strings.Builder
	slog.New(slog.NewTextHandler(&logged, nil)).Info("x", "config", c, "openai", c.OpenAI)
	m := newModel(t, openai.BaseURL(base))
	_, callErr := m.Chat(t.Context(), ask())
	require.Error(t, callErr)
	for _, shown := range []string{
		string(encoded), logged.String(), c.String(), fmt.Sprintf("%v %+v %#v %s", c, c.OpenAI, c.OpenAI, &c.OpenAI),
		m.String(), fmt.Sprintf("%+v %#v", m, m), callErr.Error(),
	} {
		require.NotContains(t, shown, "s3cret")
	}
	require.Contains(t, string(encoded), "2024-10-21")

	s := pygenttest.NewServer(t, pygenttest.Status(400, "", "Cannot POST /v1/chat/completions?key=s3cret-key-1"))
	_, err = newModel(t, openai.BaseURL(s.URL()+"?key=s3cret-key-1")).Chat(t.Context(), ask())
	require.ErrorContains(t, err, "key=[key]")
	for _, bad := range []string{"ftp://h/v1?key=s3cret", "https://u:s3cret@h/v1", "https://s3cret@h/v1", "https://u:s3cret@h:x/v1", "://s3cret"} {
		_, err := openai.New(openai.Env(nil), openai.BaseURL(bad))
		require.Error(t, err)
		require.NotContains(t, err.Error(), "s3cret", bad)
	}
}

// earlyTransport answers before it reads the body of the request.
type earlyTransport struct{ body io.ReadCloser }

func (e *earlyTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	e.body = r.Body
	if _, err := io.ReadFull(r.Body, make([]byte, 10)); err != nil {
		return nil, err
	}
	answer := `{"choices":[{"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}]}`
	return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(answer)), Request: r}, nil
}

// The messages of a request are the caller's again when the call returns, also while a
// transport still sends them.
func TestARequestIsNotReadAfterItsCall(t *testing.T) {
	for name, messages := range map[string][]pygent.Message{
		"of a history":  chat.NewHistory(chat.UserMessage("Go."), chat.AssistantMessage("Where?"), chat.UserMessage("On.")).Conversation(),
		"of the caller": {chat.UserMessage("Go."), chat.AssistantMessage("Where?"), chat.UserMessage("On.")},
	} {
		t.Run(name, func(t *testing.T) {
			transport := &earlyTransport{}
			m := newModel(t, openai.HTTPClient(&http.Client{Transport: transport}))
			began, read := make(chan struct{}), make(chan error)
			response, err := m.Chat(t.Context(), ask(messages...))
			require.NoError(t, err)
			require.Equal(t, "hi", response.Message.Content)
			go func() {
				close(began)
				_, err := io.ReadAll(transport.body)
				read <- err
			}()
			<-began
			for i := range messages {
				messages[i] = chat.UserMessage("Something else.")
			}
			require.Error(t, <-read)
		})
	}
}

// http2Server answers every request by HTTP/2 in the same way, and sends on got
// once per request. respond gets the request's stream, and says
// whether the connection ends.
func http2Server(t *testing.T, respond func(f *http2.Framer, stream uint32) (last bool), settings ...http2.Setting) (url string, got chan struct{}) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	got = make(chan struct{}, 100)
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { serveHTTP2(conn, respond, got, settings) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		serving.Wait()
	})
	return "http://" + l.Addr().String(), got
}

// serveHTTP2 serves a connection until the client closes it. Errors of writing
// show in the client.
func serveHTTP2(conn net.Conn, respond func(f *http2.Framer, stream uint32) (last bool), got chan<- struct{}, settings []http2.Setting) {
	defer conn.Close()
	if _, err := io.ReadFull(conn, make([]byte, len(http2.ClientPreface))); err != nil {
		return
	}
	f := http2.NewFramer(conn, conn)
	_ = f.WriteSettings(settings...)
	for {
		frame, err := f.ReadFrame()
		if err != nil {
			return
		}
		h := frame.Header()
		switch {
		case h.Type == http2.FrameSettings && !h.Flags.Has(http2.FlagSettingsAck):
			_ = f.WriteSettingsAck()
		case h.Type == http2.FrameHeaders || h.Type == http2.FrameData:
			if h.Type == http2.FrameHeaders {
				got <- struct{}{}
			}
			if h.Flags.Has(http2.FlagDataEndStream) && respond(f, h.StreamID) {
				return
			}
		}
	}
}

func resets(code http2.ErrCode) func(*http2.Framer, uint32) bool {
	return func(f *http2.Framer, stream uint32) (last bool) { return f.WriteRSTStream(stream, code) != nil }
}

func goesAway(code http2.ErrCode) func(*http2.Framer, uint32) bool {
	return func(f *http2.Framer, stream uint32) (last bool) { return f.WriteGoAway(stream, code, nil) == nil }
}

// sendsHeaders answers with n headers and no status.
func sendsHeaders(n int) func(*http2.Framer, uint32) bool {
	return func(f *http2.Framer, stream uint32) (last bool) {
		var block bytes.Buffer
		encoder := hpack.NewEncoder(&block)
		for i := range n {
			_ = encoder.WriteField(hpack.HeaderField{Name: "x", Value: strings.Repeat("y", 1000) + strconv.Itoa(i)})
		}
		first := block.Next(16 << 10)
		_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: first, EndStream: true, EndHeaders: block.Len() == 0})
		for block.Len() > 0 {
			_ = f.WriteContinuation(stream, block.Len() <= 16<<10, block.Next(16<<10))
		}
		return false
	}
}

// TestFaultsOfHTTP2 tells those that the same request meets again from those of
// servers that are overloaded or restarted: golang/go#47635 for PROTOCOL_ERROR,
// anthropics/anthropic-sdk-go#219 for ENHANCE_YOUR_CALM, and curl/curl#22923 for
// HTTP_1_1_REQUIRED.
func TestFaultsOfHTTP2(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		respond  func(*http2.Framer, uint32) bool
		settings []http2.Setting
		want     string // part of an error that a retry would not improve; empty if it may
	}{
		"reset by the protocol":         {respond: resets(http2.ErrCodeProtocol)},
		"reset inside":                  {respond: resets(http2.ErrCodeInternal)},
		"reset as cancelled":            {respond: resets(http2.ErrCodeCancel)},
		"reset as too much":             {respond: resets(http2.ErrCodeEnhanceYourCalm)},
		"goes away":                     {respond: goesAway(http2.ErrCodeInternal)},
		"goes away as too much":         {respond: goesAway(http2.ErrCodeEnhanceYourCalm)},
		"reset for HTTP/1.1":            {respond: resets(http2.ErrCodeHTTP11Required), want: "the server wants HTTP/1.1"},
		"goes away for HTTP/1.1":        {respond: goesAway(http2.ErrCodeHTTP11Required), want: "the server wants HTTP/1.1"},
		"goes away for TLS":             {respond: goesAway(http2.ErrCodeInadequateSecurity), want: "other settings of TLS"},
		"no status":                     {respond: sendsHeaders(1), want: "that is not HTTP"},
		"headers that are too long":     {respond: sendsHeaders(254), want: "no server of a model sends that much"},
		"headers that it does not take": {respond: resets(http2.ErrCodeRefusedStream), settings: []http2.Setting{{ID: http2.SettingMaxHeaderListSize, Val: 10}}, want: "does not take headers of that size"},
	} {
		t.Run(name, func(t *testing.T) {
			url, got := http2Server(t, tt.respond, tt.settings...)
			transport := &http.Transport{Protocols: &http.Protocols{}, MaxResponseHeaderBytes: 256 << 10}
			transport.Protocols.SetUnencryptedHTTP2(true)
			defer transport.CloseIdleConnections()
			agent := newAgentOn(t, nowhere{}, newModel(t, openai.BaseURL(url), openai.HTTPClient(&http.Client{Transport: transport})),
				pygent.WithRetry(pygent.RetryPolicy{MaxAttempts: 2, BaseDelay: time.Millisecond}))
			_, err := agent.Step(t.Context(), "Go.")
			if tt.want == "" {
				require.True(t, apiError(t, err).Retryable, "%v", err)
				require.GreaterOrEqual(t, len(got), 2) // net/http may have asked again, too
				return
			}
			require.ErrorContains(t, err, tt.want)
			require.False(t, apiError(t, err).Retryable)
			require.LessOrEqual(t, len(got), 1)
		})
	}
}

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
		{"no response", pipeTransport{hang: true}, "no answer came within 5m0s (a model that needs longer needs a higher limit: openai.stall_first of the configuration, PYGENT_OPENAI_STALL_FIRST, or openai.StallTimeouts)", 5 * time.Minute},
		{"no first byte", pipeTransport{write: func(*io.PipeWriter) {}}, "no answer came within 5m0s", 5 * time.Minute},
		{"in the middle", pipeTransport{write: func(w *io.PipeWriter) {
			time.Sleep(4 * time.Minute)
			io.WriteString(w, chunk)
		}}, "nothing came for 3m0s in the middle of the answer (a model that needs longer needs a higher limit: openai.stall_between of the configuration, PYGENT_OPENAI_STALL_BETWEEN, or openai.StallTimeouts)", 7 * time.Minute},
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
				m := newModel(t, openai.HTTPClient(&http.Client{Transport: c.rt}))
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
		api        openai.Protocol
		opts       []openai.Option
		after      time.Duration
	}{
		{"text", "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n", openai.Chat, nil, 30 * time.Minute},
		{"reasoning", thought, openai.Responses, nil, 30 * time.Minute},
		{"a plain answer", "[", openai.Chat, nil, 30 * time.Minute},
		{"a limit of one's own", thought, openai.Responses, []openai.Option{openai.AnswerTime(time.Hour)}, time.Hour},
		{"events that say nothing", "data: {\"type\":\"response.in_progress\",\"response\":{}}\n\n", openai.Responses, nil, 5 * time.Minute},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := &http.Client{Transport: pipeTransport{write: everyMinute(c.text)}}
				m := newModel(t, append(c.opts, openai.HTTPClient(client), openai.API(c.api))...)
				start := time.Now()
				_, err := m.ChatStream(t.Context(), ask(), func(pygent.Delta) {})
				took := time.Since(start)
				time.Sleep(2 * time.Minute) // virtual time, in which the server's goroutine ends
				require.Equal(t, c.after, took)
				if c.after > 5*time.Minute {
					require.ErrorContains(t, err, "openai.AnswerTime")
					require.False(t, apiError(t, err).Retryable)
				}
			})
		})
	}
}

func TestASilentResponseNamesItsSetting(t *testing.T) {
	t.Parallel()
	for want, opts := range map[string][]openai.Option{
		"nothing came for 5m0s in the middle of the answer (a model that needs longer needs a higher limit: openai.stall_first ":   nil,
		"nothing came for 3m0s in the middle of the answer (a model that needs longer needs a higher limit: openai.stall_between ": {openai.StallTimeouts(time.Minute, 3*time.Minute)},
	} {
		synctest.Test(t, func(t *testing.T) {
			client := &http.Client{Transport: pipeTransport{write: func(w *io.PipeWriter) {
				io.WriteString(w, "data: {\"type\":\"response.output_text.delta\",\"delta\":\"a\"}\n\n")
			}}}
			m := newModel(t, append(opts, openai.HTTPClient(client), openai.API(openai.Responses))...)
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
		m := newModel(t, openai.HTTPClient(&http.Client{Transport: rt}), openai.StallTimeouts(pygent.NoLimit, pygent.NoLimit), openai.AnswerTime(pygent.NoLimit))
		resp, err := m.Chat(t.Context(), ask())
		require.NoError(t, err)
		require.Equal(t, "late", resp.Message.Content)
		require.Equal(t, chat.FinishStop, resp.FinishReason)
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
		m := newModel(t, openai.HTTPClient(&http.Client{Transport: rt}))
		_, err := m.ChatStream(t.Context(), ask(), func(pygent.Delta) { time.Sleep(time.Hour) })
		require.NoError(t, err)
	})
}

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
	api  openai.Protocol
	mib  uint64 // allowed allocations in total; for what is refused early, little more than its size
	want string // part of the error
	body func() io.Reader
}{
	{"20 MB of choices", openai.Chat, 160, "more than 17 MiB", func() io.Reader { return repeated(`{"choices":[`, "{},", 20*mega, `{}]}`) }},
	{"20 MB of choices in a chunk", openai.Chat, 160, "an event of more than 17 MiB", func() io.Reader { return repeated(`data: {"choices":[`, "{},", 20*mega, "{}]}\n\n") }},
	{"3 MB of choices", openai.Chat, 32, "more than 128 choices", func() io.Reader { return repeated(`{"choices":[`, "{},", 3*mega, `{}]}`) }},
	{"3 MB of choices in a chunk", openai.Chat, 32, "more than 128 choices", func() io.Reader { return repeated(`data: {"choices":[`, "{},", 3*mega, "{}]}\n\n") }},
	{"millions of fields of a message", openai.Chat, 32, "more than 16 MiB are to be kept", func() io.Reader {
		return numbered(`{"choices":[{"message":{`, `"%x":0,`, 300_000, `"content":"x"}}]}`)
	}},
	{"millions of fields of a call", openai.Chat, 32, "more than 16 MiB are to be kept", func() io.Reader {
		return numbered(`{"choices":[{"message":{"tool_calls":[{`, `"%x":0,`, 300_000, `"id":"a"}]}}]}`)
	}},
	{"millions of fields of an unknown field", openai.Chat, 32, "more than 16 MiB are to be kept", func() io.Reader {
		return numbered(`{"choices":[{"message":{"content":"x","more":{`, `"%x":0,`, 300_000, `"a":1}}}]}`)
	}},
	{"a new field in each chunk", openai.Chat, 32, "more than 256 fields", func() io.Reader {
		return numbered("", "data: {\"choices\":[{\"delta\":{\"%x\":0}}]}\n\n", 300_000, chatTail)
	}},
	{"millions of items", openai.Chat, 32, "more than 16 MiB are to be kept", func() io.Reader { return repeated(`{"choices":[{"message":{"x":[`, "0,", 3*mega, `0]}}]}`) }},
	{"items in each chunk", openai.Chat, 32, "more than 16 MiB are to be kept", func() io.Reader {
		return repeated("", "data: {\"choices\":[{\"delta\":{\"x\":[0,0,0,0,0,0,0,0,0,0]}}]}\n\n", 3*mega, chatTail)
	}},
	{"millions of parts", openai.Chat, 32, "more than 16 MiB are to be kept", func() io.Reader {
		return repeated(`{"choices":[{"message":{"content":[`, "{},", 3*mega, `{}]}}]}`)
	}},
	{"millions of texts", openai.Chat, 32, "more than 16 MiB are to be kept", func() io.Reader {
		return repeated(`data: {"choices":[{"delta":{"content":[`, `"a",`, 3*mega, "\"b\"]}}]}\n\n"+chatTail)
	}},
	{"millions of calls", openai.Chat, 32, "more than 16 MiB are to be kept", func() io.Reader {
		return repeated(`{"choices":[{"message":{"tool_calls":[`, "{},", 3*mega, `{}]}}]}`)
	}},
	{"a million calls in chunks", openai.Chat, 32, "more than 256 tool calls", func() io.Reader {
		return numbered("", "data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":-4294967296,\"id\":\"%x\",\"function\":{\"name\":\"f\"}}]}}]}\n\n", 300_000, chatTail)
	}},
	{"an argument of 2 GB", openai.Chat, 160, "an event of more than 17 MiB", func() io.Reader {
		head := `data: {"choices":[{"delta":{"tool_calls":[{"index":4294967296,"id":"a","function":{"name":"f","arguments":"`
		return repeated(head, strings.Repeat("x", 4096), 2<<30, "\"}}]}}]}\n\n"+chatTail)
	}},
	{"an argument of 2 GB in chunks", openai.Chat, 160, "more than 16 MiB are to be kept", func() io.Reader {
		chunk := `data: {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"` + strings.Repeat("x", 32<<10) + "%x\"}}]}}]}\n\n"
		return numbered("", chunk, 1<<16, chatTail)
	}},
	{"deep nesting", openai.Chat, 160, "more than 17 MiB", func() io.Reader { return repeated("", "[", 20*mega, "") }},
	{"deep nesting in an event", openai.Chat, 160, "an event of more than 17 MiB", func() io.Reader { return repeated("data: ", "[", 20*mega, "\n\n") }},
	{"deep nesting in a field", openai.Chat, 32, "more than 100 levels", func() io.Reader {
		return repeated(`{"choices":[{"message":{"x":`, "[", 3*mega, "")
	}},
	{"a line of 1 GB", openai.Chat, 160, "an event of more than 17 MiB", func() io.Reader { return repeated("data: ", strings.Repeat("x", 4096), 1<<30, "\n\n") }},
	{"an event of many lines", openai.Chat, 32, "not valid JSON", func() io.Reader { return repeated("", "data: x\n", 20*mega, "\n") }},
	{"white space", openai.Chat, 32, "256 KiB of white space", func() io.Reader { return repeated("", " \n", 20*mega, "") }},
	{"an error of many fields in an event", openai.Chat, 32, `{"0":0,`, func() io.Reader {
		return numbered(`data: {"error":{`, `"%x":0,`, 300_000, "\"message\":\"x\"}}\n\n")
	}},
	{"an error whose message is 3 MB", openai.Chat, 32, `{"message":"escape`, func() io.Reader {
		return repeated(`data: {"error":{"message":"`, "escape \\u001b", 3*mega, "\"}}\n\n")
	}},
	{"a huge usage", openai.Chat, 32, "no choices", func() io.Reader {
		return numbered(`data: {"choices":[],"usage":{`, `"%x":0,`, 300_000, "\"prompt_tokens\":1}}\n\n")
	}},
	{"trailing garbage", openai.Chat, 160, "more than 17 MiB", func() io.Reader { return repeated(`{"choices":[]}`, "x", 20*mega, "") }},

	{"items of a response", openai.Responses, 32, "its items have more than 16 MiB or 100000 values", func() io.Reader {
		return repeated(`{"object":"response","status":"completed","output":[`, "0,", 3*mega, `0]}`)
	}},
	{"items of the last event", openai.Responses, 32, "its items have more than 16 MiB or 100000 values", func() io.Reader {
		return repeated(`data: {"type":"response.completed","response":{"status":"completed","output":[`, "{},", 3*mega, "{}]}}\n\n")
	}},
	{"a million reasoning items", openai.Responses, 32, "more than 1024 items", func() io.Reader {
		return numbered("", "data: {\"type\":\"response.output_item.done\",\"item\":{\"type\":\"reasoning\",\"id\":\"%x\",\"encrypted_content\":\"x\"}}\n\n", 300_000, respTail)
	}},
	{"parts of a message", openai.Responses, 32, "its items have more than 16 MiB or 100000 values", func() io.Reader {
		return repeated(`data: {"type":"response.output_item.done","output_index":0,"item":{"type":"message","content":[`, "{},", 3*mega, "{}]}}\n\n"+respTail)
	}},
	{"fields of an announced item", openai.Responses, 32, "its items have more than 16 MiB or 100000 values", func() io.Reader {
		return numbered(`data: {"type":"response.output_item.added","output_index":0,"item":{"type":"message",`, `"%x":0,`, 300_000, "\"id\":\"x\"}}\n\n"+respTail)
	}},
	{"fields of an unknown item", openai.Responses, 32, "its items have more than 16 MiB or 100000 values", func() io.Reader {
		return numbered(`data: {"type":"response.output_item.done","output_index":0,"item":{"type":"other",`, `"%x":0,`, 300_000, "\"id\":\"x\"}}\n\n"+respTail)
	}},
	{"arguments in deltas", openai.Responses, 160, "more than 16 MiB", func() io.Reader {
		chunk := `data: {"type":"response.function_call_arguments.delta","output_index":0,"delta":"` + strings.Repeat("x", 32<<10) + "%x\"}\n\n"
		return numbered("", chunk, 1<<16, respTail)
	}},
	{"a line of 1 GB in a response", openai.Responses, 160, "an event of more than 17 MiB", func() io.Reader {
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
			m := newModel(t, openai.HTTPClient(client))
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
	require.ErrorContains(t, err, "which is too late")
	require.Len(t, s.Requests(), 1, "a person decides")
}
