package web_test

import (
	"context"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/pygenttest"
)

// Why no command can run is said once, and nobody waits for an answer then.
func TestAPageSaysOnceWhyCommandsCannotRun(t *testing.T) {
	asked := make(chan struct{}, 1)
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, "/images/create"):
			<-asked
			fmt.Fprintln(w, `{"error":"there is no such image"}`)
		case strings.Contains(r.URL.Path, "/images/"):
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	t.Cleanup(engine.Close)
	model := pygenttest.Decide(func(*pygent.ChatRequest) pygenttest.Reply {
		asked <- struct{}{}
		return pygenttest.Text("").WithGate(nil)
	})
	s := serve(t, []pygenttest.Reply{model}, pygent.WithDocker(pygent.DockerRequired), pygent.WithDockerHost("tcp://"+engine.Listener.Addr().String()))
	p := s.open("")
	s.say("go")
	p.shows("Commands cannot run: pull image", `<span>the runtime cannot start</span>`, "Try again")
	p.rests()
	require.Equal(t, 1, strings.Count(p.now(), "there is no such image"), p.now())
}

// broken is a runtime that starts with its first command, and cannot.
type broken struct{ nowhere }

func (broken) ReadFile(context.Context, string) ([]byte, error) { return nil, fs.ErrNotExist }

func (broken) Bash(context.Context, string, ...pygent.BashOption) (pygent.BashResult, error) {
	return pygent.BashResult{ExitCode: -1}, fmt.Errorf("%w: there is no disk", pygent.ErrRuntimeStart)
}

// A runtime that starts only with a command says why it cannot when a run ends of it.
func TestAPageSaysWhyARunCouldNotStartACommand(t *testing.T) {
	s := serveAt(t)
	agent, err := pygent.New(pygent.WithModel(pygenttest.NewScriptedModel(pygenttest.Call("bash", map[string]any{"cmd": "true"}))),
		pygent.WithRuntime(broken{}), pygent.WithConfirmBash(false))
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, agent.Close()) })
	s.id, err = s.server.Add("", agent)
	require.NoError(t, err)
	p := s.open("")
	s.say("go")
	p.shows("Commands cannot run: there is no disk", `<div class="bar-state fail">`)
	p.rests()
}
