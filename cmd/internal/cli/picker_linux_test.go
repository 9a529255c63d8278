package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/x/pygent/internal/livearea"
	"github.com/x/pygent/internal/testkit/termtest"
	"github.com/x/pygent/pygenttest"
)

// has copies the only session, once for each title. The first one was used three days
// ago, the next one a day earlier, and so on. The ids are 1aaaaaaa, 1aaaaaab …
func (u *user) has(titles ...string) {
	u.t.Helper()
	from := filepath.Join(u.sessionsDir(), u.session().ID)
	data, err := os.ReadFile(filepath.Join(from, "session.json"))
	require.NoError(u.t, err)
	history, err := os.ReadFile(filepath.Join(from, "history.json"))
	require.NoError(u.t, err)
	require.NoError(u.t, os.RemoveAll(from))
	for i, title := range titles {
		var info map[string]any
		require.NoError(u.t, json.Unmarshal(data, &info))
		info["title"], info["used"] = title, time.Now().Add(-time.Duration(3+i)*24*time.Hour)
		changed, err := json.Marshal(info)
		require.NoError(u.t, err)
		dir := filepath.Join(u.sessionsDir(), fmt.Sprintf("1aaaa%c%c%c", 'a'+i/676%26, 'a'+i/26%26, 'a'+i%26))
		require.NoError(u.t, os.Mkdir(dir, 0o700))
		require.NoError(u.t, os.WriteFile(filepath.Join(dir, "session.json"), changed, 0o600))
		require.NoError(u.t, os.WriteFile(filepath.Join(dir, "history.json"), history, 0o600))
	}
}

// sitsAt starts a session at a terminal of a size.
func (u *user) sitsAt(cols, rows int, args ...string) *person {
	u.t.Helper()
	p := &person{t: u.t, cmd: u.command(args...)}
	p.cmd.Env = append(p.cmd.Env, "TERM=xterm-256color", "TERM_PROGRAM=vscode")
	p.Terminal = termtest.Start(u.t, p.cmd, cols, rows)
	return p
}

// withSessions is a user who has said something once, and whose sessions have titles.
func withSessions(t *testing.T, titles ...string) *user {
	t.Helper()
	u := newUser(t, stop("Done."), pygenttest.Text("Again."))
	u.does("run", "--no-docker", "--cwd", "go")
	u.has(titles...)
	return u
}

// screenOf is a screen as one text, without the empty rows at its end.
func screenOf(s termtest.Screen) string { return strings.TrimRight(s.Text(), "\n") }

func TestPickingWithTheKeys(t *testing.T) {
	t.Parallel()
	u := withSessions(t, "plant a tree", "bake bread", "sail the sea", "bake a cake")
	p := u.sitsAt(80, 24, "--resume")
	p.Await("4 lines")
	shown := p.Screen().Lines
	require.Equal(t, []string{"Which session do you want to continue?", "› "}, shown[:2])
	for i, line := range []string{ // and the directory
		"❯ 1aaaaaaa  3 days ago  3 messages  plant a tree  ", "  1aaaaaab  4 days ago  3 messages  bake bread    ",
		"  1aaaaaac  5 days ago  3 messages  sail the sea  ", "  1aaaaaad  6 days ago  3 messages  bake a cake   ",
	} {
		require.True(t, strings.HasPrefix(shown[2+i], line), shown[2+i])
	}
	p.Key("down", "down", "up", "tab")
	p.Await("❯ 1aaaaaac")
	p.Key("pgdown")
	p.Await("❯ 1aaaaaad")
	p.Key("down") // the end
	p.Key("pgup")
	p.Await("❯ 1aaaaaaa")
	p.Key("up", "down")
	p.Await("❯ 1aaaaaab")
	p.Type("bake")
	p.Await("2 lines", "❯ 1aaaaaab")
	p.AwaitNo("plant")
	p.Key("down")
	p.Await("❯ 1aaaaaad")
	p.Type(" nothing")
	p.Await("no match", "0 lines")
	p.Key("enter") // chooses nothing
	for range " nothing" {
		p.Key("backspace")
	}
	p.Await("2 lines", "❯ 1aaaaaab")
	p.Type(" CAKE")
	p.Await("1 line", "❯ 1aaaaaad")
	p.Key("enter")
	p.Await(`continues after 3 messages of "bake a cake"`, "Ready")
	p.Type("and now\n")
	p.Await("Again.", "Ready")
	p.Key("ctrl+d")
	require.NoError(t, p.Wait(), p.All())
	require.Len(t, u.conversation("1aaaaaad"), 1+5)
	require.NotContains(t, p.All(), "Which session", "the list is gone")
}

func TestPickingInANarrowTerminal(t *testing.T) {
	t.Parallel()
	u := withSessions(t, "plant a tree in the garden behind the house", "植樹 植樹 植樹 植樹 植樹 植樹 植樹",
		"\x1b[2J\x1b]0;owned\x07 red\r\nnext", "a\u202egnp.exe\u200b", "👩‍👩‍👧‍👦 e\u0301e\u0301 family", "")
	p := u.sitsAt(40, 9, "--resume")
	p.Await("6 lines")
	for _, line := range p.Screen().Lines {
		require.LessOrEqual(t, livearea.Width(line), 40)
	}
	require.Equal(t, strings.Join([]string{
		"Which session do you want to continue?",
		"› ",
		"❯ 1aaaaaaa  3 days ago  plant a tree i…",
		"  1aaaaaab  4 days ago  植樹 植樹 植樹…",
		"  1aaaaaac  5 days ago  ␛[2J␛]0;owned␇…",
	}, "\n"), strings.Join(p.Screen().Lines[:5], "\n"))
	require.Empty(t, p.Screen().Title)
	p.Resize(100, 12)
	p.Await("❯ 1aaaaaaa  3 days ago  plant a tree in", "❯ ")
	p.Key("ctrl+c")
	require.Error(t, p.Wait())
	require.Equal(t, "pygent: no session was selected; \"pygent sessions list --all\" lists them", p.All())
	require.Len(t, u.sessions(), 6)
}

