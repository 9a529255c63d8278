package main

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
	"github.com/x/pygent/pygenttest"
)

// TestMain runs the program itself when a test starts it.
func TestMain(m *testing.M) {
	if os.Getenv("HISTORY_SQLITE_MAIN") != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

type storeOfFile struct {
	*Store
	io.Closer
}

func TestStoreKeepsItsPromises(t *testing.T) {
	path := filepath.Join(t.TempDir(), "chat.db")
	pygenttest.TestHistoryStore(t, func(conversation string) (chat.HistoryStore, error) {
		db, err := open(path)
		if err != nil {
			return nil, err
		}
		store, err := NewStore(t.Context(), db, conversation)
		return storeOfFile{store, db}, err
	})
}

// start returns the program, with its standard output.
func start(t *testing.T, server *pygenttest.Server, args ...string) (*exec.Cmd, *bytes.Buffer) {
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Env = append(append(os.Environ(), server.Env()...), "HISTORY_SQLITE_MAIN=1", "PYGENT_USE_DOCKER=0")
	out := &bytes.Buffer{}
	cmd.Stdout, cmd.Stderr = out, os.Stderr
	return cmd, out
}

func TestAKilledRunIsResumed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "chat.db")
	blocked, release := make(chan struct{}), make(chan struct{})
	server := pygenttest.NewServer(t,
		pygenttest.Call("bash", map[string]any{"cmd": "echo one"}),
		pygenttest.Decide(func(*pygent.ChatRequest) pygenttest.Reply {
			close(blocked)
			<-release
			return pygenttest.Text("never heard")
		}),
		pygenttest.Call("stop", map[string]any{"summary": "It printed one."}))
	cmd, _ := start(t, server, path, "go")
	require.NoError(t, cmd.Start())
	<-blocked
	require.NoError(t, cmd.Process.Kill())
	require.Error(t, cmd.Wait())
	close(release)

	cmd, out := start(t, server, path)
	require.NoError(t, cmd.Run())
	require.Equal(t, "stopped\nIt printed one.\n", out.String())
	requests := server.Requests()
	require.Contains(t, strings.ReplaceAll(string(requests[len(requests)-1].Body), `\n`, " "), "one")
}
