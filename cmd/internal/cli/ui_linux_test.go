package cli

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/client"
	"github.com/stretchr/testify/require"

	"github.com/x/pygent/pygenttest"
)

// uiPage is the command "pygent ui" while it runs.
type uiPage struct {
	t    *testing.T
	url  string // of its API
	key  string
	cmd  *exec.Cmd
	errs *strings.Builder
}

// startUI starts the command.
func startUI(t *testing.T, u *user, args ...string) *uiPage {
	t.Helper()
	return serveUI(t, u.command(append([]string{"ui", "--no-open", "--no-docker"}, args...)...))
}

// serveUI starts the command as it is.
func serveUI(t *testing.T, cmd *exec.Cmd) *uiPage {
	t.Helper()
	p := &uiPage{t: t, cmd: cmd, errs: &strings.Builder{}}
	out, err := p.cmd.StdoutPipe()
	require.NoError(t, err)
	if p.cmd.Stderr == nil {
		p.cmd.Stderr = p.errs
	}
	require.NoError(t, p.cmd.Start())
	t.Cleanup(func() { _ = p.cmd.Process.Kill() })
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	at := regexp.MustCompile(`^(http://127\.0\.0\.1:\d+)/#token=(\w{52})\n$`).FindStringSubmatch(line)
	require.NotNil(t, at, line)
	p.url, p.key = at[1]+"/api/v1", at[2]
	return p
}

// call makes a request that must succeed.
func (p *uiPage) call(method, path, body string) string {
	p.t.Helper()
	status, answer := p.try(method, path, body)
	require.Less(p.t, status, 300, "%s", answer)
	return answer
}

// try makes a request.
func (p *uiPage) try(method, path, body string) (status int, answer string) {
	p.t.Helper()
	r, err := http.NewRequestWithContext(p.t.Context(), method, p.url+path, strings.NewReader(body))
	require.NoError(p.t, err)
	r.Header.Set("Authorization", "Bearer "+p.key)
	r.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(r)
	require.NoError(p.t, err)
	defer resp.Body.Close()
	read, err := io.ReadAll(resp.Body)
	require.NoError(p.t, err)
	return resp.StatusCode, string(read)
}

// id returns the first id of an answer.
func (p *uiPage) id(answer string) string {
	p.t.Helper()
	id := regexp.MustCompile(`"id":"(\w+)"`).FindStringSubmatch(answer)
	require.NotNil(p.t, id, answer)
	return id[1]
}

// said waits until a session has a text in its history.
func (p *uiPage) said(id, text string) {
	p.t.Helper()
	require.Eventually(p.t, func() bool { return strings.Contains(p.call(http.MethodGet, "/sessions/"+id+"/history", ""), text) }, time.Minute, 10*time.Millisecond)
}

// container waits until a session has a container, and returns its name.
func (p *uiPage) container(id string) string {
	p.t.Helper()
	r, err := http.NewRequestWithContext(p.t.Context(), http.MethodGet, p.url+"/sessions/"+id+"/events", nil)
	require.NoError(p.t, err)
	r.Header.Set("Authorization", "Bearer "+p.key)
	resp, err := http.DefaultClient.Do(r)
	require.NoError(p.t, err)
	defer resp.Body.Close()
	started := regexp.MustCompile(`"kind":"started".*"container":"([^"]+)"`)
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if found := started.FindStringSubmatch(lines.Text()); found != nil {
			return found[1]
		}
	}
	require.Fail(p.t, "no container has started")
	return ""
}

// end ends the command by Ctrl-C.
func (p *uiPage) end() {
	p.t.Helper()
	require.NoError(p.t, p.cmd.Process.Signal(syscall.SIGINT))
	require.NoError(p.t, p.cmd.Wait(), p.errs.String())
}

// The page ends by Ctrl-C, and its session goes on at a terminal.
func TestTheSessionOfAPageIsKept(t *testing.T) {
	t.Parallel()
	u := newUser(t, pygenttest.Text("Hello."))
	p := startUI(t, u, "Say hello.")
	id := p.id(p.call(http.MethodGet, "/sessions", ""))
	p.said(id, "Hello.")
	p.end()
	require.Contains(t, p.errs.String(), "Session "+id+sessionSaved)
	require.NotContains(t, p.errs.String(), "without asking", "the page asks, whatever the input is")
	require.Equal(t, "Say hello.", u.session().Title)
}

func TestThePageSaysWhereCommandsRun(t *testing.T) {
	t.Parallel()
	const ends = "· open this address; Ctrl-C ends the page and everything that runs\n"
	local := startUI(t, newUser(t))
	local.end()
	require.Contains(t, local.errs.String(), "· commands run on this machine; protection: ")
	require.NotContains(t, local.errs.String(), "warning", "that was chosen")
	require.Contains(t, local.errs.String(), ends)

	cmd := newUser(t).command("ui", "--no-open")
	cmd.Env = append(cmd.Env, "DOCKER_HOST=unix:///none.sock")
	fallen := serveUI(t, cmd)
	fallen.end()
	require.Contains(t, fallen.errs.String(), "pygent: warning: NOT in a container: ")
	require.Contains(t, fallen.errs.String(), "unix:///none.sock")

	image := dockerImage(t)
	boxed := serveUI(t, newUser(t).command("ui", "--no-open", "--docker", "--image", image))
	boxed.end()
	require.Contains(t, boxed.errs.String(), "· commands run in a container of the image "+image+"\n")
}

