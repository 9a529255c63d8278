package sessions_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
	"github.com/x/pygent/checkpoint"
	"github.com/x/pygent/internal/testkit"
	"github.com/x/pygent/internal/testkit/enginetest"
	"github.com/x/pygent/pygenttest"
	"github.com/x/pygent/sessions"
)

// withTrees keeps the checkpoints of a session beside it.
func withTrees(dir string) pygent.Option {
	return checkpoint.Keep(filepath.Join(dir, "trees"))
}

// noticesTo collects what agents say to people.
func noticesTo(into *[]string) pygent.Option {
	return pygent.OnEvent(func(e pygent.Event) {
		if e.Type == pygent.EventNotice || e.Type == pygent.EventWarning {
			*into = append(*into, e.Text)
		}
	})
}

func TestTheFilesOfATemporaryWorkspaceComeBack(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	initial := filepath.Join(t.TempDir(), "initial")
	require.NoError(t, os.WriteFile(initial, []byte("given"), 0o600))
	model := pygenttest.NewScriptedModel(
		pygenttest.Call("bash", map[string]any{"cmd": "mkdir -p d/e && echo one > d/f && chmod 750 d/f && ln -s d/f link && echo mine > initial && chmod 700 d/e"}),
		pygenttest.Text("written"),
	)
	agent := keptAgent(t, dir, "1abc", withTrees(dir), pygent.WithModel(model), pygent.WithInitialFiles(initial))
	hears(t, agent, "write")
	require.NoError(t, agent.Runtime().WriteFile(t.Context(), "late", []byte("after the turn")))
	before, was := testkit.TreeOf(t, testkit.HostDir(t, agent)), testkit.HostDir(t, agent)
	require.Contains(t, before, "d/f")
	require.NoError(t, agent.Close())
	require.NoDirExists(t, was)

	for range 2 { // the second time nothing is said
		var told []string
		agent = keptAgent(t, dir, "1abc", withTrees(dir), pygent.WithInitialFiles(initial), noticesTo(&told))
		require.Equal(t, before, testkit.TreeOf(t, testkit.HostDir(t, agent)))
		require.NoError(t, agent.Close())
		require.Len(t, told, 1)
		require.Contains(t, told[0], "the session's temporary workspace was restored as of ")
	}
	agent = keptAgent(t, dir, "1abc", withTrees(dir))
	done, err := agent.Undo(t.Context(), 1)
	require.NoError(t, err)
	require.Empty(t, done.NoFiles)
	require.Equal(t, []string{"initial", "late"}, testkit.NamesIn(t, testkit.HostDir(t, agent)), "what came after the turn stays")
	require.Equal(t, "given", readFile(t, filepath.Join(testkit.HostDir(t, agent), "initial")))
	require.NoError(t, agent.Close())
	agent = keptAgent(t, dir, "1abc", withTrees(dir))
	require.Equal(t, []string{"initial", "late"}, testkit.NamesIn(t, testkit.HostDir(t, agent)))
	_, err = agent.Redo(t.Context())
	require.NoError(t, err)
	require.Equal(t, before, testkit.TreeOf(t, testkit.HostDir(t, agent)))
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(data)
}

func TestNothingIsSaidOfTheFilesOfASessionThatHasNone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	agent := keptAgent(t, dir, "1abc", withTrees(dir))
	require.NoError(t, os.Mkdir(filepath.Join(testkit.HostDir(t, agent), "empty"), 0o700))
	hears(t, agent, "hi")
	require.NoError(t, agent.Close())
	var told []string
	agent = keptAgent(t, dir, "1abc", withTrees(dir), noticesTo(&told))
	require.Equal(t, []string{"empty"}, testkit.NamesIn(t, testkit.HostDir(t, agent)), "it comes back all the same")
	require.NoError(t, agent.Close())
	agent = keptAgent(t, dir, "1abc", withTrees(dir), pygent.WithWorkspace(t.TempDir()), noticesTo(&told))
	require.NoError(t, agent.Close())
	require.Empty(t, told)
}

