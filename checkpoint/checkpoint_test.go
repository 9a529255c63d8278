package checkpoint_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
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
)

func TestMain(m *testing.M) { testkit.Main(m) }

// keeper is an agent with checkpoints, whose model writes files.
type keeper struct {
	*pygent.Agent
	t      *testing.T
	dir    string // the workspace
	base   string
	events eventList
}

// eventList collects events.
type eventList struct {
	mu  sync.Mutex
	all []pygent.Event
}

func (l *eventList) add(e pygent.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, e)
}

// count counts the events of which is returns true.
func (l *eventList) count(is func(pygent.Event) bool) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range l.all {
		if is(e) {
			n++
		}
	}
	return n
}

// saying counts the events whose text has some words.
func (l *eventList) saying(words string) int {
	return l.count(func(e pygent.Event) bool { return strings.Contains(e.Text, words) })
}

// openKeeper opens an agent on a workspace, a history and a store in base.
func openKeeper(t *testing.T, base string, opts ...pygent.Option) *keeper {
	t.Helper()
	k := &keeper{t: t, dir: filepath.Join(base, "work"), base: base}
	require.NoError(t, os.MkdirAll(k.dir, 0o755))
	opts = append([]pygent.Option{
		pygent.WithDocker(pygent.DockerNever), pygent.WithWorkspace(k.dir), pygent.WithModel(obedient()),
		pygent.WithHistoryFile(filepath.Join(base, "history.json")),
		checkpoint.Keep(filepath.Join(base, "trees")),
		pygent.OnEvent(k.events.add),
	}, opts...)
	agent, err := pygent.New(opts...)
	require.NoError(t, err)
	k.Agent = agent
	t.Cleanup(func() { require.NoError(t, agent.Close()) })
	return k
}

// obedient is a model that runs each line that the user says as a command.
func obedient() pygent.Model {
	return pygent.ModelFunc(func(_ context.Context, req *pygent.ChatRequest) (*pygent.ChatResponse, error) {
		last := req.Messages[len(req.Messages)-1]
		if last.Role != chat.RoleUser {
			return &pygent.ChatResponse{Message: chat.AssistantMessage("done")}, nil
		}
		id := "c" + strings.Map(func(r rune) rune {
			if r >= 'a' && r <= 'z' {
				return r
			}
			return -1
		}, last.Text())
		args, err := json.Marshal(map[string]any{"cmd": last.Text()})
		return &pygent.ChatResponse{Message: chat.AssistantMessage("", pygent.ToolCall{ID: id, Name: "bash", Arguments: string(args)})}, err
	})
}

func (k *keeper) turn(script string) {
	k.t.Helper()
	result, err := k.RunUntilStop(k.t.Context(), script, pygent.WithEndOnReply())
	require.NoError(k.t, err)
	require.Equal(k.t, pygent.StatusReplied, result.Status)
}

func (k *keeper) undo(turns int) pygent.Restored {
	k.t.Helper()
	done, err := k.Undo(k.t.Context(), turns)
	require.NoError(k.t, err)
	return done
}

func (k *keeper) redo() pygent.Restored {
	k.t.Helper()
	done, err := k.Redo(k.t.Context())
	require.NoError(k.t, err)
	return done
}

func (k *keeper) write(name, text string) {
	k.t.Helper()
	require.NoError(k.t, os.WriteFile(filepath.Join(k.dir, name), []byte(text), 0o644))
}

// files returns the files of the workspace by name, without .git.
func (k *keeper) files() map[string]string {
	k.t.Helper()
	all := map[string]string{}
	require.NoError(k.t, filepath.WalkDir(k.dir, func(name string, d os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.Name() == ".git":
			return filepath.SkipDir
		case d.IsDir():
			return nil
		}
		data, err := os.ReadFile(name)
		rel, _ := filepath.Rel(k.dir, name)
		all[rel] = string(data)
		return err
	}))
	return all
}

// said returns what the user said in the conversation.
func (k *keeper) said() (words []string) {
	for _, m := range k.History().Conversation() {
		if m.Role == chat.RoleUser {
			words = append(words, m.Text())
		}
	}
	return words
}

type contents = map[string]string

func TestARestoreCountsTheCommandsThatRunNow(t *testing.T) {
	t.Parallel()
	k := openKeeper(t, t.TempDir())
	k.turn("(while [ ! -e go ]; do sleep 0.02; done) >/dev/null 2>&1 &")
	require.Equal(t, 1, k.undo(1).Jobs)
	require.NoError(t, os.WriteFile(filepath.Join(k.dir, "go"), nil, 0o600))
	testkit.Collect(t, k.Runtime().(pygent.JobRunner), "1")
	require.Zero(t, k.redo().Jobs, "it has ended since the turn")
}

