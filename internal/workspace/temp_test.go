package workspace_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/owner"
	"github.com/x/pygent/internal/workspace"
)

func TestTemporaryWorkspaceTellsItsOwner(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	dir, err := workspace.MakeTemp(false)
	require.NoError(t, err)
	found := workspace.FindTemps()
	require.Len(t, found, 1)
	require.Equal(t, filepath.Dir(dir), found[0].Path)
	require.Equal(t, owner.Here().Name(), found[0].Owner)
	require.True(t, found[0].Proved)
	require.False(t, found[0].Made.IsZero())

	require.NoError(t, os.MkdirAll(filepath.Join(dir, "a/b"), 0o700))
	require.NoError(t, os.Chmod(filepath.Join(dir, "a"), 0o500))
	require.NoError(t, workspace.RemoveTemp(dir))
	require.NoDirExists(t, filepath.Dir(dir))
	require.NoError(t, workspace.RemoveTemp(dir), "what is not there is removed")
	require.NoError(t, workspace.RemoveFound(filepath.Dir(dir)))
}

// earlier is what an earlier version wrote for a process that no longer exists.
const earlier = "host/boot/pid:[4026531836]/1/1"

// spoiled are ways in which a directory can fail to be one that pygent made
// there.
var spoiled = map[string]func(t *testing.T, parent string) (moved string){
	"renamed to keep it": func(t *testing.T, parent string) string {
		require.NoError(t, os.Rename(parent, parent+"-kept"))
		return parent + "-kept"
	},
	"the note is another's": func(t *testing.T, parent string) string {
		other, err := workspace.MakeTemp(false)
		require.NoError(t, err)
		note, err := os.ReadFile(filepath.Join(filepath.Dir(other), "owner"))
		require.NoError(t, err)
		require.NoError(t, workspace.RemoveTemp(other))
		require.NoError(t, os.WriteFile(filepath.Join(parent, "owner"), note, 0o600))
		return parent
	},
	"an earlier version's": func(t *testing.T, parent string) string {
		require.NoError(t, os.WriteFile(filepath.Join(parent, "owner"), []byte(earlier), 0o600))
		return parent
	},
}

// foreign are directories that share only the beginning of their name with
// ours.
var foreign = map[string]func(t *testing.T, parent string){
	"empty":              func(t *testing.T, parent string) { require.NoError(t, os.RemoveAll(parent)); mkdir(t, parent) },
	"nothing but a file": func(t *testing.T, parent string) { require.NoError(t, os.Remove(filepath.Join(parent, "owner"))) },
	"an empty note":      func(t *testing.T, parent string) { require.NoError(t, os.Truncate(filepath.Join(parent, "owner"), 0)) },
	"a note of its own": func(t *testing.T, parent string) {
		require.NoError(t, os.WriteFile(filepath.Join(parent, "owner"), []byte("Jane"), 0o600))
	},
	"more in it": func(t *testing.T, parent string) {
		require.NoError(t, os.WriteFile(filepath.Join(parent, "owner"), []byte(earlier), 0o600))
		require.NoError(t, os.WriteFile(filepath.Join(parent, "mine"), nil, 0o600))
	},
	"a huge note": func(t *testing.T, parent string) {
		require.NoError(t, os.WriteFile(filepath.Join(parent, "owner"), []byte(strings.Repeat("/", 1<<20)), 0o600))
	},
	"open to others": func(t *testing.T, parent string) { require.NoError(t, os.Chmod(parent, 0o755)) },
	"a note open to others": func(t *testing.T, parent string) {
		require.NoError(t, os.Chmod(filepath.Join(parent, "owner"), 0o644))
	},
	"a note that is a link": func(t *testing.T, parent string) {
		require.NoError(t, os.Rename(filepath.Join(parent, "owner"), filepath.Join(parent, "o")))
		require.NoError(t, os.Symlink("o", filepath.Join(parent, "owner")))
	},
	"a link": func(t *testing.T, parent string) {
		require.NoError(t, os.Rename(parent, parent+".d"))
		require.NoError(t, os.Rename(parent+".d", filepath.Join(filepath.Dir(parent), "elsewhere")))
		require.NoError(t, os.Symlink("elsewhere", parent))
	},
	"another user's": func(t *testing.T, parent string) {
		if os.Geteuid() != 0 {
			t.Skip("takes root")
		}
		require.NoError(t, os.Chown(parent, 65534, 65534))
	},
}

