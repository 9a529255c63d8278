package docker

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/client"
	"go.opentelemetry.io/otel/trace/noop"
)

// Waiting times for an engine.
const (
	pingTimeout    = 5 * time.Second  // on a busy machine; else commands might run without a container
	sshPingTimeout = 10 * time.Second // a session has to be set up first
)

// hijack asks an engine for a raw connection. Its client waits for the answer
// whatever becomes of the context, so that a request to an engine that does not
// answer is left to itself until the engine does, or ends.
func hijack(ctx context.Context, engine *client.Client, within time.Duration, request func(context.Context) (types.HijackedResponse, error)) (types.HijackedResponse, error) {
	type answer struct {
		conn types.HijackedResponse
		err  error
	}
	answered := make(chan answer, 1)
	go func() {
		conn, err := request(ctx)
		answered <- answer{conn, err}
	}()
	limited, end := whileAnswering(ctx, engine, within)
	defer end()
	select {
	case a := <-answered:
		return a.conn, a.err
	case <-limited.Done():
	}
	err := engineWords(limited, limited.Err())
	go func() {
		if late := <-answered; late.err == nil {
			late.conn.Close()
		}
	}()
	return types.HijackedResponse{}, err
}

// endpoint is an engine's address, and why it is one that may answer.
type endpoint struct {
	host    string // as in DOCKER_HOST
	source  string // "DOCKER_HOST", "context colima", ...
	tlsDir  string // of a context: ca.pem, cert.pem, key.pem
	fromEnv bool   // TLS settings come from DOCKER_CERT_PATH and DOCKER_TLS_VERIFY
}

// String names the address, and where it comes from.
func (e endpoint) String() string {
	if e.source == "" {
		return e.host
	}
	return e.host + " (" + e.source + ")"
}

// Engine is a client of an engine. No other package of the library names its type.
type Engine = client.Client

// HasNetwork reports whether an engine has a network of a name or id.
func HasNetwork(ctx context.Context, engine *Engine, name string) (bool, error) {
	_, err := engine.NetworkInspect(ctx, name, network.InspectOptions{})
	if errdefs.IsNotFound(err) {
		return false, nil
	}
	return err == nil, err
}

