package gitrepo

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAnIdentityIsThatOfADirectoryReachedThroughNoLink(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.mkdir("a/b")
	id, err := Identify(w.at("a/b"))
	require.NoError(t, err)
	require.NotZero(t, id.Ino)
	require.NoError(t, os.Rename(w.at("a"), w.at("was")))
	again, err := Identify(w.at("was/b"))
	require.NoError(t, err)
	require.Equal(t, id, again)
	require.NoError(t, os.Symlink("was", w.at("a")))
	_, err = Identify(w.at("a/b"))
	require.Error(t, err, "a link above it")
	_, err = Identify(w.at("a"))
	require.Error(t, err, "a link")
	w.write("file", "")
	_, err = Identify(w.at("file"))
	require.Error(t, err)
	require.NoError(t, os.Chmod(w.at("was"), 0o111))
	_, err = Identify(w.at("was/b"))
	require.NoError(t, err, "which cannot be listed")
}
