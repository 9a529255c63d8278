package treedir_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/treedir"
)

// What a program has open for writing stays, since it would write what comes next to a
// file that nobody finds.
func TestAFileThatAProgramWritesStays(t *testing.T) {
	t.Parallel()
	file := func(content string) treedir.Item {
		return treedir.Item{Kind: treedir.File, Mode: 0o600, Size: int64(len(content)), Content: treedir.NameOf(treedir.KindData, []byte(content))}
	}
	for name, becomes := range map[string]treedir.Item{"removed": {}, "replaced": file("old")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			path := filepath.Join(dir, "log")
			require.NoError(t, os.WriteFile(path, []byte("now"), 0o600))
			writer, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
			require.NoError(t, err)
			defer writer.Close()
			l, err := treedir.OpenLocal(dir)
			require.NoError(t, err)
			defer l.Close()
			step := treedir.Step{Change: treedir.Change{Name: "log", Old: file("now"), New: becomes}, Aside: ".aside"}
			require.Equal(t, &treedir.ConflictError{Why: "a program has it open for writing"}, l.Make(t.Context(), step, strings.NewReader("old")))
			_, err = writer.WriteString(" and then")
			require.NoError(t, err)
			require.NoError(t, writer.Close())
			content, err := os.ReadFile(path)
			require.NoError(t, err)
			require.Equal(t, "now and then", string(content))
			left, err := os.ReadDir(dir)
			require.NoError(t, err)
			require.Len(t, left, 1)

			step.Old = file("now and then")
			require.NoError(t, l.Make(t.Context(), step, strings.NewReader("old")), "nobody writes it any more")
		})
	}
}
