package settings

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEditKeepsWhatTheAuthorWrote(t *testing.T) {
	tests := map[string]struct{ before, after string }{
		"no file":            {"", "[container]\nallowed_hosts = [\"a.example\"]\n"},
		"another table":      {"# mine\nmodel = \"m\" # best\n", "# mine\nmodel = \"m\" # best\n\n[container]\nallowed_hosts = [\"a.example\"]\n"},
		"no last line end":   {"model = \"m\"", "model = \"m\"\n\n[container]\nallowed_hosts = [\"a.example\"]\n"},
		"the table":          {"[container] # where\nimage = \"i\"\n[limits]\nmax_steps = 1\n", "[container] # where\nallowed_hosts = [\"a.example\"]\nimage = \"i\"\n[limits]\nmax_steps = 1\n"},
		"the table's header": {"[container]", "[container]\nallowed_hosts = [\"a.example\"]\n"},
		"line ends":          {"[container]\r\nimage = \"i\"\r\n", "[container]\r\nallowed_hosts = [\"a.example\"]\r\nimage = \"i\"\r\n"},
		"the list": {
			"[container]\nallowed_hosts = [ # those I trust\n  \"b.example\", # mine\n  'c.example', # hers\n]\n",
			"[container]\nallowed_hosts = [ # those I trust\n  \"b.example\", # mine\n  'c.example', \"a.example\", # hers\n]\n",
		},
		"an empty list":   {"[container]\nallowed_hosts = []\n", "[container]\nallowed_hosts = [\"a.example\"]\n"},
		"one string":      {"[container]\nallowed_hosts = \"b.example\" # mine\n", "[container]\nallowed_hosts = [\"b.example\", \"a.example\"] # mine\n"},
		"dotted keys":     {"# x\ncontainer.image = \"i\"\n", "# x\ncontainer.allowed_hosts = [\"a.example\"]\ncontainer.image = \"i\"\n"},
		"dotted, first":   {"container.image = \"i\"\n", "container.allowed_hosts = [\"a.example\"]\ncontainer.image = \"i\"\n"},
		"a dotted list":   {"container.allowed_hosts = [\"b.example\"]\n", "container.allowed_hosts = [\"b.example\", \"a.example\"]\n"},
		"tables below":    {"[[container.mounts]]\nsource = \"s\"\ntarget = \"/t\"\n", "[[container.mounts]]\nsource = \"s\"\ntarget = \"/t\"\n\n[container]\nallowed_hosts = [\"a.example\"]\n"},
		"there already":   {"[container]\nallowed_hosts=[\"a.example\"]", "[container]\nallowed_hosts=[\"a.example\"]"},
		"alike elsewhere": {"[env]\nallowed_hosts = \"x\"\n[container.x]\n", "[env]\nallowed_hosts = \"x\"\n[container.x]\n\n[container]\nallowed_hosts = [\"a.example\"]\n"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			edited, err := edit([]byte(tt.before), "container", "allowed_hosts", []string{"a.example"})
			require.NoError(t, err)
			require.Equal(t, tt.after, string(edited))
		})
	}
}

func TestEditRefusesWhatItCannotKeep(t *testing.T) {
	for name, doc := range map[string]string{
		"an inline table": `container = { image = "i" }`,
		"a number":        "container = 3",
		"no strings":      "[container]\nallowed_hosts = [1]",
		"bad TOML":        "[container",
	} {
		_, err := edit([]byte(doc), "container", "allowed_hosts", []string{"a.example"})
		require.Error(t, err, name)
	}
}

// add adds a host to the file of a test.
func add(path string) error { return AddToList(path, "container", "allowed_hosts", "a.example") }

func TestAddToListMakesAPrivateFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), ".pygent.toml")
	require.NoError(t, add(path))
	require.NoError(t, add(path), "it is there already")
	require.NoError(t, AddToList(path, "container", "allowed_hosts", "a.example", "*.b.example"))
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "[container]\nallowed_hosts = [\"a.example\", \"*.b.example\"]\n", string(data))
	info, err := os.Stat(path)
	require.NoError(t, err)
	if runtime.GOOS != "windows" {
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Len(t, entries, 1, "nothing is left beside it")
}

func TestCreateMakesAPrivateFileAndReplacesNone(t *testing.T) {
	path := filepath.Join(t.TempDir(), ".pygent.toml")
	require.NoError(t, Create(path, []byte("model = \"m\"\n")))
	info, err := os.Stat(path)
	require.NoError(t, err)
	if runtime.GOOS != "windows" {
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	}
	require.ErrorContains(t, Create(path, []byte("model = \"n\"\n")), path)
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "model = \"m\"\n", string(data))
	entries, err := os.ReadDir(filepath.Dir(path))
	require.NoError(t, err)
	require.Len(t, entries, 1)
}

func TestAddToListGoesThroughNoLink(t *testing.T) {
	dir := t.TempDir()
	elsewhere := filepath.Join(dir, "elsewhere")
	require.NoError(t, os.WriteFile(elsewhere, []byte("x = 1\n"), 0o644))
	for name, target := range map[string]string{"link": elsewhere, "dangling": filepath.Join(dir, "nothing")} {
		path := filepath.Join(dir, name)
		if err := os.Symlink(target, path); err != nil {
			require.Equal(t, "windows", runtime.GOOS) // where links take a right of their own
			return
		}
		require.ErrorContains(t, add(path), "it is a link")
	}
	data, err := os.ReadFile(elsewhere)
	require.NoError(t, err)
	require.Equal(t, "x = 1\n", string(data))
	require.NoFileExists(t, filepath.Join(dir, "nothing"))
}

func TestAddToListLeavesOtherFilesAlone(t *testing.T) {
	dir := t.TempDir()
	require.ErrorContains(t, add(dir), "no regular file")
	large := filepath.Join(dir, "large")
	require.NoError(t, os.WriteFile(large, make([]byte, maxFile+1), 0o600))
	require.ErrorContains(t, add(large), "larger than 256 KiB")
	bad := filepath.Join(dir, "bad")
	require.NoError(t, os.WriteFile(bad, []byte("[container"), 0o600))
	require.ErrorContains(t, add(bad), "bad TOML")
}

func TestReplaceSeesAChangeMadeMeanwhile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(path, []byte("a = 1\n"), 0o600))
	_, id, err := read(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, []byte("another = 1\n"), 0o600))
	require.ErrorIs(t, replace(path, id, []byte("b = 1\n")), errChanged)
	require.ErrorIs(t, replace(path, nil, []byte("b = 1\n")), errChanged)
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "another = 1\n", string(data))
}

// FuzzEdit looks for documents that edit breaks instead of returning an error.
func FuzzEdit(f *testing.F) {
	for _, doc := range []string{
		"", "[container]\nallowed_hosts = [\"b\", 'c'] # d\n", "container.allowed_hosts = \"b\"\n", "container = { allowed_hosts = [] }",
		"[[container.mounts]]\na = 1\n[container]\n\"allowed_hosts\" = [\n]\n", "[ \"container\" ]\r\n", "'container'.'allowed_hosts' = ['''x''']",
	} {
		f.Add(doc, "a.example")
	}
	f.Fuzz(func(t *testing.T, doc, host string) {
		edited, err := edit([]byte(doc), "container", "allowed_hosts", []string{host})
		if err != nil {
			return
		}
		list, err := listOf(edited, "container", "allowed_hosts")
		require.NoError(t, err)
		require.Contains(t, list, host)
	})
}
