//go:build unix

package chat_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
	"github.com/x/pygent/internal/testkit"
	"github.com/x/pygent/pygenttest"
)

const hostHistory = `[{"role":"user","content":"a secret of another conversation"}]`

// attackedHistory is a history file in a workspace, and the directory of the
// host that commands in the workspace try to reach.
type attackedHistory struct {
	workspace, host string // directories
	path            string // of the history
}

func newAttackedHistory(t *testing.T) attackedHistory {
	t.Helper()
	top := t.TempDir()
	a := attackedHistory{workspace: filepath.Join(top, "ws"), host: filepath.Join(top, "host")}
	a.path = filepath.Join(a.workspace, "notes", "history.json")
	require.NoError(t, os.MkdirAll(filepath.Dir(a.path), 0o755))
	require.NoError(t, os.MkdirAll(a.host, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(a.host, "history.json"), []byte(hostHistory), 0o600))
	return a
}

func (a attackedHistory) agent(t *testing.T, replies ...pygenttest.Reply) (*pygent.Agent, error) {
	t.Helper()
	return pygent.New(pygent.WithModel(pygenttest.NewScriptedModel(replies...)), pygent.WithHistoryFile(a.path),
		pygent.WithDocker(pygent.DockerNever), pygent.WithWorkspace(a.workspace))
}

// requireUntouched fails if anything on the host was read, written or made.
func (a attackedHistory) requireUntouched(t *testing.T, agent *pygent.Agent) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(a.host, "history.json"))
	require.NoError(t, err)
	require.Equal(t, hostHistory, string(data))
	entries, err := os.ReadDir(a.host)
	require.NoError(t, err)
	require.Len(t, entries, 1)
	if agent != nil {
		for _, m := range agent.History().Messages() {
			require.NotContains(t, m.Content, "secret")
		}
	}
}

func TestHistoryInTheWorkspaceIsNoLinkOut(t *testing.T) {
	t.Parallel()
	replace := func(t *testing.T, name, with string) {
		require.NoError(t, os.RemoveAll(name))
		require.NoError(t, os.Symlink(with, name))
	}
	for name, attack := range map[string]func(t *testing.T, a attackedHistory){
		"the file":        func(t *testing.T, a attackedHistory) { replace(t, a.path, filepath.Join(a.host, "history.json")) },
		"a relative link": func(t *testing.T, a attackedHistory) { replace(t, a.path, "../../host/history.json") },
		"a new file":      func(t *testing.T, a attackedHistory) { replace(t, a.path, filepath.Join(a.host, "new")) },
		"its directory":   func(t *testing.T, a attackedHistory) { replace(t, filepath.Dir(a.path), a.host) },
		"a new directory": func(t *testing.T, a attackedHistory) {
			replace(t, filepath.Dir(a.path), filepath.Join(a.host, "new"))
		},
		"its lock": func(t *testing.T, a attackedHistory) { replace(t, a.path+".lock", filepath.Join(a.host, "new")) },
		"a pipe": func(t *testing.T, a attackedHistory) {
			require.NoError(t, os.RemoveAll(a.path))
			require.NoError(t, syscall.Mkfifo(a.path, 0o666))
		},
	} {
		t.Run("before the session: "+name, func(t *testing.T) {
			a := newAttackedHistory(t)
			attack(t, a)
			agent, err := a.agent(t)
			require.Error(t, err)
			require.Nil(t, agent)
			a.requireUntouched(t, nil)
		})
		t.Run("within the session: "+name, func(t *testing.T) {
			a := newAttackedHistory(t)
			agent, err := a.agent(t, pygenttest.Text("One."), pygenttest.Text("Two."), pygenttest.Text("Three."))
			require.NoError(t, err)
			_, err = agent.Step(t.Context(), "Go.")
			require.NoError(t, err)
			attack(t, a)
			_, stepErr := agent.Step(t.Context(), "On.")
			agent.RefreshSystemMessage()
			_, againErr := agent.Step(t.Context(), "And on.")
			closed := agent.Close()
			a.requireUntouched(t, agent)
			if errors.Join(stepErr, againErr, closed) == nil {
				require.NotEmpty(t, agent.History().Repairs())
			}
		})
	}
}

