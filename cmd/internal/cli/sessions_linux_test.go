package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/testkit/persontest"
	"github.com/x/pygent/internal/testkit/termtest"
	"github.com/x/pygent/pygenttest"
	"github.com/x/pygent/sessions"
)

// user is somebody whose sessions are kept: a home, a directory to work in, and a model.
type user struct {
	t      *testing.T
	server *pygenttest.Server
	home   string
	temp   string // what a process that is killed leaves is there; its name is short, for sockets
	dir    string
}

func newUser(t *testing.T, replies ...pygenttest.Reply) *user {
	t.Helper()
	temp, err := os.MkdirTemp("", "")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(temp)) })
	return &user{t: t, server: pygenttest.NewServer(t, replies...), home: t.TempDir(), temp: temp, dir: t.TempDir()}
}

// command prepares a run of the command.
func (u *user) command(args ...string) *exec.Cmd {
	u.t.Helper()
	cmd := command(u.t, append(u.server.Env(), "HOME="+u.home, "TMPDIR="+u.temp), args...)
	cmd.Dir = u.dir
	return cmd
}

// does runs the command, which must succeed.
func (u *user) does(args ...string) outcome {
	u.t.Helper()
	got := finish(u.t, u.command(args...))
	require.Equal(u.t, 0, got.code, got.stderr)
	return got
}

// fails runs the command, which must not.
func (u *user) fails(args ...string) outcome {
	u.t.Helper()
	got := finish(u.t, u.command(args...))
	require.NotEqual(u.t, 0, got.code, got.stdout)
	return got
}

func (u *user) sessionsDir() string {
	return filepath.Join(u.home, ".local", "state", "pygent", "sessions")
}

// sessions are all that are kept, the last one first.
func (u *user) sessions() []sessions.Info {
	u.t.Helper()
	list, err := sessions.List(u.sessionsDir())
	require.NoError(u.t, err)
	return list
}

func (u *user) session() sessions.Info {
	u.t.Helper()
	list := u.sessions()
	require.Len(u.t, list, 1)
	return list[0]
}

func (u *user) conversation(id string) []pygent.Message {
	u.t.Helper()
	return persontest.Conversation(u.t, filepath.Join(u.sessionsDir(), id, "history.json"))
}

func stop(summary string) pygenttest.Reply {
	return pygenttest.Call("stop", map[string]any{"summary": summary})
}

func TestRunsAreKeptAndGoOn(t *testing.T) {
	t.Parallel()
	u := newUser(t, stop("One."), stop("Two."), stop("Three."), stop("Four."))
	got := u.does("run", "--no-docker", "--cwd", "--model", "gpt-x", "-e", "PYGENT_PERSONA_NAME=Ada", "-e", "PYGENT_BANNED_APPS=curl", "begin")
	first := u.session()
	require.Contains(t, got.stderr, "Session "+first.ID+sessionSaved+first.ID)
	require.Equal(t, "begin", first.Title)
	require.Equal(t, u.dir, first.Workspace)

	got = u.does("run", "--continue", "go on") // neither --no-docker nor --cwd: as before
	require.Contains(t, got.stderr, "session "+first.ID+" continues after 3 messages; you said last: begin")
	require.Equal(t, "Two.\n", got.stdout)
	again := u.session()
	require.Equal(t, []any{first.ID, "begin", "gpt-x", "Ada", u.dir, false}, []any{again.ID, again.Title, again.Model, again.Persona, again.Workspace, again.Temporary})
	require.Equal(t, "gpt-x", u.server.Requests()[1].Chat.Model)
	setup, err := again.Setup()
	require.NoError(t, err)
	require.Equal(t, []string{"curl"}, setup.BannedApps)

	u.does("run", "-c", "--model", "gpt-y", "and on")
	require.Equal(t, "gpt-y", u.session().Model, "a flag is stronger")
	u.does("run", "-r", first.ID[:3], "and on")
	require.Equal(t, "gpt-y", u.session().Model)
	require.Len(t, u.conversation(first.ID), 1+4*3)

	u.dir = t.TempDir()
	require.Contains(t, u.fails("run", "--continue").stderr, "this directory has no session; \"pygent sessions list --all\"")
}

