package pygent_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/testkit/enginetest"
)

// clientsImage is an image with the clients of package registries.
func clientsImage() string {
	return enginetest.Clients()
}

// newClientsRuntime makes a container with these clients and the tests' Go
// toolchain. All host names lead to the registry.
func newClientsRuntime(t *testing.T, r *registry, opts ...pygent.RuntimeOption) pygent.Runtime {
	t.Helper()
	requireDocker(t)
	rt := newTestRuntime(t, pygent.NewDockerRuntime, append([]pygent.RuntimeOption{
		pygent.WithImage(clientsImage()),
		pygent.WithMemory(1 << 30),
		pygent.WithMounts(
			pygent.Mount{Source: goRoot(t), Target: "/usr/local/go", ReadOnly: true},
			pygent.Mount{Source: goCache(t), Target: "/tmp/gocache"},
		),
		pygent.WithTestServer(r.Listener.Addr().String()),
		pygent.WithEnv(
			"PATH=/usr/local/go/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
			"GOTOOLCHAIN=local", "GOFLAGS=-mod=mod", "GONOSUMDB=*", "GOPATH=/tmp/go", "GOCACHE=/tmp/gocache", "GOPROXY="+r.url("goproxy", "/go"),
			"npm_config_registry="+r.url("npm", "/"), "npm_config_update_notifier=false", "npm_config_audit=false", "npm_config_fund=false",
			"PIP_INDEX_URL="+r.url("pypi", "/simple"), "PIP_BREAK_SYSTEM_PACKAGES=1", "PIP_DISABLE_PIP_VERSION_CHECK=1", "PIP_ROOT_USER_ACTION=ignore", "PIP_NO_CACHE_DIR=1",
			"SSL_CERT_FILE=/workspace/ca.pem", "CURL_CA_BUNDLE=/workspace/ca.pem", "PIP_CERT=/workspace/ca.pem", "PIP_TRUSTED_HOST="+r.trusted(), "NODE_EXTRA_CA_CERTS=/workspace/ca.pem", "GIT_SSL_CAINFO=/workspace/ca.pem",
		),
	}, opts...)...)
	require.NoError(t, rt.WriteFile(t.Context(), "ca.pem", r.ca))
	return rt
}

// goRoot is the directory of the tests' Go toolchain.
func goRoot(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("go", "env", "GOROOT").Output()
	require.NoError(t, err)
	return strings.TrimSpace(string(out))
}

// goCache returns a directory with the compiled runtime of Go. Compiling it again in each
// container would take most of the processor time of these tests.
func goCache(t *testing.T) string {
	t.Helper()
	kept, err := compiledRuntime()
	require.NoError(t, err)
	dir := filepath.Join(t.TempDir(), "go-build") // commands in a container must not change what is kept
	require.NoError(t, os.CopyFS(dir, os.DirFS(kept)))
	return dir
}

// compiledRuntime compiles the runtime of Go as a container does, where there is no C
// compiler, and returns the cache in which it keeps that for the next time.
var compiledRuntime = sync.OnceValues(func() (string, error) {
	user, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	kept := filepath.Join(user, "pygent", "test-go-build")
	build := exec.Command("go", "build", "runtime")
	build.Env = append(os.Environ(), "GOCACHE="+kept, "CGO_ENABLED=0", "GOFLAGS=")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build runtime: %w\n%s", err, out)
	}
	return kept, nil
})

