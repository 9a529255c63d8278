package pygent_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/x/pygent"
	"github.com/x/pygent/pygenttest"
)

// standIn forwards connections from a listener to the engine, and so acts as an
// engine at another address. It returns a function that counts the connections.
func standIn(t *testing.T, l net.Listener) (connections func() int) {
	t.Helper()
	engine := testEngine(t)
	var wg sync.WaitGroup
	var mu sync.Mutex // guards open and count
	open, count := map[net.Conn]bool{}, 0
	pass := func(outside net.Conn) {
		defer outside.Close()
		inside, err := engine.Dialer()(context.Background())
		if err != nil {
			return
		}
		defer inside.Close()
		mu.Lock()
		open[outside], open[inside] = true, true
		count++
		mu.Unlock()
		wg.Go(func() {
			io.Copy(inside, outside)
			inside.(interface{ CloseWrite() error }).CloseWrite()
		})
		io.Copy(outside, inside)
	}
	wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { pass(conn) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		mu.Lock()
		for conn := range open {
			conn.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
	return func() int {
		mu.Lock()
		defer mu.Unlock()
		return count
	}
}

// shortDir returns a temporary directory with a name so short that the path of
// a socket in it is valid.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "e")
	require.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func listenUnix(t *testing.T, path string) net.Listener {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	l, err := net.Listen("unix", path)
	require.NoError(t, err)
	return l
}

// writeContext makes a context of the docker command.
func writeContext(t *testing.T, config, name, host string) (id string) {
	t.Helper()
	sum := sha256.Sum256([]byte(name))
	id = hex.EncodeToString(sum[:])
	write(t, config, map[string]string{
		"contexts/meta/" + id + "/meta.json": fmt.Sprintf(`{"Name":%q,"Endpoints":{"docker":{"Host":%q}}}`, name, host),
	})
	return id
}

// unsetEngine removes all settings from which an engine could be found. The
// default socket cannot be hidden and is still tried first.
func unsetEngine(t *testing.T) (home string) {
	home = shortDir(t)
	for _, name := range []string{"DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_CONFIG", "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH", "XDG_RUNTIME_DIR"} {
		t.Setenv(name, "")
	}
	t.Setenv("XDG_CACHE_HOME", filepath.Join(home, "cache"))
	t.Setenv("HOME", home)
	return home
}

func requireUsed(t *testing.T, connections func() int, opts ...pygent.RuntimeOption) {
	t.Helper()
	r := newTestRuntime(t, pygent.NewDockerRuntime, append([]pygent.RuntimeOption{pygent.WithImage(testImage())}, opts...)...)
	require.NoError(t, r.WriteFile(t.Context(), "f", []byte("content")))
	require.Equal(t, "content", bash(t, r, "cat f").Output)
	require.NotZero(t, connections())
	require.NoError(t, r.Cleanup())
}

func TestEngineOfDockerHost(t *testing.T) {
	t.Run("unix", func(t *testing.T) {
		l := listenUnix(t, filepath.Join(shortDir(t), "s"))
		connections := standIn(t, l)
		unsetEngine(t)
		t.Setenv("DOCKER_HOST", "unix://"+l.Addr().String())
		requireUsed(t, connections)
	})
	t.Run("tcp", func(t *testing.T) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		connections := standIn(t, l)
		unsetEngine(t)
		t.Setenv("DOCKER_HOST", "tcp://"+l.Addr().String())
		requireUsed(t, connections)
	})
}

func TestEnginesThatCannotBeAskedAreNamedInPlainWords(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer silent.Close()
	requireUnavailable(t, "tcp://"+silent.Addr().String(), "it did not answer within 5s")
	requireUnavailable(t, "tcp://127.0.0.1:1", "Cannot connect")
}

func TestAnEngineThatSSHDoesNotReachIsNamedInPlainWords(t *testing.T) {
	program := filepath.Join(t.TempDir(), "ssh")
	write(t, filepath.Dir(program), map[string]string{"ssh": "#!/bin/sh\necho 'Host key verification failed.' >&2\necho 'Lost.' >&2\nexit 255\n"})
	require.NoError(t, os.Chmod(program, 0o700))
	t.Setenv("PATH", filepath.Dir(program)+":"+os.Getenv("PATH"))
	requireUnavailable(t, "ssh://none.invalid", "Host key verification failed.; Lost.")
}

// requireUnavailable checks that the engine of a host cannot be asked, and that the error
// says why in a line, and not how it was asked.
func requireUnavailable(t *testing.T, host, why string) {
	t.Helper()
	_, err := pygent.NewDockerRuntime(t.Context(), pygent.WithDockerHost(host))
	require.ErrorIs(t, err, pygent.ErrDockerUnavailable)
	require.ErrorContains(t, err, "(tried "+host)
	require.ErrorContains(t, err, why)
	require.NotContains(t, err.Error(), "\n")
	require.NotContains(t, err.Error(), "_ping")
}

func TestAnEngineIsNotWaitedForOnceTheContextHasEnded(t *testing.T) {
	listener, err := net.Listen("unix", filepath.Join(t.TempDir(), "engine.sock"))
	require.NoError(t, err)
	defer listener.Close()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		if conn, err := listener.Accept(); err == nil { // it is never answered
			defer conn.Close()
			cancel()
			<-t.Context().Done()
		}
	}()
	_, err = pygent.NewWithContext(ctx, pygent.WithModel(pygenttest.NewScriptedModel()), pygent.WithDockerHost("unix://"+listener.Addr().String()))
	require.ErrorIs(t, err, context.Canceled, "commands would run on this machine otherwise")
}

