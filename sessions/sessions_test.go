package sessions_test

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
	"github.com/x/pygent/checkpoint"
	"github.com/x/pygent/internal/testkit"
	"github.com/x/pygent/pygenttest"
	"github.com/x/pygent/sessions"
)

func TestMain(m *testing.M) { testkit.Main(m) }

// keptAgent returns an agent whose session is kept in dir/id.
func keptAgent(t *testing.T, dir, id string, opts ...pygent.Option) *pygent.Agent {
	t.Helper()
	agent, err := pygent.New(append([]pygent.Option{
		sessions.Keep(filepath.Join(dir, id)),
		pygent.WithModel(pygenttest.NewScriptedModel(pygenttest.Text("Hello."), pygenttest.Text("Again."))),
		pygent.WithDocker(pygent.DockerNever), pygent.WithEndOnReply(),
	}, opts...)...)
	require.NoError(t, err)
	t.Cleanup(func() { _ = agent.Close() })
	return agent
}

func hears(t *testing.T, agent *pygent.Agent, text string) {
	t.Helper()
	_, err := agent.RunUntilStop(t.Context(), text)
	require.NoError(t, err)
}

func listed(t *testing.T, dir string) []sessions.Info {
	t.Helper()
	list, err := sessions.List(dir)
	require.NoError(t, err)
	return list
}

func TestASessionIsKept(t *testing.T) {
	t.Parallel()
	dir, workspace := t.TempDir(), t.TempDir()
	agent := keptAgent(t, dir, "1abc", pygent.WithWorkspace(workspace), pygent.WithModelName("gpt-x"), pygent.WithPersona(pygent.Persona{Name: "Ada"}))
	hears(t, agent, "fix  the\n\x1b[31mtests "+strings.Repeat("x", 300))
	now := listed(t, dir)
	require.Len(t, now, 1)
	require.True(t, now[0].Open)
	require.NoError(t, agent.Close())

	list := listed(t, dir)
	require.Len(t, list, 1)
	got := list[0]
	require.Equal(t, "1abc", got.ID)
	require.True(t, strings.HasPrefix(got.Title, "fix the ␛[31mtests xxx"), got.Title)
	require.True(t, strings.HasSuffix(got.Title, "x…"), got.Title)
	require.LessOrEqual(t, len(got.Title), 122)
	here, err := os.Getwd()
	require.NoError(t, err)
	require.Equal(t, here, got.Dir)
	require.Equal(t, workspace, got.Workspace)
	require.False(t, got.Temporary)
	require.Equal(t, "Ada", got.Persona)
	require.Equal(t, "gpt-x", got.Model)
	require.Equal(t, 2, got.Messages)
	require.False(t, got.Open)
	require.WithinDuration(t, time.Now(), got.Used, time.Minute)
	require.Equal(t, got.Used.Location(), time.UTC)
	for name, most := range map[string]fs.FileMode{".": 0o700, "session.json": 0o600, "history.json": 0o600} {
		info, err := os.Stat(filepath.Join(dir, "1abc", name))
		require.NoError(t, err)
		require.Equal(t, most, info.Mode().Perm(), name)
	}

	agent = keptAgent(t, dir, "1abc", pygent.WithWorkspace(workspace))
	require.Equal(t, 2, len(agent.History().Messages())-1)
	hears(t, agent, "go on")
	require.NoError(t, agent.Close())
	again := listed(t, dir)[0]
	require.Equal(t, got.Title, again.Title)
	require.Equal(t, got.Created, again.Created)
	require.Equal(t, 4, again.Messages)
}

func TestUsageOfASessionAddsUp(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for i := 1; i <= 2; i++ {
		model := pygenttest.NewScriptedModel(pygenttest.Text("Hello.").WithUsage(pygent.Usage{PromptTokens: 10, CompletionTokens: 1}))
		agent := keptAgent(t, dir, "1abc", pygent.WithModel(model))
		hears(t, agent, "hi")
		require.NoError(t, agent.Close())
		require.EqualValues(t, 11*i, listed(t, dir)[0].Usage.Total().Total())
	}
}

func TestASilentSessionLeavesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	agent := keptAgent(t, dir, "1abc")
	require.Empty(t, listed(t, dir))
	require.NoError(t, agent.Close())
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestASessionIsOpenOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	agent := keptAgent(t, dir, "1abc")
	hears(t, agent, "hi")
	_, err := pygent.New(sessions.Keep(filepath.Join(dir, "1abc")), pygent.WithModel(pygenttest.NewScriptedModel()), pygent.WithDocker(pygent.DockerNever))
	require.ErrorIs(t, err, sessions.ErrInUse)
	require.ErrorIs(t, sessions.Remove(dir, "1abc"), sessions.ErrInUse)
	removed, err := sessions.Prune(t.Context(), dir, "", pygent.SessionLimits{MaxAge: 1})
	require.NoError(t, err)
	require.Empty(t, removed)
	require.NoError(t, agent.Close())
	require.NoError(t, sessions.Remove(dir, "1abc"))
	require.ErrorIs(t, sessions.Remove(dir, "1abc"), fs.ErrNotExist)
	require.ErrorIs(t, sessions.Remove(dir, "../"+filepath.Base(dir)), fs.ErrNotExist)
	require.Empty(t, listed(t, dir))
}

func TestATemporaryWorkspaceOfASessionIsKnownToBeGone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	agent := keptAgent(t, dir, "1abc")
	hears(t, agent, "hi")
	require.NotEmpty(t, listed(t, dir)[0].Workspace)
	require.NoError(t, agent.Close())
	got := listed(t, dir)[0]
	require.True(t, got.Temporary)
	require.Empty(t, got.Workspace)
}

func TestADamagedSessionLosesNothing(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]string{"cut off": `{"version":1,"id":"1a`, "empty": "", "no JSON": "\x00\x1b[2J", "of the future": `{"version":99}`} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			agent := keptAgent(t, dir, "1abc")
			hears(t, agent, "remember the milk")
			require.NoError(t, agent.Close())
			require.NoError(t, os.WriteFile(filepath.Join(dir, "1abc", "session.json"), []byte(damage), 0o600))

			got := listed(t, dir)
			require.Len(t, got, 1)
			require.Equal(t, "1abc", got[0].ID)
			require.NotEmpty(t, got[0].Damaged)
			require.NotContains(t, got[0].Damaged, "\x1b")

			agent = keptAgent(t, dir, "1abc")
			require.Contains(t, strings.Join(agent.History().Repairs(), "\n"), "the details of the session are lost, but its conversation is intact")
			hears(t, agent, "go on")
			require.NoError(t, agent.Close())
			got = listed(t, dir)
			require.Empty(t, got[0].Damaged)
			require.Equal(t, "remember the milk", got[0].Title)
			require.Equal(t, 4, got[0].Messages)
			kept, err := filepath.Glob(filepath.Join(dir, "1abc", "session.json.damaged-*"))
			require.NoError(t, err)
			require.Len(t, kept, 1)
			data, err := os.ReadFile(kept[0])
			require.NoError(t, err)
			require.Equal(t, damage, string(data))
		})
	}
}

func TestSessionsAreListedInTheOrderOfTheirUse(t *testing.T) {
	if testing.Short() {
		t.Skip("makes a thousand sessions")
	}
	t.Parallel()
	dir := t.TempDir()
	const many = 1000
	now := time.Now().UTC().Truncate(time.Second)
	for i := range many {
		id := fmt.Sprintf("%d%c", i, 'a'+i%26)
		info := map[string]any{"version": 1, "id": "another", "title": fmt.Sprint("session ", i), "used": now.Add(-time.Duration(i*7%many) * time.Hour)}
		data, err := json.Marshal(info)
		require.NoError(t, err)
		require.NoError(t, os.MkdirAll(filepath.Join(dir, id), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, id, "session.json"), data, 0o600))
		require.NoError(t, os.WriteFile(filepath.Join(dir, id, "lock"), nil, 0o600))
	}
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a-file"), nil, 0o600))
	list := listed(t, dir)
	require.Len(t, list, many)
	for i, info := range list {
		require.Equal(t, now.Add(-time.Duration(i)*time.Hour), info.Used)
		require.NotEqual(t, "another", info.ID)
		require.False(t, info.Open)
	}
}

