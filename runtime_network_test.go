// These tests hold which hosts commands reach, who is asked about others, and what a refused
// connection says.

package pygent_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
	"github.com/x/pygent/internal/testkit/enginetest"
	"github.com/x/pygent/pygenttest"
)

// hostSite is a web server on an address of this machine that clients do not
// take for a local one, so that they use the proxy. It answers with a short
// text. At /big it answers with 64 MiB; at /hang it sends on hanging and never
// answers.
func hostSite(t *testing.T) (address string, hanging <-chan struct{}) {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(ownAddress(t), "0"))
	require.NoError(t, err)
	hang := make(chan struct{}, 8)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/big":
			_, _ = io.CopyN(w, zeros{}, 64<<20)
		case "/hang":
			hang <- struct{}{}
			<-r.Context().Done()
		default:
			_, _ = io.WriteString(w, "hello from outside")
		}
	}))
	_ = server.Listener.Close()
	server.Listener = l
	server.Start()
	t.Cleanup(server.Close)
	return l.Addr().String(), hang
}

// ownAddress returns an address of this machine other than the loopback.
func ownAddress(t *testing.T) string {
	t.Helper()
	all, err := net.InterfaceAddrs()
	require.NoError(t, err)
	for _, a := range all {
		if ip, ok := a.(*net.IPNet); ok && ip.IP.To4() != nil && !ip.IP.IsLoopback() {
			return ip.IP.String()
		}
	}
	require.Fail(t, "this machine has no address but the loopback's")
	return ""
}

// zeros is an endless reader of zero bytes.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// fetch returns a command that fetches a URL as most programs do.
func fetch(url string) string {
	return fmt.Sprintf("python3 -c 'import urllib.request as u; print(len(u.urlopen(%q).read()))'", url)
}

// networkEvents collects a runtime's events about hosts.
type networkEvents struct {
	mu  sync.Mutex
	all []pygent.HostUse
}

func (e *networkEvents) option() pygent.RuntimeOption {
	return pygent.OnRuntimeEvent(func(event pygent.RuntimeEvent) {
		if event.Kind == pygent.RuntimeNetwork {
			e.mu.Lock()
			defer e.mu.Unlock()
			e.all = append(e.all, *event.Host)
		}
	})
}

func (e *networkEvents) has(u pygent.HostUse) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, one := range e.all {
		if one.Host == u.Host && one.Port == u.Port && one.Allowed == u.Allowed {
			return true
		}
	}
	return false
}

func TestAllowingTheContainerItselfIsTold(t *testing.T) {
	t.Parallel()
	requireDocker(t)
	for host, told := range map[string]bool{"localhost:8080": true, "127.0.0.1:8080": true, "[::1]:8080": true, "127.0.0.2:8080": false, "localhost.example.org": false} {
		var texts []string
		newTestRuntime(t, pygent.NewDockerRuntime, pygent.WithImage(testImage()), pygent.WithAllowedHosts(host), pygent.OnRuntimeEvent(func(e pygent.RuntimeEvent) {
			if e.Kind == pygent.RuntimeLimited {
				texts = append(texts, e.Text)
			}
		}))
		require.Equal(t, told, strings.Contains(strings.Join(texts, "\n"), host+" is the container itself"), "%s: %q", host, texts)
	}
}