func TestEngineOfAContext(t *testing.T) {
	l := listenUnix(t, filepath.Join(shortDir(t), "s"))
	connections := standIn(t, l)
	home := unsetEngine(t)
	t.Run("in use", func(t *testing.T) {
		writeContext(t, filepath.Join(home, ".docker"), "mine", "unix://"+l.Addr().String())
		write(t, home, map[string]string{".docker/config.json": `{"currentContext":"mine"}`})
		requireUsed(t, connections)
	})
	t.Run("named, elsewhere", func(t *testing.T) {
		config := t.TempDir()
		writeContext(t, config, "other", "unix://"+l.Addr().String())
		t.Setenv("DOCKER_CONFIG", config)
		t.Setenv("DOCKER_CONTEXT", "other")
		before := connections()
		requireUsed(t, func() int { return connections() - before })
	})
	t.Run("that does not answer", func(t *testing.T) {
		config := t.TempDir()
		writeContext(t, config, "gone", "unix:///nonexistent/s")
		t.Setenv("DOCKER_CONFIG", config)
		t.Setenv("DOCKER_CONTEXT", "gone")
		_, err := pygent.NewDockerRuntime(t.Context())
		require.ErrorIs(t, err, pygent.ErrDockerUnavailable)
		require.ErrorContains(t, err, "context gone")
	})
}

// TestEngineBehindTLS uses an engine that identifies its clients by
// certificates.
func TestEngineBehindTLS(t *testing.T) {
	certs := t.TempDir()
	config := writeCertificates(t, certs)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	connections := standIn(t, tls.NewListener(l, config))
	address := "tcp://" + l.Addr().String()
	unsetEngine(t)

	t.Run("by the environment", func(t *testing.T) {
		t.Setenv("DOCKER_HOST", address)
		t.Setenv("DOCKER_TLS_VERIFY", "1")
		t.Setenv("DOCKER_CERT_PATH", certs)
		requireUsed(t, connections)
	})
	t.Run("by a context", func(t *testing.T) {
		docker := t.TempDir()
		id := writeContext(t, docker, "secure", address)
		require.NoError(t, os.MkdirAll(filepath.Join(docker, "contexts", "tls", id), 0o700))
		require.NoError(t, os.CopyFS(filepath.Join(docker, "contexts", "tls", id, "docker"), os.DirFS(certs)))
		t.Setenv("DOCKER_CONFIG", docker)
		t.Setenv("DOCKER_CONTEXT", "secure")
		before := connections()
		requireUsed(t, func() int { return connections() - before })
	})
	t.Run("without a certificate", func(t *testing.T) {
		t.Setenv("DOCKER_HOST", address)
		_, err := pygent.NewDockerRuntime(t.Context())
		require.ErrorIs(t, err, pygent.ErrDockerUnavailable)
		require.ErrorContains(t, err, strings.TrimPrefix(address, "tcp://"))
	})
}

// writeCertificates makes a certificate authority, and a client certificate in
// files named as the docker command expects. It returns the configuration of a
// server.
func writeCertificates(t *testing.T, dir string) *tls.Config {
	t.Helper()
	authority := certificate(t, &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}, nil)
	user := certificate(t, &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}, &authority)
	server := certificate(t, &x509.Certificate{
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}, &authority)
	key, err := x509.MarshalPKCS8PrivateKey(user.PrivateKey)
	require.NoError(t, err)
	for name, block := range map[string]pem.Block{
		"ca.pem":   {Type: "CERTIFICATE", Bytes: authority.Certificate[0]},
		"cert.pem": {Type: "CERTIFICATE", Bytes: user.Certificate[0]},
		"key.pem":  {Type: "PRIVATE KEY", Bytes: key},
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(&block), 0o600))
	}
	pool := x509.NewCertPool()
	pool.AddCert(authority.Leaf)
	return &tls.Config{Certificates: []tls.Certificate{server}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool}
}

func certificate(t *testing.T, template *x509.Certificate, authority *tls.Certificate) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.Subject = pkix.Name{CommonName: "pygent test"}
	template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, by := template, any(key)
	if authority != nil {
		parent, by = authority.Leaf, authority.PrivateKey
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), by)
	require.NoError(t, err)
	leaf, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}