func TestASessionIsFiledWhereItGoesOn(t *testing.T) {
	t.Parallel()
	u := newUser(t, stop("1"), stop("2"), stop("3"), stop("4"))
	top := t.TempDir()
	u.dir = filepath.Join(top, "project")
	require.NoError(t, os.Mkdir(u.dir, 0o755))
	u.does("run", "--no-docker", "--cwd", "begin")
	id := u.session().ID
	require.NoError(t, os.Rename(u.dir, filepath.Join(top, "moved")))
	u.dir = filepath.Join(top, "moved")
	require.Contains(t, u.does("sessions").stdout, "this directory has no session")
	require.Contains(t, u.fails("run", "--no-docker", "--resume", id, "on").stderr, "no longer exists; choose another one with --workspace DIR or --cwd")
	u.does("run", "--no-docker", "--resume", id, "--cwd", "on")
	require.Contains(t, u.does("sessions").stdout, id)
	u.does("run", "--no-docker", "--continue", "and on")
	require.Equal(t, id, u.session().ID)

	u.dir = top
	u.does("run", "--no-docker", "--resume", id, "from elsewhere")
	require.Contains(t, u.does("sessions").stdout, id)
	u.dir = filepath.Join(top, "moved")
	require.Contains(t, u.does("sessions").stdout, id, "whose files are here")
}

func TestContinueTakesTheLastSessionOfTheDirectory(t *testing.T) {
	t.Parallel()
	u := newUser(t, stop("1"), stop("2"), stop("3"), stop("4"))
	one, two := t.TempDir(), t.TempDir()
	u.dir = one
	u.does("run", "--no-docker", "the first")
	u.does("run", "--no-docker", "the second")
	u.dir = two
	u.does("run", "--no-docker", "another")
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(one, link))
	u.dir = link
	got := u.does("run", "--continue", "go on")
	require.Contains(t, got.stderr, "you said last: the second")
	require.NotContains(t, got.stderr, "temporary workspace was restored", "there are none")
	require.Equal(t, "the second", u.sessions()[0].Title)
	require.Len(t, u.sessions(), 3)
}

// However a session ends at which nobody is asked, the files are named, and what puts
// them back.
func TestTheFilesOfASessionThatAsksNobodyAreNamed(t *testing.T) {
	t.Parallel()
	made := []pygenttest.Reply{bash("echo kept > b.txt"), pygenttest.Text("Made.")}
	gone := func(u *user) string {
		return "the temporary workspace is deleted with its files: b.txt. pygent --resume " + u.session().ID + " restores them. To work in a permanent directory, use --cwd or --workspace DIR."
	}
	t.Run("signal", func(t *testing.T) {
		t.Parallel()
		u := newUser(t, made...)
		p := u.sits("--no-docker", "-e", "PYGENT_CONFIRM_BASH=0")
		p.Await("› ")
		p.Type("go\n")
		p.Await("Made.", "Ready")
		require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
		p.printed("· " + gone(u))
		require.Error(t, p.Wait())
		require.Equal(t, 128+int(syscall.SIGTERM), p.cmd.ProcessState.ExitCode())
	})
	t.Run("no terminal", func(t *testing.T) {
		t.Parallel()
		u := newUser(t, append(made, bash("cat b.txt"), stop("Read."))...)
		cmd := u.command("--no-docker", "-e", "PYGENT_CONFIRM_BASH=0")
		cmd.Stdin = strings.NewReader("go\n")
		got := finish(t, cmd)
		require.Equal(t, 0, got.code, got.stderr)
		require.Contains(t, got.stdout+got.stderr, "("+gone(u)+")")
		u.does("run", "--continue", "read")
		require.Contains(t, strings.Join(toolResults(u.conversation(u.session().ID)), ""), "kept")
	})
	t.Run("page", func(t *testing.T) {
		t.Parallel()
		u := newUser(t, made...)
		p := startUI(t, u, "-e", "PYGENT_CONFIRM_BASH=0", "go")
		p.said(p.id(p.call(http.MethodGet, "/sessions", "")), "Made.")
		p.end()
		require.Contains(t, p.errs.String(), "· "+gone(u))
	})
}

func TestFilesOfATemporaryWorkspaceGoOnWithTheirSession(t *testing.T) {
	t.Parallel()
	u := newUser(t, bash("echo kept > note.txt"), stop("Written."), bash("cat note.txt; echo more >> note.txt"), stop("Read."), bash("cat note.txt"), stop("Read again."))
	got := u.does("run", "--no-docker", "write")
	id := u.session().ID
	require.Contains(t, got.stderr, "the temporary workspace is deleted with its files: note.txt. pygent --resume "+id+" restores them. To work in a permanent directory, use --cwd or --workspace DIR.")
	u.does("run", "--continue", "read")
	u.does("run", "--continue", "read again")
	results := toolResults(u.conversation(id))
	require.Contains(t, results[2], "kept")
	require.Contains(t, results[4], "kept\nmore")
	require.Contains(t, u.does("sessions", "show", id).stdout, "temporary; its files are restored with the session")
}