func TestContainersCannotMakeTheHistoryALinkOut(t *testing.T) {
	t.Parallel()
	requireDocker(t)
	a := newAttackedHistory(t)
	attack := fmt.Sprintf("rm -rf notes; ln -s %s notes; ls -l notes", a.host)
	agent, err := pygent.New(
		pygent.WithModel(pygenttest.NewScriptedModel(pygenttest.Call("bash", map[string]any{"cmd": attack}), pygenttest.Text("Done."))),
		pygent.WithHistoryFile(a.path),
		pygent.WithDocker(pygent.DockerRequired), pygent.WithImage(testImage()), pygent.WithWorkspace(a.workspace))
	require.NoError(t, err)
	_, err = agent.RunUntilStop(t.Context(), "Go.", pygent.WithEndOnReply())
	target, linkErr := os.Readlink(filepath.Dir(a.path))
	require.NoError(t, linkErr, "the attack was carried out: %v", err)
	require.Equal(t, a.host, target)
	_ = agent.Close() // an error is fine, since the history cannot be written
	a.requireUntouched(t, agent)

	_, err = a.agent(t)
	require.Error(t, err)
	a.requireUntouched(t, nil)
}

func TestHugeFilesInTheWorkspaceAreNotRead(t *testing.T) {
	a := newAttackedHistory(t)
	require.NoError(t, os.WriteFile(a.path, []byte("["), 0o600))
	require.NoError(t, os.Truncate(a.path, 1<<30))
	took := allocated(func() {
		_, err := a.agent(t)
		require.ErrorIs(t, err, chat.ErrNotHistory)
	})
	require.Less(t, took>>20, uint64(16))
}

func TestHistoryInTheWorkspaceIsToldAndWorks(t *testing.T) {
	t.Parallel()
	a := newAttackedHistory(t)
	a.path = filepath.Join(a.workspace, "history.json")
	for i := range 2 {
		agent, err := a.agent(t, pygenttest.Text("One."))
		require.NoError(t, err)
		_, err = agent.Step(t.Context(), "Go.")
		require.NoError(t, err)
		require.Equal(t, 3+2*i, agent.History().Len())
		require.Len(t, agent.History().Repairs(), 1)
		require.Contains(t, agent.History().Repairs()[0], "commands can read and change it")
		_, err = a.agent(t)
		require.ErrorIs(t, err, chat.ErrHistoryInUse)
		require.NoError(t, agent.Close())
		require.NoFileExists(t, a.path+".lock")
	}
	a.path = filepath.Join(a.host, "elsewhere.json")
	agent, err := a.agent(t)
	require.NoError(t, err)
	require.Empty(t, agent.History().Repairs())
	require.NoError(t, agent.Close())
}

func TestHistoryInAWritableDirectoryIsNoLinkOut(t *testing.T) {
	t.Parallel()
	a := newAttackedHistory(t)
	require.NoError(t, os.Symlink(filepath.Join(a.host, "history.json"), a.path))
	agent, err := pygent.New(pygent.WithModel(pygenttest.NewScriptedModel()), pygent.WithHistoryFile(a.path),
		pygent.WithDocker(pygent.DockerNever), pygent.WithLocalWritable(a.workspace))
	require.Error(t, err)
	require.Nil(t, agent)
}

func TestReplacementKeepsPermissions(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "history.json")
	h := testkit.OpenHistory(t, path)
	require.NoError(t, os.Chmod(path, 0o664))
	if os.Getuid() == 0 {
		require.NoError(t, os.Chown(path, 1234, 1235))
	}
	require.NoError(t, h.Close())
	h = testkit.OpenHistory(t, path)
	require.NoError(t, h.SetSystem("s"))
	requireOthersFile(t, path)
	require.NoError(t, os.Remove(path))
	require.NoError(t, h.Append(chat.UserMessage("it is written anew")))
	requireOthersFile(t, path)
}

func requireOthersFile(t *testing.T, path string) {
	t.Helper()
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o664), info.Mode().Perm())
	if os.Getuid() == 0 {
		require.Equal(t, uint32(1234), info.Sys().(*syscall.Stat_t).Uid)
		require.Equal(t, uint32(1235), info.Sys().(*syscall.Stat_t).Gid)
	}
}
