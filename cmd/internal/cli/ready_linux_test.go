package cli

import (
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/pygenttest"
)

func TestARunInWhichNoCommandCouldStartIsNoSuccess(t *testing.T) {
	t.Parallel()
	image := dockerImage(t)
	host := engineBehind(t, func(r *http.Request, pass func()) {
		if strings.HasSuffix(r.URL.Path, "/containers/create") {
			panic(http.ErrAbortHandler) // as an engine that ends
		}
		pass()
	})
	done := pygenttest.Call("stop", map[string]any{"summary": "All is well."})
	for name, tt := range map[string]struct {
		replies []pygenttest.Reply
		says    string
	}{
		"one": {[]pygenttest.Reply{bash("echo 1"), done}, "pygent: no command could run: create a container of image "},
		"two": {[]pygenttest.Reply{bash("echo 1"), bash("echo 2"), done}, "pygent: the runtime cannot start: 2 commands in a row could not begin: create a container of image "},
	} {
		for _, how := range []string{"", "--quiet", "--json"} {
			t.Run(name+how, func(t *testing.T) {
				t.Parallel()
				args := []string{"run", "--docker", "--image", image, "go"}
				if how != "" {
					args = append(args, how)
				}
				got := finish(t, command(t, append(pygenttest.NewServer(t, tt.replies...).Env(), "DOCKER_HOST="+host), args...))
				require.Equal(t, exitUsage, got.code, got.stderr)
				if how != "--json" {
					require.Contains(t, strings.ReplaceAll(got.stderr, "! ", "pygent: "), tt.says)
					return
				}
				require.Contains(t, got.stdout, strings.TrimPrefix(tt.says, "pygent: "))
			})
		}
	}
}

// The engine may be frozen, so that it does not even remove what it may have made.
func TestOneInterruptEndsARunWhoseEngineNeverMakesTheContainer(t *testing.T) {
	t.Parallel()
	image := dockerImage(t)
	gate, asked := make(chan struct{}), make(chan struct{})
	open, ask := sync.OnceFunc(func() { close(gate) }), sync.OnceFunc(func() { close(asked) })
	host := engineBehind(t, func(r *http.Request, pass func()) {
		if strings.HasSuffix(r.URL.Path, "/containers/create") || r.Method == http.MethodDelete {
			ask()
			<-gate
		}
		pass()
	})
	t.Cleanup(open) // before the engine's server waits for its requests
	server := pygenttest.NewServer(t, bash("true"), pygenttest.Call("stop", nil))
	p := &pausedRun{t: t}
	p.start(command(t, append(server.Env(), "DOCKER_HOST="+host), "run", "--docker", "--image", image, "--cwd", "go"))
	<-asked
	require.NoError(t, p.cmd.Process.Signal(os.Interrupt))
	p.await("may be left: the engine has not answered in time")
	requireExit(t, p.cmd, exitCancel)
}

func TestTheSecondInterruptNamesAContainerThatStarts(t *testing.T) {
	t.Parallel()
	b := boxes{}
	note := func(task, kind, name string) { b.note(runtimeEvent(task, kind, name)) }
	note("", "started", "a-1")
	note("t", "starting", "b-1")
	require.Equal(t, []string{"a-1", "b-1"}, b.names())
	note("", "starting", "a-2")
	require.Equal(t, []string{"a-1", "a-2", "b-1"}, b.names(), "the first one may not have ended")
	note("", "started", "a-2")
	note("t", "failed", "")
	require.Equal(t, []string{"a-2"}, b.names())
}

func runtimeEvent(task, kind, name string) pygent.Event {
	return pygent.Event{Type: pygent.EventRuntime, Task: task, Runtime: &pygent.RuntimeEvent{Kind: pygent.RuntimeEventKind(kind), Container: name}}
}