// What stands beside --continue holds, or is refused. Nothing is passed over.
func TestFlagsBesideContinueHoldOrAreRefused(t *testing.T) {
	t.Parallel()
	u := newUser(t, stop("1"), stop("2"), stop("3"), stop("4"), stop("5"))
	u.does("run", "--no-docker", "--model", "gpt-x", "-e", "PYGENT_MAX_STEPS=9", "begin")
	id := u.session().ID
	snap := t.TempDir()
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"--image", "x"}, "--image has no effect: session " + id + " runs commands on this machine without a container; leave it out, or add --docker"},
		{[]string{"--allow-host", "pypi.org"}, "--allow-host has no effect: session"},
		{[]string{"--no-session"}, "leave out --no-session"},
		{[]string{"-e", "PYGENT_SESSIONS=0"}, "leave out --no-session (or PYGENT_SESSIONS)"},
		{[]string{"--history", "h.json"}, "leave out --history"},
		{[]string{"--load", snap}, "--load starts from the snapshot"},
	} {
		for _, which := range []string{"--continue", "--resume=" + id} {
			got := u.fails(append([]string{"run", which, "on"}, tt.args...)...)
			require.Equal(t, exitUsage, got.code)
			require.Contains(t, got.stderr, tt.want)
		}
	}
	require.NoFileExists(t, filepath.Join(u.dir, "h.json"))
	require.Equal(t, 3, u.session().Messages, "a refused one changes nothing")

	setup := func() pygent.Setup {
		s, err := u.session().Setup()
		require.NoError(t, err)
		return s
	}
	u.does("run", "-c", "on")
	require.Equal(t, []any{"gpt-x", 9}, []any{setup().Model, setup().Limits.MaxSteps})
	file := filepath.Join(t.TempDir(), "more.toml")
	require.NoError(t, os.WriteFile(file, []byte("model = \"gpt-y\"\n[limits]\nmax_steps = 7\n"), 0o600))
	u.does("run", "-c", "--config", file, "on")
	require.Equal(t, []any{"gpt-y", 7}, []any{setup().Model, setup().Limits.MaxSteps})
	cmd := u.command("run", "-c", "on")
	cmd.Env = append(cmd.Env, "PYGENT_MODEL=gpt-z", "PYGENT_WORKSPACE="+t.TempDir())
	require.Equal(t, 0, finish(t, cmd).code)
	require.Equal(t, "gpt-y", setup().Model, "the environment is weaker than the session")
	require.True(t, u.session().Temporary)
	work := t.TempDir()
	u.does("run", "-c", "--max-steps", "3", "--workspace", work, "--omit-tool", "read_image", "on")
	require.Equal(t, []any{"gpt-y", 3, work}, []any{setup().Model, setup().Limits.MaxSteps, u.session().Workspace})
	require.Contains(t, setup().DisabledTools, "read_image")
}

func TestNothingIsKeptUnlessWanted(t *testing.T) {
	for name, tt := range map[string]struct {
		env, args []string
		off       bool
	}{
		"a flag":        {nil, []string{"run", "--no-docker", "--no-session", "go"}, true},
		"a variable":    {[]string{"PYGENT_SESSIONS=0"}, []string{"run", "--no-docker", "go"}, true},
		"a history":     {nil, []string{"run", "--no-docker", "--history", "h.json", "go"}, true},
		"nothing said":  {nil, []string{"--no-docker"}, false},
		"no model":      {[]string{"OPENAI_BASE_URL=", "OPENAI_API_KEY="}, []string{"run", "--no-docker", "go"}, false},
		"a wrong image": {[]string{"DOCKER_HOST=unix:///nowhere"}, []string{"run", "--docker", "go"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := newUser(t, stop("Done."))
			cmd := u.command(tt.args...)
			cmd.Env = append(cmd.Env, tt.env...)
			got := finish(t, cmd)
			require.NotContains(t, got.stderr, sessionSaved)
			left, _ := os.ReadDir(u.sessionsDir())
			left = slices.DeleteFunc(left, func(e os.DirEntry) bool { return e.Name() == ".prune" })
			require.Empty(t, left, got.stderr)
			if tt.off {
				require.NoDirExists(t, u.sessionsDir())
				require.NoDirExists(t, filepath.Join(filepath.Dir(u.sessionsDir()), "trees"))
			}
		})
	}
}

