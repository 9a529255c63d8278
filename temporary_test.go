package pygent_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/pygenttest"
)

// namesOf returns the paths of files.
func namesOf(files []pygent.FileInfo) (names []string) {
	for _, f := range files {
		names = append(names, f.Path)
	}
	return names
}

func TestTemporaryFilesAreThoseThatGoWithTheAgent(t *testing.T) {
	t.Parallel()
	open := func(opts ...pygent.Option) *pygent.Agent {
		agent, err := pygent.New(append(opts, pygent.WithModel(pygenttest.NewScriptedModel(stop)))...)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, agent.Close()) })
		return agent
	}
	const script = "mkdir -p d .git .pygent; echo 1 >a; echo 2 >d/b; : >.git/x; : >.pygent/x; : >.pygent-3BYCXW6BPZ2LJQAVN7YDKHM5TE"
	list := func(a *pygent.Agent, besides ...pygent.FileInfo) []pygent.FileInfo {
		files, more, err := a.TemporaryFiles(t.Context(), besides...)
		require.NoError(t, err)
		require.False(t, more)
		return files
	}

	agent := open(pygent.WithDocker(pygent.DockerNever))
	require.Empty(t, list(agent))
	bash(t, agent.Runtime(), script)
	files := list(agent)
	require.Equal(t, []string{"a", "d/b"}, namesOf(files))
	require.Equal(t, int64(2), files[0].Size)
	bash(t, agent.Runtime(), "echo more >>a; : >c")
	require.Equal(t, []string{"a", "c"}, namesOf(list(agent, files...)), "what was changed or made since")

	agent = open(pygent.WithDocker(pygent.DockerNever), pygent.WithWorkspace(t.TempDir()))
	bash(t, agent.Runtime(), script)
	require.Empty(t, list(agent), "a workspace that is kept")

	agent = open(pygent.LendRuntime(localRuntime(t)))
	bash(t, agent.Runtime(), script)
	require.Empty(t, list(agent), "a runtime that outlives the agent")
}
