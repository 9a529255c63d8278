package browser

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/pygenttest"
)

// sessionSaved is what the command says at the end of a session that can be resumed.
const sessionSaved = " saved. Resume it: pygent --resume "

// command builds the program of the repository, once, in the directory programs.
var command = sync.OnceValues(func() (string, error) {
	bin := filepath.Join(programs, "pygent")
	build := exec.Command("go", "build", "-ldflags=-s -w", "-o", bin, "./cmd/pygent")
	build.Dir = filepath.Join("..", "..")
	build.Stderr = os.Stderr
	return bin, build.Run()
})

// person has a home, a directory to work in, and a model.
type person struct {
	t         *testing.T
	model     *pygenttest.Server
	home, dir string
}

// ui is a running pygent ui.
type ui struct {
	cmd *exec.Cmd
	url string
	err *bytes.Buffer
}

// starts starts pygent ui, and returns once it has printed its address.
func (p *person) starts(args ...string) *ui {
	p.t.Helper()
	bin, err := command()
	require.NoError(p.t, err)
	u := &ui{cmd: exec.Command(bin, append([]string{"ui", "--no-open", "--no-docker"}, args...)...), err: &bytes.Buffer{}}
	u.cmd.Dir, u.cmd.Stderr = p.dir, u.err
	u.cmd.Env = append(os.Environ(), append(p.model.Env(), "HOME="+p.home, "XDG_STATE_HOME=", "XDG_CACHE_HOME=")...)
	out, err := u.cmd.StdoutPipe()
	require.NoError(p.t, err)
	require.NoError(p.t, u.cmd.Start())
	p.t.Cleanup(func() {
		_ = u.cmd.Process.Kill()
		_ = u.cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(p.t, err)
	u.url = strings.TrimSpace(line)
	return u
}

// ends ends the command in order, and returns what it said.
func (u *ui) ends(t *testing.T) string {
	t.Helper()
	require.NoError(t, u.cmd.Process.Signal(syscall.SIGINT))
	require.NoError(t, u.cmd.Wait(), u.err.String())
	return u.err.String()
}

func newPerson(t *testing.T, replies ...pygenttest.Reply) *person {
	t.Helper()
	home, err := os.MkdirTemp("", "") // whose name is short, for sockets
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(home)) })
	return &person{t: t, model: pygenttest.NewServer(t, replies...), home: home, dir: t.TempDir()}
}

// Whoever kills the server loses nothing: the next one offers the session, and it goes on.
func TestKilledServer(t *testing.T) {
	person := newPerson(t, pygenttest.Text("I remember it."), bash("echo begun > begun.txt; exec sleep 600"), pygenttest.Text("You said: milk."), pygenttest.Text("Bye."))
	first := person.starts("--cwd")
	p := open(t, first.url)
	p.expect("ERR_CONNECTION", "ERR_EMPTY", "ERR_INCOMPLETE", "net::")
	p.said("Remember the milk")
	p.see("#log .msg", "I remember it.")
	p.said("Wait for long")
	p.click(".ask:not(.done) button", "Allow once")
	p.see(".tool.run .verb", "Running")
	require.NoError(t, first.cmd.Process.Kill())
	_ = first.cmd.Wait()
	p.see("#lost", "Connection lost")

	second := person.starts("--cwd")
	p = open(t, second.url)
	p.click("#sessions a.closed", "Remember the milk")
	p.see("#log .msg", "I remember it.")
	p.see("#log .msg.user", "Wait for long")
	p.said("What did I say?")
	p.see("#log .msg", "You said: milk.")
	messages := person.model.Requests()[2].Chat.Messages
	require.Equal(t, "What did I say?", messages[len(messages)-1].Text())
	p.load("about:blank")
	second.ends(t)

	third := person.starts("--continue")
	p = open(t, third.url)
	p.see("#log .msg", "You said: milk.")
	p.said("That is all")
	p.see("#log .msg", "Bye.")
	p.load("about:blank")
	require.Contains(t, third.ends(t), sessionSaved)
}

// The files of a temporary workspace are kept with the session, and come back with it.
func TestTemporaryWorkspaceOfThePage(t *testing.T) {
	person := newPerson(t, bash("echo kept > made.txt"), pygenttest.Text("Made."))
	first := person.starts()
	p := open(t, first.url)
	p.said("Make a file")
	p.click(".ask:not(.done) button", "Allow once")
	p.see("#log .msg", "Made.")
	p.see("#tree .file", "made.txt")
	p.load("about:blank")
	require.Contains(t, first.ends(t), sessionSaved)
	require.NoFileExists(t, filepath.Join(person.dir, "made.txt"))

	second := person.starts("--continue")
	p = open(t, second.url)
	p.see("#log .msg", "Made.")
	p.click("#tree .file", "made.txt")
	p.see("dialog[open] pre", "kept")
	p.load("about:blank")
	second.ends(t)
}
