package cli

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/cmd/internal/doctor"
	"github.com/x/pygent/pygenttest"
)

func TestDoctorExitsByItsFindings(t *testing.T) {
	t.Parallel()
	server := pygenttest.NewServer(t)
	got := finish(t, command(t, server.Env(), "doctor", "--no-docker", "--no-model", "--model", "scripted"))
	require.Equal(t, exitOK, got.code, got.stdout)
	require.Empty(t, got.stderr)
	require.Regexp(t, `(?m)^ok +key: +http`, got.stdout)
	require.Empty(t, server.Requests())

	got = finish(t, command(t, nil, "doctor", "--no-docker", "--json"))
	require.Equal(t, exitFailed, got.code)
	require.Contains(t, got.stderr, "--no-model", "it says before that it costs something")
	var said struct {
		OK     bool
		Checks []doctor.Finding
	}
	require.NoError(t, json.Unmarshal([]byte(got.stdout), &said))
	require.False(t, said.OK)
	require.Equal(t, "engine", said.Checks[0].Check)
}