func TestSessionsArePruned(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for i := range 6 {
		id := fmt.Sprintf("%dx", i)
		require.NoError(t, os.MkdirAll(filepath.Join(dir, id), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, id, "session.json"), []byte(`{"version":1}`), 0o600))
		require.NoError(t, os.WriteFile(filepath.Join(dir, id, "history.json"), make([]byte, 1000), 0o600))
		used := time.Now().Add(-time.Duration(i) * 24 * time.Hour)
		require.NoError(t, os.Chtimes(filepath.Join(dir, id, "session.json"), used, used))
	}
	empty := filepath.Join(dir, "9x")
	require.NoError(t, os.MkdirAll(empty, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(empty, "lock"), nil, 0o600))

	prune := func(limits pygent.SessionLimits) []string {
		t.Helper()
		removed, err := sessions.Prune(t.Context(), dir, "", limits)
		require.NoError(t, err)
		return removed
	}
	require.Empty(t, prune(pygent.SessionLimits{}))
	require.Empty(t, prune(pygent.SessionLimits{Max: pygent.NoLimit, MaxBytes: pygent.NoLimit, MaxAge: pygent.NoLimit}))
	require.Equal(t, []string{"5x"}, prune(pygent.SessionLimits{Max: 5}))
	require.Equal(t, []string{"4x"}, prune(pygent.SessionLimits{MaxAge: 84 * time.Hour}))
	require.Equal(t, []string{"2x", "3x"}, prune(pygent.SessionLimits{MaxBytes: 2500}))
	require.Len(t, listed(t, dir), 2)
	require.DirExists(t, empty, "its process may be about to begin")
	long := time.Now().Add(-2 * time.Hour)
	require.NoError(t, os.Chtimes(empty, long, long))
	require.Empty(t, prune(pygent.SessionLimits{}))
	require.NoDirExists(t, empty)
	_, err := sessions.Prune(t.Context(), dir, "", pygent.SessionLimits{Max: -7})
	require.ErrorContains(t, err, "Max")
}

func TestASessionThatCannotBeKeptIsAnError(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	for _, dir := range []string{filepath.Join(file, "1abc"), filepath.Join(t.TempDir(), "no name")} {
		_, err := pygent.New(sessions.Keep(dir), pygent.WithModel(pygenttest.NewScriptedModel()), pygent.WithDocker(pygent.DockerNever))
		require.ErrorIs(t, err, sessions.ErrNotKept)
	}
	_, err := pygent.New(sessions.Keep("x"), pygent.WithHistory(chat.NewHistory()))
	require.ErrorContains(t, err, "sessions.Keep and WithHistory")
}

// A session whose files go while it is open goes on, and says once that it is not kept.
func TestASessionWhoseDirectoryGoesGoesOn(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var warnings []string
	agent := keptAgent(t, dir, "1abc", pygent.OnEvent(func(e pygent.Event) {
		if e.Type == pygent.EventWarning {
			warnings = append(warnings, e.Text)
		}
	}))
	hears(t, agent, "hi")
	require.NoError(t, os.RemoveAll(filepath.Join(dir, "1abc")))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "1abc"), nil, 0o600))
	hears(t, agent, "still there?")
	require.Equal(t, 4, len(agent.History().Messages())-1)
	require.NoError(t, agent.Close())
	text := strings.Join(warnings, "\n")
	require.Equal(t, 1, strings.Count(text, "the session continues but is not saved"), text)
	require.Equal(t, 1, strings.Count(text, "the details of the session cannot be saved"), text)
}

func TestIDsOfSessions(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for range 1000 {
		id := sessions.NewID()
		require.Regexp(t, `^[0-9][0-9a-hjkmnp-tv-z]{7}$`, id)
		require.False(t, seen[id])
		seen[id] = true
	}
}

// What is listed of a session that is killed is what session.json has at that moment.
func TestASessionIsListedWithItsMessagesWhileItRuns(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var seen []int
	look := pygenttest.Decide(func(*pygent.ChatRequest) pygenttest.Reply {
		seen = append(seen, listed(t, dir)[0].Messages)
		return testkit.CallBash("true")
	})
	agent := keptAgent(t, dir, "1abc", pygent.WithModel(pygenttest.NewScriptedModel(look, testkit.Stop)))
	for range 2 {
		_, err := agent.RunUntilStop(t.Context(), "go")
		require.NoError(t, err)
		require.NoError(t, agent.SetModel(pygenttest.NewScriptedModel(look, testkit.Stop), ""))
	}
	require.NoError(t, agent.Close())
	require.Equal(t, []int{1, 6}, seen)
}