func mkdir(t *testing.T, dir string) {
	t.Helper()
	require.NoError(t, os.Mkdir(dir, 0o700))
}

// TestOnlyWhatIsProvedIsTakenForOurs moves or changes temporary workspaces.
// They are still found, because they may be ours, but they are not proved.
func TestOnlyWhatIsProvedIsTakenForOurs(t *testing.T) {
	for name, spoil := range spoiled {
		t.Run(name, func(t *testing.T) {
			dir := tempWithWork(t)
			parent := spoil(t, filepath.Dir(dir))
			require.Error(t, workspace.RemoveTemp(filepath.Join(parent, "workspace")))
			require.FileExists(t, filepath.Join(parent, "workspace", "work"))
			found := workspace.FindTemps()
			require.Len(t, found, 1)
			require.Equal(t, parent, found[0].Path)
			require.False(t, found[0].Proved)
		})
	}
}

func TestDirectoriesOfOtherProgramsAreLeftAlone(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("modes of Unix")
	}
	for name, spoil := range foreign {
		t.Run(name, func(t *testing.T) {
			dir := tempWithWork(t)
			spoil(t, filepath.Dir(dir))
			require.Empty(t, workspace.FindTemps())
			require.Error(t, workspace.RemoveFound(filepath.Dir(dir)))
			require.Error(t, workspace.RemoveTemp(dir))
			_, err := os.Lstat(filepath.Dir(dir))
			require.NoError(t, err)
			if name != "empty" {
				require.FileExists(t, filepath.Join(dir, "work"))
			}
		})
	}
}

// tempWithWork makes a temporary workspace with a file in it, in a directory of
// its own.
func tempWithWork(t *testing.T) string {
	t.Helper()
	t.Setenv("TMPDIR", t.TempDir())
	dir, err := workspace.MakeTemp(false)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "work"), nil, 0o600))
	return dir
}

func TestWhatIsInUseIsNotRemoved(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("owners cannot be told apart here")
	}
	dir := tempWithWork(t)
	require.ErrorContains(t, workspace.RemoveFound(filepath.Dir(dir)), "in use")
	require.FileExists(t, filepath.Join(dir, "work"))
}

// TestWorkspaceOfAnotherProcessIsNotRemovedAsOurs uses a workspace that another
// process of this user's pygent made.
func TestWorkspaceOfAnotherProcessIsNotRemovedAsOurs(t *testing.T) {
	dir := tempWithWork(t)
	parent := filepath.Dir(dir)
	place := owner.ThisPlace()
	place.Boot = "earlier"
	note := owner.Open(workspace.State(), place).Note(filepath.Base(parent))
	require.NoError(t, os.WriteFile(filepath.Join(parent, "owner"), note, 0o600))
	found := workspace.FindTemps()
	require.Len(t, found, 1)
	require.True(t, found[0].Proved)
	require.ErrorContains(t, workspace.RemoveTemp(dir), "not a temporary workspace")
	require.FileExists(t, filepath.Join(dir, "work"))
	require.NoError(t, workspace.RemoveFound(parent))
}

func TestWorkspaceOfAnEarlierVersionCanBeRemoved(t *testing.T) {
	dir := tempWithWork(t)
	parent := filepath.Dir(dir)
	require.NoError(t, os.WriteFile(filepath.Join(parent, "owner"), []byte(earlier), 0o600))
	require.NoError(t, workspace.RemoveFound(parent))
	require.NoDirExists(t, parent)
}