func TestCommandsReachAllowedHostsOnly(t *testing.T) {
	t.Parallel()
	requireDocker(t)
	address, _ := hostSite(t)
	other, _ := hostSite(t)
	var events networkEvents
	r := newTestRuntime(t, pygent.NewDockerRuntime, pygent.WithImage(testImage()), pygent.WithAllowedHosts(address, "*.example.net"), events.option())
	info := r.(pygent.Describer).Describe(t.Context())
	require.False(t, info.Network)
	require.Equal(t, []string{address, "*.example.net"}, info.AllowedHosts)

	res := bash(t, r, fetch("http://"+address+"/"))
	require.Equal(t, "18\n", res.Output)
	require.Empty(t, res.Refused)
	res = bash(t, r, fetch("http://"+address+"/big"), pygent.BashTimeout(5*time.Minute))
	require.Equal(t, "67108864\n", res.Output)

	res = bash(t, r, fetch("http://"+other+"/"))
	require.NotZero(t, res.ExitCode)
	require.Contains(t, res.Output, "403")
	host, port, err := net.SplitHostPort(other)
	require.NoError(t, err)
	require.Len(t, res.Refused, 1)
	require.Equal(t, host, res.Refused[0].Host)
	require.Equal(t, port, fmt.Sprint(res.Refused[0].Port))
	require.NotEmpty(t, res.Refused[0].Reason)
	res = bash(t, r, fetch("https://example.org/"))
	require.Equal(t, []pygent.HostUse{{Host: "example.org", Port: 443, Reason: "it is not an allowed host", Allow: "example.org"}}, res.Refused)
	require.Empty(t, bash(t, r, "true").Refused)

	// Without the proxy, nothing can be reached.
	res = bash(t, r, "unset http_proxy HTTP_PROXY; "+fetch("http://"+address+"/"))
	require.Contains(t, res.Output, "unreachable")

	allowedHost, allowedPort, err := net.SplitHostPort(address)
	require.NoError(t, err)
	n, err := net.LookupPort("tcp", allowedPort)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		return events.has(pygent.HostUse{Host: allowedHost, Port: n, Allowed: true}) && events.has(pygent.HostUse{Host: "example.org", Port: 443})
	}, 10*time.Second, time.Millisecond)
}

func TestTheWayOutOutlivesTheContainer(t *testing.T) {
	t.Parallel()
	engine := testEngine(t)
	address, hanging := hostSite(t)
	dir := realTempDir(t)
	r := newTestRuntime(t, pygent.NewDockerRuntime, pygent.WithImage(testImage()), pygent.WithWorkspace(dir), pygent.WithAllowedHosts(address))
	bash(t, r, "true")
	done := make(chan pygent.BashResult, 1)
	go func() {
		res, _ := r.Bash(context.WithoutCancel(t.Context()), fetch("http://"+address+"/hang"))
		done <- res
	}()
	select {
	case <-hanging:
	case res := <-done:
		require.Fail(t, "the command ended", res)
	}
	found := containersOf(t, engine, dir)
	require.Len(t, found, 1)
	require.NoError(t, engine.ContainerKill(t.Context(), found[0].ID, "KILL"))
	require.Contains(t, (<-done).Note, "the container died")
	require.Equal(t, "18\n", bash(t, r, fetch("http://"+address+"/")).Output)
}

func TestCleanupEndsConnectionsToHosts(t *testing.T) {
	t.Parallel()
	requireDocker(t)
	address, hanging := hostSite(t)
	r := newTestRuntime(t, pygent.NewDockerRuntime, pygent.WithImage(testImage()), pygent.WithAllowedHosts(address))
	job, err := r.(pygent.JobRunner).StartJob(t.Context(), fetch("http://"+address+"/hang"))
	require.NoError(t, err)
	require.True(t, job.Running)
	<-hanging
	require.NoError(t, r.Cleanup())
}

func TestRemoteCommandsReachAllowedHosts(t *testing.T) {
	t.Parallel()
	address, _ := hostSite(t)
	r := newRemoteRuntime(t, pygent.WithAllowedHosts(address))
	require.Equal(t, "18\n", bash(t, r, fetch("http://"+address+"/")).Output)
	require.Len(t, bash(t, r, fetch("http://example.org/")).Refused, 1)
}

func TestWithoutAGuestNoHostCanBeAllowed(t *testing.T) {
	t.Parallel()
	requireDocker(t)
	told := make(chan string, 8)
	r := newTestRuntime(t, pygent.NewDockerRuntime, pygent.WithImage(testImage()), pygent.WithTestPlainExec(), pygent.WithAllowedHosts("example.org"),
		pygent.OnRuntimeEvent(func(e pygent.RuntimeEvent) {
			if e.Kind == pygent.RuntimeLimited {
				told <- e.Text
			}
		}))
	require.Empty(t, bash(t, r, "env | grep -i _proxy").Output)
	require.Contains(t, <-told, "no host can be allowed")
}