func TestTurnsAreTakenBackAndBroughtBack(t *testing.T) {
	t.Parallel()
	k := openKeeper(t, t.TempDir())
	k.turn("echo 1 > a")
	k.turn("echo 2 > a; echo b > b")
	k.turn("rm b; mkdir d; echo c > d/c")
	last := contents{"a": "2\n", "d/c": "c\n"}
	require.Equal(t, last, k.files())

	done := k.undo(1)
	require.Equal(t, contents{"a": "2\n", "b": "b\n"}, k.files())
	require.Equal(t, []string{"echo 1 > a", "echo 2 > a; echo b > b"}, k.said())
	require.Equal(t, "rm b; mkdir d; echo c > d/c", done.Message.Text())
	require.Equal(t, 4, done.Gone)
	require.Equal(t, "4 messages taken back, 2 files changed", done.String())
	require.Len(t, done.Changed, 2)
	require.Equal(t, pygent.FileChange{Path: "b", After: "b\n", Line: 1, Created: true}, done.Changed[0])
	require.True(t, done.Changed[1].Deleted)

	k.undo(1)
	require.Equal(t, contents{"a": "1\n"}, k.files())
	require.Equal(t, []string{"echo 1 > a"}, k.said())
	k.redo()
	require.Equal(t, contents{"a": "2\n", "b": "b\n"}, k.files())
	require.Equal(t, []string{"echo 1 > a", "echo 2 > a; echo b > b"}, k.said())
	done = k.redo()
	require.Equal(t, last, k.files())
	require.Len(t, k.said(), 3)
	require.Equal(t, 4, done.Back)
	_, err := k.Redo(t.Context())
	require.ErrorIs(t, err, pygent.ErrNothingToRedo)

	k.undo(3)
	require.Empty(t, k.files())
	require.Empty(t, k.said())
	_, err = k.Undo(t.Context(), 1)
	require.ErrorIs(t, err, pygent.ErrNothingToUndo)
	k.turn("echo other > a")
	_, err = k.Redo(t.Context())
	require.ErrorIs(t, err, pygent.ErrNothingToRedo, "the turn has taken another way")
	require.Equal(t, []string{"echo other > a"}, k.said())
	require.Len(t, k.History().Messages(), 17, "the record keeps everything")
	require.NoError(t, pygenttest.CheckConversation(k.History().Conversation()))
}

func TestTheNextAgentGoesOnAfterAnUndo(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	k := openKeeper(t, base)
	k.turn("echo 1 > a")
	k.turn("echo 2 > a")
	k.undo(1)
	sent := k.History().Conversation()
	require.NoError(t, k.Close())

	k = openKeeper(t, base)
	require.Equal(t, testkit.JSON(t, sent), testkit.JSON(t, k.History().Conversation()))
	require.Empty(t, k.History().Repairs())
	k.redo()
	require.Equal(t, contents{"a": "2\n"}, k.files())
	require.Equal(t, []string{"echo 1 > a", "echo 2 > a"}, k.said())
	require.NoError(t, k.Close())

	h, err := chat.ReadHistory(filepath.Join(base, "history.json"))
	require.NoError(t, err)
	require.Equal(t, 9, len(h.Messages()), "other programs read an array of messages")
	k = openKeeper(t, base)
	k.undo(2)
	require.Empty(t, k.files())
	_, err = k.Resume(t.Context())
	require.ErrorIs(t, err, pygent.ErrNothingToResume)
}

func TestWhatTheUserChangedIsKept(t *testing.T) {
	t.Parallel()
	k := openKeeper(t, t.TempDir())
	k.write("mine", "0")
	k.write("both", "0")
	k.write("theirs", "0")
	k.turn("printf 1 > theirs; printf 1 > both")
	k.write("mine", "user")
	k.write("new", "user")
	k.turn("printf 2 > theirs")
	k.write("both", "user")
	done := k.undo(2)
	require.Equal(t, contents{"mine": "user", "both": "user", "theirs": "0", "new": "user"}, k.files())
	require.Empty(t, k.said())
	require.Equal(t, []string{"both", "mine", "new"}, kept(done))
	require.NotEmpty(t, done.Kept[0].Why, "the agent has changed it, too")
	require.Empty(t, done.Kept[1].Why)
	require.Contains(t, done.String(), "3 files left as you changed them")
	k.write("new", "again")
	done = k.redo()
	require.Equal(t, contents{"mine": "user", "both": "user", "theirs": "2", "new": "again"}, k.files())
	require.Equal(t, []string{"new"}, kept(done))

	k.undo(2)
	done, err := k.Restore(t.Context(), k.Checkpoints()[1].ID) // the end of the first turn
	require.NoError(t, err)
	require.False(t, done.Undo)
	require.Equal(t, contents{"mine": "user", "both": "user", "theirs": "1", "new": "again"}, k.files(), "neither is it on the way forward")
	require.Equal(t, []string{"both", "mine", "new"}, kept(done))
}

func kept(done pygent.Restored) (names []string) {
	for _, k := range done.Kept {
		names = append(names, k.Path)
	}
	return names
}

