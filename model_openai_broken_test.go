package pygent_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
)

// rawServer answers every request with the same bytes and closes the
// connection. It sends on got once per request.
func rawServer(t *testing.T, response string) (url string, got chan struct{}) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	got = make(chan struct{}, 100)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			answerRaw(conn, response, got)
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-done
	})
	return "http://" + l.Addr().String(), got
}

func answerRaw(conn net.Conn, response string, got chan<- struct{}) {
	defer conn.Close()
	req, err := http.ReadRequest(bufio.NewReader(conn))
	if err != nil {
		return // the connection was never used
	}
	got <- struct{}{}
	if _, err := io.Copy(io.Discard, req.Body); err == nil {
		_, _ = io.WriteString(conn, response) // an error here shows in the client
	}
}

const (
	rawOK     = "HTTP/1.1 200 OK\r\n"
	rawChunks = rawOK + "Transfer-Encoding: chunked\r\n\r\n"
)

// brokenResponses are responses that a retry would not improve, and a part of
// the error about each.
var brokenResponses = []struct{ name, response, want string }{
	{"another protocol", "SSH-2.0-OpenSSH_9.6\r\n", "that is not HTTP: is the base URL right"},
	{"TLS", "\x15\x03\x01\x00\x02\x02\x16\r\n", "with https:// where the server wants it"},
	{"a status that is no number", "HTTP/1.1 abc OK\r\n\r\n", "that is not HTTP"},
	{"a version that is none", "HTTP/x 200 OK\r\n\r\n", "that is not HTTP"},
	{"a header without a colon", rawOK + "nothing\r\n\r\n", "that is not HTTP"},
	{"a header that goes on from nothing", rawOK + " more: x\r\n\r\n", "that is not HTTP"},
	{"a header with a zero byte", rawOK + "x: \x00\r\n\r\n", "that is not HTTP"},
	{"a length that is no number", rawOK + "Content-Length: x\r\n\r\n", "that is not HTTP"},
	{"an empty length", rawOK + "Content-Length:\r\n\r\n", "that is not HTTP"},
	{"two lengths", rawOK + "Content-Length: 1\r\nContent-Length: 2\r\n\r\n", "that is not HTTP"},
	{"a transfer encoding", rawOK + "Transfer-Encoding: x\r\n\r\n", "that is not HTTP"},
	{"two transfer encodings", rawOK + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", "that is not HTTP"},
	{"a trailer that may not be one", rawOK + "Transfer-Encoding: chunked\r\nTrailer: Content-Length\r\n\r\n", "that is not HTTP"},
	{"a location that is no URL", "HTTP/1.1 307 x\r\nLocation: ://x\r\n\r\n", "that is not HTTP"},

	{"no content", "HTTP/1.1 204 No Content\r\n\r\n", "status 204: the server says that it has no answer"},
	{"a reset", "HTTP/1.1 205 Reset Content\r\nContent-Length: 0\r\n\r\n", "status 205: the server says that it has no answer"},

	{"brotli", rawOK + "Content-Encoding: br\r\n\r\n\x0b\x02\x80hello\x03", `it is encoded as "br"`},
	{"zstd", rawOK + "Content-Encoding: zstd\r\n\r\n\x28\xb5\x2f\xfd\x04\x00", `it is encoded as "zstd"`},
	{"gzip that is none", rawOK + "Content-Encoding: gzip\r\n\r\n\x01\x02\x03", `it is encoded as "gzip"`},

	{"a long chunk extension", rawChunks + "5;" + strings.Repeat("x", 10_000) + "\r\ndata:\r\n", "in chunks that hold almost nothing"},
	{"many chunk extensions", rawChunks + strings.Repeat("1;"+strings.Repeat("x", 3000)+"\r\n \r\n", 10), "in chunks that hold almost nothing"},

	{"a redirect to a file", "HTTP/1.1 307 x\r\nLocation: file:///etc/passwd\r\n\r\n", "no model's server has such an address (is the base URL right?)"},
	{"a redirect to mail", "HTTP/1.1 308 x\r\nLocation: mailto:a@example.org\r\n\r\n", "no model's server has such an address (is the base URL right?)"},
	{"a redirect to FTP", "HTTP/1.1 301 x\r\nLocation: ftp://example.org/v1\r\n\r\n", "no model's server has such an address (is the base URL right?)"},
}

func TestBrokenResponsesAreNotAskedForAgain(t *testing.T) {
	t.Parallel()
	for _, c := range brokenResponses {
		t.Run(c.name, func(t *testing.T) {
			url, got := rawServer(t, c.response)
			agent := newAgentOn(t, nowhere{}, newModel(t, pygent.OpenAIBaseURL(url+"/v1")))
			_, err := agent.Step(t.Context(), "Go.")
			require.ErrorContains(t, err, c.want)
			require.False(t, apiError(t, err).Retryable)
			require.Len(t, got, 1)
		})
	}
}

func TestBrokenConnectionsAreTriedAgain(t *testing.T) {
	t.Parallel()
	for name, response := range map[string]string{
		"nothing":                  "",
		"half of a head":           rawOK + "x: y\r\n",
		"an empty answer":          rawOK + "Connection: close\r\nContent-Length: 0\r\n\r\n",
		"half of an answer":        rawOK + "Content-Length: 100\r\n\r\ndata: {",
		"half of a chunk":          rawChunks + "5\r\nda",
		"half of a stream":         rawOK + "\r\ndata: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n",
		"half of a stream of gzip": rawOK + "Content-Encoding: gzip\r\n\r\n" + gzipped("data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n"),
	} {
		t.Run(name, func(t *testing.T) {
			url, got := rawServer(t, response)
			agent := newAgentOn(t, nowhere{}, newModel(t, pygent.OpenAIBaseURL(url)), pygent.WithRetry(pygent.RetryPolicy{MaxAttempts: 2, BaseDelay: time.Millisecond}))
			_, err := agent.Step(t.Context(), "Go.")
			require.True(t, apiError(t, err).Retryable, "%v", err)
			require.Len(t, got, 2)
		})
	}
}

// TestAnswersInOddFramesAreRead has answers that look broken but can be read.
func TestAnswersInOddFramesAreRead(t *testing.T) {
	t.Parallel()
	const stream = "data: {\"choices\":[{\"delta\":{\"content\":\"hi\"}}]}\n\ndata: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n"
	const plain = `{"choices":[{"message":{"content":"hi"}}]}`
	for name, response := range map[string]string{
		"lines that end in CR":              rawOK + "\r\n" + strings.ReplaceAll(stream, "\n", "\r"),
		"lines that end in CR LF":           rawOK + "\r\n" + strings.ReplaceAll(stream, "\n", "\r\n"),
		"gzip":                              rawOK + "Content-Encoding: gzip\r\n\r\n" + gzipped(stream),
		"gzip of a plain answer":            rawOK + "Content-Encoding: gzip\r\n\r\n" + gzipped(plain),
		"gzip in two parts":                 rawOK + "Content-Encoding: gzip\r\n\r\n" + gzipped(stream[:20]) + gzipped(stream[20:]),
		"gzip that nothing tells of":        rawOK + "\r\n" + gzipped(plain),
		"an encoding that is not there":     rawOK + "Content-Encoding: gzip\r\n\r\n" + plain,
		"an encoding that is a character's": rawOK + "Content-Encoding: utf-8\r\n\r\n" + stream,
	} {
		t.Run(name, func(t *testing.T) {
			url, _ := rawServer(t, response)
			resp, err := newModel(t, pygent.OpenAIBaseURL(url)).ChatStream(t.Context(), ask(), func(pygent.Delta) {})
			require.NoError(t, err)
			require.Equal(t, "hi", resp.Message.Content)
		})
	}
	url, _ := rawServer(t, "HTTP/1.1 400 x\r\nContent-Encoding: gzip\r\n\r\n"+gzipped(`{"error":{"message":"too warm"}}`))
	_, err := newModel(t, pygent.OpenAIBaseURL(url)).Chat(t.Context(), ask())
	require.ErrorContains(t, err, "status 400: too warm")
}

// TestAnErrorStatusStands uses servers that send an error status and then do
// not end the response.
func TestAnErrorStatusStands(t *testing.T) {
	t.Parallel()
	for _, status := range []int{http.StatusSwitchingProtocols, http.StatusBadRequest} {
		t.Run(http.StatusText(status), func(t *testing.T) {
			t.Parallel()
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Connection", "Upgrade")
				w.Header().Set("Upgrade", "x")
				w.WriteHeader(status)
				if status >= 200 {
					_, _ = io.WriteString(w, "too warm") // an error here shows in the client
				}
				_ = http.NewResponseController(w).Flush() // likewise
				<-r.Context().Done()
			}))
			defer s.Close()
			_, err := newModel(t, pygent.OpenAIBaseURL(s.URL), pygent.OpenAIStallTimeouts(30*time.Second, 0)).Chat(t.Context(), ask())
			require.Equal(t, status, apiError(t, err).Status, "%v", err)
			require.False(t, apiError(t, err).Retryable)
			if status >= 200 {
				require.ErrorContains(t, err, "too warm")
			}
		})
	}
}

