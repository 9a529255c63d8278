package web_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/pygenttest"
	"github.com/x/pygent/sessions"
	"github.com/x/pygent/web"
)

// serveKept serves a session over a wire that the server has opened, and that is kept.
func serveKept(t *testing.T, limits web.Limits, replies ...pygenttest.Reply) *served {
	t.Helper()
	return serveKeptOn(t, nowhere{}, limits, replies...)
}

// serveKeptOn is serveKept with a runtime.
func serveKeptOn(t *testing.T, rt pygent.Runtime, limits web.Limits, replies ...pygenttest.Reply) *served {
	t.Helper()
	root := t.TempDir()
	model := pygenttest.NewScriptedModel(replies...)
	server, err := web.New(web.WithLimits(limits), web.WithOpen(func(_ context.Context, o web.Open) (*pygent.Agent, error) {
		id := o.Continue
		if id == "" {
			id = sessions.NewID()
		}
		return pygent.New(pygent.WithModel(model), pygent.WithRuntime(rt), pygent.WithConfirmBash(false), sessions.Keep(filepath.Join(root, id)))
	}))
	require.NoError(t, err)
	s, _ := overWire(t, server)
	s.id = s.begin(map[string]any{})
	return s
}

// isOpen reports whether the session is open. To ask for the list is no use of it.
func (s *served) isOpen() bool {
	s.t.Helper()
	status, list := s.do(s.request(http.MethodGet, "/sessions", nil))
	require.Equal(s.t, http.StatusOK, status)
	return string(list) != `{"sessions":[]}`
}

func TestAnIdleSessionIsClosedAndGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serveKept(t, web.Limits{}, pygenttest.Text("Hello."))
		p := s.open("")
		s.say("Hi.")
		p.shows("<p>Hello.</p>")
		p.rests()
		time.Sleep(3 * time.Hour)
		require.True(t, s.isOpen(), "a page looks at it")
		p.close()
		time.Sleep(59 * time.Minute)
		require.True(t, s.isOpen())
		s.get("/asks", nil)
		time.Sleep(59 * time.Minute)
		require.True(t, s.isOpen(), "a program has asked something")
		time.Sleep(2 * time.Minute)
		require.False(t, s.isOpen())
		require.Equal(t, s.id, s.begin(map[string]any{"continue": s.id}))
		again := s.open("")
		again.shows("</span>Hi.<", "<p>Hello.</p>")
	})
}

// Nobody else is there to hear what closing it has left.
func TestWhatAnIdleSessionLeavesIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logged log
		server, err := web.New(web.WithLimits(web.Limits{Idle: time.Minute}), web.WithLogger(slog.New(slog.NewTextHandler(&logged, nil))), web.WithOpen(func(context.Context, web.Open) (*pygent.Agent, error) {
			return pygent.New(pygent.WithModel(pygenttest.NewScriptedModel(pygenttest.Text("Hello."))), pygent.WithRuntime(nowhere{}), sessions.Keep(filepath.Join(t.TempDir(), sessions.NewID())),
				pygent.WithToolSource("files", func(context.Context, pygent.Runtime, func(...pygent.Tool) error) (io.Closer, error) {
					return stuck{}, nil
				}))
		}))
		require.NoError(t, err)
		s, _ := overWire(t, server)
		s.id = s.begin(map[string]any{})
		s.say("Hi.")
		time.Sleep(3 * time.Minute)
		require.False(t, s.isOpen())
		require.Contains(t, logged.String(), "a process is left")
	})
}

// stuck does not close.
type stuck struct{}

func (stuck) Close() error { return errors.New("a process is left") }

func TestASessionAtWorkIsNotIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answer := make(chan struct{})
		s := serveKept(t, web.Limits{Idle: time.Minute}, pygenttest.Decide(func(*pygent.ChatRequest) pygenttest.Reply {
			<-answer
			return pygenttest.Text("Hello.")
		}))
		s.say("Hi.")
		time.Sleep(10*time.Minute + 30*time.Second)
		require.True(t, s.isOpen())
		close(answer)
		synctest.Wait()
		time.Sleep(59 * time.Second)
		require.True(t, s.isOpen(), "the turn has just ended")
		time.Sleep(time.Minute + time.Second)
		require.False(t, s.isOpen())
	})
}

// busy is a runtime with a command in the background.
type busy struct {
	nowhere
	ended *atomic.Bool
}

func (b busy) job() pygent.Job {
	return pygent.Job{ID: "1", Command: "serve", Running: !b.ended.Load()}
}
func (b busy) StartJob(context.Context, string, ...pygent.BashOption) (pygent.Job, error) {
	return b.job(), nil
}
func (b busy) Jobs(context.Context) ([]pygent.Job, error)          { return []pygent.Job{b.job()}, nil }
func (b busy) KillJob(context.Context, string) (pygent.Job, error) { return b.job(), nil }
func (b busy) JobOutput(context.Context, string, int64, time.Duration) (pygent.JobOutput, error) {
	return pygent.JobOutput{Job: b.job()}, nil
}

func TestASessionWhoseCommandHasEndedIsIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := busy{ended: new(atomic.Bool)}
		s := serveKeptOn(t, rt, web.Limits{Idle: time.Minute},
			pygenttest.Call("bash", map[string]any{"cmd": "serve", "background": true}), pygenttest.Text("It runs."))
		s.say("Hi.")
		time.Sleep(10*time.Minute + 30*time.Second)
		require.True(t, s.isOpen(), "the command runs")
		rt.ended.Store(true)
		time.Sleep(3 * time.Minute)
		require.False(t, s.isOpen())
	})
}

func TestSessionsStayIfThatIsSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serveKept(t, web.Limits{Idle: -1})
		time.Sleep(100 * time.Hour)
		require.True(t, s.isOpen())
	})
}
