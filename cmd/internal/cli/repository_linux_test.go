package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/pygenttest"
)

// TestASessionAsksAboutARepositoryElsewhere begins a session in a package of a monorepo.
func TestASessionAsksAboutARepositoryElsewhere(t *testing.T) {
	t.Parallel()
	rt, err := pygent.NewLocalRuntime(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, rt.Cleanup()) })
	if rt.(pygent.Describer).Describe(t.Context()).Protection == "none" {
		t.Skip("commands are not confined here, so git always works")
	}
	for name, tt := range map[string]struct {
		answer, status string
		kept           bool
	}{
		"yes":     {"y\n", "repository: 0", false},
		"always":  {"a\n", "repository: 0", true},
		"no":      {"n\n", "repository: 128", false},
		"nothing": {"\n", "repository: 128", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			home, err := filepath.EvalSymlinks(t.TempDir())
			require.NoError(t, err)
			mono, err := filepath.EvalSymlinks(t.TempDir())
			require.NoError(t, err)
			require.NoError(t, exec.Command("git", "init", "-q", mono).Run())
			ws := filepath.Join(mono, "package")
			require.NoError(t, os.Mkdir(ws, 0o755))
			server := pygenttest.NewServer(t, bash("git status >/dev/null 2>&1; echo repository: $?"), pygenttest.Text("I see."))
			cmd := command(t, append(server.Env(), "HOME="+home), "--no-docker", "--workspace", ws, "-e", "PYGENT_CONFIRM_BASH=0")
			term := openPlain(t, cmd)
			term.expect(`read "` + mono + `", write "` + filepath.Join(mono, ".git") + `". Allow that? [y]es, [a]lways, [N]o `)
			term.answers(tt.answer)
			term.expect("> ")
			term.send("go\n")
			term.expect("I see.")
			term.send("/exit\n")
			require.Contains(t, toolResults(term.leaves())[0], tt.status)
			text, _ := os.ReadFile(filepath.Join(home, ".pygent.toml"))
			if tt.kept {
				require.Contains(t, string(text), mono)
			} else {
				require.Empty(t, string(text))
			}
		})
	}
}

// TestNobodyIsAskedAboutARepositoryAfterNone has a linked worktree, of which commands
// would be shown something unasked.
func TestNobodyIsAskedAboutARepositoryAfterNone(t *testing.T) {
	t.Parallel()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	for _, args := range [][]string{
		{"init", "-q", "main"},
		{"-C", "main", "-c", "user.name=A", "-c", "user.email=a@example.com", "commit", "-q", "--allow-empty", "-m", "One"},
		{"-C", "main", "worktree", "add", "-q", "-b", "tree", "../work tree"},
	} {
		cmd := exec.Command("git", args...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	server := pygenttest.NewServer(t, pygenttest.Text("I see."))
	cmd := command(t, append(server.Env(), "HOME="+dir), "--no-docker", "--workspace", filepath.Join(dir, "work tree"), "--repository", "none")
	term := openPlain(t, cmd)
	term.expect("> ")
	term.send("/exit\n")
	require.NotContains(t, term.leaves(), "Allow that?")
}