func TestBadGzipIsSaid(t *testing.T) {
	t.Parallel()
	good := gzipped(`{"choices":[{"message":{"content":"hi"}}]}`)
	for name, body := range map[string]string{
		"a head":       "\x1f\x8b, and nothing else of gzip",
		"what follows": good[:10] + "\xff\xff\xff\xff",
		"a checksum":   good[:len(good)-8] + "12345678",
	} {
		t.Run(name, func(t *testing.T) {
			url, _ := rawServer(t, rawOK+"\r\n"+body)
			_, err := newModel(t, pygent.OpenAIBaseURL(url)).Chat(t.Context(), ask())
			require.ErrorContains(t, err, "the answer cannot be decompressed: ")
			require.True(t, apiError(t, err).Retryable)
		})
	}
}

func gzipped(text string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = io.WriteString(w, text) // writing to memory does not fail
	_ = w.Close()
	return b.String()
}

// respond returns an HTTP client that answers every request with a body.
func respond(body func() io.Reader) *http.Client {
	return &http.Client{Transport: transportFunc(func(r *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(body()), Request: r}, nil
	})}
}

// The streams go on for ever, and no byte of them carries content.
func TestEndlessNothingIsEnded(t *testing.T) {
	if testing.Short() {
		t.Skip("needs much data")
	}
	t.Parallel()
	const chunk = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n"
	for name, c := range map[string]struct {
		head, text string
		want       string
	}{
		"gzip without content":          {"", gzipped(""), "nothing comes out of 1 MiB of gzip"},
		"gzip that comes to its end":    {gzipped(chunk), gzipped(""), "nothing comes out of 1 MiB of gzip"},
		"gzip of comments":              {"", gzipped(strings.Repeat(": "+strings.Repeat("wait ", 100)+"\n\n", 10_000)), "32 MiB of the stream say nothing"},
		"gzip of chunks without choice": {gzipped(chunk), gzipped(strings.Repeat("data: {\"choices\":[],\"x\":\""+strings.Repeat("x", 1000)+"\"}\n\n", 10_000)), "32 MiB of the stream say nothing"},
		"comments":                      {chunk, ": " + strings.Repeat("wait ", 100) + "\n\n", "32 MiB of the stream say nothing"},
		"one comment":                   {":", strings.Repeat("x", 100), "32 MiB of the stream say nothing"},
		"data in between":               {"", chunk + ":" + strings.Repeat("x", 31*mega) + "\n", "a stream of more than 512 MiB"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newModel(t, pygent.OpenAIHTTPClient(respond(func() io.Reader {
				return io.MultiReader(strings.NewReader(c.head), &cycle{text: c.text})
			})))
			_, err := m.ChatStream(t.Context(), ask(), func(pygent.Delta) {})
			require.ErrorIs(t, err, pygent.ErrAnswerTooLarge)
			require.ErrorContains(t, err, c.want)
			require.False(t, apiError(t, err).Retryable)
		})
	}
}
