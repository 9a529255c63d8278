package web_test

import (
	"bufio"
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
