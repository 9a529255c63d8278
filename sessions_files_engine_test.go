package pygent_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/pygenttest"
	"github.com/x/pygent/sessions"
)

// The files of a container with a temporary workspace come back.
func TestTheFilesOfAContainerComeBack(t *testing.T) {
	t.Parallel()
	requireDocker(t)
	for name, opts := range map[string][]pygent.Option{
		"as root":           nil,
		"with no more":      {pygent.WithReadOnlyRoot(true)},
		"as another":        {pygent.WithContainerUser("1234:1234"), pygent.WithCapabilities()},
		"as the image says": {pygent.WithImage(imageOf(t, "1234:1234", testImage())), pygent.WithCapabilities()},
	} {
		t.Run(name, func(t *testing.T) {
			base := t.TempDir()
			with := func(replies ...pygenttest.Reply) (*pygent.Agent, *[]string) {
				var told []string
				all := append([]pygent.Option{
					sessions.Keep(filepath.Join(base, "1abc")), withTrees(base), pygent.WithModel(pygenttest.NewScriptedModel(replies...)), pygent.WithEndOnReply(),
					pygent.WithDocker(pygent.DockerRequired), pygent.WithImage(testImage()), noticesTo(&told),
				}, opts...)
				return newAgentOf(t, all...), &told
			}
			agent, _ := with(callBash("mkdir -p d/e && echo one >d/f && chmod 750 d/f && ln -s d/f link && umask 077 && echo mine >own"), pygenttest.Text("written"))
			hears(t, agent, "write")
			bash(t, agent.Runtime(), "echo late >late")
			require.NoError(t, agent.Close())

			agent, told := with(callBash("cat link own late; ls -l d/f | cut -c1-10; echo more >>own; echo more >>d/f; rm late; ls"), pygenttest.Text("read"))
			hears(t, agent, "read")
			require.Contains(t, results(agent)[1], "one\nmine\nlate\n-rwxr-x---\nd\nlink\nown\n")
			require.NotContains(t, results(agent)[1], "denied")
			require.NoError(t, agent.Close())
			require.Contains(t, (*told)[0], "its files are back")
		})
	}
}
