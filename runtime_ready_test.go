package pygent_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/pygenttest"
)

// phases are the requests by which a container starts, and a command in one that has no
// guest.
var phases = map[string]func(*http.Request) bool{
	"image":   func(r *http.Request) bool { return strings.Contains(r.URL.Path, "/images/") },
	"create":  func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/containers/create") },
	"attach":  func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/attach") },
	"start":   isStart,
	"command": func(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, "/exec") },
}

// An engine that fails again and again lets each command wait, and the model would go on.
func TestARunInWhichNoCommandCanStartFails(t *testing.T) {
	t.Parallel()
	for name, phase := range phases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var fails atomic.Bool
			fails.Store(true)
			host := losingEngine(t, phase, func() bool {
				if fails.Load() {
					panic(http.ErrAbortHandler) // as an engine that ends
				}
				return false
			})
			opts := []pygent.RuntimeOption{pygent.WithImage(testImage()), pygent.WithDockerHost(host), pygent.WithSharedFiles(true)}
			if name == "command" {
				opts = append(opts, pygent.WithTestPlainExec())
			}
			agent := newAgentOn(t, newTestRuntime(t, pygent.NewDockerRuntime, opts...), pygenttest.NewScriptedModel(
				callBash("echo 1"), callBash("echo 2"), callBash("echo never"),
			))
			result, err := agent.RunUntilStop(t.Context(), "go")
			require.ErrorIs(t, err, pygent.ErrRuntimeStart)
			require.ErrorContains(t, err, "2 commands in a row could not begin")
			require.Equal(t, pygent.StatusFailed, result.Status)
			require.Equal(t, err.Error(), result.Reason)
			require.Equal(t, err.Error(), result.NoCommand)
			require.Len(t, results(agent), 2, "the third one is not tried")

			require.NoError(t, agent.SetModel(pygenttest.NewScriptedModel(callBash("echo 1"), stop), ""))
			result, err = agent.RunUntilStop(t.Context(), "go on")
			require.NoError(t, err)
			require.Equal(t, pygent.StatusStopped, result.Status)
			require.NotEmpty(t, result.NoCommand, "the only one could not begin")

			again := pygenttest.Decide(func(*pygent.ChatRequest) pygenttest.Reply {
				fails.Store(false)
				return callBash("exit 3")
			})
			require.NoError(t, agent.SetModel(pygenttest.NewScriptedModel(callBash("echo 1"), again, stop), ""))
			result, err = agent.RunUntilStop(t.Context(), "go on")
			require.NoError(t, err)
			require.Empty(t, result.NoCommand, "one began, and failed")
		})
	}
}

// notReady is a runtime of a program whose commands begin only if they are to.
type notReady struct{ pygent.Runtime }

func (notReady) Bash(_ context.Context, cmd string, _ ...pygent.BashOption) (pygent.BashResult, error) {
	if cmd == "fail" {
		return pygent.BashResult{ExitCode: -1}, fmt.Errorf("the machine sleeps: %w", pygent.ErrRuntimeNotReady)
	}
	return pygent.BashResult{ExitCode: 1}, nil
}

func (r notReady) Unwrap() pygent.Runtime { return r.Runtime }

func TestCommandsThatCouldNotBeginAreCountedInARow(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		commands []string
		ends     bool   // whether that ends the run
		no       string // command could run
	}{
		"never": {[]string{"fail", "fail", "ok"}, true, "the runtime cannot start: 2 commands in a row could not begin: the machine sleeps: no command can run now"},
		"late":  {[]string{"ok", "fail", "fail", "ok"}, true, ""},
		"apart": {[]string{"fail", "ok", "fail", "ok"}, false, ""},
		"last":  {[]string{"ok", "fail"}, false, ""},
		"once":  {[]string{"fail"}, false, "the machine sleeps: no command can run now"},
		"none":  {nil, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var replies []pygenttest.Reply
			for _, cmd := range tt.commands {
				replies = append(replies, callBash(cmd))
			}
			var warned []string
			rt := notReady{newTestRuntime(t, pygent.NewLocalRuntime)}
			agent := newAgentOn(t, rt, pygenttest.NewScriptedModel(append(replies, stop)...), pygent.LendRuntime(rt), pygent.OnEvent(func(e pygent.Event) {
				if e.Type == pygent.EventWarning {
					warned = append(warned, e.Text)
				}
			}))
			result, err := agent.RunUntilStop(t.Context(), "go")
			require.Equal(t, tt.ends, err != nil, err)
			require.Equal(t, tt.no, result.NoCommand)
			if tt.ends {
				require.ErrorIs(t, err, pygent.ErrRuntimeStart)
				require.EqualError(t, err, "the runtime cannot start: 2 commands in a row could not begin: the machine sleeps: no command can run now")
			}
			if tt.no != "" && !tt.ends {
				require.Equal(t, []string{"no command could run: " + tt.no}, warned)
			}
		})
	}
}

// Who gives up does not wait for an engine that does not answer.
func TestCleanupDoesNotWaitForAnEngineThatNeverMakesTheContainer(t *testing.T) {
	t.Parallel()
	asked, gate := make(chan struct{}), make(chan struct{})
	host := losingEngine(t, phases["create"], func() bool {
		close(asked)
		<-gate
		return false
	})
	rt, err := pygent.NewDockerRuntime(t.Context(), pygent.WithImage(testImage()), pygent.WithDockerHost(host), pygent.WithSharedFiles(true), pygent.WithWorkspace(realTempDir(t)))
	require.NoError(t, err)
	<-asked
	cleaned := make(chan error, 1)
	go func() { cleaned <- rt.Cleanup() }()
	select {
	case err = <-cleaned:
	case <-time.After(20 * time.Second):
		require.Fail(t, "it waits for the engine")
	}
	require.ErrorIs(t, err, pygent.ErrCleanupIncomplete)
	require.Regexp(t, `container pygent-\w+-1 may be left: the engine has not answered in time`, err.Error())
	close(gate) // what the engine makes then is removed
}
