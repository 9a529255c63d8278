package terminal_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/console/lineinput"
	"github.com/x/pygent/internal/testkit/cmdtest"
	"github.com/x/pygent/internal/testkit/persontest"
	"github.com/x/pygent/internal/testkit/termtest"
	"github.com/x/pygent/pygenttest"
	_ "github.com/x/pygent/terminal"
)

// asProgram makes the test binary a program with a session.
const asProgram = "PYGENT_TERMINAL_TEST"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) == "" {
		os.Exit(runTests(m))
	}
	cfg, err := pygent.LoadConfig()
	if err == nil {
		err = session(append(append(cfg.Options(), pygent.WithDocker(pygent.DockerNever), pygent.WithCommands(testCommands...)), setups[os.Getenv(asSetup)]...))
	}
	if err != nil {
		fmt.Println("the session failed:", err)
		os.Exit(1)
	}
}

// cache is the cache of all sessions: only the first of them unpacks the guest.
var cache string

func runTests(m *testing.M) int {
	var err error
	if cache, err = os.MkdirTemp("", "pygent-terminal-*"); err != nil {
		panic(err)
	}
	defer os.RemoveAll(cache)
	return m.Run()
}

func session(opts []pygent.Option) error {
	agent, err := pygent.New(opts...)
	if err != nil {
		return err
	}
	defer agent.Close()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGUSR1)
	defer stop()
	return agent.RunInteractive(ctx)
}

// person is somebody at a terminal with a session.
type person struct {
	*termtest.Terminal
	t       *testing.T
	history string
	state   string
}

// sit starts a session with the model of a server.
func sit(t *testing.T, server *pygenttest.Server, env ...string) *person {
	t.Helper()
	p := &person{t: t, history: filepath.Join(t.TempDir(), "history.json"), state: t.TempDir()}
	p.Terminal = termtest.Start(t, p.command(server, env...), 80, 24)
	p.Await("› ")
	return p
}

// command makes the program of a session. Some die in a way that leaves temporary files.
func (p *person) command(server *pygenttest.Server, env ...string) *exec.Cmd {
	cmd := exec.CommandContext(p.t.Context(), os.Args[0])
	cmd.Dir = p.t.TempDir()
	cmd.Env = cmdtest.Clean(os.Environ())
	cmd.Env = append(cmd.Env, asProgram+"=1", "TERM=xterm-256color", "TERM_PROGRAM=vscode", "HOME="+p.t.TempDir(), "TMPDIR="+p.t.TempDir(), "XDG_STATE_HOME="+p.state, "XDG_CACHE_HOME="+cache, "PYGENT_HISTORY_FILE="+p.history, "PYGENT_WORKSPACE="+p.t.TempDir())
	cmd.Env = append(append(cmd.Env, server.Env()...), env...)
	return cmd
}

// temporary is for a session with a temporary workspace.
const temporary = "PYGENT_WORKSPACE="

// reads waits until keys answer the question that is shown.
func (p *person) reads() {
	p.t.Helper()
	persontest.AwaitQuestion(p.Terminal)
}

// answers presses a key to answer a question that is shown.
func (p *person) answers(key string) {
	p.t.Helper()
	p.reads()
	p.Type(key)
}

// pauses waits until the next key does not come together with the last one, which no
// two keys of a person do.
func (p *person) pauses() { time.Sleep(lineinput.AnswerDelay) }

// leaves ends the session, and returns the conversation.
func (p *person) leaves() []pygent.Message {
	p.t.Helper()
	p.Key("ctrl+d")
	return p.left()
}

// left waits for the end of the session, and returns the conversation, which every
// provider must accept.
func (p *person) left() []pygent.Message {
	p.t.Helper()
	require.NoError(p.t, p.Wait(), p.All())
	return persontest.Conversation(p.t, p.history)
}

func bash(cmd string) pygenttest.Reply { return pygenttest.Call("bash", map[string]any{"cmd": cmd}) }

func results(messages []pygent.Message) []string { return persontest.Results(messages) }
