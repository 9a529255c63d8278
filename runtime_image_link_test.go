package pygent_test

import (
	"archive/tar"
	"bytes"
	"context"
	"os"
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/client"
	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
)

// imageWithLink makes an image in which name is a symbolic link. Nothing runs for that.
func imageWithLink(t *testing.T, engine *client.Client, name, target string) (id string) {
	t.Helper()
	made, err := engine.ContainerCreate(t.Context(), &container.Config{Image: testBusyboxImage()}, nil, nil, nil, "")
	require.NoError(t, err)
	defer func() {
		require.NoError(t, engine.ContainerRemove(t.Context(), made.ID, container.RemoveOptions{Force: true}))
	}()
	archive := &bytes.Buffer{}
	w := tar.NewWriter(archive)
	require.NoError(t, w.WriteHeader(&tar.Header{Name: name, Linkname: target, Typeflag: tar.TypeSymlink, Mode: 0o777}))
	require.NoError(t, w.Close())
	require.NoError(t, engine.CopyToContainer(t.Context(), made.ID, "/", archive, container.CopyToContainerOptions{}))
	committed, err := engine.ContainerCommit(t.Context(), made.ID, container.CommitOptions{})
	require.NoError(t, err)
	t.Cleanup(func() {
		_, err := engine.ImageRemove(context.Background(), committed.ID, image.RemoveOptions{Force: true})
		require.NoError(t, err)
	})
	return committed.ID
}

// TestImageCannotLeadTheGuestIntoTheWorkspace starts an image that knows where guests
// were before they had a place that no image can know.
func TestImageCannotLeadTheGuestIntoTheWorkspace(t *testing.T) {
	t.Parallel()
	engine := testEngine(t)
	linked := imageWithLink(t, engine, ".pygent", "/workspace")
	dir := realTempDir(t)
	r := newTestRuntime(t, pygent.NewDockerRuntime, pygent.WithImage(linked), pygent.WithWorkspace(dir))
	require.Equal(t, "here\n", bash(t, r, "ls -A; echo here").Output)
	require.NoError(t, r.Cleanup())
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
}