// git runs git in the workspace.
func (k *keeper) git(args ...string) string {
	k.t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = k.dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a")
	out, err := cmd.CombinedOutput()
	require.NoError(k.t, err, "%s", out)
	return strings.TrimSpace(string(out))
}

// A repository that a turn has removed or replaced comes back; any other stays.
func TestARepositoryThatATurnLostIsPutBack(t *testing.T) {
	t.Parallel()
	const as = "git -c user.name=a -c user.email=a "
	for name, tt := range map[string]struct {
		turn, later string
		back        []string // what is put back
		kept        []string // what is named
		stays       bool     // as the turn has left it
	}{
		"removed":                                {turn: "rm -rf .git", back: []string{".git"}},
		"both removed":                           {turn: "rm -rf .git n", back: []string{".git", "n/.git"}},
		"replaced, empty":                        {turn: "rm -rf .git; git init -q", back: []string{".git"}},
		"replaced":                               {turn: "rm -rf .git; git init -q; git add f; " + as + "commit -qm other", back: []string{".git"}},
		"without objects":                        {turn: "rm -rf .git/objects/*", back: []string{".git"}},
		"without HEAD":                           {turn: "rm .git/HEAD", back: []string{".git"}},
		"without branches":                       {turn: "rm -rf .git/refs/heads/* .git/refs/tags/* .git/packed-refs; rm -f .git/logs", back: []string{".git"}},
		"moved":                                  {turn: "mv .git elsewhere", back: []string{".git"}},
		"a link lost":                            {turn: "rm m/.git", back: []string{"m/.git"}},
		"a commit":                               {turn: "echo 2 > f; " + as + "commit -qam second", stays: true},
		"packed":                                 {turn: "git pack-refs --all; git repack -qad", stays: true},
		"another branch":                         {turn: "git checkout -qb other; git branch -qD precious", stays: true},
		"another one is begun":                   {turn: "git init -q new", stays: true},
		"replaced, and then changed by the user": {turn: "rm -rf .git; git init -q", later: "add f; commit -qm mine", kept: []string{".git"}},
		"removed, and then begun by the user":    {turn: "rm -rf .git", later: "init -q", kept: []string{".git"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := openKeeper(t, t.TempDir())
			k.git("init", "-q", "-b", "main")
			k.write(".gitignore", "tags\nlogs\n*.pack\n")
			k.write("f", "1\n")
			k.git("add", ".")
			k.git("commit", "-qm", "first")
			k.git("tag", "v1")
			k.git("commit", "-q", "--allow-empty", "-m", "only there")
			k.git("branch", "precious")
			k.git("reset", "-q", "--hard", "v1")
			k.write("staged", "1")
			k.git("add", "staged")
			k.git("init", "-q", "n")
			k.git("-C", "n", "commit", "-q", "--allow-empty", "-m", "of n")
			require.NoError(t, os.MkdirAll(filepath.Join(k.dir, "m"), 0o755))
			k.write("m/.git", "gitdir: ../n/.git\n")
			state := func() []string {
				return []string{k.git("for-each-ref"), k.git("status", "--short"), k.git("-C", "n", "log", "--format=%H"), k.git("fsck"), k.git("log", "--format=%H", "precious")}
			}
			before := state()
			k.turn(tt.turn)
			var after string
			if tt.stays {
				after = k.git("for-each-ref")
			}
			for command := range strings.SplitSeq(tt.later, "; ") {
				if command != "" {
					k.git(strings.Fields(command)...)
				}
			}
			done := k.undo(1)
			require.Equal(t, tt.back, done.Repositories)
			require.Subset(t, append(kept(done), ""), tt.kept)
			switch {
			case tt.back != nil:
				require.Equal(t, before, state())
				require.Contains(t, done.String(), "put back the repository "+tt.back[0])
				require.False(t, done.HeadMoved)
				if redone := k.redo().Repositories; name == "replaced" { // it has a commit of its own
					require.Equal(t, tt.back, redone)
					require.NotEqual(t, before[0], k.git("for-each-ref"))
				} else {
					require.Empty(t, redone, "what is there is not taken away again")
					require.Equal(t, before[0], k.git("for-each-ref"))
				}
			case tt.stays:
				require.Equal(t, after, k.git("for-each-ref"))
			default:
				require.Contains(t, strings.Join(done.Notes(), "\n"), fmt.Sprintf("kept .git: the repository of then is not there any more, and checkpoint %d has it", done.To.ID))
				fork, err := k.Fork(t.Context(), done.To.ID)
				require.NoError(t, err)
				require.Contains(t, testkit.Bash(t, fork.Runtime(), "git for-each-ref").Output, "precious")
				require.NoError(t, fork.Close())
			}
		})
	}
}