func TestFilesThatNoCheckpointHasAreSaidToBeGone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	agent := keptAgent(t, dir, "1abc")
	hears(t, agent, "hi")
	require.NoError(t, agent.Close())
	var told []string
	agent = keptAgent(t, dir, "1abc", withTrees(dir), noticesTo(&told))
	require.NoError(t, agent.Close())
	require.Equal(t, []string{"the session's temporary workspace is gone, and no checkpoint has its files"}, told)
}

func TestFilesOfASessionDoNotGoToAnotherWorkspace(t *testing.T) {
	t.Parallel()
	dir, other := t.TempDir(), t.TempDir()
	agent := keptAgent(t, dir, "1abc", withTrees(dir))
	require.NoError(t, agent.Runtime().WriteFile(t.Context(), "f", []byte("x")))
	hears(t, agent, "hi")
	require.NoError(t, agent.Close())
	var told []string
	agent = keptAgent(t, dir, "1abc", withTrees(dir), pygent.WithWorkspace(other), noticesTo(&told))
	require.Empty(t, testkit.NamesIn(t, other))
	last := agent.Checkpoints()[len(agent.Checkpoints())-1]
	fork, err := agent.Fork(t.Context(), last.ID)
	require.NoError(t, err)
	content, err := fork.Runtime().ReadFile(t.Context(), "f")
	require.NoError(t, err)
	require.Equal(t, "x", string(content))
	require.NoError(t, fork.Close())
	require.NoError(t, agent.Close())
	require.Equal(t, []string{fmt.Sprintf("the session's temporary workspace is not restored into this one; checkpoint %d has its files: fork a session from it (Fork, /fork)", last.ID)}, told)
}

// A store that cannot be read loses nothing: the session stays as it is.
func TestFilesThatCannotBePutBackAreAnError(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	agent := keptAgent(t, dir, "1abc", withTrees(dir))
	require.NoError(t, agent.Runtime().WriteFile(t.Context(), "f", []byte("x")))
	hears(t, agent, "hi")
	require.NoError(t, agent.Close())
	packs := filepath.Join(dir, "trees", "packs")
	require.NoError(t, os.Rename(packs, packs+"-away"))
	_, err := pygent.New(sessions.Keep(filepath.Join(dir, "1abc")), withTrees(dir), pygent.WithModel(pygenttest.NewScriptedModel()), pygent.WithDocker(pygent.DockerNever))
	require.ErrorContains(t, err, "put back the files of session 1abc, which were in a temporary workspace: ")
	require.ErrorContains(t, err, "in a workspace of your choice it continues without them")
	require.NoError(t, os.RemoveAll(packs))
	require.NoError(t, os.Rename(packs+"-away", packs))
	agent = keptAgent(t, dir, "1abc", withTrees(dir))
	require.Equal(t, []string{"f"}, testkit.NamesIn(t, testkit.HostDir(t, agent)))
}

func TestFilesAreNotPutBackLongerThanTheirAgentIsWaitedFor(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	agent := keptAgent(t, dir, "1abc", withTrees(dir))
	require.NoError(t, agent.Runtime().WriteFile(t.Context(), "f", []byte("x")))
	hears(t, agent, "hi")
	require.NoError(t, agent.Close())
	ctx, cancel := context.WithCancel(t.Context())
	_, err := pygent.NewWithContext(ctx,
		sessions.Keep(filepath.Join(dir, "1abc")), withTrees(dir), pygent.WithModel(pygenttest.NewScriptedModel()),
		pygent.WithDockerHost("unix:///none"),
		pygent.OnEvent(func(pygent.Event) { cancel() })) // that commands run on this machine
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorContains(t, err, "put back the files of session 1abc")
	agent = keptAgent(t, dir, "1abc", withTrees(dir))
	require.Equal(t, []string{"f"}, testkit.NamesIn(t, testkit.HostDir(t, agent)))
}

