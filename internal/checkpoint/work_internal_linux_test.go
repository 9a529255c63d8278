package checkpoint

import (
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/x/pygent/internal/checkpoint/writewatch"
)

// A file system gives the inode of a file that was removed to the next one at once.
func TestOfTwoFilesWithOneInodeTheNewerCounts(t *testing.T) {
	t.Parallel()
	gone, now := unix.StatxTimestamp{Sec: 1}, unix.StatxTimestamp{Sec: 2}
	older, newer := writewatch.Files{7: gone, 8: gone}, writewatch.Files{7: now}
	require.Equal(t, writewatch.Files{7: now, 8: gone}, joined(older, newer))
	require.Equal(t, writewatch.Files{7: now}, joined(nil, newer))
	require.Equal(t, writewatch.Files{7: gone, 8: gone}, older, "neither is changed")
}