func TestASessionWhoseEndCouldNotBeStoredSaysSo(t *testing.T) {
	t.Parallel()
	var long strings.Builder
	for i := range 40_000 {
		fmt.Fprintln(&long, "Done:", i*i)
	}
	u := newUser(t, stop(long.String()))
	cmd := u.command("run", "--no-docker", "go")
	cmd.Args = append([]string{"sh", "-c", `ulimit -f 200 && exec "$0" "$@"`}, cmd.Args...)
	sh, err := exec.LookPath("sh")
	require.NoError(t, err)
	cmd.Args[3], cmd.Path = cmd.Path, sh
	got := finish(t, cmd)
	id := u.session().ID
	require.Contains(t, got.stderr, "warning: could not save the end of this session: ")
	require.Contains(t, got.stderr, "file too large. To continue from what was saved: pygent --resume "+id)
	require.NotContains(t, got.stderr, sessionSaved)
}

func TestAKilledRunGoesOn(t *testing.T) {
	t.Parallel()
	u := newUser(t, bash("touch begun; sleep 600"), stop("I looked."))
	cmd := u.command("run", "--no-docker", "--cwd", "work")
	require.NoError(t, cmd.Start())
	require.Eventually(t, func() bool { _, err := os.Stat(filepath.Join(u.dir, "begun")); return err == nil }, time.Minute, 10*time.Millisecond)
	require.True(t, u.session().Open)
	require.Contains(t, u.fails("run", "--continue").stderr, fmt.Sprintf("the session is open in another process, %d (", cmd.Process.Pid))
	require.Contains(t, u.fails("run", "--continue").stderr, "); close it there")
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()
	killed := u.session()
	require.False(t, killed.Open)
	require.Equal(t, "work", killed.Title)

	got := u.does("run", "--continue")
	require.Equal(t, "I looked.\n", got.stdout)
	messages := u.conversation(killed.ID)
	require.Equal(t, "interrupted; it may have taken effect", toolResults(messages)[0])
	require.Equal(t, 1, len(u.sessions()))
}

func TestTwoThatWorkInOnePlaceAreTold(t *testing.T) {
	t.Parallel()
	u := newUser(t, bash("touch begun; sleep 600"), stop("Done."), stop("Done."), stop("Done."))
	cmd := u.command("run", "--no-docker", "--cwd", "the first")
	require.NoError(t, cmd.Start())
	require.Eventually(t, func() bool { _, err := os.Stat(filepath.Join(u.dir, "begun")); return err == nil }, time.Minute, 10*time.Millisecond)
	told := "· session " + u.session().ID + " (the first) is open in another process and uses the same workspace: "
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(u.dir, link))
	require.Contains(t, u.does("run", "--no-docker", "--workspace", link, "the second").stderr, told)
	require.NotContains(t, u.does("run", "--no-docker", "elsewhere").stderr, "in another process")
	require.NoError(t, cmd.Process.Kill())
	_ = cmd.Wait()
	require.NotContains(t, u.does("run", "--no-docker", "--cwd", "alone").stderr, "in another process")
}

// sits starts a session at a terminal.
func (u *user) sits(args ...string) *person {
	u.t.Helper()
	p := &person{t: u.t, cmd: u.command(args...)}
	p.cmd.Env = append(p.cmd.Env, "TERM=xterm-256color", "TERM_PROGRAM=vscode")
	p.Terminal = termtest.Start(u.t, p.cmd, 80, 24)
	return p
}

func TestASessionAtATerminalGoesOn(t *testing.T) {
	t.Parallel()
	u := newUser(t, pygenttest.Text("Hello."), pygenttest.Text("Again."), pygenttest.Text("And again."))
	p := u.sits("--no-docker", "--cwd", "hi there")
	p.Await("Hello.", "Ready")
	id := u.session().ID
	require.Contains(t, u.fails("--continue").stderr, "session "+id+": the session is open in another process")
	require.Contains(t, u.fails("sessions", "rm", id).stderr, "the session is open in another process, ")
	require.Contains(t, u.does("sessions").stdout, "(open) hi there")
	p.Key("ctrl+d")
	require.NoError(t, p.Wait(), p.All())
	require.Contains(t, p.All(), "Session "+id+sessionSaved+id)

	p = u.sits("--continue")
	p.Await(`continues after 2 messages of "hi there"; the model said last:`, "Ready")
	p.Type("and now\n")
	p.Await("Again.", "Ready")
	p.Key("ctrl+d")
	require.NoError(t, p.Wait(), p.All())
	p = u.sits("-r", id[:4], "say it")
	p.Await("continues after 4 messages", "And again.", "Ready")
	p.Key("ctrl+d")
	require.NoError(t, p.Wait(), p.All())
	require.Len(t, u.conversation(id), 1+6)
}

