package cmdtest

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) { Main(m, nil) }

func TestCommandsSeeNothingOfOurSettings(t *testing.T) {
	t.Setenv("PYGENT_MODEL", "ours")
	t.Setenv("OPENAI_API_KEY", "ours")
	t.Setenv("LANG", "C")
	cmd := Command(t.Context(), t, []string{"OPENAI_MODEL=the-test's"}, "version")
	require.Contains(t, cmd.Env, "LANG=C")
	require.Contains(t, cmd.Env, "OPENAI_MODEL=the-test's")
	require.NotContains(t, cmd.Env, "PYGENT_MODEL=ours")
	require.NotContains(t, cmd.Env, "OPENAI_API_KEY=ours")
	out, err := cmd.Output()
	require.NoError(t, err)
	require.Contains(t, string(out), "pygent ")
}