func TestGitIsLeftAlone(t *testing.T) {
	t.Parallel()
	k := openKeeper(t, t.TempDir())
	git := k.git
	git("init", "-q")
	k.write("a", "0\n")
	git("add", ".")
	git("commit", "-qm", "first")
	first := git("rev-parse", "HEAD")
	k.turn("echo 1 > a")
	git("commit", "-qam", "second")
	second := git("rev-parse", "HEAD")
	done := k.undo(1)
	require.Equal(t, contents{"a": "0\n"}, k.files())
	require.Equal(t, second, git("rev-parse", "HEAD"))
	require.True(t, done.HeadMoved)
	require.Equal(t, []string{first, second}, []string{done.To.Commit, done.From.Commit})
	require.Contains(t, done.String(), "git's HEAD stays at "+second[:12])
	require.Empty(t, done.Kept)
	for _, c := range done.Changed {
		require.Equal(t, "a", c.Path)
	}
	list := k.Checkpoints()
	require.True(t, list[0].HeadMoved)
	require.False(t, list[len(list)-1].HeadMoved)
}

func TestCheckpointsTellTheirTurns(t *testing.T) {
	t.Parallel()
	k := openKeeper(t, t.TempDir())
	k.write(".gitignore", "out/\n")
	require.NoError(t, os.Mkdir(filepath.Join(k.dir, "out"), 0o755))
	k.turn("echo \x1b[2J")
	k.turn("true # " + strings.Repeat("x", 500))
	list := k.Checkpoints()
	require.Len(t, list, 4)
	require.Equal(t, []pygent.CheckpointKind{"start", "end", "start", "end"}, []pygent.CheckpointKind{list[0].Kind, list[1].Kind, list[2].Kind, list[3].Kind})
	require.NotContains(t, list[0].Message, "\x1b")
	require.Less(t, len(list[2].Message), 150)
	require.Equal(t, []int{0, 4, 4, 8}, []int{list[0].Messages, list[1].Messages, list[2].Messages, list[3].Messages})
	require.Equal(t, []string{"out: ignored"}, list[0].LeftOut)
	before, err := k.CheckpointBefore(2)
	require.NoError(t, err)
	require.Equal(t, list[0].ID, before.ID)
	_, err = k.CheckpointBefore(3)
	require.ErrorIs(t, err, pygent.ErrNothingToUndo)
	_, err = k.Restore(t.Context(), 99)
	require.ErrorIs(t, err, pygent.ErrUnknownCheckpoint)

	done, err := k.Restore(t.Context(), list[1].ID)
	require.NoError(t, err)
	require.Equal(t, 4, done.Gone)
	require.Len(t, k.said(), 1)
}

func TestAForkGoesItsOwnWay(t *testing.T) {
	t.Parallel()
	k := openKeeper(t, t.TempDir())
	k.turn("echo 1 > a; ln -s a l; chmod 700 a")
	k.turn("echo 2 > a")
	before, err := k.CheckpointBefore(1)
	require.NoError(t, err)
	fork, err := k.Fork(t.Context(), before.ID)
	require.NoError(t, err)
	defer func() { require.NoError(t, fork.Close()) }()
	text, err := fork.Runtime().ReadFile(t.Context(), "a")
	require.NoError(t, err)
	require.Equal(t, "1\n", string(text))
	require.Len(t, fork.History().Messages(), 5)
	_, err = fork.RunUntilStop(t.Context(), "echo 3 > l", pygent.WithEndOnReply())
	require.NoError(t, err)
	text, err = fork.Runtime().ReadFile(t.Context(), "a")
	require.NoError(t, err)
	require.Equal(t, "3\n", string(text))
	require.Equal(t, contents{"a": "2\n", "l": "2\n"}, k.files())
	_, err = fork.Undo(t.Context(), 1)
	require.NoError(t, err, "it has checkpoints of its own")
	require.Len(t, k.said(), 2)

	dir := t.TempDir()
	named, err := k.Fork(t.Context(), before.ID, pygent.WithWorkspace(dir), pygent.WithHistoryFile(filepath.Join(t.TempDir(), "h.json")))
	require.NoError(t, err)
	require.NoError(t, named.Close())
	info, err := os.Stat(filepath.Join(dir, "a"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), info.Mode())
	_, err = k.Fork(t.Context(), before.ID, pygent.WithWorkspace(k.dir))
	require.ErrorContains(t, err, "restore a")
	_, err = k.Fork(t.Context(), 1000)
	require.ErrorIs(t, err, pygent.ErrUnknownCheckpoint)
	require.Equal(t, contents{"a": "2\n", "l": "2\n"}, k.files())
}