func TestNoHostIsReachedUnlessAllowed(t *testing.T) {
	t.Parallel()
	requireDocker(t)
	r := newTestRuntime(t, pygent.NewDockerRuntime, pygent.WithImage(testImage()))
	res := bash(t, r, "env | grep -i proxy; cat /proc/net/tcp | wc -l")
	require.Equal(t, "1\n", res.Output, "nothing listens, and no variable tells of a proxy")
}

func TestGitFindsRepositoriesNamedForSSH(t *testing.T) {
	t.Parallel()
	requireDocker(t)
	r := newTestRuntime(t, pygent.NewDockerRuntime, pygent.WithImage(testImage()), pygent.WithAllowedHosts("git.example.org"))
	for _, name := range []string{"git@git.example.org:a/b", "ssh://git@git.example.org/a/b"} {
		require.Equal(t, "https://git.example.org/a/b\n", bash(t, r, "git ls-remote --get-url "+name).Output)
	}
	require.Equal(t, "ok\n", bash(t, r, "git init -q . && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m x && echo ok").Output)
}

func TestTasksReachWhatTheirParentReaches(t *testing.T) {
	t.Parallel()
	requireDocker(t)
	address, _ := hostSite(t)
	parent := newTestRuntime(t, pygent.NewDockerRuntime, pygent.WithImage(testImage()), pygent.WithAllowedHosts(address), pygent.MaxNetworkBytes(1<<20))
	child := newTestRuntime(t, pygent.NewDockerRuntime, pygent.SiblingOptions(parent)...)
	require.Equal(t, "18\n", bash(t, child, fetch("http://"+address+"/")).Output)
	require.Len(t, bash(t, child, fetch("http://example.org/")).Refused, 1)
	bash(t, child, fetch("http://"+address+"/big"))
	refused := bash(t, child, fetch("http://"+address+"/")).Refused
	require.Len(t, refused, 1)
	require.Contains(t, refused[0].Reason, "the limit of 1MiB")
}

func TestAllowedHostsThatContradict(t *testing.T) {
	t.Parallel()
	for want, opts := range map[string][]pygent.RuntimeOption{
		"not the name or address of a host": {pygent.WithAllowedHosts("https://example.org/")},
		"has to be named with its port":     {pygent.WithAllowedHosts("localhost")},
		"reaches every host":                {pygent.WithAllowedHosts("example.org"), pygent.WithNetwork("bridge")},
	} {
		_, err := pygent.NewDockerRuntime(t.Context(), opts...)
		require.ErrorContains(t, err, want)
	}
}

func TestLocalCommandsAreNotLimitedByAllowedHosts(t *testing.T) {
	t.Parallel()
	var told []string
	r := newTestRuntime(t, pygent.NewLocalRuntime, pygent.WithAllowedHosts("example.org"), pygent.OnRuntimeEvent(func(e pygent.RuntimeEvent) {
		if e.Kind == pygent.RuntimeLimited {
			told = append(told, e.Text)
		}
	}))
	require.NoError(t, r.Cleanup())
	require.Contains(t, strings.Join(told, " "), "allowed hosts have no effect")
}

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

func TestFailuresForWantOfANetworkAreExplained(t *testing.T) {
	t.Parallel()
	requireDocker(t)
	rt := newTestRuntime(t, pygent.NewDockerRuntime, pygent.WithImage(testImage()))
	tests := map[string]struct{ cmd, note string }{
		"a name that does not resolve": {
			"git clone https://git.example.com/x.git",
			"commands have no network, so git.example.com cannot be reached; the user can allow git.example.com",
		},
		"no name": {
			`python3 -c 'import socket; socket.create_connection(("example.org", 443))'`,
			"commands have no network; the user can allow hosts",
		},
		"an address":           {`python3 -c 'import socket; socket.create_connection(("192.0.2.1", 443))'`, "commands have no network; the user can allow hosts"},
		"several":              {"echo 'Could not resolve host: a.example'; echo 'Could not resolve host: b.example'; exit 6", "commands have no network, so a.example, b.example cannot be reached; the user can allow a.example, b.example"},
		"a command that works": {"echo 'Could not resolve host: a.example'", ""},
		"another failure":      {"ls /nonexistent", ""},
		"a server inside":      {"git clone http://127.0.0.1:1/x.git", ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			res := bash(t, rt, tt.cmd)
			require.Equal(t, tt.note, res.Note, res.String())
		})
	}
}

