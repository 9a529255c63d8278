package pygent_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/sessions"
)

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