// The directory of the user's state may be moved, with all sessions and checkpoints.
func TestSessionsHaveTheirCheckpointsWhereTheyAreMovedTo(t *testing.T) {
	t.Parallel()
	base, work := t.TempDir(), t.TempDir()
	open := func(state string, replies ...pygenttest.Reply) *pygent.Agent {
		t.Helper()
		return testkit.NewAgent(t, sessions.Keep(filepath.Join(base, state, "sessions", "1abc")), checkpoint.Keep(filepath.Join(base, state, "trees")),
			pygent.WithDocker(pygent.DockerNever), pygent.WithWorkspace(work), pygent.WithEndOnReply(), pygent.WithModel(pygenttest.NewScriptedModel(replies...)))
	}
	require.NoError(t, os.Mkdir(filepath.Join(base, "real"), 0o700))
	require.NoError(t, os.Symlink("real", filepath.Join(base, "one"))) // neither of the two directories is there yet
	agent := open("one", testkit.CallBash("echo 1 > a"), pygenttest.Text("written"))
	hears(t, agent, "write")
	require.NoError(t, agent.Close())

	require.NoError(t, os.Rename(filepath.Join(base, "real"), filepath.Join(base, "two")))
	require.NoError(t, checkpoint.RemoveOrphans(t.Context(), filepath.Join(base, "two", "trees"), filepath.Join(base, "two", "sessions")))
	agent = open("two")
	require.Len(t, agent.Checkpoints(), 2)
	done, err := agent.Undo(t.Context(), 1)
	require.NoError(t, err)
	require.Empty(t, done.NoFiles)
	require.NoFileExists(t, filepath.Join(work, "a"))
	require.NoError(t, agent.Close())

	// As they were named before: after where they are.
	logs, err := filepath.Glob(filepath.Join(base, "two", "trees", "*", "session-*-1abc*"))
	require.NoError(t, err)
	require.NotEmpty(t, logs)
	real, err := filepath.EvalSymlinks(filepath.Join(base, "two", "sessions"))
	require.NoError(t, err)
	sum := sha256.Sum256([]byte(real))
	for _, log := range logs {
		_, rest, _ := strings.Cut(filepath.Base(log), "-1abc")
		require.NoError(t, os.Rename(log, filepath.Join(filepath.Dir(log), "session-"+hex.EncodeToString(sum[:5])+"-1abc"+rest)))
	}
	agent = open("two")
	require.NotEmpty(t, agent.Checkpoints())
	_, err = agent.Redo(t.Context())
	require.NoError(t, err)
	require.FileExists(t, filepath.Join(work, "a"))
	require.NoError(t, agent.Close())
	agent = open("two")
	require.NotEmpty(t, agent.Checkpoints(), "and again")
	require.NoError(t, agent.Close())

	require.NoError(t, sessions.Remove(filepath.Join(base, "two", "sessions"), "1abc"))
	require.NoError(t, checkpoint.RemoveOrphans(t.Context(), filepath.Join(base, "two", "trees"), filepath.Join(base, "two", "sessions")))
	agent = open("two")
	require.Empty(t, agent.Checkpoints(), "they go with their session")
}

// withFiles makes a session whose checkpoints have so many random bytes, last used so
// many days ago.
func withFiles(t *testing.T, base, id string, bytes, days int) {
	t.Helper()
	agent := keptAgent(t, filepath.Join(base, "sessions"), id, withTrees(base))
	content := make([]byte, bytes)
	_, _ = rand.Read(content) // never fails
	require.NoError(t, agent.Runtime().WriteFile(t.Context(), "file", content))
	hears(t, agent, "I am "+id)
	require.NoError(t, agent.Close())
	used := time.Now().AddDate(0, 0, -days)
	require.NoError(t, os.Chtimes(filepath.Join(base, "sessions", id, "session.json"), used, used))
}

func bytesBelow(t *testing.T, dir string) (n int64) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		n += info.Size()
		return err
	}))
	return n
}

