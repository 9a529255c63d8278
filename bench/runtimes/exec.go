package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"time"

	cerrdefs "github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/client"
	"github.com/docker/docker/pkg/stdcopy"
)

// execPlace is a container in which commands run by the engine's exec, as in most
// programs.
type execPlace struct {
	engine *client.Client
	name   string
}

// openExec starts a container that idles. It ends by itself if this process is
// killed.
func openExec(ctx context.Context, image string) (place, error) {
	engine, err := newEngine()
	if err != nil {
		return nil, err
	}
	e := &execPlace{engine, "pygent-bench-" + strings.ToLower(rand.Text()[:12])}
	_, err = engine.ContainerCreate(ctx, &container.Config{
		Image: image, Entrypoint: []string{"sleep", "3600"}, WorkingDir: "/workspace",
	}, &container.HostConfig{AutoRemove: true, NetworkMode: "none"}, nil, nil, e.name)
	if err == nil {
		err = engine.ContainerStart(ctx, e.name, container.StartOptions{})
	}
	if err != nil {
		return nil, errors.Join(err, e.close())
	}
	return e, nil
}

func newEngine() (*client.Client, error) {
	return client.NewClientWithOpts(client.FromEnv, client.WithAPIVersionNegotiation())
}

func (e *execPlace) run(ctx context.Context, script string) error {
	created, err := e.engine.ContainerExecCreate(ctx, e.name, container.ExecOptions{
		AttachStdout: true, AttachStderr: true, Cmd: []string{"sh", "-c", script},
	})
	if err != nil {
		return err
	}
	conn, err := e.engine.ContainerExecAttach(ctx, created.ID, container.ExecAttachOptions{})
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := stdcopy.StdCopy(io.Discard, io.Discard, conn.Reader); err != nil {
		return err
	}
	info, err := e.engine.ContainerExecInspect(ctx, created.ID)
	if err == nil && info.ExitCode != 0 {
		err = fmt.Errorf("exit code %d", info.ExitCode)
	}
	return err
}

func (e *execPlace) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	err := e.engine.ContainerRemove(ctx, e.name, container.RemoveOptions{Force: true, RemoveVolumes: true})
	if cerrdefs.IsNotFound(err) {
		err = nil
	}
	return errors.Join(err, e.engine.Close())
}

// execCLIPlace is the same with the docker command.
type execCLIPlace struct{ *execPlace }

func openExecCLI(ctx context.Context, image string) (place, error) {
	p, err := openExec(ctx, image)
	if err != nil {
		return nil, err
	}
	return execCLIPlace{p.(*execPlace)}, nil
}

func (e execCLIPlace) run(ctx context.Context, script string) error {
	return drained(exec.CommandContext(ctx, "docker", "exec", e.name, "sh", "-c", script))
}
