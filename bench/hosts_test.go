package bench

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/testkit/enginetest"
)

// hostScript is a program in the container that fetches a URL a number of times,
// one after the other, on one connection.
const hostScript = `python3 - <<'END'
import http.client, os, urllib.parse
via = urllib.parse.urlparse(os.environ["http_proxy"])
c = http.client.HTTPConnection(via.hostname, via.port)
for i in range(%d):
    c.request("GET", "%s")
    r = c.getresponse()
    assert r.status == 200
    while r.read(1 << 20): pass
END`

// BenchmarkProxy measures commands in a container that fetch from an allowed
// host: small requests, and a large body.
func BenchmarkProxy(b *testing.B) {
	enginetest.Need(b, testImage())
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/large" {
			_, _ = io.CopyN(w, endless{}, 64<<20)
		}
	}))
	defer server.Close()
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	require.NoError(b, err)
	rt, err := pygent.NewDockerRuntime(b.Context(), pygent.WithImage(testImage()), pygent.WithAllowedHosts("127.0.0.1:"+port))
	require.NoError(b, err)
	defer rt.Cleanup()
	run := func(b *testing.B, path string) {
		res, err := rt.Bash(b.Context(), fmt.Sprintf(hostScript, b.N, server.URL+path), pygent.BashTimeout(-1))
		require.NoError(b, err)
		require.Zero(b, res.ExitCode, res.Output)
	}
	_, err = rt.Bash(b.Context(), "python3 -c 'import http.client'", pygent.BashTimeout(-1)) // keeps the start of the container out of the measurement
	require.NoError(b, err)
	b.Run("request", func(b *testing.B) { run(b, "/") })
	b.Run("large", func(b *testing.B) {
		b.SetBytes(64 << 20)
		run(b, "/large")
	})
}

// endless is a body without an end.
type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }
