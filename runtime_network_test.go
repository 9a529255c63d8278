package pygent_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/x/pygent"
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
	require.Contains(t, strings.Join(told, " "), "the allowed hosts are no limit")
}
