package pathname_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/pathname"
)

func TestDirectoriesThatHoldNothingOfAProject(t *testing.T) {
	for _, name := range []string{".git", ".hg", "node_modules", "__pycache__", ".venv", ".pytest_cache", ".cache"} {
		require.True(t, pathname.IsCache(name), name)
	}
	for _, name := range []string{"", ".", "src", "build", "dist", "vendor", pathname.Target, ".github", "Node_Modules", "node_modules2"} {
		require.False(t, pathname.IsCache(name), name)
	}
	require.True(t, pathname.IsVersionControl(".git"))
	require.False(t, pathname.IsVersionControl("node_modules"))
}