func TestAKilledSessionGoesOn(t *testing.T) {
	t.Parallel()
	u := newUser(t, bash("touch begun; sleep 600"), pygenttest.Text("I looked."))
	p := u.sits("--no-docker", "--cwd", "-e", "PYGENT_CONFIRM_BASH=0", "work")
	require.Eventually(t, func() bool { _, err := os.Stat(filepath.Join(u.dir, "begun")); return err == nil }, time.Minute, 10*time.Millisecond)
	require.NoError(t, p.cmd.Process.Kill())
	require.Error(t, p.Wait())
	p = u.sits("--continue")
	p.Await("continues after 2 messages", wasInterrupted, "Ready")
	p.Type("/resume\n")
	p.Await("I looked.", "Done", "Ready")
	p.Key("ctrl+d")
	require.NoError(t, p.Wait(), p.All())
	require.Equal(t, []string{"interrupted; it may have taken effect"}, toolResults(u.conversation(u.session().ID)))
}

// A window that is closed asks nobody whether to keep the files of a temporary
// workspace. They come back with the session, which says so.
func TestAHangUpLosesNoFiles(t *testing.T) {
	t.Parallel()
	u := newUser(t, writes("poem.txt", "roses"), pygenttest.Text("It is about roses."), pygenttest.Text("Again."))
	p := u.sits("--no-docker", "-e", "PYGENT_CONFIRM_BASH=0", "write a poem")
	p.Await("It is about roses.", "Done", "Ready")
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGHUP))
	require.Error(t, p.Wait())
	back := "temporary workspace was restored"
	p = u.sitsAt(160, 30, "--continue")
	p.Await("continues after 4 messages", back, "Ready")
	p.Type("!cat poem.txt\n")
	p.Await("roses", "exit 0")
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	require.Error(t, p.Wait())
	require.Contains(t, u.does("--continue", "once more").stdout, back)
}

// A plain session goes on, too: its input and output are pipes.
func TestAPipedSessionGoesOn(t *testing.T) {
	t.Parallel()
	u := newUser(t, pygenttest.Text("Hello."), pygenttest.Text("Again."))
	u.does("--no-docker", "--cwd", "hi there")
	got := u.does("--continue", "and on")
	require.Contains(t, got.stdout, "The conversation continues after 2 messages of \"hi there\"; the model said last: Hello.")
	require.Contains(t, got.stdout, "Again.")
	require.Contains(t, got.stderr, "Session "+u.session().ID+sessionSaved)
}

// A plain session shows what was said last, with nothing that could drive a terminal.
func TestAPipedSessionShowsWhatWasSaidLast(t *testing.T) {
	t.Parallel()
	u := newUser(t, pygenttest.Text("One.\n\nTwo \x1b[2J."), pygenttest.Text("Again."))
	u.does("--no-docker", "--cwd", "hi there")
	require.Contains(t, u.does("--continue", "and on").stdout, "\n  > hi there\n  One.\n\n  Two ␛[2J.\n")
}

// A session lists those of its directory, and says how to go on with one. The word exit
// alone leaves, as in a shell.
func TestASessionListsTheOthers(t *testing.T) {
	t.Parallel()
	u := newUser(t, pygenttest.Text("Hello."), pygenttest.Text("Well?"))
	u.does("--no-docker", "--cwd", "plant a tree")
	first := u.session().ID
	p := u.sits("--no-docker", "--cwd", "and another")
	p.Await("Well?", "Done", "Ready")
	p.Type("/sessions\n")
	p.Await("2 messages  plant a tree", "(open) and another", "To continue one: /exit, then pygent --resume ID")
	p.Type("exit\n")
	require.NoError(t, p.Wait())
	require.Contains(t, p.All(), first)
	require.Len(t, u.server.Requests(), 2)
}