func TestPickingFromNoneAndFromMany(t *testing.T) {
	t.Parallel()
	u := newUser(t, stop("Done."), pygenttest.Text("Again."))
	p := u.sitsAt(80, 24, "--resume")
	require.Error(t, p.Wait())
	require.Equal(t, "pygent: there are no sessions; \"pygent\" starts one", p.All())

	u.does("run", "--no-docker", "--cwd", "go")
	titles := make([]string, 300)
	for i := range titles {
		titles[i] = fmt.Sprintf("item-%d", i)
	}
	u.has(titles...)
	p = u.sitsAt(80, 10, "--resume")
	p.Await("❯ 1aaaaaaa", "300 lines")
	p.AwaitNo("item-9")
	for range 5 {
		p.Key("pgdown")
	}
	p.Await("item-30")
	p.Type("item-299")
	p.Await("1 line", "❯ 1aaaaaln")
	p.Key("enter")
	p.Await(`of "item-299"`, "Ready")
	p.Key("ctrl+d")
	require.NoError(t, p.Wait(), p.All())
}

// A shell has changed the terminal while the process was stopped.
func TestPickingGoesOnAfterAStop(t *testing.T) {
	t.Parallel()
	u := withSessions(t, "plant a tree", "bake bread")
	p := u.sitsAt(80, 24, "--resume")
	p.Await("❯ 1aaaaaaa", "2 lines")
	modes := p.Modes()
	modes.Lflag |= unix.ICANON | unix.ECHO
	p.Signal(syscall.SIGSTOP)
	p.SetModes(modes)
	p.Signal(syscall.SIGCONT)
	require.Eventually(t, func() bool { return p.Modes().Lflag&(unix.ICANON|unix.ECHO) == 0 }, time.Minute, time.Millisecond)
	p.Type("bread")
	p.Await("❯ 1aaaaaab", "1 line")
	p.Key("esc")
	require.Error(t, p.Wait())
}

func TestPickingNeedsATerminal(t *testing.T) {
	t.Parallel()
	u := withSessions(t, "plant a tree")
	require.Contains(t, u.fails("--resume").stderr, "--resume needs a session ID")
	cmd := u.command("--resume")
	cmd.Env = append(cmd.Env, "TERM=dumb")
	term := startTerminal(t, cmd)
	term.expect("--resume needs a session ID")
	require.Error(t, cmd.Wait())
}

func TestSessionsAreListedInANarrowTerminal(t *testing.T) {
	t.Parallel()
	u := withSessions(t, "plant a tree in the garden behind the house", "植樹 植樹 植樹 植樹 植樹 植樹 植樹", "short", "\x1b[2J odd")
	p := u.sitsAt(40, 12, "sessions", "list", "--all")
	require.NoError(t, p.Wait())
	require.Equal(t, strings.Join([]string{
		"1aaaaaaa  3 days ago  plant a tree in t…",
		"1aaaaaab  4 days ago  植樹 植樹 植樹 植…",
		"1aaaaaac  5 days ago  short",
		"1aaaaaad  6 days ago  ␛[2J odd",
	}, "\n"), screenOf(p.Screen()))
	p = u.sitsAt(80, 12, "sessions")
	require.NoError(t, p.Wait())
	require.Equal(t, strings.Join([]string{
		"1aaaaaaa  3 days ago  3 messages  plant a tree in the garden behind the house",
		"1aaaaaab  4 days ago  3 messages  植樹 植樹 植樹 植樹 植樹 植樹 植樹",
		"1aaaaaac  5 days ago  3 messages  short",
		"1aaaaaad  6 days ago  3 messages  ␛[2J odd",
	}, "\n"), screenOf(p.Screen()))
	p = u.sitsAt(40, 24, "sessions", "show", "1aaaaaac")
	require.NoError(t, p.Wait())
	p.Await("session    1aaaaaac", "title      short", "messages   3", "you: go")
	p = u.sitsAt(40, 24, "sessions", "rm", "1aaaaaac")
	require.NoError(t, p.Wait())
	require.Equal(t, "removed 1 session", screenOf(p.Screen()))
}

// A reader that has seen enough is no failure.
func TestListingsEndWithTheirReader(t *testing.T) {
	t.Parallel()
	u := newUser(t, stop("Done."))
	cmd := u.command("run", "--no-docker", "--cwd")
	cmd.Stdin = strings.NewReader(strings.Repeat("many words ", 50_000))
	got := finish(t, cmd)
	require.Equal(t, 0, got.code, got.stderr)
	titles := make([]string, 500)
	for i := range titles {
		titles[i] = strings.Repeat("long ", 40)
	}
	u.has(titles...)
	for name, args := range map[string]string{"list": "list --all", "json": "list --all --json", "export": "export 1aaaaaaa -"} {
		t.Run(name, func(t *testing.T) {
			pygent := u.command()
			cmd := exec.CommandContext(t.Context(), "bash", "-c", `"$0" sessions `+args+` | head -n 1; echo "${PIPESTATUS[0]}"`, pygent.Path)
			cmd.Env, cmd.Dir = pygent.Env, pygent.Dir
			got := finish(t, cmd)
			lines := strings.Split(strings.TrimSpace(got.stdout), "\n")
			require.Len(t, lines, 2)
			require.Equal(t, "0", lines[1])
			require.Empty(t, got.stderr)
		})
	}
}
