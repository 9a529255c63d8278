package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/chat"
	"github.com/x/pygent/pygenttest"
	"github.com/x/pygent/snapshot"
)

// snapshotOf makes a snapshot whose agent has a name, and returns its directory.
func snapshotOf(t *testing.T, name string) string {
	t.Helper()
	agent, err := pygent.New(pygent.WithModel(pygenttest.NewScriptedModel(pygenttest.Text("I am "+name))), pygent.WithDocker(pygent.DockerNever),
		pygent.WithPersona(pygent.Persona{Name: name}), pygent.WithEndOnReply())
	require.NoError(t, err)
	_, err = agent.RunUntilStop(t.Context(), "who are you?")
	require.NoError(t, err)
	require.NoError(t, agent.Runtime().WriteFile(t.Context(), "name", []byte(name)))
	dir := filepath.Join(t.TempDir(), name)
	_, err = snapshot.Save(t.Context(), agent, dir)
	require.NoError(t, err)
	require.NoError(t, agent.Close())
	return dir
}

// A snapshot of the command line is stronger than one of the environment, and that is
// stronger than one of a file. The config command tells which one it is.
func TestWhichSnapshotIsLoaded(t *testing.T) {
	t.Parallel()
	flag, variable, file := snapshotOf(t, "Flag"), snapshotOf(t, "Variable"), snapshotOf(t, "File")
	for _, tt := range []struct {
		args []string
		env  string
		want string // the name of the agent
		from string // as the config command tells it
	}{
		{[]string{"--load", flag}, variable, "Flag", "command line --load"},
		{[]string{"-e", "PYGENT_SNAPSHOT=" + flag}, variable, "Flag", "command line -e PYGENT_SNAPSHOT"},
		{nil, variable, "Variable", "environment PYGENT_SNAPSHOT"},
		{nil, "", "File", "~/.pygent.toml:1"},
	} {
		u := newUser(t, bash("cat name"), stop("Done."), stop("Again."))
		require.NoError(t, os.WriteFile(filepath.Join(u.home, ".pygent.toml"), []byte("snapshot = '"+file+"'\n"), 0o600))
		with := func(args ...string) outcome {
			cmd := u.command(append(args, tt.args...)...)
			cmd.Env = append(cmd.Env, "PYGENT_SNAPSHOT="+tt.env)
			got := finish(t, cmd)
			require.Equal(t, exitOK, got.code, got.stderr)
			return got
		}
		lines := strings.Split(with("config").stdout, "\n")
		var last string
		for _, line := range lines {
			if strings.HasPrefix(line, "snapshot ") {
				last = line
			}
		}
		require.Contains(t, last, tt.from)
		got := with("run", "--no-docker", "go")
		require.Contains(t, got.stderr, "loaded the snapshot ")
		require.Equal(t, tt.want, u.session().Persona)
		require.Contains(t, toolResults(u.conversation(u.session().ID))[0], tt.want)

		if tt.env != "" && tt.args == nil { // --continue is stronger than a variable, and files of the snapshot go on
			cmd := u.command("run", "--continue", "on")
			cmd.Env = append(cmd.Env, "PYGENT_SNAPSHOT="+tt.env)
			got := finish(t, cmd)
			require.Equal(t, exitOK, got.code, got.stderr)
			require.NotContains(t, got.stderr, "is loaded")
			require.Len(t, u.sessions(), 1)
		}
	}
}

// A conversation of the Python Pygent goes on.
func TestAHistoryOfThePythonPygentGoesOn(t *testing.T) {
	t.Parallel()
	fixture, err := os.ReadFile(filepath.Join("..", "..", "..", "chat", "testdata", "history", "python.json"))
	require.NoError(t, err)
	for _, how := range [][]string{{"--history", "h.json"}, {"-e", "PYGENT_HISTORY_FILE=h.json"}} {
		u := newUser(t, stop("Still 3."))
		path := filepath.Join(u.dir, "h.json")
		require.NoError(t, os.WriteFile(path, fixture, 0o600))
		got := u.does(append(how, "run", "--no-docker", "and now?")...)
		require.Equal(t, "Still 3.\n", got.stdout)
		require.Contains(t, got.stderr, "h.json continues after 6 messages")
		sent := u.server.Requests()[0].Chat.Messages
		require.Len(t, sent, 8)
		require.Equal(t, "How many files are here? Ünïcode, <tags> & \"quotes\".", sent[1].Content)
		require.Equal(t, "There are 3 files.", sent[4].Content)
		require.Equal(t, "and now?", sent[7].Content)
		h, err := chat.ReadHistory(path)
		require.NoError(t, err)
		require.Empty(t, h.Repairs())
		require.Len(t, h.Messages(), 10)
		require.Empty(t, u.sessions())
	}
}