func TestProgramsThatUseNoProxyAreToldSo(t *testing.T) {
	t.Parallel()
	requireDocker(t)
	rt := newTestRuntime(t, pygent.NewDockerRuntime, pygent.WithImage(testImage()), pygent.WithAllowedHosts("*.allowed.example"))
	res := bash(t, rt, "http_proxy= https_proxy= git clone http://a.allowed.example/x.git")
	require.Equal(t, "commands have no network but the proxy that http_proxy and https_proxy name, and this program does not seem to use it", res.Note, res.String())
}

func TestFailuresOnThisMachineAreNotForWantOfPermission(t *testing.T) {
	t.Parallel()
	rt := newTestRuntime(t, pygent.NewLocalRuntime)
	res := bash(t, rt, "echo 'Could not resolve host: a.example'; exit 6")
	require.Empty(t, res.Note)
}

// TestAllowedHostsThatCannotBeReachedAreNamed uses a host name that does not
// exist. Many clients hide the proxy's answer about that, so the model must
// learn it from the note.
func TestAllowedHostsThatCannotBeReachedAreNamed(t *testing.T) {
	t.Parallel()
	requireDocker(t)
	rt := newTestRuntime(t, pygent.NewDockerRuntime, pygent.WithImage(testImage()), pygent.WithAllowedHosts("gone.invalid"))
	const note = "these hosts are allowed, but cannot be reached from the user's machine: gone.invalid ("
	for _, url := range []string{"http://gone.invalid/x.git", "https://gone.invalid/x.git"} {
		res := bash(t, rt, "git clone -q "+url)
		require.Contains(t, res.Note, note, res.String())
		require.NotContains(t, res.Note, "does not seem to use it")
		require.Empty(t, res.Refused)
	}
}

// fetchPages returns a command that fetches pages from hosts and prints them.
func fetchPages(hosts ...string) string {
	var b strings.Builder
	b.WriteString("python3 - <<'EOF'\nimport urllib.request\n")
	for _, host := range hosts {
		b.WriteString("print(urllib.request.urlopen('http://" + host + "/hello.txt').read().decode())\n")
	}
	b.WriteString("EOF")
	return b.String()
}

// hostAnswers answers questions about hosts and records them.
type hostAnswers struct {
	answer pygent.HostDecision
	err    error

	mu    sync.Mutex
	hosts [][]string
}

func (a *hostAnswers) approve(_ context.Context, r pygent.HostRequest) (pygent.HostDecision, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.hosts = append(a.hosts, slices.Sorted(slices.Values(r.Hosts)))
	return a.answer, a.err
}

func TestHostApproval(t *testing.T) {
	t.Parallel()
	requireDocker(t)
	r := newRegistry(t, "http")
	tests := []struct {
		name  string
		asked hostAnswers
		times int    // number of questions for two commands
		note  string // the note of the second command's result
		ok    bool
	}{
		{"once", hostAnswers{answer: pygent.HostDecision{Allow: true}}, 2, "", true},
		{"for the session", hostAnswers{answer: pygent.HostDecision{Allow: true, Session: true}}, 1, "", true},
		{"no", hostAnswers{}, 1, "the network refused a.example.com (the user declined)", false},
		{"no, with a reason", hostAnswers{answer: pygent.HostDecision{Reason: "use the files here"}}, 1, "the network refused a.example.com (use the files here)", false},
		{"nobody answers", hostAnswers{err: errors.New("no terminal")}, 2, "the network refused a.example.com (nobody could be asked about it: no terminal); the user can allow a.example.com", false},
	}
	for i := range tests {
		tt := &tests[i]
		t.Run(tt.name, func(t *testing.T) {
			rt := newTestRuntime(t, pygent.NewDockerRuntime, pygent.WithImage(testImage()), pygent.WithTestServer(r.Listener.Addr().String()), pygent.WithHostApproval(tt.asked.approve))
			bash(t, rt, fetchPages("a.example.com"))
			res := bash(t, rt, fetchPages("a.example.com", "a.example.com"))
			require.Equal(t, tt.ok, res.ExitCode == 0, res.String())
			require.Equal(t, tt.note, res.Note)
			require.Equal(t, tt.asked.answer.Session, slices.Equal([]string{"a.example.com"}, pygent.SiblingHosts(rt)), "tasks inherit what is allowed for the session")
			require.Len(t, tt.asked.hosts, tt.times)
		})
	}
}

