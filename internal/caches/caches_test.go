package caches_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/caches"
)

func TestDirectoriesThatHoldNothingOfAProject(t *testing.T) {
	for _, name := range []string{".git", ".hg", "node_modules", "__pycache__", ".venv", ".pytest_cache", ".cache"} {
		require.True(t, caches.Is(name), name)
	}
	for _, name := range []string{"", ".", "src", "build", "dist", "vendor", caches.Target, ".github", "Node_Modules", "node_modules2"} {
		require.False(t, caches.Is(name), name)
	}
	require.True(t, caches.IsControl(".git"))
	require.False(t, caches.IsControl("node_modules"))
}