func TestDifferencesBetweenCheckpoints(t *testing.T) {
	t.Parallel()
	k := openKeeper(t, t.TempDir())
	k.turn("echo 1 > a; printf '\\0' > bin; ln -s a l; echo x > x; head -c 2000000 /dev/zero > large")
	k.turn("echo 2 > a; printf '\\1' > bin; ln -sfn b l; chmod +x x; echo >> large; mkdir empty")
	list := k.Checkpoints()
	changes, more, err := k.Differences(t.Context(), list[2].ID, list[3].ID)
	require.NoError(t, err)
	require.False(t, more)
	require.Equal(t, []pygent.FileChange{
		{Path: "a", Before: "1\n", After: "2\n", Line: 1},
		{Path: "bin", Binary: true},
		{Path: "l", Note: "it was a link to a and is one to b"},
		{Path: "large", Note: "from 2000000 to 2000001 bytes, too many to compare"},
		{Path: "x", Note: "its permissions changed"},
	}, changes)
	k.write("mine", "1")
	changes, _, err = k.Differences(t.Context(), list[3].ID, 0)
	require.NoError(t, err)
	require.Equal(t, []pygent.FileChange{{Path: "mine", After: "1", Line: 1, Created: true}}, changes)
	_, _, err = k.Differences(t.Context(), 77, 0)
	require.ErrorIs(t, err, pygent.ErrUnknownCheckpoint)
}

func TestUndoneCompactionsAndConversations(t *testing.T) {
	t.Parallel()
	k := openKeeper(t, t.TempDir(), pygent.WithContextWindow(6_000))
	k.turn("echo first")
	for range 12 {
		k.turn("head -c 3000 /dev/urandom | od -x | head -c 3000")
	}
	whole := k.History().Len()
	require.Positive(t, k.events.count(func(e pygent.Event) bool { return e.Type == pygent.EventCompacted }))
	k.undo(13)
	require.Empty(t, k.said())
	k.redo()
	sent := testkit.JSON(t, k.History().Conversation())
	require.NoError(t, k.NewConversation(t.Context()))
	k.turn("echo anew")
	require.Equal(t, []string{"echo anew"}, k.said())
	before, err := k.CheckpointBefore(2)
	require.NoError(t, err)
	done, err := k.Restore(t.Context(), before.ID+1) // the end of that turn
	require.NoError(t, err)
	require.True(t, done.Earlier)
	require.Contains(t, done.String(), "the conversation continues from before the new one")
	require.Equal(t, sent, testkit.JSON(t, k.History().Conversation()), "as if it had not begun anew")
	require.NoError(t, k.Close())

	k = openKeeper(t, k.base, pygent.WithContextWindow(6_000))
	require.Equal(t, sent, testkit.JSON(t, k.History().Conversation()))
	k.undo(10)
	for range 6 {
		k.turn("head -c 3000 /dev/urandom | od -x | head -c 3000")
	}
	require.NoError(t, pygenttest.CheckConversation(k.History().Conversation()))
	require.Greater(t, k.History().Len(), whole)
	require.Less(t, len(testkit.JSON(t, k.History().Conversation())), 40_000, "it is compacted after an undo as well")
	k.redoFails()
	require.Empty(t, k.History().Repairs())
}

func (k *keeper) redoFails() {
	_, err := k.Redo(k.t.Context())
	require.ErrorIs(k.t, err, pygent.ErrNothingToRedo)
}

func TestTheFileHoldsOldTextsThatAnUndoBringsBack(t *testing.T) {
	if testing.Short() {
		t.Skip("plays long conversations")
	}
	t.Parallel()
	k := openKeeper(t, t.TempDir(), pygent.WithContextWindow(30_000))
	k.turn("seq 1 3000")
	sent := testkit.JSON(t, k.History().Conversation())
	for i := range 25 {
		k.turn("seq " + strings.Repeat("1", 1+i%2) + " 3000")
	}
	before, err := k.CheckpointBefore(25)
	require.NoError(t, err)
	_, err = k.Restore(t.Context(), before.ID)
	require.NoError(t, err)
	require.Equal(t, sent, testkit.JSON(t, k.History().Conversation()))
	require.Empty(t, k.History().Repairs())
}

func TestARunningTurnIsNotUndone(t *testing.T) {
	t.Parallel()
	var agent *pygent.Agent
	base := t.TempDir()
	undo := pygent.NewTool("undo", "", func(ctx context.Context, _ pygent.Runtime, _ struct{}) (string, error) {
		_, err := agent.Undo(ctx, 1)
		return "", err
	})
	k := openKeeper(t, base, pygent.WithTools(undo), pygent.WithModel(pygenttest.NewScriptedModel(pygenttest.Call("undo", nil), pygenttest.Text("so"))))
	agent = k.Agent
	_, err := k.RunUntilStop(t.Context(), "go", pygent.WithEndOnReply())
	require.NoError(t, err)
	said := testkit.JSON(t, k.History().Messages())
	require.Contains(t, said, "the agent is working; interrupt it or wait until it ends")
}

func TestTwoAgentsShareAStore(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	one := openKeeper(t, base)
	other := openKeeper(t, t.TempDir(), checkpoint.Keep(filepath.Join(base, "trees")))
	same := openKeeper(t, base, pygent.WithHistoryFile(filepath.Join(base, "other.json")))
	for range 3 {
		one.turn("echo 1 >> a")
		other.turn("echo 1 >> a")
	}
	one.undo(2)
	other.undo(1)
	require.Equal(t, contents{"a": "1\n"}, one.files())
	require.Equal(t, contents{"a": "1\n1\n"}, other.files())
	same.turn("echo b > b")
	one.redo()
	require.Equal(t, contents{"a": "1\n1\n1\n", "b": "b\n"}, same.files(), "the work of another is kept")
}