func TestHostsOfOneCommandAreAskedAboutTogether(t *testing.T) {
	t.Parallel()
	requireDocker(t)
	r := newRegistry(t, "http")
	a := &hostAnswers{answer: pygent.HostDecision{Allow: true}}
	rt := newTestRuntime(t, pygent.NewDockerRuntime, pygent.WithImage(testImage()), pygent.WithTestServer(r.Listener.Addr().String()),
		pygent.WithAllowedHosts("known.example.com"), pygent.WithHostApproval(a.approve))
	var hosts []string
	for range 10 {
		hosts = append(hosts, "a.example.com", "b.example.com", "known.example.com")
	}
	res := bash(t, rt, "python3 - <<'EOF'\nimport urllib.request, concurrent.futures\nhosts='"+strings.Join(hosts, " ")+"'.split()\n"+
		"get=lambda h: urllib.request.urlopen('http://'+h+'/hello.txt').read()\n"+
		"print(len(list(concurrent.futures.ThreadPoolExecutor(30).map(get, hosts))))\nEOF")
	require.Equal(t, "30\n", res.Output)
	var all []string
	for _, hosts := range a.hosts {
		all = append(all, hosts...)
	}
	require.ElementsMatch(t, []string{"a.example.com", "b.example.com"}, all, "each is asked about once")
}

func TestPrivateAddressesAreNotAskedAbout(t *testing.T) {
	t.Parallel()
	requireDocker(t)
	r := newRegistry(t, "http")
	a := &hostAnswers{answer: pygent.HostDecision{Allow: true}}
	var mu sync.Mutex
	var texts []string
	rt := newTestRuntime(t, pygent.NewDockerRuntime, pygent.WithImage(testImage()), pygent.WithHostApproval(a.approve), pygent.OnRuntimeEvent(func(e pygent.RuntimeEvent) {
		mu.Lock()
		defer mu.Unlock()
		texts = append(texts, e.Text)
	}))
	address := r.Listener.Addr().String()
	local := "localhost:" + strings.Split(address, ":")[1]
	for host, allow := range map[string]string{
		address: address, local: local, "169.254.169.254": "169.254.169.254:80", "10.0.0.5": "10.0.0.5:80", "a.example.com:8080": "a.example.com:8080",
	} {
		res := bash(t, rt, "no_proxy= NO_PROXY= "+fetchPages(host))
		require.NotZero(t, res.ExitCode, host)
		require.Contains(t, res.Note, "the network refused ", host)
		require.Contains(t, res.Note, "; the user can allow "+allow, host)
		require.Eventually(t, func() bool {
			mu.Lock()
			defer mu.Unlock()
			return strings.Contains(strings.Join(texts, "\n")+"\n", "; allow "+allow+" if it should\n")
		}, 10*time.Second, time.Millisecond, host)
	}
	require.Empty(t, a.hosts)
}

func TestAgentsAskNobodyOutsideOfSessions(t *testing.T) {
	t.Parallel()
	requireDocker(t)
	var events []pygent.HostUse
	agent, err := pygent.New(pygent.WithModel(pygenttest.NewScriptedModel(callBash(fetchPages("a.example.com")), stop)),
		pygent.WithDocker(pygent.DockerRequired), pygent.WithImage(testImage()),
		pygent.OnEvent(func(e pygent.Event) {
			if e.Type == pygent.EventRuntime && e.Runtime.Host != nil {
				events = append(events, *e.Runtime.Host)
			}
		}))
	require.NoError(t, err)
	defer agent.Close()
	_, err = agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	const reason = "it is not an allowed host"
	require.Contains(t, answersOfTools(agent)[0], "[the network refused a.example.com ("+reason+"); the user can allow a.example.com]")
	require.NoError(t, agent.Close())
	require.Equal(t, []pygent.HostUse{{Host: "a.example.com", Port: 80, Reason: reason, Allow: "a.example.com"}}, events)
}

