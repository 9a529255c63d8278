package openai

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// script is a server that answers each request with the next of some bytes, on whatever
// connection it comes. It returns how many connections there were.
func script(t *testing.T, answers ...string) (url string, connections func() int) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var mu sync.Mutex
	opened, next := 0, 0
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			opened++
			mu.Unlock()
			wg.Go(func() {
				defer conn.Close()
				r := bufio.NewReader(conn)
				for {
					req, err := http.ReadRequest(r)
					if err != nil {
						return
					}
					io.Copy(io.Discard, req.Body)
					mu.Lock()
					answer := answers[min(next, len(answers)-1)]
					next++
					mu.Unlock()
					io.WriteString(conn, answer)
				}
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		wg.Wait()
	})
	return "http://" + l.Addr().String(), func() int {
		mu.Lock()
		defer mu.Unlock()
		return opened
	}
}

func sized(body string) string {
	return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
}

const inChunks = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nwho\r\n2\r\nle\r\n0\r\nA: b\r\n\r\n"

// It is not parallel, since it looks at what the whole process logs.
func TestBytesBesideAnAnswerAreNeitherLoggedNorRead(t *testing.T) {
	var logged bytes.Buffer
	log.SetOutput(&logged)
	t.Cleanup(func() { log.SetOutput(os.Stderr) })
	large := strings.Repeat("x", 100_000)
	for name, tt := range map[string]struct {
		answers     []string
		want        []string
		connections int
	}{
		"right":                   {[]string{sized("one"), sized("two")}, []string{"one", "two"}, 1},
		"chunks":                  {[]string{inChunks, inChunks}, []string{"whole", "whole"}, 1},
		"interim":                 {[]string{"HTTP/1.1 103 Early Hints\r\nContent-Length: 9\r\n\r\n" + sized("one"), sized("two")}, []string{"one", "two"}, 1},
		"empty":                   {[]string{"HTTP/1.1 204 No Content\r\n\r\n", sized(""), sized("two")}, []string{"", "", "two"}, 1},
		"more than announced":     {[]string{sized("one") + "more", sized("two")}, []string{"one", "two"}, 2},
		"more after much":         {[]string{sized(large) + "more", sized("two")}, []string{large, "two"}, 2},
		"more after chunks":       {[]string{inChunks + "more", sized("two")}, []string{"whole", "two"}, 2},
		"more after nothing":      {[]string{sized("") + "more", sized("two")}, []string{"", "two"}, 2},
		"a second answer":         {[]string{sized("one") + sized("not asked for"), sized("two")}, []string{"one", "two"}, 2},
		"until the end":           {[]string{"HTTP/1.0 200 OK\nConnection: keep-alive\n\nall of it"}, nil, 1},
		"garbage":                 {[]string{"220 smtp here\r\n"}, nil, 1},
		"garbage after an answer": {[]string{sized("one"), "220 smtp here\r\n", sized("two")}, []string{"one", "", "two"}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			url, connections := script(t, tt.answers...)
			transport, ok := newTransport(nil)
			require.True(t, ok)
			defer transport.CloseIdleConnections()
			client := &http.Client{Transport: transport}
			for i, want := range tt.want {
				res, err := client.Post(url, "", strings.NewReader("{}"))
				if i > 0 && errors.Is(err, io.EOF) && !strings.HasPrefix(tt.answers[i], "220") {
					res, err = client.Post(url, "", strings.NewReader("{}")) // what came beside the last answer came late
				}
				if strings.HasPrefix(tt.answers[i], "220") {
					require.ErrorIs(t, err, io.EOF)
					continue
				}
				require.NoError(t, err)
				body, err := io.ReadAll(res.Body)
				require.NoError(t, err)
				require.NoError(t, res.Body.Close())
				require.Equal(t, want, string(body))
			}
			if name == "garbage" {
				_, err := client.Post(url, "", nil)
				require.ErrorContains(t, err, "malformed HTTP status code")
			}
			if tt.want != nil {
				require.Equal(t, tt.connections, connections())
			}
		})
	}
	require.Empty(t, logged.String())
}

func TestAnswersComeOverTLSToo(t *testing.T) {
	t.Parallel()
	for _, http2 := range []bool{false, true} {
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, r.Proto, strings.Repeat("x", 100_000))
		}))
		server.EnableHTTP2 = http2
		server.StartTLS()
		defer server.Close()
		transport, ok := newTransport(server.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs)
		require.True(t, ok)
		defer transport.CloseIdleConnections()
		for range 2 {
			res, err := (&http.Client{Transport: transport}).Post(server.URL, "", nil)
			require.NoError(t, err)
			body, err := io.ReadAll(res.Body)
			require.NoError(t, err)
			require.NoError(t, res.Body.Close())
			require.Equal(t, http2, strings.HasPrefix(string(body), "HTTP/2.0"), res.Proto)
			require.Len(t, body, len("HTTP/1.1")+100_000)
		}
	}
}