func TestCheckpointsCountAsTheSizeOfSessions(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	kept, trees := filepath.Join(base, "sessions"), filepath.Join(base, "trees")
	const size = 200_000
	for i := range 5 {
		withFiles(t, base, fmt.Sprintf("%dx", i), size, i)
	}
	prune := func(limits pygent.SessionLimits) []string {
		t.Helper()
		removed, err := sessions.Prune(t.Context(), kept, trees, limits)
		require.NoError(t, err)
		return removed
	}
	require.Empty(t, prune(pygent.SessionLimits{}))
	require.Greater(t, bytesBelow(t, trees), int64(5*size))
	open := keptAgent(t, kept, "4x", withTrees(base))
	used := time.Now().AddDate(0, 0, -4)
	require.NoError(t, os.Chtimes(filepath.Join(kept, "4x", "session.json"), used, used))
	require.Equal(t, []string{"2x", "3x"}, prune(pygent.SessionLimits{MaxBytes: 3 * size}), "the open one stays")
	require.Less(t, bytesBelow(t, trees), int64(3.5*size))
	require.NoError(t, open.Close())
	require.Equal(t, []string{"1x"}, prune(pygent.SessionLimits{Max: 2}))
	require.Less(t, bytesBelow(t, trees), int64(2.5*size))

	require.Len(t, prune(pygent.SessionLimits{MaxBytes: 1}), 1, "the last one stays")
	last := listed(t, kept)
	require.Len(t, last, 1)
	agent := keptAgent(t, kept, last[0].ID, withTrees(base))
	require.Equal(t, []string{"file"}, testkit.NamesIn(t, testkit.HostDir(t, agent)))
	require.NoError(t, agent.Close())

	require.NoError(t, os.RemoveAll(filepath.Join(kept, last[0].ID))) // not by pygent
	require.Empty(t, prune(pygent.SessionLimits{}))
	require.Less(t, bytesBelow(t, trees), int64(size/10))
}

// Checkpoints of others in the same directory, and of sessions elsewhere, stay.
func TestPruningLeavesCheckpointsOfOthers(t *testing.T) {
	t.Parallel()
	base, other := t.TempDir(), t.TempDir()
	trees := filepath.Join(base, "trees")
	withFiles(t, base, "1abc", 1000, 0)
	agent := keptAgent(t, filepath.Join(other, "sessions"), "2abc", withTrees(base))
	require.NoError(t, agent.Runtime().WriteFile(t.Context(), "f", []byte("x")))
	hears(t, agent, "hi")
	require.NoError(t, agent.Close())
	logs := testkit.NamesIn(t, filepath.Join(trees, "logs"))
	_, err := sessions.Prune(t.Context(), filepath.Join(base, "sessions"), trees, pygent.SessionLimits{})
	require.NoError(t, err)
	require.Equal(t, logs, testkit.NamesIn(t, filepath.Join(trees, "logs")))
	link := filepath.Join(t.TempDir(), "link") // another way to the same kept
	require.NoError(t, os.Symlink(base, link))
	_, err = sessions.Prune(t.Context(), filepath.Join(link, "sessions"), filepath.Join(link, "trees"), pygent.SessionLimits{})
	require.NoError(t, err)
	require.Equal(t, logs, testkit.NamesIn(t, filepath.Join(trees, "logs")))
	agent = keptAgent(t, filepath.Join(link, "sessions"), "1abc", withTrees(base))
	require.Equal(t, []string{"file"}, testkit.NamesIn(t, testkit.HostDir(t, agent)))
	require.NoError(t, agent.Close())
}

func TestSeveralPruneAtOnce(t *testing.T) {
	if testing.Short() {
		t.Skip("starts many processes")
	}
	t.Parallel()
	base := t.TempDir()
	kept, trees := filepath.Join(base, "sessions"), filepath.Join(base, "trees")
	for i := range 8 {
		withFiles(t, base, fmt.Sprintf("%dx", i), 1000, i)
	}
	open := keptAgent(t, kept, "7x", withTrees(base))
	var mu sync.Mutex
	var all []string
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			removed, err := sessions.Prune(context.Background(), kept, trees, pygent.SessionLimits{Max: 3})
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
			}
			all = append(all, removed...)
		})
	}
	wg.Wait()
	require.ElementsMatch(t, []string{"3x", "4x", "5x", "6x"}, all, "each is removed once")
	require.Len(t, listed(t, kept), 4, "the open one stays, too")
	logs, err := filepath.Glob(filepath.Join(trees, "logs", "*.log"))
	require.NoError(t, err)
	require.Len(t, logs, 4)
	hears(t, open, "still here")
	require.NoError(t, open.Close())
}