// answersOfTools returns the results of tools in the agent's history.
func answersOfTools(a *pygent.Agent) []string {
	var all []string
	for _, m := range a.History().Messages() {
		if m.Role == chat.RoleTool {
			all = append(all, m.Text())
		}
	}
	return all
}

// The model is told that somebody decides about hosts, as long as that is so.
func TestThePersonAtAFaceIsAskedAboutHosts(t *testing.T) {
	t.Parallel()
	requireDocker(t)
	model := pygenttest.NewScriptedModel(callBash(fetchPages("a.example.com")), stop, stop)
	agent, err := pygent.New(pygent.WithModel(model), pygent.WithDocker(pygent.DockerRequired), pygent.WithImage(testImage()), pygent.WithWorkspace(t.TempDir()))
	require.NoError(t, err)
	defer agent.Close()
	asked := &hostAnswers{}
	end := agent.FaceSession().Answers(t.Context(), pygent.FaceUser{Hosts: asked.approve})
	_, err = agent.RunUntilStop(t.Context(), "go")
	require.NoError(t, err)
	require.Equal(t, [][]string{{"a.example.com"}}, asked.hosts)
	end()
	_, err = agent.RunUntilStop(t.Context(), "again")
	require.NoError(t, err)
	const told = "the user is asked about"
	require.Contains(t, model.Requests()[0].Messages[0].Text(), told)
	require.NotContains(t, model.Requests()[2].Messages[0].Text(), told)
}

// registry serves the package hello for several package managers, a file and a
// git repository. The names in it are made up.
type registry struct {
	*httptest.Server
	scheme string // "http" or "https"
	ca     []byte // PEM certificate to trust
}

func newRegistry(t *testing.T, scheme string) *registry {
	t.Helper()
	mux := http.NewServeMux()
	r := &registry{Server: httptest.NewUnstartedServer(mux), scheme: scheme}
	if scheme == "https" {
		r.StartTLS() // its certificate is for example.com and all subdomains
		r.ca = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: r.Certificate().Raw})
	} else {
		r.Start()
	}
	t.Cleanup(r.Close)
	serve := func(path string, content []byte) {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) { w.Write(content) })
	}
	serve("/hello.txt", []byte("hello\n"))
	r.servePip(serve)
	r.serveNPM(t, serve)
	r.serveGo(serve)
	r.serveAPT(t, serve)
	mux.Handle("/git/", http.StripPrefix("/git/", http.FileServer(http.Dir(gitRepository(t)))))
	return r
}

// host returns a host name of the server, below example.com.
func (*registry) host(name string) string { return name + ".example.com" }

func (r *registry) url(name, path string) string { return r.scheme + "://" + r.host(name) + path }

// trusted returns the hosts that pip must be told to trust, because there is no
// TLS.
func (r *registry) trusted() string {
	if r.scheme == "https" {
		return ""
	}
	return r.host("pypi") + " " + r.host("files")
}

// servePip serves an index on one host and the files on another, as PyPI does.
func (r *registry) servePip(serve func(string, []byte)) {
	wheel := zipball(
		"hello.py", "print('hello')\n",
		"hello-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: hello\nVersion: 1.0\n",
		"hello-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
		"hello-1.0.dist-info/RECORD", "hello.py,,\nhello-1.0.dist-info/METADATA,,\nhello-1.0.dist-info/WHEEL,,\nhello-1.0.dist-info/RECORD,,\n",
	)
	const file = "hello-1.0-py3-none-any.whl"
	serve("/packages/"+file, wheel)
	serve("/simple/hello/", fmt.Appendf(nil, `<!DOCTYPE html><a href="%s#sha256=%x">%s</a>`, r.url("files", "/packages/"+file), sha256.Sum256(wheel), file))
}