func TestSessionsAreListedShownExportedAndRemoved(t *testing.T) {
	t.Parallel()
	u := newUser(t, pygenttest.Call("bash", map[string]any{"cmd": "printf 'a\\033[2Jb ``` c'"}), stop("Done **it**."), stop("Two."))
	u.does("run", "--no-docker", "make \x1b[31mit red", "--cwd")
	require.Contains(t, u.does("sessions").stdout, "make ␛[31mit red")
	first := u.session()
	here := u.dir
	u.dir = t.TempDir()
	require.Contains(t, u.does("sessions", "list").stdout, "this directory has no session; \"pygent sessions list --all\" lists the 1 of others")
	u.does("run", "--no-docker", "another")
	list := u.does("sessions", "list", "--all").stdout
	require.Regexp(t, `(?m)^`+u.sessions()[0].ID+` +now +3 messages +another +\S+\n`+first.ID+` +now +5 messages`, list)
	require.NotContains(t, list, "\x1b")
	u.dir = here
	var infos []sessions.Info
	require.NoError(t, json.Unmarshal([]byte(u.does("sessions", "list", "--json").stdout), &infos))
	require.Len(t, infos, 1)
	require.Equal(t, first.ID, infos[0].ID)

	shown := u.does("sessions", "show", first.ID[:4]).stdout
	for _, want := range []string{"title      make ␛[31mit red", "messages   5", "you: make", "» bash", "result: ", "» stop"} {
		require.Contains(t, shown, want)
	}
	require.NotContains(t, shown, "\x1b")

	got := u.does("sessions", "export", first.ID, "out.md")
	require.Equal(t, "wrote 5 messages to out.md\n", got.stdout)
	text, err := os.ReadFile(filepath.Join(u.dir, "out.md"))
	require.NoError(t, err)
	require.NotContains(t, string(text), "\x1b")
	for _, want := range []string{"# make", "\n## User\n", "\n**bash**\n\n````json\n", "\n````\n"} {
		require.Contains(t, string(text), want)
	}
	require.Contains(t, u.fails("sessions", "export", first.ID, "out.md").stderr, "file exists; use --force")
	u.does("sessions", "export", "--force", first.ID, "out.md")
	require.Equal(t, string(text), u.does("sessions", "export", first.ID, "-").stdout)
	u.does("sessions", "export", first.ID, "out.json")
	require.Len(t, persontest.Conversation(t, filepath.Join(u.dir, "out.json")), 5)

	require.Contains(t, u.fails("sessions", "rm").stderr, "which sessions?")
	require.Contains(t, u.fails("sessions", "rm", "--older", "soon").stderr, "--older: want a time such as 30d")
	require.Contains(t, u.fails("sessions", "rm", "zzz").stderr, `no session ID starts with "zzz"; "pygent sessions list --all"`)
	wrong := first.ID[:7] + "!"
	for _, args := range [][]string{{"sessions", "show", wrong}, {"sessions", "export", wrong, "x.md"}, {"sessions", "rm", wrong}, {"run", "--resume=" + wrong}} {
		got := u.fails(args...)
		require.Equal(t, exitUsage, got.code, args)
		require.Contains(t, got.stderr, fmt.Sprintf("no session ID starts with %q. Did you mean %s? ", wrong, first.ID), args)
	}
	for _, resume := range [][]string{{"--resume"}, {"run", "-r"}} {
		got := u.fails(append(resume, "zzzz", "hello")...)
		require.Equal(t, exitUsage, got.code)
		require.Contains(t, got.stderr, `no session ID starts with "zzzz"`) // and perhaps what is meant
		require.Contains(t, got.stderr, `write --resume -- "zzzz hello"`)
	}
	require.Equal(t, "removed 0 sessions\n", u.does("sessions", "rm", "--older", "1d").stdout)
	require.Equal(t, "removed 1 session\n", u.does("sessions", "rm", first.ID, first.ID[:5]).stdout)
	require.Equal(t, "removed 1 session\n", u.does("sessions", "rm", "--older", "0s", "--yes").stdout)
	require.Equal(t, noSessions, u.does("sessions", "list", "-a").stdout)
}

func TestOldSessionsAreRemovedAfterAQuestion(t *testing.T) {
	t.Parallel()
	u := newUser(t, stop("Done."), stop("Done."))
	u.does("run", "--no-docker", "--cwd", "go")
	u.has("plant a tree", "bake bread", "sail the sea")
	here := u.dir
	u.dir = t.TempDir()
	u.does("run", "--no-docker", "of another directory")
	u.dir = here
	which := "4 sessions, 1 of them in other directories"

	got := u.fails("sessions", "rm", "--older", "0d")
	require.Equal(t, exitUsage, got.code)
	require.Contains(t, got.stderr, "nothing was removed: there is no terminal to ask; use --yes to remove "+which)
	for _, tt := range []struct {
		answer string
		code   int
		left   int
	}{{"\n", exitOK, 4}, {"n\n", exitOK, 4}, {ctrlC, exitCancel, 4}, {"y\n", exitOK, 0}} {
		term := startTerminal(t, u.command("sessions", "rm", "--older", "0d"))
		for _, line := range []string{"of another directory", "plant a tree", "bake bread", "sail the sea", "Remove " + which + "? This cannot be undone. [y/N] "} {
			term.expect(line)
		}
		term.answers(tt.answer)
		_ = term.cmd.Wait()
		<-term.done
		require.Equal(t, tt.code, term.cmd.ProcessState.ExitCode(), term.shown.String())
		require.Len(t, u.sessions(), tt.left, tt.answer)
	}
	require.Equal(t, "removed 0 sessions\n", u.does("sessions", "rm", "--older", "0d").stdout)
}