// clientCommands returns a typical command of each package manager. Each prints
// hello.
func clientCommands(r *registry) map[string]string {
	apt := "apt-get -q -o Dir::Etc::sourcelist=/workspace/hello.list -o Dir::Etc::sourceparts=- -o Acquire::https::CaInfo=/workspace/ca.pem -o APT::Sandbox::User=root "
	return map[string]string{
		"curl":   "curl -sS --fail " + r.url("www", "/hello.txt"),
		"wget":   "wget -nv --ca-certificate=/workspace/ca.pem -O - " + r.url("www", "/hello.txt"),
		"pip":    "pip install -q hello && python3 -m hello",
		"npm":    "mkdir -p n && cd n && npm install --silent hello && node -e 'require(\"hello\")'",
		"go":     "go run hello.example.com/hello@latest",
		"apt":    "echo 'deb [trusted=yes] " + r.url("apt", "/apt") + " ./' >hello.list && " + apt + "update && " + apt + "install -y hello-test && hello-test",
		"git":    "git clone -q " + r.url("git", "/git/hello.git") + " cloned && cat cloned/hello.txt",
		"python": "python3 -c 'import urllib.request; print(urllib.request.urlopen(\"" + r.url("www", "/hello.txt") + "\").read().decode())'",
	}
}

var registryHosts = []string{"www", "pypi", "files", "npm", "goproxy", "apt", "git"}

func TestClientsReachAllowedHosts(t *testing.T) {
	t.Parallel()
	for _, scheme := range []string{"http", "https"} {
		t.Run(scheme, func(t *testing.T) {
			r := newRegistry(t, scheme)
			var hosts []string
			for _, name := range registryHosts {
				hosts = append(hosts, r.host(name))
			}
			rt := newClientsRuntime(t, r, pygent.WithAllowedHosts(hosts...))
			for name, cmd := range clientCommands(r) {
				t.Run(name, func(t *testing.T) {
					res := bash(t, rt, cmd, pygent.BashTimeout(pygent.MaxBashTimeout))
					require.Zero(t, res.ExitCode, res.String())
					require.Contains(t, res.Output, "hello")
					require.Empty(t, res.Note)
					require.Empty(t, res.Refused)
				})
			}
		})
	}
}

func TestClientsAreToldOfRefusedHosts(t *testing.T) {
	t.Parallel()
	r := newRegistry(t, "https")
	rt := newClientsRuntime(t, r, pygent.WithAllowedHosts(r.host("allowed")), pygent.WithEnv("PIP_RETRIES=0", "npm_config_fetch_retries=0"))
	hosts := map[string]string{"curl": "www", "wget": "www", "python": "www", "pip": "pypi", "npm": "npm", "go": "goproxy", "apt": "apt", "git": "git"}
	for name, cmd := range clientCommands(r) {
		t.Run(name, func(t *testing.T) {
			if name == "apt" { // apt takes a failed update for a warning
				cmd = strings.Replace(cmd, "update &&", "update -o APT::Update::Error-Mode=any &&", 1)
			}
			res := bash(t, rt, cmd, pygent.BashTimeout(pygent.MaxBashTimeout))
			require.NotZero(t, res.ExitCode, res.String())
			host := r.host(hosts[name])
			require.Contains(t, res.Note, "the network refused "+host)
			require.Contains(t, res.Note, "the user can allow "+host)
			require.Len(t, res.Refused, 1)
			require.Equal(t, host, res.Refused[0].Host)
		})
	}
}

// TestClientsGoOnAfterAnApproval approves hosts while clients wait for them.
func TestClientsGoOnAfterAnApproval(t *testing.T) {
	t.Parallel()
	r := newRegistry(t, "https")
	var mu sync.Mutex // guards asked
	var asked []string
	approve := func(_ context.Context, req pygent.HostRequest) (pygent.HostDecision, error) {
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, req.Hosts...)
		return pygent.HostDecision{Allow: true}, nil
	}
	rt := newClientsRuntime(t, r, pygent.WithHostApproval(approve))
	for name, hosts := range map[string][]string{"pip": {"pypi", "files"}, "npm": {"npm"}, "go": {"goproxy"}} {
		t.Run(name, func(t *testing.T) {
			asked = nil
			res := bash(t, rt, clientCommands(r)[name], pygent.BashTimeout(pygent.MaxBashTimeout))
			require.Zero(t, res.ExitCode, res.String())
			var want []string
			for _, host := range hosts {
				want = append(want, r.host(host))
			}
			require.Equal(t, want, asked)
		})
	}
}
