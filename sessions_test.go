package pygent_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/pygenttest"
	"github.com/x/pygent/sessions"
)

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
			require.Contains(t, strings.Join(agent.History().Repairs(), "\n"), "what was known of the session is lost, and its conversation is not")
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
	_, err := pygent.New(sessions.Keep("x"), pygent.WithHistory(pygent.NewHistory()))
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
	require.Equal(t, 1, strings.Count(text, "the session goes on, but is not kept"), text)
	require.Equal(t, 1, strings.Count(text, "what is known of the session cannot be kept"), text)
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
