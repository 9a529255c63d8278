package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"sync"
	"sync/atomic"

	"github.com/x/pygent/internal/guest"
	"github.com/x/pygent/internal/sandbox"
	"github.com/x/pygent/internal/tree"
	"github.com/x/pygent/internal/workspace"
)

// files are the files of a container's workspace. Until the first
// container runs they are those of a directory of this machine, so that nobody
// waits for it; from then on the guest has them. Where the engine does not see
// the directory, its content moves into the volume at that moment.
type files struct {
	tree      *workspace.Tree
	commands  *commander
	copyLimit int64 // bytes that bringBack may copy

	mu     sync.RWMutex // held while the directory is used, and for writing while the files move
	inside bool         // the guest has the files
	near   *tree.Owner  // the guest shares them with this process, which copies them then for this owner; else nil
	volume atomic.Value // the name of the volume where they are, a string; none otherwise

	// seeded are the names of what went into the volume. It is set by moveInside and
	// read by bringBack, which comes after it.
	seeded map[string]bool
}

// at calls f with the files where they are now.
func (d *files) at(ctx context.Context, f func(sandbox.Files) error) error {
	d.mu.RLock()
	if !d.inside {
		defer d.mu.RUnlock()
		return f(sandbox.HostFiles{Tree: d.tree})
	}
	d.mu.RUnlock()
	client, err := d.commands.Guest(ctx)
	if err != nil {
		return err
	}
	return f(sandbox.GuestFiles{Client: client, Tree: d.tree})
}

// moveInside hands the files over to the guest. Into a new volume it copies the
// content of the directory.
func (d *files) moveInside(ctx context.Context, client *guest.Client, volume string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.inside {
		return nil
	}
	if volume != "" {
		root, err := os.OpenRoot(d.tree.Dir())
		if err != nil {
			return err
		}
		defer root.Close()
		if d.seeded, err = namesIn(root); err != nil {
			return fmt.Errorf("look through the workspace: %w", err)
		}
		_, err = client.Unpack(ctx, ".", func(w io.Writer) error { return tree.Pack(w, root, ".", tree.PackOptions{}) })
		if err != nil {
			return fmt.Errorf("copy the workspace to the engine: %w", err)
		}
	}
	if d.inside = true; volume == "" {
		d.near = d.commands.nearOwner(client)
	}
	d.volume.Store(volume)
	return nil
}

// Volume implements [sandbox.Mover].
func (d *files) Volume() string {
	name, _ := d.volume.Load().(string)
	return name
}

// Stay implements [sandbox.Mover].
func (d *files) Stay() (leave func()) {
	d.mu.RLock()
	return d.mu.RUnlock
}

// bringBack makes the directory equal to the volume, once the volume's content is
// all on this machine. It removes only files that were copied into the volume and
// are no longer there. A file that somebody else has put into the directory
// meanwhile stays.
func (d *files) bringBack(ctx context.Context, client *guest.Client) error {
	root, err := os.OpenRoot(d.tree.Dir())
	if err != nil {
		return err
	}
	defer root.Close()
	options := tree.ExtractOptions{Limits: tree.Limits{Bytes: d.copyLimit}}
	if uid, gid, ok := d.tree.Owner(); ok && os.Geteuid() == 0 {
		options.Owner = &tree.Owner{UID: uid, GID: gid}
	}
	var staged *tree.Staged
	err = client.Pack(ctx, ".", func(r io.Reader) (err error) {
		staged, err = tree.Stage(r, root, options)
		return err
	})
	if err == nil {
		err = d.prune(ctx, client, root, ".")
	}
	switch {
	case err == nil:
		_, err = staged.Commit()
		return err
	case staged != nil:
		return errors.Join(err, staged.Discard())
	default:
		return err
	}
}

