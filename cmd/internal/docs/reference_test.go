package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

const root = "../../.."

// The reference says what the tables of the code say.
func TestTheReferenceIsUpToDate(t *testing.T) {
	t.Parallel()
	pages, err := reference(root)
	require.NoError(t, err)
	for name, text := range pages {
		onDisk, err := os.ReadFile(filepath.Join(root, "docs", "reference", name))
		require.NoError(t, err)
		require.Equal(t, text, string(onDisk), "run go run ./cmd/internal/docs")
	}
}

// Text that the site's generator would take for HTML or a template is escaped outside of code.
func TestTextInTables(t *testing.T) {
	t.Parallel()
	require.Equal(t, "&lt;b&gt; `<b>` a \\| `b\\|c` &#123;&#123; x", escaped("<b> `<b>` a | `b|c` {{\n x"))
}
