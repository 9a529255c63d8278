package main

import (
	"archive/tar"
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/docker/client"
)

// engineCarrier copies with the engine's archive API, as a program would that uses
// nothing else: an archive through buffers of a good size, unpacked with modes and
// times.
type engineCarrier struct {
	engine *client.Client
	host   string // empty for that of the environment
	name   string
	bound  string // the directory of this machine that is mounted; empty for a volume
}

// openEngine starts a container whose workspace is a directory of this machine, or
// a volume.
func openEngine(ctx context.Context, host, image string, bind bool) (e engineCarrier, err error) {
	opts := []client.Opt{client.FromEnv, client.WithAPIVersionNegotiation()}
	if host != "" {
		opts = append(opts, client.WithHost(host))
	}
	e = engineCarrier{host: host, name: "pygent-bench-" + strings.ToLower(rand.Text()[:12])}
	if e.engine, err = client.NewClientWithOpts(opts...); err != nil {
		return e, err
	}
	workspace := mount.Mount{Type: mount.TypeVolume, Target: "/workspace"}
	if bind {
		if e.bound, err = os.MkdirTemp("", "pygent-bench-"); err != nil {
			return e, errors.Join(err, e.engine.Close())
		}
		workspace = mount.Mount{Type: mount.TypeBind, Source: e.bound, Target: "/workspace"}
	}
	_, err = e.engine.ContainerCreate(ctx, &container.Config{
		Image: image, Entrypoint: []string{"sleep", "3600"}, WorkingDir: "/workspace",
	}, &container.HostConfig{AutoRemove: true, NetworkMode: "none", Mounts: []mount.Mount{workspace}}, nil, nil, e.name)
	if err == nil {
		err = e.engine.ContainerStart(ctx, e.name, container.StartOptions{})
	}
	if err != nil {
		return e, errors.Join(err, e.close())
	}
	return e, nil
}

func (e engineCarrier) in(ctx context.Context, src, name string) error {
	r, w := io.Pipe()
	packed := make(chan error, 1)
	go func() {
		buffered := bufio.NewWriterSize(w, 256<<10)
		err := pack(buffered, src, name)
		err = errors.Join(err, buffered.Flush())
		packed <- err
		w.CloseWithError(err)
	}()
	err := e.engine.CopyToContainer(ctx, e.name, "/workspace", r, container.CopyToContainerOptions{})
	r.Close()
	return errors.Join(err, <-packed)
}

// pack writes an archive of a file or directory under a name.
func pack(w io.Writer, src, name string) error {
	archive := tar.NewWriter(w)
	err := filepath.WalkDir(src, func(at string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		h, err := tar.FileInfoHeader(info, "")
		if err != nil {
			return err
		}
		h.Name = name + filepath.ToSlash(strings.TrimPrefix(at, src))
		if err := archive.WriteHeader(h); err != nil || d.IsDir() {
			return err
		}
		f, err := os.Open(at)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = io.Copy(archive, f)
		return err
	})
	return errors.Join(err, archive.Close())
}

func (e engineCarrier) out(ctx context.Context, name, dest string) error {
	body, _, err := e.engine.CopyFromContainer(ctx, e.name, "/workspace/"+name)
	if err != nil {
		return err
	}
	defer body.Close()
	archive := tar.NewReader(bufio.NewReaderSize(body, 256<<10))
	for {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = unpack(archive, h, dest+strings.TrimPrefix(path.Clean(h.Name), name))
		}
		if err != nil {
			return err
		}
	}
}

// unpack makes one entry of an archive that the engine has made of files and
// directories.
func unpack(r io.Reader, h *tar.Header, at string) error {
	if h.Typeflag == tar.TypeDir {
		return os.Mkdir(at, h.FileInfo().Mode().Perm())
	}
	f, err := os.OpenFile(at, os.O_CREATE|os.O_EXCL|os.O_WRONLY, h.FileInfo().Mode().Perm())
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r)
	if err = errors.Join(err, f.Chmod(h.FileInfo().Mode().Perm()), f.Close()); err != nil {
		return err
	}
	return os.Chtimes(at, time.Time{}, h.ModTime)
}

func (e engineCarrier) remove(ctx context.Context, pattern string) error {
	return (&execPlace{e.engine, e.name}).run(ctx, "rm -rf /workspace/"+pattern)
}

func (e engineCarrier) close() error {
	err := (&execPlace{e.engine, e.name}).close()
	if e.bound != "" {
		err = errors.Join(err, os.RemoveAll(e.bound))
	}
	return err
}

// cpCarrier copies with docker cp.
type cpCarrier struct{ engineCarrier }

func (c cpCarrier) in(ctx context.Context, src, name string) error {
	return c.docker(ctx, "cp", src, c.name+":/workspace/"+name)
}

func (c cpCarrier) out(ctx context.Context, name, dest string) error {
	return c.docker(ctx, "cp", c.name+":/workspace/"+name, dest)
}

func (c cpCarrier) docker(ctx context.Context, args ...string) error {
	if c.host != "" {
		args = append([]string{"-H", c.host}, args...)
	}
	return command(ctx, "docker", args...)
}

// plainCarrier copies with cp, which is the least that a copy costs.
type plainCarrier string

func openCp(context.Context) (carrier, error) {
	dir, err := os.MkdirTemp("", "pygent-bench-")
	return plainCarrier(dir), err
}

func (p plainCarrier) in(ctx context.Context, src, name string) error {
	return command(ctx, "cp", "-r", "--preserve=mode,timestamps", src, filepath.Join(string(p), name))
}

func (p plainCarrier) out(ctx context.Context, name, dest string) error {
	return command(ctx, "cp", "-r", "--preserve=mode,timestamps", filepath.Join(string(p), name), dest)
}

func (p plainCarrier) remove(ctx context.Context, pattern string) error {
	return command(ctx, "sh", "-c", "rm -rf "+string(p)+"/"+pattern)
}

func (p plainCarrier) close() error { return os.RemoveAll(string(p)) }
