//go:build unix

package gitrepo

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNoPipeIsWaitedFor(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.mkdir("a")
	require.NoError(t, syscall.Mkfifo(w.at("a/.git"), 0o644))
	require.Contains(t, Find(w.at("a"), "").Broken, "neither a directory nor a file")
	for _, name := range []string{"config", "objects/info/alternates", "commondir"} {
		w.repo("ws")
		_ = syscall.Unlink(w.at("ws/.git/" + name))
		require.NoError(t, syscall.Mkfifo(w.at("ws/.git/"+name), 0o644))
		require.Contains(t, Find(w.at("ws"), "").Broken, "it is no regular file", name)
		require.NoError(t, syscall.Unlink(w.at("ws/.git/"+name)))
	}
}
