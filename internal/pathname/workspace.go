package pathname

import (
	"context"
	"path/filepath"
	"runtime"
)

// Lister tells which files a workspace has, which it describes by an F.
type Lister[F any] interface {
	StatFile(ctx context.Context, path string) (F, error)
	ListFiles(ctx context.Context, dir string, depth, limit int) (files []F, more bool, err error)
}

// Workspace is the workspace of a runtime, whose files a lister describes. here says that
// commands run on this machine. Empty roots are ignored.
func Workspace[F any](ctx context.Context, files Lister[F], infoOf func(F) Info, here bool, roots ...string) Place {
	place := Host()
	place.Windows = here && runtime.GOOS == "windows"
	place.Roots = make([]string, len(roots))
	for i, root := range roots {
		place.Roots[i] = filepath.ToSlash(root)
	}
	describe, list := Of(ctx, files, infoOf)
	place.Exists = func(name string) bool {
		_, err := describe(name)
		return err == nil
	}
	place.Names = list
	return place
}