// manySessions makes the directories of sessions with a usual session.json.
func manySessions(tb testing.TB, many int) (dir string) {
	tb.Helper()
	dir = tb.TempDir()
	setup, err := json.Marshal(pygent.Setup{Version: 1, Model: "gpt-4.1-mini", Tools: strings.Fields("bash read_file write_file edit_file stop continue delegate_task task_status")})
	require.NoError(tb, err)
	for i := range many {
		id := fmt.Sprintf("%dx", i)
		info := map[string]any{
			"version": 1, "id": id, "title": "fix the tests of part " + id, "dir": "/home/ada/src/project", "workspace": "/home/ada/src/project", "persona": "Pygent",
			"model": "gpt-4.1-mini", "messages": 40, "used": time.Now().Add(-time.Duration(i) * time.Minute), "setup": json.RawMessage(setup),
			"usage": map[string]any{"own": map[string]any{"prompt_tokens": 12345}},
		}
		data, err := json.MarshalIndent(info, "", "  ")
		require.NoError(tb, err)
		require.NoError(tb, os.MkdirAll(filepath.Join(dir, id), 0o700))
		for name, content := range map[string][]byte{"session.json": data, "history.json": make([]byte, 100_000), "lock": nil} {
			require.NoError(tb, os.WriteFile(filepath.Join(dir, id, name), content, 0o600))
		}
	}
	return dir
}

// BenchmarkListSessions lists 1,000 sessions. It should take less than 150 ms.
func BenchmarkListSessions(b *testing.B) {
	dir := manySessions(b, 1000)
	for b.Loop() {
		list, err := sessions.List(dir)
		if err != nil || len(list) != 1000 || list[0].Damaged != "" {
			b.Fatal(len(list), err, list[0].Damaged)
		}
	}
}

// A session whose session.json cannot be used names itself, and hides no other one.
func TestADamagedSessionHidesNoOther(t *testing.T) {
	t.Parallel()
	dir := manySessions(t, 3)
	outside := filepath.Join(t.TempDir(), "other.json")
	require.NoError(t, os.WriteFile(outside, []byte(`{"version":1,"title":"not of a session"}`), 0o600))
	damaged := map[string]struct {
		spoil func(path string) error
		want  string
	}{
		"dcut":   {func(path string) error { return os.WriteFile(path, []byte(`{"version":1,"ti`), 0o600) }, "session.json cannot be read"},
		"dlong":  {func(path string) error { return os.WriteFile(path, make([]byte, 2<<20), 0o600) }, "session.json has 2097152 bytes"},
		"dlink":  {func(path string) error { return os.Symlink(outside, path) }, "session.json is not a file"},
		"ddir":   {func(path string) error { return os.Mkdir(path, 0o700) }, "session.json is not a file"},
		"dnew":   {func(path string) error { return os.WriteFile(path, []byte(`{"version":2}`), 0o600) }, "session.json has version 2"},
		"dgone":  {func(string) error { return nil }, "session.json is missing"},
		"ddeep":  {func(path string) error { return os.WriteFile(path, []byte(strings.Repeat("[", 500_000)), 0o600) }, "session.json cannot be read"},
		"dtypes": {func(path string) error { return os.WriteFile(path, []byte(`{"version":1,"title":7}`), 0o600) }, "session.json cannot be read"},
	}
	for id, c := range damaged {
		require.NoError(t, os.Mkdir(filepath.Join(dir, id), 0o700))
		require.NoError(t, os.WriteFile(filepath.Join(dir, id, "history.json"), []byte(`[{"role":"user","content":"hi"}]`), 0o600))
		require.NoError(t, c.spoil(filepath.Join(dir, id, "session.json")))
	}
	list := listed(t, dir)
	require.Len(t, list, 3+len(damaged))
	for _, info := range list {
		if c, bad := damaged[info.ID]; bad {
			require.Contains(t, info.Damaged, c.want, info.ID)
			require.Empty(t, info.Title, info.ID)
			require.False(t, info.Used.IsZero(), info.ID)
			continue
		}
		require.Empty(t, info.Damaged, info.ID)
		require.Equal(t, "fix the tests of part "+info.ID, info.Title)
	}
	_, err := sessions.Prune(t.Context(), dir, "", pygent.SessionLimits{Max: 20})
	require.NoError(t, err)
	require.Len(t, listed(t, dir), 3+len(damaged))
}
