package pygent_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/pygenttest"
)

func TestHolesAreCopiedAsHoles(t *testing.T) {
	if testing.Short() {
		t.Skip("needs much data")
	}
	t.Parallel()
	for _, kind := range runtimeCases() {
		t.Run(kind.Name, func(t *testing.T) {
			rt := kind.New(t, pygent.MaxCopyBytes(1<<20))
			require.Zero(t, bash(t, rt, "mkdir d; truncate -s 8G d/sparse; printf end | dd of=d/sparse bs=1 seek=4294967296 conv=notrunc 2>/dev/null").ExitCode)
			for _, what := range []string{"d", "d/sparse"} {
				dest := filepath.Join(t.TempDir(), "out")
				require.NoError(t, rt.ExportFile(t.Context(), what, dest))
				if what == "d" {
					dest = filepath.Join(dest, "sparse")
				}
				info, err := os.Stat(dest)
				require.NoError(t, err)
				require.EqualValues(t, 8<<30, info.Size())
				requireOnDisk(t, dest, 1<<20)
				require.NoError(t, rt.UploadFile(t.Context(), dest, "again"))
				require.Contains(t, bash(t, rt, "stat -c '%s' again; du -k again | cut -f1; dd if=again bs=1M skip=4096 count=1 2>/dev/null | head -c 3").Output, "end")
			}

			m := newTasks(t, pygenttest.NewScriptedModel(callBash("stat -c %s d/sparse; dd if=d/sparse bs=1M skip=4096 count=1 2>/dev/null | head -c 3"), stop))
			id := startTask(t, m, "go", rt, pygent.WithTaskFiles("d"))
			waitTask(t, m, id)
			messages, err := m.TaskHistory(t.Context(), id)
			require.NoError(t, err)
			require.Contains(t, messages[3].Content, "8589934592\nend")
			require.NoError(t, errOf(m.CollectFile(t.Context(), rt, id, "d", "collected")))
			require.Contains(t, bash(t, rt, "stat -c %s collected/sparse").Output, "8589934592")
		})
	}
}

func TestCopiesBeyondALimitLeaveNothing(t *testing.T) {
	t.Parallel()
	hundred := strings.Repeat("d/", 100) // by one mkdir: programs start slowly in a container
	for _, kind := range runtimeCases() {
		t.Run(kind.Name, func(t *testing.T) {
			rt := kind.New(t, pygent.MaxCopyBytes(1<<20))
			bash(t, rt, "mkdir small big; echo x >small/f; head -c 900000 /dev/urandom >big/a; cp big/a big/b; "+
				"mkdir deep && cd deep && for i in 1 2 3; do mkdir -p "+hundred+" && cd "+hundred+"; done")
			parent := t.TempDir()
			for _, what := range []string{"big", "deep"} {
				err := rt.ExportFile(t.Context(), what, filepath.Join(parent, "new", "out"))
				require.ErrorIs(t, err, pygent.ErrCopyTooLarge, what)
				require.Empty(t, entries(t, filepath.Join(parent, "new")))
			}
			err := rt.ExportFile(t.Context(), "big", parent+"/out")
			require.ErrorContains(t, err, `"b" has 878.9 KiB of data, which is more than is left of the limit of 1 MiB`)

			old := filepath.Join(parent, "old")
			write(t, parent, map[string]string{"old/a": "old"})
			require.ErrorIs(t, rt.ExportFile(t.Context(), "big", old), pygent.ErrCopyTooLarge)
			require.Equal(t, map[string]string{"a": "644 old"}, read(t, old), "nothing is replaced by half of a copy")
			require.NoError(t, rt.ExportFile(t.Context(), "small", old))
		})
	}
}
