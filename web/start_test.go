package web_test

import (
	"fmt"
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