const sessionChildEnv = "PYGENT_TEST_SESSION_CHILD"

func writingSession(base string) []pygent.Option {
	return []pygent.Option{
		sessions.Keep(filepath.Join(base, "1abc")), withTrees(base), pygent.WithModel(testkit.TurnWriter()), pygent.WithTools(testkit.WriteTurn()),
		pygent.WithDocker(pygent.DockerNever), pygent.WithEndOnReply(),
	}
}

// killInTurn before the directory has TestSessionChild say that it is open once its first turn
// writes, and killInTurnWithin is about how long that takes. Other kills seldom hit a turn.
const (
	killInTurn       = "in a turn:"
	killInTurnWithin = 20 * time.Millisecond
)

// TestSessionChild is the process that TestAKilledSessionHasFilesAndWordsOfOneMoment
// kills: it resumes a session, works in it and ends it until it dies. Without its
// environment variable it does nothing.
func TestSessionChild(t *testing.T) {
	t.Parallel()
	base := os.Getenv(sessionChildEnv)
	if base == "" {
		return
	}
	base, inTurn := strings.CutPrefix(base, killInTurn)
	var open sync.Once
	sayOpen := func() { open.Do(func() { fmt.Println("open") }) }
	if !inTurn {
		sayOpen()
	}
	for {
		agent, err := pygent.New(append(writingSession(base), pygent.OnEvent(func(e pygent.Event) {
			if e.Type == pygent.EventToolStart {
				sayOpen()
			}
		}))...)
		require.NoError(t, err)
		for range 1 + rand.IntN(2) {
			_, err = agent.RunUntilStop(t.Context(), fmt.Sprint("turn ", rand.Int()))
			require.NoError(t, err)
		}
		if rand.IntN(4) == 0 {
			_, _ = agent.Undo(t.Context(), 1)
		}
		require.NoError(t, agent.Close())
	}
}

// TestAKilledSessionHasFilesAndWordsOfOneMoment kills a process that resumes, works in
// and ends a session with a temporary workspace, at random moments. In half of the
// rounds the workspace is removed as well, as a later start of another session does.
// PYGENT_SESSION_KILLS sets how often.
func TestAKilledSessionHasFilesAndWordsOfOneMoment(t *testing.T) {
	if testing.Short() {
		t.Skip("kills many processes")
	}
	base, temp := t.TempDir(), t.TempDir()
	t.Setenv("TMPDIR", temp)
	kills := testkit.Kills("PYGENT_SESSION_KILLS", 10)
	working, removed, rewound := 0, 0, 0
	cut := map[string]bool{} // what turns have written that were killed
	round := 0
	for ; round < kills || working == 0 && round < 5*kills; round++ { // a busy machine may begin no turn in time
		if rewound == 0 && round >= kills-2 { // no child has finished a turn yet, as on a busy machine
			agent, err := pygent.New(writingSession(base)...)
			require.NoError(t, err)
			_, err = agent.RunUntilStop(t.Context(), fmt.Sprint("turn ", rand.Int()))
			require.NoError(t, err)
			require.NoError(t, agent.Close())
		}
		at, within := base, testkit.KillWithin
		if round%4 == 2 {
			at, within = killInTurn+base, killInTurnWithin
		}
		testkit.KillChild(t, "TestSessionChild", sessionChildEnv+"="+at, within)
		gone := round%2 == 1
		if gone {
			left, err := filepath.Glob(filepath.Join(temp, "pygent-*"))
			require.NoError(t, err)
			for _, dir := range left {
				require.NoError(t, os.RemoveAll(dir))
				removed++
			}
		}
		agent, err := pygent.New(writingSession(base)...)
		require.NoError(t, err, "round %d", round)
		conversation := agent.History().Conversation()
		if len(conversation) > 0 { // else it was killed before the first message
			require.NoError(t, pygenttest.CheckConversation(conversation))
		}
		if checkpoints := agent.Checkpoints(); gone && len(checkpoints) > 0 { // what happened later is lost, words like files
			spoken := slices.DeleteFunc(agent.History().Messages(), func(m pygent.Message) bool { return m.Role == chat.RoleSystem })
			require.Len(t, spoken, checkpoints[len(checkpoints)-1].Messages, "round %d", round)
			rewound++
		}
		files, last, written, ended := map[string]bool{}, "", false, true
		for name, file := range testkit.TreeOf(t, testkit.HostDir(t, agent)) {
			if strings.Contains(name, "/f") {
				files[file[strings.LastIndex(file, " ")+1:]] = true
			}
		}
		for _, m := range conversation {
			if m.Role == chat.RoleUser {
				last = strings.TrimPrefix(m.Text(), "turn ")
			}
			written = strings.HasPrefix(m.Text(), "written ")
			ended = m.Role == chat.RoleSystem || m.Role == chat.RoleAssistant && m.Text() == "done"
		}
		switch {
		case ended && last == "":
			require.Empty(t, files, "round %d", round)
		case ended, written:
			require.Equal(t, map[string]bool{last: true}, files, "round %d", round)
		default:
			working++
			// Below what this turn has written is what one turn wrote that ended, or what
			// others left that were killed before it.
			rest := maps.Clone(files)
			delete(rest, last)
			if len(rest) > 1 {
				require.Subset(t, cut, rest, "round %d", round)
			}
			maps.Copy(cut, files)
		}
		require.NoError(t, agent.Close())
	}
	require.Positive(t, rewound)
	require.Positive(t, working, "no kill was in the middle of a turn")
	t.Logf("%d of %d kills were in the middle of a turn; %d workspaces were removed", working, round, removed)
}

