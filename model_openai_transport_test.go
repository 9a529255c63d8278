package pygent_test

import (
	"bufio"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
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
				m := newModel(t, pygent.OpenAIBaseURL(s.URL+"/v1"), pygent.OpenAIHeader("api-key", "azure-secret"), pygent.OpenAIHeader("X-Mine", "my-own"))
				_, err := m.Chat(t.Context(), ask())
				require.ErrorIs(t, err, pygent.ErrRedirected)
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
	agent := newAgentOn(t, nowhere{}, newModel(t, pygent.OpenAIBaseURL(s.URL+"/v1")))
	_, err := agent.Step(t.Context(), "Go.")
	require.ErrorIs(t, err, pygent.ErrRedirected)
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
		_, err := newModel(t, pygent.OpenAIBaseURL(s.URL+"/old")).Chat(t.Context(), ask())
		if status == 302 {
			require.ErrorIs(t, err, pygent.ErrRedirected)
			require.ErrorContains(t, err, "makes POST a GET")
			continue
		}
		require.NotErrorIs(t, err, pygent.ErrRedirected)
		require.Len(t, real.Requests(), 1)
		require.Equal(t, "Bearer "+testKey, real.Requests()[0].Header.Get("Authorization"))
	}
	loop, got := redirector(t, 307, func(r *http.Request) string { return r.URL.Path })
	_, err = newModel(t, pygent.OpenAIBaseURL(loop.URL)).Chat(t.Context(), ask())
	require.ErrorIs(t, err, pygent.ErrRedirected)
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
	_, err := newModel(t, pygent.OpenAIBaseURL(s.URL), pygent.OpenAIHTTPClient(s.Client())).Chat(t.Context(), ask())
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
			m := newModel(t, pygent.OpenAIBaseURL(s.URL))
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

func TestBaseURLsAreShownWithoutSecrets(t *testing.T) {
	t.Parallel()
	const base = "http://127.0.0.1:1/v1?key=s3cret-key-1&api-version=2024-10-21"
	var c pygent.Config
	c.OpenAI.BaseURL = base
	encoded, err := json.Marshal(c)
	require.NoError(t, err)
	var logged strings.Builder
	slog.New(slog.NewTextHandler(&logged, nil)).Info("x", "config", c, "openai", c.OpenAI)
	m := newModel(t, pygent.OpenAIBaseURL(base))
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
	_, err = newModel(t, pygent.OpenAIBaseURL(s.URL()+"?key=s3cret-key-1")).Chat(t.Context(), ask())
	require.ErrorContains(t, err, "key=[key]")
	for _, bad := range []string{"ftp://h/v1?key=s3cret", "https://u:s3cret@h/v1", "https://s3cret@h/v1", "https://u:s3cret@h:x/v1", "://s3cret"} {
		_, err := pygent.NewOpenAIModel(pygent.OpenAIEnv(nil), pygent.OpenAIBaseURL(bad))
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
		"of a history":  pygent.NewHistory(pygent.UserMessage("Go."), pygent.AssistantMessage("Where?"), pygent.UserMessage("On.")).Conversation(),
		"of the caller": {pygent.UserMessage("Go."), pygent.AssistantMessage("Where?"), pygent.UserMessage("On.")},
	} {
		t.Run(name, func(t *testing.T) {
			transport := &earlyTransport{}
			m := newModel(t, pygent.OpenAIHTTPClient(&http.Client{Transport: transport}))
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
				messages[i] = pygent.UserMessage("Something else.")
			}
			require.Error(t, <-read)
		})
	}
}
