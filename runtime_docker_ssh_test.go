//go:build unix

package pygent_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
)

// TestNoSSHOfTheWorkspaceIsRun has several programs called ssh in PATH.
// Commands can write the first ones, or change where they lead, but not the
// last one.
func TestNoSSHOfTheWorkspaceIsRun(t *testing.T) {
	top, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	ran := filepath.Join(top, "ran")
	for _, dir := range []string{"work/venv/bin", "mount/bin", "good"} {
		require.NoError(t, os.MkdirAll(filepath.Join(top, dir), 0o755))
		script := "#!/bin/sh\necho \"$0 $*\" >>" + ran + "\nexit 1\n"
		require.NoError(t, os.WriteFile(filepath.Join(top, dir, "ssh"), []byte(script), 0o755))
	}
	require.NoError(t, os.Symlink(filepath.Join(top, "work", "venv"), filepath.Join(top, "link")))
	t.Chdir(filepath.Join(top, "work"))
	in := func(names ...string) string {
		for i, name := range names {
			names[i] = filepath.Join(top, name)
		}
		return strings.Join(names, ":") + ":venv/bin:.:"
	}
	options := []pygent.RuntimeOption{
		pygent.WithDockerHost("ssh://me@engine.invalid/run/docker.sock"), pygent.WithDocker(pygent.DockerRequired),
		pygent.WithWorkspace("."), pygent.WithMounts(pygent.Mount{Source: filepath.Join(top, "mount"), Target: "/m"}),
	}
	t.Setenv("PATH", in("work/venv/bin", "link/bin", "mount/bin", "good"))
	_, err = pygent.NewDockerRuntime(t.Context(), options...)
	require.ErrorIs(t, err, pygent.ErrDockerUnavailable)
	lines, err := os.ReadFile(ran)
	require.NoError(t, err)
	require.NotEmpty(t, lines)
	for line := range strings.Lines(string(lines)) {
		require.Equal(t, filepath.Join(top, "good", "ssh")+" -l me -o ConnectTimeout=30 -T -- engine.invalid docker '--host=unix:///run/docker.sock' system dial-stdio\n", line)
	}

	t.Setenv("PATH", in("work/venv/bin", "link/bin", "mount/bin"))
	_, err = pygent.NewRuntime(t.Context(), options...)
	require.ErrorContains(t, err, "ssh: executable file not found in $PATH outside of what commands can write")
}
