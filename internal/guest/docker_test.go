package guest_test

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	containertypes "github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/client"
	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/guest"
	"github.com/x/pygent/internal/guest/binary"
	"github.com/x/pygent/internal/testkit/enginetest"
)

// containerOptions are the settings of a test's container that differ from the
// defaults.
type containerOptions struct {
	user     string
	readonly bool
	pids     int64 // default 256
	config   guest.Config
	socket   string // that the guest is to connect to; empty for none
}

func (o containerOptions) arguments() []string {
	if o.socket == "" {
		return nil
	}
	return []string{o.socket}
}

// running is a guest in a container.
type running struct {
	client    *guest.Client
	engine    *client.Client
	id        string
	workspace string // on this machine
}

func debianImage(t testing.TB) string {
	return image(t, enginetest.Image())
}

func busyboxImage(t testing.TB) string {
	return image(t, enginetest.Busybox())
}

// engine returns a client of the engine, or nil and the reason why there is
// none.
var engine = sync.OnceValues(func() (*client.Client, error) {
	c, err := client.NewClientWithOpts(client.FromEnv, client.WithAPIVersionNegotiation())
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_, err = c.Ping(ctx)
	return c, err
})

// image returns the name of an image. It skips the test if the image is
// missing.
func image(t testing.TB, name string) string {
	t.Helper()
	enginetest.Need(t, name)
	return name
}

// guestDir holds the guest's program during the tests.
var guestDir = filepath.Join(os.TempDir(), fmt.Sprintf("pygent-guest-test-%d", os.Getpid()))

// guestFile returns the path of the guest's program.
var guestFile = sync.OnceValues(func() (string, error) { return binary.File(guestDir, runtime.GOARCH) })

// startContainer starts a guest in a container as pygent does, and connects.
func startContainer(t testing.TB, image string, options containerOptions) *running {
	t.Helper()
	program, err := guestFile()
	require.NoError(t, err)
	c, err := engine()
	require.NoError(t, err)
	r := &running{engine: c, workspace: t.TempDir()}
	require.NoError(t, os.Chmod(r.workspace, 0o777))
	ctx := context.Background()
	pids := cmp.Or(options.pids, 256)
	created, err := c.ContainerCreate(ctx, &containertypes.Config{
		Image: image, Entrypoint: append([]string{"/.pygent/guest"}, options.arguments()...), Cmd: []string{},
		OpenStdin: true, StdinOnce: true, AttachStdin: true, AttachStdout: true, AttachStderr: true,
		WorkingDir: "/workspace", User: options.user,
	}, &containertypes.HostConfig{
		AutoRemove: true, NetworkMode: "none", ReadonlyRootfs: options.readonly,
		CapDrop: []string{"ALL"}, CapAdd: []string{"CHOWN", "DAC_OVERRIDE", "FOWNER", "SETGID", "SETUID", "KILL"},
		SecurityOpt: []string{"no-new-privileges"},
		LogConfig:   containertypes.LogConfig{Type: "none"},
		Resources:   containertypes.Resources{Memory: 512 << 20, MemorySwap: 512 << 20, PidsLimit: &pids},
		Mounts: []mount.Mount{
			{Type: mount.TypeBind, Source: program, Target: "/.pygent/guest", ReadOnly: true},
			{Type: mount.TypeBind, Source: r.workspace, Target: "/workspace"},
		},
	}, &network.NetworkingConfig{}, nil, "")
	require.NoError(t, err)
	r.id = created.ID
	t.Cleanup(func() { _ = c.ContainerRemove(ctx, r.id, containertypes.RemoveOptions{Force: true}) })
	attached, err := c.ContainerAttach(ctx, r.id, containertypes.AttachOptions{Stream: true, Stdin: true, Stdout: true, Stderr: true})
	require.NoError(t, err)
	require.NoError(t, c.ContainerStart(ctx, r.id, containertypes.StartOptions{}))
	var stream interface {
		io.ReadWriteCloser
		Stderr() string
	} = guest.Attach(attached.Reader, attached.Conn)
	if options.socket != "" {
		stream = guest.AttachDirect(attached.Reader, attached.Conn, listenHere(t))
	}
	options.config.Workspace = "/workspace"
	r.client, err = guest.Connect(ctx, stream, options.config)
	require.NoError(t, err, "stderr: %s", stream.Stderr())
	t.Cleanup(func() { _ = r.client.Close() })
	return r
}

// container starts a guest in a container. At the end of the test it waits
// until the container has disappeared by itself.
func container(t testing.TB, image string, options containerOptions) *running {
	t.Helper()
	r := startContainer(t, image, options)
	t.Cleanup(func() {
		gone, errs := r.engine.ContainerWait(context.Background(), r.id, containertypes.WaitConditionRemoved)
		_ = r.client.Close()
		select {
		case <-gone:
		case <-errs: // It was gone before.
		case <-time.After(testTime):
			t.Error("the container outlives its client")
		}
	})
	return r
}
