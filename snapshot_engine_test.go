package pygent_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/pygenttest"
	"github.com/x/pygent/snapshot"
)

// TestAWorkspaceOfEveryKindIsSaved saves the workspace of each kind of runtime, and
// goes on in another one of the same kind, both lent and the agent's own.
func TestAWorkspaceOfEveryKindIsSaved(t *testing.T) {
	t.Parallel()
	for _, c := range runtimeCases() {
		t.Run(c.name, func(t *testing.T) {
			rt := c.new(t)
			a := newAgentOf(t, pygent.WithModel(pygenttest.NewScriptedModel()), pygent.LendRuntime(rt))
			made := bash(t, rt, "umask 022; mkdir -p src .git && echo x >src/x && chmod 750 src/x && ln -s src/x link && ln -s /etc/passwd out && mkfifo pipe && echo ref >.git/HEAD && mkdir shut && echo y >shut/y && chmod 500 shut")
			require.Zero(t, made.ExitCode, made.Output)
			dir := filepath.Join(t.TempDir(), "snap")
			_, err := snapshot.Save(t.Context(), a, dir)
			require.NoError(t, err)
			s, err := snapshot.Load(t.Context(), dir)
			require.NoError(t, err)
			require.Equal(t, []string{"pipe (no regular file)"}, s.LeftOut())
			count, _ := s.Files()
			require.EqualValues(t, 5, count)

			other := c.new(t)
			newAgentOf(t, append(s.Options(), pygent.WithModel(pygenttest.NewScriptedModel()), pygent.LendRuntime(other))...)
			const look = "cat src/x .git/HEAD shut/y; readlink link; readlink out; ls -ld shut src/x | cut -c1-10; ls -A"
			require.Equal(t, "x\nref\ny\nsrc/x\n/etc/passwd\ndr-x------\n-rwxr-x---\n.git\nlink\nout\nshut\nsrc\n",
				bash(t, other, look).Output)
		})
	}
}

func TestAnAgentOfItsOwnContainerGoesOn(t *testing.T) {
	t.Parallel()
	for name, options := range map[string]func(*testing.T) []pygent.RuntimeOption{
		"docker": func(t *testing.T) []pygent.RuntimeOption {
			requireDocker(t)
			return []pygent.RuntimeOption{pygent.WithImage(testImage())}
		},
		"remote": onRemote,
	} {
		t.Run(name, func(t *testing.T) {
			var base []pygent.Option
			for _, o := range options(t) {
				base = append(base, o)
			}
			base = append(base, pygent.WithDocker(pygent.DockerRequired), pygent.WithEndOnReply())
			model := pygenttest.NewScriptedModel(pygenttest.Call("write_file", map[string]any{"path": "f", "content": "kept"}), pygenttest.Text("written"))
			a := newAgentOf(t, append(base, pygent.WithModel(model))...)
			_, err := a.RunUntilStop(t.Context(), "write")
			require.NoError(t, err)
			s := saved(t, a)
			require.NoError(t, a.Close())

			model = pygenttest.NewScriptedModel(pygenttest.Call("bash", map[string]any{"cmd": "cat f; echo more >>f"}), pygenttest.Text("read"))
			b := newAgentOf(t, append(append(base, pygent.WithModel(model)), s.Options()...)...)
			_, err = b.RunUntilStop(t.Context(), "read")
			require.NoError(t, err)
			sent := model.Requests()[1].Messages
			require.Contains(t, sent[len(sent)-1].Content, "kept")
			data, err := os.ReadFile(filepath.Join(s.Dir(), "workspace", "f"))
			require.NoError(t, err)
			require.Equal(t, "kept", string(data))
		})
	}
}