// The files of a container with a temporary workspace come back.
func TestTheFilesOfAContainerComeBack(t *testing.T) {
	t.Parallel()
	testkit.RequireDocker(t)
	for name, opts := range map[string][]pygent.Option{
		"as root":           nil,
		"with no more":      {pygent.WithReadOnlyRoot(true)},
		"as another":        {pygent.WithContainerUser("1234:1234"), pygent.WithCapabilities()},
		"as the image says": {pygent.WithImage(enginetest.ImageOf(t, "1234:1234", enginetest.Image())), pygent.WithCapabilities()},
	} {
		t.Run(name, func(t *testing.T) {
			base := t.TempDir()
			with := func(replies ...pygenttest.Reply) (*pygent.Agent, *[]string) {
				var told []string
				all := append([]pygent.Option{
					sessions.Keep(filepath.Join(base, "1abc")), withTrees(base), pygent.WithModel(pygenttest.NewScriptedModel(replies...)), pygent.WithEndOnReply(),
					pygent.WithDocker(pygent.DockerRequired), pygent.WithImage(enginetest.Image()), noticesTo(&told),
				}, opts...)
				return testkit.NewAgent(t, all...), &told
			}
			agent, _ := with(testkit.CallBash("mkdir -p d/e && echo one >d/f && chmod 750 d/f && ln -s d/f link && umask 077 && echo mine >own"), pygenttest.Text("written"))
			hears(t, agent, "write")
			testkit.Bash(t, agent.Runtime(), "echo late >late")
			require.NoError(t, agent.Close())

			agent, told := with(testkit.CallBash("cat link own late; ls -l d/f | cut -c1-10; echo more >>own; echo more >>d/f; rm late; ls"), pygenttest.Text("read"))
			hears(t, agent, "read")
			require.Contains(t, testkit.Results(agent)[1], "one\nmine\nlate\n-rwxr-x---\nd\nlink\nown\n")
			require.NotContains(t, testkit.Results(agent)[1], "denied")
			require.NoError(t, agent.Close())
			require.Contains(t, (*told)[0], "temporary workspace was restored")
		})
	}
}