func TestCheckpointsOfConversationsAlone(t *testing.T) {
	t.Parallel()
	inside := openKeeper(t, t.TempDir())
	inside = openKeeper(t, inside.base, pygent.WithHistoryFile(filepath.Join(inside.base, "2.json")), checkpoint.Keep(filepath.Join(inside.dir, "trees")))
	inside.turn("echo 1 > a")
	inside.turn("echo 2 > a")
	done := inside.undo(1)
	require.Contains(t, done.NoFiles, "no checkpoints are kept of the files")
	require.Equal(t, 1, inside.events.saying("stored in the workspace itself"))
	text, err := os.ReadFile(filepath.Join(inside.dir, "a"))
	require.NoError(t, err)
	require.Equal(t, "2\n", string(text))
	require.Len(t, inside.said(), 1)

	var events eventList
	agent := testkit.NewAgentOn(t, testkit.Nowhere{}, pygenttest.NewScriptedModel(pygenttest.Text("a"), pygenttest.Text("b")),
		checkpoint.Keep(filepath.Join(t.TempDir(), "trees")), pygent.OnEvent(events.add))
	for range 2 {
		_, err = agent.RunUntilStop(t.Context(), "hello", pygent.WithEndOnReply())
		require.NoError(t, err)
	}
	done, err = agent.Undo(t.Context(), 1)
	require.NoError(t, err)
	require.NotEmpty(t, done.NoFiles)
	require.Equal(t, 1, events.saying("this runtime cannot list its files"))
}

func TestAStoreThatFailsFailsNoRun(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(base, "trees"), nil, 0o600))
	k := openKeeper(t, base)
	k.turn("echo 1 > a")
	k.turn("echo 2 > a")
	require.Equal(t, 1, k.events.saying("checkpoints are off"))
	_, err := k.Undo(t.Context(), 1)
	require.ErrorIs(t, err, pygent.ErrNoCheckpoints)
}

// A file that a container or a write has in the workspace for a moment is no part of
// a checkpoint, so that an undo neither brings it back nor removes it.
func TestWhatPassesIsInNoCheckpoint(t *testing.T) {
	t.Parallel()
	k := openKeeper(t, t.TempDir())
	early, late := ".pygent-3BYCXW6BPZ2LJQAVN7YDKHM5TE", ".pygent-0123456789abcdef01234567"
	require.NoError(t, os.WriteFile(filepath.Join(k.dir, early), []byte(early), 0o644))
	k.turn("echo 1 >a; rm " + early + "; : >" + late)
	restored := k.undo(1)
	require.Empty(t, restored.Kept)
	require.Len(t, restored.Changed, 1)
	require.NoFileExists(t, filepath.Join(k.dir, "a"))
	require.NoFileExists(t, filepath.Join(k.dir, early))
	require.FileExists(t, filepath.Join(k.dir, late))
}

// A checkpoint has the words of a message that comes with files, and not theirs.
func TestACheckpointNamesAMessageWithFiles(t *testing.T) {
	t.Parallel()
	k := openKeeper(t, t.TempDir())
	quoted, err := chat.FilePart("a.txt", []byte("content\n"))
	require.NoError(t, err)
	quoted.FileName = "a.txt"
	_, err = k.RunUntilStop(t.Context(), "", pygent.WithParts(pygent.Part{Text: "true"}, quoted), pygent.WithEndOnReply())
	require.NoError(t, err)
	require.Equal(t, "true", k.Checkpoints()[0].Message)
}

// containers are the options of agents whose commands run in a container: beside the
// workspace, and with it in a volume.
func containers(t *testing.T) map[string][]pygent.Option {
	testkit.RequireDocker(t)
	remote := []pygent.Option{pygent.WithDocker(pygent.DockerRequired), pygent.WithImage(enginetest.Image())}
	for _, o := range testkit.OnRemote(t) {
		remote = append(remote, o)
	}
	shared := []pygent.Option{pygent.WithDocker(pygent.DockerRequired), pygent.WithImage(enginetest.Image())}
	return map[string][]pygent.Option{
		"mounted": shared,
		"volume":  append(shared[:2:2], pygent.WithSharedFiles(false)),
		"remote":  remote,
		"mounted, another user": append(shared[:2:2],
			pygent.WithContainerUser("1234:1234"), pygent.WithCapabilities()),
		"another user": append(remote[:len(remote):len(remote)],
			pygent.WithContainerUser("1234:1234"), pygent.WithCapabilities()),
	}
}

