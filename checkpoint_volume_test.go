package pygent_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
)

// containers are the options of agents whose commands run in a container: beside the
// workspace, and with it in a volume.
func containers(t *testing.T) map[string][]pygent.Option {
	requireDocker(t)
	remote := []pygent.Option{pygent.WithDocker(pygent.DockerRequired), pygent.WithImage(testImage())}
	for _, o := range onRemote(t) {
		remote = append(remote, o)
	}
	shared := []pygent.Option{pygent.WithDocker(pygent.DockerRequired), pygent.WithImage(testImage())}
	return map[string][]pygent.Option{
		"mounted": shared,
		"volume":  append(shared[:2:2], pygent.WithSharedFiles(false)),
		"remote":  remote,
		"mounted, another user": append(shared[:2:2],
			pygent.WithContainerUser("1234:1234"), pygent.WithCapabilities()),
		"another user": append(remote[:len(remote):len(remote)],
			pygent.WithContainerUser("1234:1234"), pygent.WithCapabilities()),
	}
}

// inside returns a file as commands see it, or "".
func (k *keeper) inside(name string) string {
	k.t.Helper()
	text, err := k.Runtime().ReadFile(k.t.Context(), name)
	if err != nil {
		require.ErrorIs(k.t, err, os.ErrNotExist)
	}
	return string(text)
}

func TestTurnsInContainersAreTakenBack(t *testing.T) {
	t.Parallel()
	for name, opts := range containers(t) {
		t.Run(name, func(t *testing.T) {
			base := t.TempDir()
			if name == "mounted, another user" {
				work := filepath.Join(base, "work")
				require.NoError(t, os.Mkdir(work, 0o755))
				require.NoError(t, os.Chown(work, 1234, 1234))
			}
			k := openKeeper(t, base, opts...)
			k.write("mine", "0")
			k.turn("echo 1 > a; mkdir closed; echo s > closed/s; chmod 700 closed; chmod 600 a")
			k.turn("echo 2 > a; rm -r closed; mkdir d; echo c > d/c; ln -s a l; seq 1 300000 > large")
			list := k.Checkpoints()
			require.Len(t, list, 4)
			for _, c := range list {
				require.True(t, c.Files)
				require.Empty(t, c.LeftOut)
			}
			done := k.undo(1)
			require.Empty(t, done.NoFiles)
			require.Empty(t, done.Kept)
			require.Equal(t, []string{"1\n", "s\n", "", ""}, []string{k.inside("a"), k.inside("closed/s"), k.inside("d/c"), k.inside("large")})
			require.Equal(t, "0 700 600\n", bash(t, k.Runtime(), `test -e l; echo $((1-$?)) $(stat -c %a closed a)`).Output)
			k.redo()
			require.Equal(t, []string{"2\n", "", "c\n"}, []string{k.inside("a"), k.inside("closed/s"), k.inside("d/c")})
			require.Equal(t, "a\n", bash(t, k.Runtime(), `readlink l; test "$(seq 1 300000 | sha256sum)" = "$(sha256sum <large)" || echo differs`).Output)

			bash(t, k.Runtime(), "echo user > d/c")
			done = k.undo(2)
			require.Equal(t, []string{"d/c"}, kept(done)[:1])
			require.Equal(t, []string{"", "user\n", "0"}, []string{k.inside("a"), k.inside("d/c"), k.inside("mine")})
			_, err := k.Restore(t.Context(), list[1].ID)
			require.NoError(t, err)
			require.Equal(t, []string{"1\n", "s\n"}, []string{k.inside("a"), k.inside("closed/s")})

			fork, err := k.Fork(t.Context(), list[3].ID)
			require.NoError(t, err)
			res := bash(t, fork.Runtime(), `cat a d/c mine; readlink l; wc -l < large; stat -c %a a`)
			require.Equal(t, "2\nc\n0a\n300000\n600\n", res.Output)
			require.NoError(t, fork.Close())
			require.Equal(t, "1\n", k.inside("a"))
			require.NoError(t, k.Close())

			again := openKeeper(t, base, opts...)
			again.undo(1)
			require.Empty(t, again.said())
			require.Empty(t, again.inside("a"))
			require.Equal(t, "user\n", again.inside("d/c"), "it is the user's")
			again.redo()
			require.Equal(t, []string{"1\n", "s\n"}, []string{again.inside("a"), again.inside("closed/s")})
			require.NoError(t, again.Close())
			text, err := os.ReadFile(filepath.Join(base, "work", "a"))
			require.NoError(t, err)
			require.Equal(t, "1\n", string(text))
		})
	}
}

// Whatever .gitignore says, a repository is whole in a fork, and after it was removed.
func TestARepositoryOfAContainerIsWhole(t *testing.T) {
	t.Parallel()
	const ask = "export HOME=/tmp; git for-each-ref --format='%(refname)'; git log -g --format=%gs; git fsck && git status --short; cat f"
	for name, opts := range containers(t) {
		t.Run(name, func(t *testing.T) {
			base := t.TempDir()
			if name == "mounted, another user" {
				work := filepath.Join(base, "work")
				require.NoError(t, os.Mkdir(work, 0o755))
				require.NoError(t, os.Chown(work, 1234, 1234))
			}
			k := openKeeper(t, base, opts...)
			k.turn("export HOME=/tmp; printf '*\\nlogs\\ntags\\n' > .gitignore; echo 1 > f; git init -q -b main; git add -f f; git -c user.name=a -c user.email=a commit -qm first; git tag v1; git branch node_modules/x; git branch target/x; touch Cargo.toml")
			want := bash(t, k.Runtime(), ask).Output
			require.Equal(t, "refs/heads/main\nrefs/heads/node_modules/x\nrefs/heads/target/x\nrefs/tags/v1\ncommit (initial): first\n1\n", want)
			fork, err := k.Fork(t.Context(), k.Checkpoints()[1].ID)
			require.NoError(t, err)
			require.Equal(t, want, bash(t, fork.Runtime(), ask).Output)
			require.NoError(t, fork.Close())
			k.turn("rm -rf .git f; HOME=/tmp git init -q")
			require.Equal(t, []string{".git"}, k.undo(1).Repositories)
			require.Equal(t, want, bash(t, k.Runtime(), ask).Output)
		})
	}
}
