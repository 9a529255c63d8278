package pathname

import (
	"context"
	"path"
	"path/filepath"
	"runtime"
)

// Lister tells which files a workspace has, which it describes by an F.
type Lister[F any] interface {
	StatFile(ctx context.Context, path string) (F, error)
	ListFiles(ctx context.Context, dir string, depth, limit int) (files []F, more bool, err error)
}

// Workspace is the workspace of a runtime. pathOf returns the path of a file that the
// lister describes, and here says that commands run on this machine. Empty roots are
// ignored.
func Workspace[F any](ctx context.Context, files Lister[F], pathOf func(F) string, here bool, roots ...string) Place {
	place := Host()
	place.Windows = here && runtime.GOOS == "windows"
	place.Roots = make([]string, len(roots))
	for i, root := range roots {
		place.Roots[i] = filepath.ToSlash(root)
	}
	place.Exists = func(name string) bool {
		_, err := files.StatFile(ctx, name)
		return err == nil
	}
	place.Names = func(dir string) (names []string) {
		list, _, _ := files.ListFiles(ctx, dir, 1, 0) // what could be listed counts
		for _, f := range list {
			names = append(names, path.Base(pathOf(f)))
		}
		return names
	}
	return place
}
