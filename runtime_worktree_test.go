package pygent_test

import (
	"io/fs"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/objstore"
	"github.com/x/pygent/internal/sandbox"
)

func openWorkTree(t *testing.T, r pygent.Runtime) *sandbox.WorkTree {
	w, err := r.(interface {
		OpenWorkTree() (*sandbox.WorkTree, error)
	}).OpenWorkTree()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, w.Close()) })
	return w
}

// treeText returns the files of a tree with their content, and links after "->".
func treeText(t *testing.T, s *objstore.Store, tree objstore.Tree) map[string]string {
	t.Helper()
	all := map[string]string{}
	fsys := s.FS(t.Context(), tree)
	require.NoError(t, fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil || d.IsDir():
			return err
		case d.Type() == fs.ModeSymlink:
			target, err := fs.ReadLink(fsys, name)
			all[name] = "->" + target
			return err
		}
		data, err := fs.ReadFile(fsys, name)
		all[name] = string(data)
		return err
	}))
	return all
}

// TestWorkspacesAreTakenAndRestored takes the trees of workspaces that commands
// change, and makes the changes backwards.
func TestWorkspacesAreTakenAndRestored(t *testing.T) {
	t.Parallel()
	forEachRuntime(t, func(t *testing.T, r pygent.Runtime) {
		s, err := objstore.Open(t.TempDir())
		require.NoError(t, err)
		defer s.Close()
		w, c := openWorkTree(t, r), new(objstore.Cache)
		take := func() (objstore.Tree, objstore.Report) {
			tree, report, err := s.Take(t.Context(), w, c, objstore.TakeOptions{})
			require.NoError(t, err)
			return tree, report
		}
		require.NoError(t, r.WriteFile(t.Context(), "before", []byte("the start")))
		res := bash(t, r, `mkdir -p src/deep ignored/x node_modules/y && echo 'ignored/' > .gitignore &&
			echo one > src/one && echo two > src/two && echo deep > src/deep/f && ln -s one src/link &&
			touch ignored/x/1 node_modules/y/2 && echo secret > private && chmod 600 private && chmod 700 src/deep`)
		require.Zero(t, res.ExitCode, res.Output)
		first, report := take()
		want := map[string]string{"before": "the start", ".gitignore": "ignored/\n", "src/one": "one\n", "src/two": "two\n",
			"src/deep/f": "deep\n", "src/link": "->one", "private": "secret\n"}
		require.Equal(t, want, treeText(t, s, first))
		require.Equal(t, []objstore.Left{{Name: "ignored", Why: "ignored"}, {Name: "node_modules", Why: "other programs fill it"}}, report.LeftOut)

		res = bash(t, r, `echo three > src/one && rm src/two private && rm src/link && echo file > src/link && mkdir new && echo 1 > new/1 && rm -r src/deep`)
		require.Zero(t, res.ExitCode, res.Output)
		second, _ := take()
		require.NotEqual(t, first, second)
		bash(t, r, `echo meanwhile > new/1`)
		conflicts, err := s.Apply(t.Context(), w, second, first, objstore.ApplyOptions{})
		require.NoError(t, err)
		var names []string
		for _, c := range conflicts {
			names = append(names, c.Name)
		}
		require.Equal(t, []string{"new/1", "new"}, names)
		bash(t, r, `rm -r new`)
		third, _ := take()
		for change, err := range s.Diff(t.Context(), first, third) {
			require.NoError(t, err)
			require.Fail(t, "a difference is left", "%+v", change)
		}
		res = bash(t, r, `cat src/one src/two src/deep/f private; ls -a . src; readlink src/link`)
		require.Zero(t, res.ExitCode, res.Output)
		require.True(t, strings.HasPrefix(res.Output, "one\ntwo\ndeep\nsecret\n"), res.Output)
		require.NotContains(t, res.Output, ".pygent-")
		_, found, err := s.Recover(t.Context(), w)
		require.NoError(t, err)
		require.False(t, found)
	})
}
