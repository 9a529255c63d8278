package terminal_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/terminal"
)

// closedFiles is a runtime in which some files cannot be copied.
type closedFiles struct {
	pygent.Runtime
	pygent.FileLister
	closed string // a name that such files have in their paths; empty for everything
	why    error
}

func (c closedFiles) ExportFile(ctx context.Context, path, dest string) error {
	if path == "." || strings.Contains(path, c.closed) {
		return fmt.Errorf("export %s: %w", path, c.why)
	}
	return c.Runtime.ExportFile(ctx, path, dest)
}

func TestWhatIsKeptOfAWorkspace(t *testing.T) {
	rt, err := pygent.NewRuntime(t.Context(), pygent.WithDocker(pygent.DockerNever))
	require.NoError(t, err)
	defer rt.Cleanup()
	_, err = rt.Bash(t.Context(), "mkdir -p .pygent/user-skills d/.pygent empty; echo 1 >a; echo 2 >d/b; echo 3 >d/secret; echo 4 >d/.pygent/mine; echo 5 >.pygent/user-skills/x; ln -s a link; mkfifo pipe")
	require.NoError(t, err)
	lister, ok := pygent.RuntimeAs[pygent.FileLister](rt)
	require.True(t, ok)
	rest := []string{"a", "d/.pygent/mine", "d/b", "link"}
	for name, tt := range map[string]struct {
		rt   pygent.Runtime
		kept []string
		lost []string
		err  error
	}{
		"all but what is pygent's": {rt, []string{"a", "d/.pygent/mine", "d/b", "d/secret", "link"}, nil, nil},
		"a file cannot be read":    {closedFiles{rt, lister, "secret", fs.ErrPermission}, rest, []string{"d/secret"}, nil},
		"nothing can be read":      {closedFiles{rt, lister, "", fs.ErrPermission}, nil, nil, fs.ErrPermission},
		"the disk is full":         {closedFiles{rt, lister, "secret", errors.ErrUnsupported}, nil, nil, errors.ErrUnsupported},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "kept")
			lost, err := terminal.CopyWorkspace(t.Context(), tt.rt, dir)
			require.ErrorIs(t, err, tt.err)
			require.Equal(t, tt.lost, lost)
			if tt.err != nil {
				return
			}
			var kept []string
			require.NoError(t, fs.WalkDir(os.DirFS(dir), ".", func(path string, e fs.DirEntry, err error) error {
				if err == nil && !e.IsDir() {
					kept = append(kept, path)
				}
				return err
			}))
			require.Equal(t, tt.kept, kept)
			require.DirExists(t, filepath.Join(dir, "empty"))
		})
	}
}
