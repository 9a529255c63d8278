package pygent_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
)

func TestFailuresForWantOfANetworkAreExplained(t *testing.T) {
	t.Parallel()
	requireDocker(t)
	rt := newTestRuntime(t, pygent.NewDockerRuntime, pygent.WithImage(testImage()))
	tests := map[string]struct{ cmd, note string }{
		"a name that does not resolve": {
			"git clone https://git.example.com/x.git",
			"commands have no network, so git.example.com cannot be reached; the user can allow git.example.com",
		},
		"no name": {
			`python3 -c 'import socket; socket.create_connection(("example.org", 443))'`,
			"commands have no network; the user can allow hosts",
		},
		"an address":           {`python3 -c 'import socket; socket.create_connection(("192.0.2.1", 443))'`, "commands have no network; the user can allow hosts"},
		"several":              {"echo 'Could not resolve host: a.example'; echo 'Could not resolve host: b.example'; exit 6", "commands have no network, so a.example, b.example cannot be reached; the user can allow a.example, b.example"},
		"a command that works": {"echo 'Could not resolve host: a.example'", ""},
		"another failure":      {"ls /nonexistent", ""},
		"a server inside":      {"git clone http://127.0.0.1:1/x.git", ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			res := bash(t, rt, tt.cmd)
			require.Equal(t, tt.note, res.Note, res.String())
		})
	}
}

func TestProgramsThatUseNoProxyAreToldSo(t *testing.T) {
	t.Parallel()
	requireDocker(t)
	rt := newTestRuntime(t, pygent.NewDockerRuntime, pygent.WithImage(testImage()), pygent.WithAllowedHosts("*.allowed.example"))
	res := bash(t, rt, "http_proxy= https_proxy= git clone http://a.allowed.example/x.git")
	require.Equal(t, "commands have no network but the proxy that http_proxy and https_proxy name, and this program does not seem to use it", res.Note, res.String())
}

func TestFailuresOnThisMachineAreNotForWantOfPermission(t *testing.T) {
	t.Parallel()
	rt := newTestRuntime(t, pygent.NewLocalRuntime)
	res := bash(t, rt, "echo 'Could not resolve host: a.example'; exit 6")
	require.Empty(t, res.Note)
}

// TestAllowedHostsThatCannotBeReachedAreNamed uses a host name that does not
// exist. Many clients hide the proxy's answer about that, so the model must
// learn it from the note.
func TestAllowedHostsThatCannotBeReachedAreNamed(t *testing.T) {
	t.Parallel()
	requireDocker(t)
	rt := newTestRuntime(t, pygent.NewDockerRuntime, pygent.WithImage(testImage()), pygent.WithAllowedHosts("gone.invalid"))
	const note = "these hosts are allowed, but cannot be reached from the user's machine: gone.invalid ("
	for _, url := range []string{"http://gone.invalid/x.git", "https://gone.invalid/x.git"} {
		res := bash(t, rt, "git clone -q "+url)
		require.Contains(t, res.Note, note, res.String())
		require.NotContains(t, res.Note, "does not seem to use it")
		require.Empty(t, res.Refused)
	}
}