// prune removes below a directory what was removed in the volume, or has
// become something other than a directory there. It makes directories
// writable; the export sets their modes again.
func (d *files) prune(ctx context.Context, client *guest.Client, root *os.Root, dir string) error {
	list, more, err := client.List(ctx, dir)
	if err != nil {
		return err
	}
	there := make(map[string]bool, len(list)) // whether it is a directory
	for _, f := range list {
		there[f.Name] = f.Mode.IsDir()
	}
	if err := makeWritable(root, dir); err != nil {
		return err
	}
	entries, err := entriesOf(root, dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		name := path.Join(dir, entry.Name())
		isDir, ok := there[entry.Name()]
		if !ok && more {
			info, err := client.Stat(ctx, name)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			isDir, ok = info.Mode.IsDir(), err == nil
		}
		switch {
		case !ok && d.seeded[name], ok && entry.IsDir() && !isDir:
			err = tree.Remove(root, name)
		case ok && entry.IsDir():
			err = d.prune(ctx, client, root, name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// makeWritable gives the owner of a directory all rights to it.
func makeWritable(root *os.Root, dir string) error {
	info, err := root.Lstat(dir)
	if err != nil || info.Mode().Perm()&0o700 == 0o700 {
		return err
	}
	return root.Chmod(dir, info.Mode().Perm()|0o700)
}

// entriesOf lists a directory. Names need not be UTF-8, as those of fs.FS must.
func entriesOf(root *os.Root, dir string) ([]fs.DirEntry, error) {
	f, err := root.Open(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.ReadDir(-1)
}

// namesIn returns the names of everything below a directory that an upload
// takes along.
func namesIn(root *os.Root) (map[string]bool, error) {
	names := make(map[string]bool)
	err := tree.Walk(root, func(e tree.Entry) error {
		if e.Info.Mode().Type()&^(fs.ModeDir|fs.ModeSymlink) == 0 {
			names[e.Name] = true
		}
		return nil
	})
	return names, err
}

func (d *files) ReadFile(ctx context.Context, name string, limit int64) (data []byte, err error) {
	err = d.at(ctx, func(f sandbox.Files) error {
		data, err = f.ReadFile(ctx, name, limit)
		return err
	})
	return data, err
}

func (d *files) ReadRange(ctx context.Context, name string, offset, limit int64) (data []byte, size int64, err error) {
	err = d.at(ctx, func(f sandbox.Files) error {
		data, size, err = f.ReadRange(ctx, name, offset, limit)
		return err
	})
	return data, size, err
}

func (d *files) WriteFile(ctx context.Context, name string, data []byte) error {
	return d.at(ctx, func(f sandbox.Files) error { return f.WriteFile(ctx, name, data) })
}

func (d *files) IsDir(ctx context.Context, name string) (is bool, err error) {
	err = d.at(ctx, func(f sandbox.Files) error {
		is, err = f.IsDir(ctx, name)
		return err
	})
	return is, err
}

func (d *files) Pack(ctx context.Context, name string, take func(io.Reader) error) error {
	return d.at(ctx, func(f sandbox.Files) error { return f.Pack(ctx, name, take) })
}

func (d *files) Unpack(ctx context.Context, dir string, fill func(io.Writer) error) (placed tree.Placed, err error) {
	err = d.at(ctx, func(f sandbox.Files) error {
		placed, err = f.Unpack(ctx, dir, fill)
		return err
	})
	return placed, err
}

func (d *files) Directory(ctx context.Context, name string) (dir string, err error) {
	if dir, err = d.tree.Rel(name); err != nil || dir == "." {
		return dir, err
	}
	err = d.at(ctx, func(f sandbox.Files) error {
		dir, err = f.Directory(ctx, name)
		return err
	})
	return dir, err
}

func (d *files) ReadTo(ctx context.Context, name string, offset int64, w io.Writer) (n int64, err error) {
	err = d.at(ctx, func(f sandbox.Files) error {
		n, err = f.ReadTo(ctx, name, offset, w)
		return err
	})
	return n, err
}

func (d *files) WriteFrom(ctx context.Context, name string, r io.Reader) error {
	return d.at(ctx, func(f sandbox.Files) error { return f.WriteFrom(ctx, name, r) })
}

func (d *files) Lstat(ctx context.Context, name string) (info guest.FileInfo, err error) {
	err = d.at(ctx, func(f sandbox.Files) error {
		info, err = f.Lstat(ctx, name)
		return err
	})
	return info, err
}

func (d *files) List(ctx context.Context, name string, limit int) (list []guest.FileInfo, more bool, err error) {
	err = d.at(ctx, func(f sandbox.Files) error {
		list, more, err = f.List(ctx, name, limit)
		return err
	})
	return list, more, err
}

func (d *files) Remove(ctx context.Context, name string, all bool) error {
	return d.at(ctx, func(f sandbox.Files) error { return f.Remove(ctx, name, all) })
}