func TestOfManyOldSessionsTheFirstAreListed(t *testing.T) {
	t.Parallel()
	var titles []string
	for i := range 25 {
		titles = append(titles, fmt.Sprintf("title %02d.", i))
	}
	u := withSessions(t, titles...)
	got := u.fails("sessions", "rm", "--older", "1d")
	require.Contains(t, got.stdout, "title 19.")
	require.NotContains(t, got.stdout, "title 20.")
	require.Contains(t, got.stdout, "\n… and 5 more\n")
	require.Equal(t, "removed 25 sessions\n", u.does("sessions", "rm", "--older", "1d", "-y").stdout)
}

func TestSessionsOfAStateDirectoryThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	u := newUser(t, stop("Done."))
	cmd := u.command("run", "--no-docker", "go")
	file := inFile(t, "file", "")
	cmd.Env = append(cmd.Env, "XDG_STATE_HOME="+file+"/below")
	got := finish(t, cmd)
	require.Equal(t, 0, got.code, got.stderr)
	require.Equal(t, "Done.\n", got.stdout)
	require.Contains(t, got.stderr, "not a directory")
	require.Contains(t, got.stderr, "this session continues but is not saved")
	require.Equal(t, 1, strings.Count(got.stderr, "not saved"))

	got = u.fails("run", "--no-docker", "--workspace", "/proc/x", "go")
	require.Contains(t, got.stderr, "mkdir /proc/x")
	require.NotContains(t, got.stderr, "this session continues", "nothing does")
}

// The limit of the size of files stands for a disk that is full.
func TestARunGoesOnWhenTheDiskIsFull(t *testing.T) {
	t.Parallel()
	u := newUser(t, stop("One."), stop("Two."), stop("Three."))
	u.does("run", "--no-docker", "begin")
	run := u.command("run", "-c", strings.Repeat("0123456 ", 1<<12))
	cmd := exec.CommandContext(t.Context(), "prlimit", append([]string{"--fsize=32768", run.Path}, run.Args[1:]...)...)
	cmd.Env, cmd.Dir = run.Env, run.Dir
	got := finish(t, cmd)
	require.Equal(t, 0, got.code, got.stderr)
	require.Equal(t, "Two.\n", got.stdout)
	require.Equal(t, 1, strings.Count(got.stderr, "the session continues but is not saved"), got.stderr)
	u.does("run", "-c", "there is room again")
	require.Len(t, u.conversation(u.session().ID), 1+2*3, "what was said meanwhile is lost")
}

func TestXDGStateHome(t *testing.T) {
	t.Parallel()
	u := newUser(t, stop("Done."), stop("Again."))
	state := t.TempDir()
	for _, args := range [][]string{{"run", "--no-docker", "go"}, {"run", "-c", "on"}} {
		cmd := u.command(args...)
		cmd.Env = append(cmd.Env, "XDG_STATE_HOME="+state)
		got := finish(t, cmd)
		require.Equal(t, 0, got.code, got.stderr)
	}
	require.Empty(t, u.sessions())
	list, err := sessions.List(filepath.Join(state, "pygent", "sessions"))
	require.NoError(t, err)
	require.Len(t, list, 1)
}

func TestSecretsOfSettingsAreNotKept(t *testing.T) {
	t.Parallel()
	u := newUser(t, stop("Done."), stop("Again."))
	cmd := u.command("run", "--no-docker", "-e", "TOKEN=geheim-1", "-e", `PYGENT_OPENAI_HEADERS={"X-Key":"geheim-2"}`, "-e", `PYGENT_OPENAI_EXTRA_BODY={"user":"geheim-3"}`, "go")
	cmd.Env = append(cmd.Env, "OPENAI_API_KEY=geheim-4")
	got := finish(t, cmd)
	require.Equal(t, 0, got.code, got.stderr)
	id := u.session().ID
	require.NoError(t, filepath.WalkDir(u.home, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		require.NotContains(t, string(data), "geheim", path)
		return err
	}))
	got = u.does("run", "-c", "on")
	require.Contains(t, got.stderr, "commands of session "+id+" had the variable TOKEN, whose value is not stored; set it again: -e TOKEN=VALUE")
}

func TestADamagedSessionGoesOn(t *testing.T) {
	t.Parallel()
	u := newUser(t, stop("Done."), stop("Again."))
	u.does("run", "--no-docker", "go")
	id := u.session().ID
	require.NoError(t, os.WriteFile(filepath.Join(u.sessionsDir(), id, "session.json"), []byte("{"), 0o600))
	require.Regexp(t, `(?m)^`+id+` +now +damaged `, u.does("sessions", "list", "--all").stdout)
	got := u.does("run", "--no-docker", "--resume", id, "on")
	require.Contains(t, got.stderr, "continues with default settings")
	require.Len(t, u.conversation(id), 1+2*3)
	require.Equal(t, "go", u.session().Title)
}