// Those of the first session and of others, which the page closes, some of them before.
func TestAPageNamesTheFilesThatGo(t *testing.T) {
	t.Parallel()
	u := newUser(t)
	p := startUI(t, u)
	files := map[string]string{p.id(p.call(http.MethodGet, "/sessions", "")): "one.txt"}
	for _, name := range []string{"two.txt", "three.txt"} {
		files[p.id(p.call(http.MethodPost, "/sessions", "{}"))] = name
	}
	for id, name := range files {
		p.call(http.MethodPost, "/sessions/"+id+"/shell", `{"command":"touch `+name+`"}`)
		require.Eventually(t, func() bool {
			return strings.Contains(p.call(http.MethodGet, "/sessions/"+id+"/files", ""), name)
		}, time.Minute, 10*time.Millisecond)
		if name == "three.txt" {
			p.call(http.MethodDelete, "/sessions/"+id, "")
		}
	}
	p.end()
	for _, name := range files {
		require.Equal(t, 1, strings.Count(p.errs.String(), "deleted with its files: "+name+". "), p.errs)
	}
}

// The sessions that others have begun on the page have containers, too. One that was
// closed has none any more.
func TestTheSecondInterruptOfAPageNamesTheContainersThatMayBeLeft(t *testing.T) {
	t.Parallel()
	image := dockerImage(t)
	engine, err := client.NewClientWithOpts(client.FromEnv, client.WithAPIVersionNegotiation())
	require.NoError(t, err)
	t.Cleanup(func() { _ = engine.Close() })
	u := newUser(t, bash("sleep 1000"))
	cmd := u.command("ui", "--no-open", "--docker", "--image", image, "go")
	stderr, err := cmd.StderrPipe()
	require.NoError(t, err)
	p := serveUI(t, cmd)
	said := &pausedRun{t: t, cmd: cmd, lines: bufio.NewScanner(stderr)}
	closed := p.id(p.call(http.MethodPost, "/sessions", "{}"))
	p.container(closed)
	p.call(http.MethodDelete, "/sessions/"+closed, "")
	first := p.id(p.call(http.MethodGet, "/sessions", ""))
	p.said(first, "sleep 1000")
	names := []string{p.container(first), p.container(p.id(p.call(http.MethodPost, "/sessions", "{}")))}
	for _, name := range names {
		t.Cleanup(func() {
			_ = engine.ContainerRemove(context.Background(), name, container.RemoveOptions{Force: true})
		})
		require.NoError(t, engine.ContainerPause(t.Context(), name))
	}
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	all := strings.Join(names, ", ")
	said.await("pygent: waiting for containers " + all + " to end; Ctrl-C again ends pygent at once")
	require.NoError(t, cmd.Process.Signal(os.Interrupt))
	said.await("pygent: interrupted again: containers " + all + " may still be running; \"pygent prune " + strings.Join(names, " ") + "\" removes them")
	require.Error(t, cmd.Wait())
	require.Equal(t, exitCancel, cmd.ProcessState.ExitCode())
	u.does("prune", names[0], names[1])
}

// A page begins other sessions from snapshots, and removes those that are closed.
func TestSessionsOfAPageAreLoadedAndRemoved(t *testing.T) {
	t.Parallel()
	u := newUser(t, pygenttest.Text("Hello."))
	p := startUI(t, u, "Say hello.")
	first := p.id(p.call(http.MethodGet, "/sessions", ""))
	p.said(first, "Hello.")
	saved := filepath.Join(t.TempDir(), "saved")
	require.Eventually(t, func() bool { // once the run has ended, which said the text before
		status, answer := p.try(http.MethodPost, "/sessions/"+first+"/save", `{"dir":"`+saved+`"}`)
		if status != http.StatusConflict {
			require.Less(t, status, 300, answer)
		}
		return status != http.StatusConflict
	}, time.Minute, 10*time.Millisecond)
	second := p.id(p.call(http.MethodPost, "/sessions", `{"snapshot":"`+saved+`"}`))
	require.NotEqual(t, first, second)
	p.said(second, "Hello.")
	p.call(http.MethodDelete, "/sessions/"+second, "")
	third := p.id(p.call(http.MethodPost, "/sessions", `{"continue":"`+second+`"}`))
	require.Equal(t, second, third)
	p.call(http.MethodDelete, "/sessions/"+second, "")
	p.call(http.MethodDelete, "/kept/"+second, "")
	require.NotContains(t, p.call(http.MethodGet, "/sessions", ""), second)
	p.end()
}

// What cannot work is said before there is an agent, with the flags that are missing.
func TestThePageIsNotServedByFlagsThatDoNotFit(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		flags []string
		says  string
	}{
		"no port":        {[]string{"--listen", "9601"}, "--listen 9601: give a host and a port, such as 127.0.0.1:8080"},
		"remote":         {[]string{"--listen", ":0"}, "--listen :0 is reachable from other machines, which could run commands; add --allow-remote"},
		"without TLS":    {[]string{"--listen", ":0", "--allow-remote"}, "--tls-cert FILE and --tls-key FILE, or --behind-proxy"},
		"without a name": {[]string{"--listen", "0.0.0.0:0", "--allow-remote", "--behind-proxy"}, "--listen 0.0.0.0:0 needs --host NAME"},
		"half of TLS":    {[]string{"--tls-cert", "cert.pem"}, "--tls-cert and --tls-key must be given together"},
	} {
		t.Run(name, func(t *testing.T) {
			u := newUser(t)
			got := u.fails(append([]string{"ui", "--no-open", "--no-docker"}, tt.flags...)...)
			require.Equal(t, exitUsage, got.code)
			require.Contains(t, got.stderr, tt.says)
			require.Empty(t, got.stdout)
			require.Empty(t, u.sessions())
		})
	}
}
