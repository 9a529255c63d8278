package toolchain_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/toolchain"
)

func TestConfinedCommandsRunWhatTheyCanRead(t *testing.T) {
	home, system := t.TempDir(), t.TempDir()
	program := func(path ...string) string {
		file := filepath.Join(path...)
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o700))
		require.NoError(t, os.WriteFile(file, nil, 0o700))
		return file
	}
	program(system, "bin", "everybodys")
	program(home, "tools", "bin", "mine")
	program(home, "given", "extra")
	hidden := program(home, "secret", "hidden")
	require.NoError(t, os.Symlink(hidden, filepath.Join(home, "tools", "bin", "linked")))
	require.NoError(t, os.Symlink(filepath.Join(home, "given", "extra"), filepath.Join(home, "tools", "bin", "extra")))
	require.NoError(t, os.WriteFile(filepath.Join(system, "bin", "data"), nil, 0o600))
	require.NoError(t, os.Mkdir(filepath.Join(system, "bin", "directory"), 0o700))

	env := []string{"HOME=" + home, "PATH=/nowhere", "PATH=" + filepath.Join(system, "bin") + string(filepath.ListSeparator) + filepath.Join(home, "tools", "bin") + string(filepath.ListSeparator) + "."}
	for name, runs := range map[string][2]bool{ // confined, and not
		"everybodys": {true, true},
		"mine":       {true, true},
		"extra":      {true, true},
		"linked":     {false, true},
		"hidden":     {false, false},
		"data":       {false, false},
		"directory":  {false, false},
		"runs.go":    {false, false},
	} {
		require.Equal(t, runs[0], toolchain.Runs(env, true, filepath.Join(home, "given"))(name), name)
		require.Equal(t, runs[1], toolchain.Runs(env, false)(name), name)
	}
	require.True(t, toolchain.Runs([]string{"HOME=/", env[2]}, true)("linked"), "a home that is everything tells nothing")
	require.False(t, toolchain.Runs(nil, true)("sh"))
}