func TestAWorkspaceThatIsGoneIsSaid(t *testing.T) {
	t.Parallel()
	u := newUser(t, stop("Done."), stop("Again."))
	work := filepath.Join(t.TempDir(), "work")
	u.does("run", "--no-docker", "--workspace", work, "go")
	require.NoError(t, os.RemoveAll(work))
	got := u.fails("run", "-c", "on")
	require.Equal(t, exitUsage, got.code)
	require.Contains(t, got.stderr, "no longer exists; choose another one with --workspace DIR or --cwd")
	u.does("run", "-c", "--cwd", "on")
	require.Equal(t, u.dir, u.session().Workspace)
}

func TestOldSessionsAreRemovedAtTheStart(t *testing.T) {
	t.Parallel()
	u := newUser(t, stop("1"), stop("2"), stop("3"))
	for i := range 3 {
		u.does("run", "--no-docker", "--max-steps", "5", "-e", "PYGENT_MAX_SESSIONS=2", fmt.Sprint("number ", i))
	}
	var titles []string
	for _, info := range u.sessions() {
		titles = append(titles, info.Title)
	}
	require.Equal(t, []string{"number 2", "number 1"}, titles)
}

func TestTheSizeOfCheckpointsBoundsSessions(t *testing.T) {
	t.Parallel()
	write := bash("head -c 300000 /dev/urandom > file")
	u := newUser(t, write, stop("1"), write, stop("2"), stop("3"))
	for i := range 3 {
		u.does("run", "--no-docker", "-e", "PYGENT_MAX_SESSIONS_SIZE=400k", fmt.Sprint("number ", i))
	}
	var titles []string
	for _, info := range u.sessions() {
		titles = append(titles, info.Title)
	}
	require.Equal(t, []string{"number 2", "number 1"}, titles)
	var size int64
	require.NoError(t, filepath.WalkDir(filepath.Join(filepath.Dir(u.sessionsDir()), "trees"), func(_ string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			info, infoErr := d.Info()
			require.NoError(t, infoErr)
			size += info.Size()
		}
		return err
	}))
	require.Less(t, size, int64(350_000))
}

func TestIDsOfSessionsAreCompleted(t *testing.T) {
	t.Parallel()
	u := newUser(t, stop("1"))
	u.does("run", "--no-docker", "the title")
	id := u.session().ID
	for _, words := range [][]string{{"--resume", ""}, {"run", "-r", id[:2]}, {"sessions", "show", ""}, {"sessions", "rm", "x", id[:1]}, {"sessions", "export", ""}} {
		got := u.does(append([]string{"complete-words", "--"}, words...)...)
		require.Equal(t, id+"\tnow, the title\n", got.stdout, words)
	}
	require.Equal(t, "export\tWrite the conversation of a session to a file.\n", u.does("complete-words", "--", "sessions", "e").stdout)
	require.Equal(t, files+"\n", u.does("complete-words", "--", "sessions", "export", id, "").stdout)
}

func TestASessionIsChosenFromAList(t *testing.T) {
	t.Parallel()
	u := newUser(t, stop("1"), stop("2"), stop("3"), pygenttest.Text("Again."))
	for _, words := range []string{"plant a tree", "bake \x1b[2J bread", "sail the sea"} {
		u.does("run", "--no-docker", words)
	}
	id := u.sessions()[2].ID
	p := u.sits("--resume")
	p.Await("Which session do you want to continue?", "❯ ", "plant a tree", "bake ␛[2J bread", "sail the sea", "3 lines")
	p.Type("TREE")
	p.Await("1 line")
	p.Type("\r")
	p.Await("continues after 3 messages", "Ready")
	p.Type("and now\n")
	p.Await("Again.", "Ready")
	p.Key("ctrl+d")
	require.NoError(t, p.Wait(), p.All())
	require.Len(t, u.conversation(id), 1+5)

	p = u.sits("--resume")
	p.Await("Which session do you want to continue?")
	p.Key("esc")
	require.Error(t, p.Wait())
	require.Contains(t, p.All(), "no session was selected")
}

func TestCheckpointsOfASessionGoWithIt(t *testing.T) {
	t.Parallel()
	u := newUser(t, stop("1"))
	u.does("run", "--no-docker", "--cwd", "go")
	logs := func() []string {
		found, err := filepath.Glob(filepath.Join(filepath.Dir(u.sessionsDir()), "trees", "logs", "*.log"))
		require.NoError(t, err)
		return found
	}
	require.Len(t, logs(), 1)
	u.does("sessions", "rm", u.session().ID)
	require.Empty(t, logs())
}
