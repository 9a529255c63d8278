package guest

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"path"
	"time"

	"github.com/x/pygent/internal/guest/wire"
	"github.com/x/pygent/internal/tree"
)

// FileInfo describes a file of the workspace.
type FileInfo struct {
	Name    string // base name
	Size    int64
	Mode    fs.FileMode
	ModTime time.Time
	Target  string // where a symbolic link leads; only from Stat
}

func infoOf(m *wire.Info) FileInfo {
	return FileInfo{Name: path.Base(m.Name), Size: m.Size, Mode: m.Mode, ModTime: m.ModTime, Target: m.Target}
}

// ReadFile copies the content of a file to w: at most limit bytes from offset on,
// or everything if limit is negative. It returns the description of the whole
// file at the time when reading began.
func (c *Client) ReadFile(ctx context.Context, name string, w io.Writer, offset, limit int64) (FileInfo, error) {
	x, err := c.open(ctx, wire.KindRead, &wire.Path{Name: name, Offset: max(offset, 0), Limit: limit})
	if err != nil {
		return FileInfo{}, fmt.Errorf("read %s: %w", name, err)
	}
	defer x.close()
	m := &wire.Info{}
	if err := wire.ReadReply(x.stream, m); err != nil {
		return FileInfo{}, fmt.Errorf("read %s: %w", name, x.check(err))
	}
	x.watch.pause()
	var content io.Reader = wire.NewBodyReader(body{x})
	if limit >= 0 {
		content = io.LimitReader(content, limit)
	}
	if _, err := io.Copy(w, content); err != nil {
		return infoOf(m), fmt.Errorf("read %s: %w", name, x.check(err))
	}
	return infoOf(m), nil
}

// WriteFile replaces a file by the content of r. The file is replaced as a whole
// or not at all. Missing parent directories are made. An existing file keeps its
// mode; a new one gets mode, or 0644 if mode is 0.
func (c *Client) WriteFile(ctx context.Context, name string, r io.Reader, mode fs.FileMode) error {
	err := c.upload(ctx, wire.KindWrite, &wire.Write{Name: name, Mode: mode}, nil, func(w io.Writer) error {
		_, err := io.Copy(w, r)
		return err
	})
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

// upload makes a request with a body that fill writes.
func (c *Client) upload(ctx context.Context, kind wire.Kind, request, reply wire.Message, fill func(io.Writer) error) error {
	x, err := c.open(ctx, kind, request)
	if err != nil {
		return err
	}
	defer x.close()
	// The guest may answer before it has received everything, and then reads no
	// more. Its answer says why, and ends the sending.
	answer := make(chan error, 1)
	if !c.spawn(func() {
		err := wire.ReadReply(x.stream, reply)
		_ = x.stream.SetWriteDeadline(time.Unix(1, 0))
		answer <- err
	}) {
		return ErrClosed
	}
	x.watch.pause()
	content := wire.NewBodyWriter(body{x})
	failed := fill(content)
	sent := content.Finish(failed)
	x.watch.restart()
	if failed != nil && sent == nil {
		<-answer
		return failed
	}
	if sent != nil {
		// If the guest has not answered, it may never do so: do not wait for it.
		select {
		case err := <-answer:
			return x.check(err)
		case <-time.After(time.Second):
			_ = x.stream.SetReadDeadline(time.Unix(1, 0))
			<-answer
			return x.check(sent)
		}
	}
	return x.check(<-answer)
}

// Stat describes a file. It does not follow a symbolic link.
func (c *Client) Stat(ctx context.Context, name string) (FileInfo, error) {
	m := &wire.Info{}
	if err := c.call(ctx, wire.KindStat, &wire.Path{Name: name}, m); err != nil {
		return FileInfo{}, fmt.Errorf("stat %s: %w", name, err)
	}
	return infoOf(m), nil
}

// List describes the content of a directory, sorted by name. more means that the
// directory has more entries than can be listed.
func (c *Client) List(ctx context.Context, name string) (files []FileInfo, more bool, err error) {
	m := &wire.Infos{}
	if err := c.call(ctx, wire.KindList, &wire.Path{Name: name}, m); err != nil {
		return nil, false, fmt.Errorf("list %s: %w", name, err)
	}
	for i := range m.Infos {
		files = append(files, infoOf(&m.Infos[i]))
	}
	return files, m.More, nil
}

// Mkdir makes a directory and its parents. It is no error if the directory
// exists.
func (c *Client) Mkdir(ctx context.Context, name string) error {
	return c.onPath(ctx, "make directory", wire.KindMkdir, &wire.Path{Name: name})
}

// Remove removes a file or an empty directory. With all it also removes a
// directory with its content.
func (c *Client) Remove(ctx context.Context, name string, all bool) error {
	return c.onPath(ctx, "remove", wire.KindRemove, &wire.Path{Name: name, All: all})
}

// Own gives a file, or a directory with its content, to the owner of the
// workspace. The guest must run as root.
func (c *Client) Own(ctx context.Context, name string) error {
	return c.onPath(ctx, "give to the owner", wire.KindOwn, &wire.Path{Name: name})
}

func (c *Client) onPath(ctx context.Context, what string, kind wire.Kind, request *wire.Path) error {
	if err := c.call(ctx, kind, request, nil); err != nil {
		return fmt.Errorf("%s %s: %w", what, request.Name, err)
	}
	return nil
}

// Unpack unpacks the archive that fill writes into a directory of the workspace.
// If there is no such directory, it appears with the tree. See package tree for
// the format. What Unpack returns is the guest's word.
func (c *Client) Unpack(ctx context.Context, dir string, fill func(io.Writer) error) (tree.Placed, error) {
	m := &wire.Placed{}
	if err := c.upload(ctx, wire.KindTarIn, &wire.Path{Name: dir}, m, fill); err != nil {
		return tree.Placed{}, fmt.Errorf("unpack into %s: %w", dir, err)
	}
	return tree.Placed{Files: int(m.Files), Replaced: int(m.Replaced)}, nil
}

// Pack calls take with the archive of a file or directory of the workspace. The
// archive comes from the guest and is not to be trusted: read it only with
// package tree.
func (c *Client) Pack(ctx context.Context, name string, take func(io.Reader) error) error {
	err := c.download(ctx, name, func(body io.Reader) error {
		if err := take(body); err != nil {
			return err
		}
		_, err := io.Copy(io.Discard, io.LimitReader(body, 1<<20)) // the padding of the archive, and the result of the packing
		return err
	})
	if err != nil {
		return fmt.Errorf("pack %s: %w", name, err)
	}
	return nil
}

// download requests an archive and calls take to read it.
func (c *Client) download(ctx context.Context, name string, take func(io.Reader) error) error {
	x, err := c.open(ctx, wire.KindTarOut, &wire.Path{Name: name})
	if err != nil {
		return err
	}
	defer x.close()
	if err := wire.ReadReply(x.stream, nil); err != nil {
		return x.check(err)
	}
	x.watch.pause()
	return x.check(take(wire.NewBodyReader(body{x})))
}