// inside returns a file as commands see it, or "".
func (k *keeper) inside(name string) string {
	k.t.Helper()
	text, err := k.Runtime().ReadFile(k.t.Context(), name)
	if err != nil {
		require.ErrorIs(k.t, err, os.ErrNotExist)
	}
	return string(text)
}

func TestTurnsInContainersAreTakenBack(t *testing.T) {
	t.Parallel()
	for name, opts := range containers(t) {
		t.Run(name, func(t *testing.T) {
			base := t.TempDir()
			if name == "mounted, another user" {
				work := filepath.Join(base, "work")
				require.NoError(t, os.Mkdir(work, 0o755))
				require.NoError(t, os.Chown(work, 1234, 1234))
			}
			k := openKeeper(t, base, opts...)
			k.write("mine", "0")
			k.turn("echo 1 > a; mkdir closed; echo s > closed/s; chmod 700 closed; chmod 600 a")
			k.turn("echo 2 > a; rm -r closed; mkdir d; echo c > d/c; ln -s a l; seq 1 300000 > large")
			list := k.Checkpoints()
			require.Len(t, list, 4)
			for _, c := range list {
				require.True(t, c.Files)
				require.Empty(t, c.LeftOut)
			}
			done := k.undo(1)
			require.Empty(t, done.NoFiles)
			require.Empty(t, done.Kept)
			require.Equal(t, []string{"1\n", "s\n", "", ""}, []string{k.inside("a"), k.inside("closed/s"), k.inside("d/c"), k.inside("large")})
			require.Equal(t, "0 700 600\n", testkit.Bash(t, k.Runtime(), `test -e l; echo $((1-$?)) $(stat -c %a closed a)`).Output)
			k.redo()
			require.Equal(t, []string{"2\n", "", "c\n"}, []string{k.inside("a"), k.inside("closed/s"), k.inside("d/c")})
			require.Equal(t, "a\n", testkit.Bash(t, k.Runtime(), `readlink l; test "$(seq 1 300000 | sha256sum)" = "$(sha256sum <large)" || echo differs`).Output)

			testkit.Bash(t, k.Runtime(), "echo user > d/c")
			done = k.undo(2)
			require.Equal(t, []string{"d/c"}, kept(done)[:1])
			require.Equal(t, []string{"", "user\n", "0"}, []string{k.inside("a"), k.inside("d/c"), k.inside("mine")})
			_, err := k.Restore(t.Context(), list[1].ID)
			require.NoError(t, err)
			require.Equal(t, []string{"1\n", "s\n"}, []string{k.inside("a"), k.inside("closed/s")})

			fork, err := k.Fork(t.Context(), list[3].ID)
			require.NoError(t, err)
			res := testkit.Bash(t, fork.Runtime(), `cat a d/c mine; readlink l; wc -l < large; stat -c %a a`)
			require.Equal(t, "2\nc\n0a\n300000\n600\n", res.Output)
			require.NoError(t, fork.Close())
			require.Equal(t, "1\n", k.inside("a"))
			require.NoError(t, k.Close())

			again := openKeeper(t, base, opts...)
			again.undo(1)
			require.Empty(t, again.said())
			require.Empty(t, again.inside("a"))
			require.Equal(t, "user\n", again.inside("d/c"), "it is the user's")
			again.redo()
			require.Equal(t, []string{"1\n", "s\n"}, []string{again.inside("a"), again.inside("closed/s")})
			require.NoError(t, again.Close())
			text, err := os.ReadFile(filepath.Join(base, "work", "a"))
			require.NoError(t, err)
			require.Equal(t, "1\n", string(text))
		})
	}
}

// Whatever .gitignore says, a repository is whole in a fork, and after it was removed.
func TestARepositoryOfAContainerIsWhole(t *testing.T) {
	t.Parallel()
	const ask = "export HOME=/tmp; git for-each-ref --format='%(refname)'; git log -g --format=%gs; git fsck && git status --short; cat f"
	for name, opts := range containers(t) {
		t.Run(name, func(t *testing.T) {
			base := t.TempDir()
			if name == "mounted, another user" {
				work := filepath.Join(base, "work")
				require.NoError(t, os.Mkdir(work, 0o755))
				require.NoError(t, os.Chown(work, 1234, 1234))
			}
			k := openKeeper(t, base, opts...)
			k.turn("export HOME=/tmp; printf '*\\nlogs\\ntags\\n' > .gitignore; echo 1 > f; git init -q -b main; git add -f f; git -c user.name=a -c user.email=a commit -qm first; git tag v1; git branch node_modules/x; git branch target/x; touch Cargo.toml")
			want := testkit.Bash(t, k.Runtime(), ask).Output
			require.Equal(t, "refs/heads/main\nrefs/heads/node_modules/x\nrefs/heads/target/x\nrefs/tags/v1\ncommit (initial): first\n1\n", want)
			fork, err := k.Fork(t.Context(), k.Checkpoints()[1].ID)
			require.NoError(t, err)
			require.Equal(t, want, testkit.Bash(t, fork.Runtime(), ask).Output)
			require.NoError(t, fork.Close())
			k.turn("rm -rf .git f; HOME=/tmp git init -q")
			require.Equal(t, []string{".git"}, k.undo(1).Repositories)
			require.Equal(t, want, testkit.Bash(t, k.Runtime(), ask).Output)
		})
	}
}

