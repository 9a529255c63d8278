package pygent

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/x/pygent/internal/guest"
	"github.com/x/pygent/internal/guest/archive"
	"github.com/x/pygent/internal/workspace"
)

// dockerFiles are the files of a container's workspace. Until the first
// container runs they are those of a directory of this machine, so that nobody
// waits for it; from then on the guest has them. Where the engine does not see
// the directory, its content moves into the volume at that moment.
type dockerFiles struct {
	tree     *workspace.Tree
	commands *dockerCommander

	mu     sync.RWMutex // held while the directory is used, and for writing while the files move
	seated bool         // the guest has the files
}

// at calls f with the files where they are now.
func (d *dockerFiles) at(ctx context.Context, f func(files) error) error {
	d.mu.RLock()
	if !d.seated {
		defer d.mu.RUnlock()
		return f(hostFiles{d.tree})
	}
	d.mu.RUnlock()
	client, err := d.commands.guest(ctx)
	if err != nil {
		return err
	}
	return f(guestFiles{client, d.tree})
}

// seat hands the files over to the guest. With a volume that is new, the
// content of the directory goes with them.
func (d *dockerFiles) seat(ctx context.Context, client *guest.Client, volume bool) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.seated {
		return nil
	}
	if volume {
		root, err := os.OpenRoot(d.tree.Dir())
		if err != nil {
			return err
		}
		defer root.Close()
		if err := client.Upload(ctx, root, ".", "."); err != nil {
			return fmt.Errorf("copy the workspace to the engine: %w", err)
		}
	}
	d.seated = true
	return nil
}

// bringBack copies the content of a volume into the directory, and removes
// from the directory what was removed in the volume.
func (d *dockerFiles) bringBack(ctx context.Context, client *guest.Client) error {
	root, err := os.OpenRoot(d.tree.Dir())
	if err != nil {
		return err
	}
	defer root.Close()
	if err := client.Export(ctx, ".", root, archive.Limits{}); err != nil {
		return err
	}
	return fs.WalkDir(root.FS(), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || name == "." {
			return err
		}
		_, err = client.Stat(ctx, name)
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := root.RemoveAll(filepath.FromSlash(name)); err != nil {
			return err
		}
		if entry.IsDir() {
			return fs.SkipDir
		}
		return nil
	})
}

func (d *dockerFiles) readFile(ctx context.Context, name string, limit int64) (data []byte, err error) {
	err = d.at(ctx, func(f files) error {
		data, err = f.readFile(ctx, name, limit)
		return err
	})
	return data, err
}

func (d *dockerFiles) readRange(ctx context.Context, name string, offset, limit int64) (data []byte, size int64, err error) {
	err = d.at(ctx, func(f files) error {
		data, size, err = f.readRange(ctx, name, offset, limit)
		return err
	})
	return data, size, err
}

func (d *dockerFiles) writeFile(ctx context.Context, name string, data []byte) error {
	return d.at(ctx, func(f files) error { return f.writeFile(ctx, name, data) })
}

func (d *dockerFiles) upload(ctx context.Context, src, name string) error {
	return d.at(ctx, func(f files) error { return f.upload(ctx, src, name) })
}

func (d *dockerFiles) export(ctx context.Context, name, dest string) error {
	return d.at(ctx, func(f files) error { return f.export(ctx, name, dest) })
}

func (d *dockerFiles) directory(ctx context.Context, name string) (dir string, err error) {
	err = d.at(ctx, func(f files) error {
		dir, err = f.directory(ctx, name)
		return err
	})
	return dir, err
}