func (r *registry) serveNPM(t *testing.T, serve func(string, []byte)) {
	archive := tarball(t,
		"package/package.json", `{"name": "hello", "version": "1.0.0", "main": "index.js"}`,
		"package/index.js", "console.log('hello')\n")
	sum := sha512.Sum512(archive)
	index, err := json.Marshal(map[string]any{
		"name":      "hello",
		"dist-tags": map[string]string{"latest": "1.0.0"},
		"versions": map[string]any{"1.0.0": map[string]any{
			"name": "hello", "version": "1.0.0", "main": "index.js",
			"dist": map[string]string{
				"tarball":   r.url("npm", "/hello/-/hello-1.0.0.tgz"),
				"integrity": "sha512-" + base64.StdEncoding.EncodeToString(sum[:]),
			},
		}},
	})
	require.NoError(t, err)
	serve("/hello/-/hello-1.0.0.tgz", archive)
	serve("/hello", index)
}

func (r *registry) serveGo(serve func(string, []byte)) {
	const at = "/go/hello.example.com/hello/@v/"
	module := "module hello.example.com/hello\n\ngo 1.20\n"
	serve(at+"list", []byte("v1.0.0\n"))
	serve(at+"v1.0.0.info", []byte(`{"Version":"v1.0.0"}`))
	serve(at+"v1.0.0.mod", []byte(module))
	serve(at+"v1.0.0.zip", zipball(
		"hello.example.com/hello@v1.0.0/go.mod", module,
		"hello.example.com/hello@v1.0.0/main.go", "package main\n\nfunc main() { println(\"hello\") }\n"))
}

func (r *registry) serveAPT(t *testing.T, serve func(string, []byte)) {
	control := "Package: hello-test\nVersion: 1.0\nArchitecture: all\nMaintainer: test <test@example.com>\nDescription: says hello\n"
	deb := debball(
		"debian-binary", []byte("2.0\n"),
		"control.tar.gz", tarball(t, "./control", control),
		"data.tar.gz", tarball(t, "./usr/bin/hello-test", "#!/bin/sh\necho hello\n"))
	serve("/apt/hello-test.deb", deb)
	serve("/apt/Packages", fmt.Appendf(nil, "%sFilename: ./hello-test.deb\nSize: %d\nSHA256: %x\n", control, len(deb), sha256.Sum256(deb)))
}

// gitRepository makes a directory with hello.git, to be served as static files.
func gitRepository(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	work := filepath.Join(dir, "work")
	git := func(args ...string) {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "init.defaultBranch=main"}, args...)...)
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	git("init", "-q", work)
	write(t, work, map[string]string{"hello.txt": "hello\n"})
	git("-C", work, "add", ".")
	git("-C", work, "commit", "-qm", "hello")
	git("clone", "-q", "--bare", work, filepath.Join(dir, "hello.git"))
	git("-C", filepath.Join(dir, "hello.git"), "update-server-info")
	return dir
}

// zipball makes a zip archive from pairs of names and contents.
func zipball(files ...string) []byte {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for i := 0; i < len(files); i += 2 {
		f, _ := w.Create(files[i]) // writing to memory does not fail
		f.Write([]byte(files[i+1]))
	}
	w.Close()
	return b.Bytes()
}

// tarball makes a compressed tar archive of executable files.
func tarball(t *testing.T, files ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for i := 0; i < len(files); i += 2 {
		require.NoError(t, w.WriteHeader(&tar.Header{Name: files[i], Mode: 0o755, Size: int64(len(files[i+1]))}))
		_, err := w.Write([]byte(files[i+1]))
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	require.NoError(t, z.Close())
	return b.Bytes()
}

// debball makes an archive in the format of Debian's packages.
func debball(files ...any) []byte {
	b := bytes.NewBufferString("!<arch>\n")
	for i := 0; i < len(files); i += 2 {
		content := files[i+1].([]byte)
		fmt.Fprintf(b, "%-16s%-12d%-6d%-6d%-8s%-10d`\n", files[i], 0, 0, 0, "100644", len(content))
		b.Write(content)
		if len(content)%2 == 1 {
			b.WriteByte('\n')
		}
	}
	return b.Bytes()
}