var gib = flag.Bool("gib", false, "measure with a tree of 1 GiB in 20,000 files, instead of one of 20 MB in 2,000")

// settledAfter is how old a file must be to be known by its times alone, and not be
// read again: see package objstore.
const settledAfter = 36 * time.Second

// BenchmarkCheckpoints measures what a turn that edits ten files costs: what the
// caller waits for at its end, and by what the store grows. With -benchtime=200x it
// is the growth over 200 turns.
func BenchmarkCheckpoints(b *testing.B) {
	b.Run("local", func(b *testing.B) { benchCheckpoints(b, pygent.WithDocker(pygent.DockerNever)) })
	docker := []pygent.Option{pygent.WithDocker(pygent.DockerRequired), pygent.WithImage(enginetest.Image())}
	b.Run("mounted", func(b *testing.B) { benchCheckpoints(b, docker...) })
	b.Run("volume", func(b *testing.B) { benchCheckpoints(b, append(docker, pygent.WithSharedFiles(false))...) })
	if host := os.Getenv("PYGENT_TEST_REMOTE_ENGINE"); host != "" {
		b.Run("remote", func(b *testing.B) { benchCheckpoints(b, append(docker, pygent.WithDockerHost(host))...) })
	}
}

func benchCheckpoints(b *testing.B, opts ...pygent.Option) {
	base := b.TempDir()
	work, trees := filepath.Join(base, "work"), filepath.Join(base, "trees")
	count := benchWork(b, work)
	var ended time.Time
	agent, err := pygent.New(append(opts, pygent.WithWorkspace(work), checkpoint.Keep(trees), pygent.WithModel(obedient()),
		pygent.OnEvent(func(e pygent.Event) {
			switch e.Type {
			case pygent.EventMessage:
				ended = time.Now()
			case pygent.EventWarning:
				b.Error(e.Text)
			}
		}))...)
	require.NoError(b, err)
	defer func() { require.NoError(b, agent.Close()) }()
	turn := func(script string) time.Duration {
		_, err := agent.RunUntilStop(context.Background(), script, pygent.WithEndOnReply())
		took := time.Since(ended)
		require.NoError(b, err)
		return took
	}
	start := time.Now()
	turn("true")
	first := time.Since(start)
	time.Sleep(settledAfter)
	turn("true")

	before := sizeOf(b, trees)
	random := rand.New(rand.NewPCG(1, 2))
	var turns []time.Duration
	for b.Loop() {
		var script strings.Builder
		for _, i := range random.Perm(count)[:10] {
			fmt.Fprintf(&script, "echo '// %x' >> %s; ", random.Uint64(), benchName(i))
		}
		turns = append(turns, turn(script.String()))
	}
	grown := sizeOf(b, trees) - before
	slices.Sort(turns)
	b.ReportMetric(first.Seconds(), "s-first")
	b.ReportMetric(float64(turns[len(turns)/2].Microseconds())/1000, "ms-median")
	b.ReportMetric(float64(turns[len(turns)*95/100].Microseconds())/1000, "ms-p95")
	b.ReportMetric(float64(grown)/float64(len(turns))/1000, "KB-a-turn")
}

func benchName(i int) string { return fmt.Sprintf("p%02d/q%02d/f%05d.go", i/400, i/20%20, i) }

// benchWork makes a workspace, and returns how many small files it has.
func benchWork(b *testing.B, dir string) (count int) {
	count = 2000
	if *gib {
		count = 20_000
	}
	random := rand.NewChaCha8([32]byte{7})
	words := strings.Fields("func return if err nil for range string int error the of a file tree store := { } ( ) package import type struct")
	for i := range count {
		name := filepath.Join(dir, benchName(i))
		require.NoError(b, os.MkdirAll(filepath.Dir(name), 0o755))
		var text strings.Builder
		for text.Len() < 9<<10 {
			text.WriteString(words[random.Uint64()%uint64(len(words))] + " ")
		}
		require.NoError(b, os.WriteFile(name, []byte(text.String()), 0o644))
	}
	for i := 0; *gib && i < 812; i++ {
		f, err := os.OpenFile(filepath.Join(dir, fmt.Sprint("large", i/271)), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
		require.NoError(b, err)
		block := make([]byte, 1<<20)
		random.Read(block)
		_, err = f.Write(block)
		require.NoError(b, err)
		require.NoError(b, f.Close())
	}
	return count
}

// sizeOf returns the bytes of all files in a directory.
func sizeOf(b *testing.B, dir string) (bytes int64) {
	require.NoError(b, filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			bytes += info.Size()
		}
		return err
	}))
	return bytes
}