// Connect returns a client of the first engine that answers. host
// overrides the search. Without an answer the error matches
// [ErrUnavailable] and says what was tried. No program is run that lies in the
// owned directories.
func Connect(ctx context.Context, host string, owned ...string) (*Engine, error) {
	endpoints, err := findEndpoints(host, os.Getenv)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	var tried []string
	for _, e := range endpoints {
		end := e.tellWaiting(ctx)
		c, err := e.connect(ctx, owned)
		end()
		if err == nil {
			return c, nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		tried = append(tried, fmt.Sprintf("%v: %v", e, err))
	}
	return nil, fmt.Errorf("%w (tried %s); start Docker or Podman, or name an engine with DOCKER_HOST",
		ErrUnavailable, strings.Join(tried, "; "))
}

// connect returns a client when the engine answers a ping in time.
func (e endpoint) connect(ctx context.Context, owned []string) (*client.Client, error) {
	if path, ok := strings.CutPrefix(e.host, "unix://"); ok {
		if _, err := os.Stat(path); err != nil {
			var perr *fs.PathError
			if errors.As(err, &perr) {
				err = perr.Err
			}
			return nil, err
		}
	}
	opts, err := e.clientOptions(owned)
	if err != nil {
		return nil, err
	}
	// A program's own spans get none of each request to the engine.
	c, err := client.NewClientWithOpts(append(opts, client.WithTraceProvider(noop.NewTracerProvider()))...)
	if err != nil {
		return nil, err
	}
	timeout := pingTimeout
	if strings.HasPrefix(e.host, "ssh:") {
		timeout = sshPingTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	ping, err := c.Ping(ctx)
	if err != nil {
		defer c.Close()
		if errors.Is(err, os.ErrClosed) || errors.Is(err, syscall.EPIPE) {
			err = cmp.Or(e.lastWords(ctx, c), err)
		}
		if errors.Is(err, context.DeadlineExceeded) {
			return nil, fmt.Errorf("it did not answer within %v", timeout)
		}
		return nil, errors.New(pingWords(err))
	}
	c.NegotiateAPIVersionPing(ping)
	return c, nil
}

// lastWords returns why a program that connects to the engine ends, if it does. One that
// has ended before it was written to does not tell whoever writes, but whoever reads.
func (e endpoint) lastWords(ctx context.Context, c *client.Client) error {
	if !strings.HasPrefix(e.host, "ssh:") {
		return nil
	}
	conn, err := c.Dialer()(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	_, err = conn.Read(make([]byte, 1))
	return cmp.Or(ctx.Err(), err)
}

// pingWords says in a line why an engine could not be asked. The request, whose address is
// made up where the engine is not asked by TCP, says nothing.
func pingWords(err error) string {
	var request *url.Error
	if errors.As(err, &request) {
		err = request.Err
	}
	return strings.Join(strings.FieldsFunc(err.Error(), func(r rune) bool { return r == '\n' || r == '\r' }), "; ")
}

func (e endpoint) clientOptions(owned []string) ([]client.Opt, error) {
	opts := []client.Opt{client.WithAPIVersionNegotiation(), client.WithVersionFromEnv(), client.WithUserAgent("pygent")}
	helper, err := sshHelper(e.host, owned)
	switch {
	case err != nil:
		return nil, err
	case helper != nil:
		return append(opts, client.WithHost(helper.Host), client.WithDialContext(helper.Dialer)), nil
	case e.fromEnv:
		opts = append(opts, client.WithTLSClientConfigFromEnv())
	case e.tlsDir != "":
		file := func(name string) string { return filepath.Join(e.tlsDir, name) }
		opts = append(opts, client.WithTLSClientConfig(file("ca.pem"), file("cert.pem"), file("key.pem")))
	}
	return append(opts, client.WithHost(e.host)), nil
}

// findEndpoints lists where an engine may answer, as the docker command looks
// for it, and then the sockets of rootless Docker, Docker Desktop and Podman.
// An engine that the user names is the only one.
func findEndpoints(host string, getenv func(string) string) ([]endpoint, error) {
	if host != "" {
		return []endpoint{{host: host, fromEnv: true}}, nil
	}
	if host = getenv("DOCKER_HOST"); host != "" {
		return []endpoint{{host: host, source: "DOCKER_HOST", fromEnv: true}}, nil
	}
	home := getenv("HOME")
	config := getenv("DOCKER_CONFIG")
	if config == "" {
		config = filepath.Join(home, ".docker")
	}
	name := getenv("DOCKER_CONTEXT")
	if name == "" {
		name = currentContext(config)
	}
	if name != "" && name != "default" {
		e, err := readContext(config, name)
		return []endpoint{e}, err
	}
	if runtime.GOOS == "windows" {
		return []endpoint{{host: client.DefaultDockerHost}}, nil
	}
	found := []endpoint{{host: "unix:///var/run/docker.sock"}}
	add := func(dir, socket, source string) {
		if dir != "" {
			found = append(found, endpoint{host: "unix://" + filepath.Join(dir, socket), source: source})
		}
	}
	add(getenv("XDG_RUNTIME_DIR"), "docker.sock", "rootless")
	add(home, ".docker/run/docker.sock", "Docker Desktop")
	add(getenv("XDG_RUNTIME_DIR"), "podman/podman.sock", "Podman")
	add("/run/podman", "podman.sock", "Podman")
	return found, nil
}

// currentContext returns the context that the docker command uses, "" when its
// configuration names none.
func currentContext(config string) string {
	data, err := os.ReadFile(filepath.Join(config, "config.json"))
	if err != nil {
		return ""
	}
	var file struct {
		CurrentContext string `json:"currentContext"`
	}
	if json.Unmarshal(data, &file) != nil {
		return ""
	}
	return file.CurrentContext
}

// readContext returns the endpoint of a context of the docker command. Its
// directories are named by the hash of the context's name.
func readContext(config, name string) (endpoint, error) {
	sum := sha256.Sum256([]byte(name))
	id := hex.EncodeToString(sum[:])
	data, err := os.ReadFile(filepath.Join(config, "contexts", "meta", id, "meta.json"))
	if err != nil {
		return endpoint{}, fmt.Errorf("docker context %q: %w", name, err)
	}
	var meta struct {
		Endpoints struct {
			Docker struct{ Host string } `json:"docker"`
		}
	}
	if err := json.Unmarshal(data, &meta); err != nil {
		return endpoint{}, fmt.Errorf("docker context %q: %w", name, err)
	}
	e := endpoint{host: meta.Endpoints.Docker.Host, source: "context " + name}
	if e.host == "" {
		return endpoint{}, fmt.Errorf("docker context %q names no docker host", name)
	}
	tls := filepath.Join(config, "contexts", "tls", id, "docker")
	if _, err := os.Stat(tls); err == nil {
		e.tlsDir = tls
	}
	return e, nil
}
