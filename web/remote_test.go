package web_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/pygenttest"
	"github.com/x/pygent/web"
)

// certificate writes a certificate of this machine, and returns who trusts it.
func certificate(t *testing.T) (certFile, keyFile string, trust *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		DNSNames: []string{"agent.example"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	require.NoError(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	certFile, keyFile = filepath.Join(t.TempDir(), "cert.pem"), filepath.Join(t.TempDir(), "key.pem")
	require.NoError(t, os.WriteFile(certFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}), 0o600))
	require.NoError(t, os.WriteFile(keyFile, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600))
	trust = x509.NewCertPool()
	trust.AppendCertsFromPEM(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}))
	return certFile, keyFile, trust
}

// Others reach the page by TLS, under its names and with its token.
func TestOthersReachThePageByTLS(t *testing.T) {
	certFile, keyFile, trust := certificate(t)
	var logged log
	server, err := web.New(web.WithHosts("agent.example", "127.0.0.1"), web.WithLogger(slog.New(slog.NewTextHandler(&logged, nil))))
	require.NoError(t, err)
	agent := newAgent(t, pygenttest.NewScriptedModel(pygenttest.Text("Hello from afar.")))
	id, err := server.Add("", agent)
	require.NoError(t, err)
	r, w := io.Pipe()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() {
		ended <- web.Serve(ctx, server, web.ServeOptions{Listen: "0.0.0.0:0", AllowRemote: true, CertFile: certFile, KeyFile: keyFile, Out: w})
	}()
	line, err := bufio.NewReader(r).ReadString('\n')
	require.NoError(t, err)
	at := regexp.MustCompile(`^https://.*:(\d+)/#token=` + server.Token() + `\n$`).FindStringSubmatch(line)
	require.NotNil(t, at, line)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trust}, ForceAttemptHTTP2: true}
	s := &served{t: t, server: server, url: "https://127.0.0.1:" + at[1], id: id, agent: agent, token: server.Token(), client: &http.Client{Transport: transport}}
	p := s.open("")
	s.say("Hi.")
	p.shows("<p>Hello from afar.</p>")

	request := s.request(http.MethodGet, "/sessions", nil)
	request.Host = "agent.example"
	status, _ := s.do(request)
	require.Equal(t, http.StatusOK, status)
	request = s.request(http.MethodGet, "/sessions", nil)
	request.Host = "evil.example"
	status, _ = s.do(request)
	require.Equal(t, http.StatusMisdirectedRequest, status)
	request = s.request(http.MethodGet, "/sessions", nil)
	request.Header.Del("Authorization")
	status, _ = s.do(request)
	require.Equal(t, http.StatusUnauthorized, status)
	resp, err := http.Get("http://127.0.0.1:" + at[1] + "/")
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusBadRequest, resp.StatusCode, "nothing is told without TLS")

	p.close()
	stop()
	require.NoError(t, <-ended)
	require.NoError(t, server.Close())
	transport.CloseIdleConnections()
	require.Contains(t, logged.String(), "client sent an HTTP request to an HTTPS server")
}

// The printed address is one that the server answers to, wherever it listens, and
// nothing is printed where it cannot serve.
func TestThePrintedAddressLeadsToThePage(t *testing.T) {
	certFile, keyFile, _ := certificate(t)
	for name, tt := range map[string]struct {
		hosts []string
		want  string
	}{
		"without a name":  {nil, `^https://localhost:\d+/#token=`},
		"with a name":     {[]string{"agent.example"}, `^https://agent\.example:\d+/#token=`},
		"with its port":   {[]string{"agent.example:8443"}, `^https://agent\.example:8443/#token=`},
		"with an address": {[]string{"[2001:db8::1]"}, `^https://\[2001:db8::1\]:\d+/#token=`},
	} {
		t.Run(name, func(t *testing.T) {
			server, err := web.New(web.WithHosts(tt.hosts...))
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, server.Close()) })
			ctx, stop := context.WithCancel(t.Context())
			var out bytes.Buffer
			o := web.ServeOptions{Listen: "0.0.0.0:0", AllowRemote: true, CertFile: certFile, KeyFile: keyFile, Out: writerFunc(func(p []byte) (int, error) {
				stop()
				return out.Write(p)
			})}
			require.NoError(t, web.Serve(ctx, server, o))
			require.Regexp(t, tt.want, out.String())
			out.Reset()
			o.KeyFile = "none"
			require.ErrorContains(t, web.Serve(t.Context(), server, o), "read the certificate: open none")
			require.Empty(t, out.String())
		})
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
