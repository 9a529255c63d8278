package cli

import (
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/cmd/internal/localserver"
	"github.com/x/pygent/internal/testkit/termtest"
	"github.com/x/pygent/pygenttest"
)

// homeOf is the home of a command.
func homeOf(cmd *exec.Cmd) (home string) {
	for _, v := range cmd.Env {
		if value, ok := strings.CutPrefix(v, "HOME="); ok {
			home = value
		}
	}
	return home
}

// starts starts a session without a model at a terminal.
func starts(t *testing.T) (p *person, file string) {
	t.Helper()
	cmd := command(t, nil, "--no-docker")
	p = atTerminal(t, cmd)
	p.Await("No model is configured.")
	return p, filepath.Join(homeOf(cmd), ".pygent.toml")
}

// pastes answers a question with a line that comes all at once, as keys and addresses do.
func (p *person) pastes(text string) {
	p.t.Helper()
	(*terminal)(nil).reads()
	p.Type(text + "\r")
}

// types answers a question that only keys answer.
func (p *person) types(key string) {
	p.t.Helper()
	(*terminal)(nil).reads()
	p.Type(key)
	p.Await("] " + key)
	p.Key("enter")
}

// The tests have the usual ports, so they run alone.
func TestASessionWithoutAModelOffersSome(t *testing.T) {
	if len(localserver.Find(t.Context(), localserver.Usual())) > 0 {
		t.Skip("a server of models runs on this machine")
	}
	t.Run("a key", func(t *testing.T) {
		server := pygenttest.NewServer(t, pygenttest.Text("Hello."))
		p, file := starts(t)
		p.Type("another\r")
		p.Await("Base URL")
		p.pastes(server.URL())
		p.Await("API key")
		p.pastes("sk-pasted-key")
		p.Await("Model (Enter for")
		p.pastes("scripted")
		p.Await("Save this in ~/.pygent.toml")
		p.types("y")
		p.Await("saved in ~/.pygent.toml")
		p.Await("› ")
		p.Type("hi\r")
		p.Await("Hello.")
		require.NotContains(t, p.Screen().Text(), "sk-pasted-key")
		p.leaves()
		require.Equal(t, "Bearer sk-pasted-key", server.Requests()[0].Header.Get("Authorization"))
		require.Equal(t, "scripted", server.Requests()[0].Chat.Model)
		info, err := os.Stat(file)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode())

		again := command(t, []string{"HOME=" + homeOf(p.cmd)}, "config")
		require.Regexp(t, `(?m)^model +"scripted" +~/\.pygent\.toml:1$`, finish(t, again).stdout)
	})
	t.Run("nothing", func(t *testing.T) {
		p, file := starts(t)
		p.Key("esc")
		p.Await("set one of these")
		require.NoFileExists(t, file)
	})
	t.Run("a local server", func(t *testing.T) {
		l, err := net.Listen("tcp", "127.0.0.1:1234")
		require.NoError(t, err)
		model := pygenttest.NewServer(t, pygenttest.Text("Hello."))
		server := &http.Server{Handler: model}
		go func() { _ = server.Serve(l) }()
		defer server.Close()
		p, file := starts(t)
		p.Await("scripted  (LM Studio, http://127.0.0.1:1234/v1)")
		p.Key("enter")
		p.Await("Save this in")
		p.types("n")
		p.Await("› ")
		p.Type("hi\r")
		p.Await("Hello.")
		p.leaves()
		require.NoFileExists(t, file)
		require.Empty(t, model.Requests()[0].Header.Get("Authorization"))
	})
}

// Without a terminal that can show the choice, nobody is asked.
func TestNobodyIsAskedForAModelWithoutATerminal(t *testing.T) {
	t.Parallel()
	got := finish(t, command(t, nil, "--no-docker", "hi"))
	require.Equal(t, exitUsage, got.code)
	require.Contains(t, got.stderr, "set one of these")
	cmd := command(t, []string{"TERM=dumb"}, "run", "--no-docker", "hi")
	terminal := termtest.Start(t, cmd, 80, 24)
	terminal.Await("set one of these")
}
