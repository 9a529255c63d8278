package sessiondir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/x/pygent/internal/filelock"
)

// Limits bound the sessions in a directory. A limit of zero or less is none.
type Limits struct {
	Number int
	Bytes  int64 // of all files together, but for the session that was used last
	Age    time.Duration

	Beside int64            // bytes that count besides those of the files
	More   map[string]int64 // bytes that sessions have elsewhere
}

// graceOfEmpty is how long a session that has not begun is left alone: its process may
// be about to lock it.
const graceOfEmpty = time.Hour

// pruneLock is the file, beside the sessions, that is locked by whoever prunes. A
// directory of that name is no session.
const pruneLock = ".prune"

// Prune removes the sessions that were used longest ago until the others are within
// the limits, and what dead processes left of sessions that never began. It leaves
// those that are open, which count nevertheless, and returns the names of those that
// it has removed. It stops when ctx ends, and does nothing while another process
// prunes.
func Prune(ctx context.Context, dir string, limits Limits, now time.Time) (removed []string, err error) {
	root, err := os.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer root.Close()
	alone, err := root.OpenFile(pruneLock, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	defer filelock.Close(alone)
	if err := filelock.Lock(alone); err != nil {
		if errors.Is(err, filelock.ErrHeld) {
			err = nil
		}
		return nil, err
	}
	entries, err := List(dir)
	if err != nil {
		return nil, err
	}
	bytes := limits.Beside
	names, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return nil, err
	}
	kept := countBeginning(root, names, entries)
	for i, e := range entries {
		if ctx.Err() != nil {
			return removed, ctx.Err()
		}
		size := sizeOf(root, e.ID) + limits.More[e.ID]
		over := limits.Number > 0 && kept >= limits.Number ||
			limits.Bytes > 0 && bytes+size > limits.Bytes && i > 0 ||
			limits.Age > 0 && now.Sub(e.Used) > limits.Age
		if over && !e.Open {
			failed := Remove(dir, e.ID)
			if failed == nil {
				removed = append(removed, e.ID)
				continue
			}
			if errors.Is(failed, fs.ErrNotExist) {
				continue // somebody has removed it
			}
			if !errors.Is(failed, ErrInUse) {
				err = errors.Join(err, fmt.Errorf("remove session %s: %w", e.ID, failed))
			}
		}
		kept, bytes = kept+1, bytes+size
	}
	return removed, errors.Join(err, removeEmpty(ctx, dir, names, entries, now))
}

// sizeOf returns the bytes of a session's files.
func sizeOf(root *os.Root, id string) (bytes int64) {
	files, _ := fs.ReadDir(root.FS(), id) // what cannot be read cannot be counted
	for _, f := range files {
		if info, err := f.Info(); err == nil {
			bytes += info.Size()
		}
	}
	return bytes
}

// countBeginning returns how many sessions are open in which nothing was said yet.
func countBeginning(root *os.Root, names []fs.DirEntry, sessions []Entry) (n int) {
	for _, name := range names {
		if isNone(name, sessions) && isOpen(root, name.Name()) && !isBeingRemoved(root, name.Name()) {
			n++
		}
	}
	return n
}

// isNone reports whether the directory with a name is no session, or not yet.
func isNone(name fs.DirEntry, sessions []Entry) bool {
	return name.IsDir() && IsID(name.Name()) && !slices.ContainsFunc(sessions, func(e Entry) bool { return e.ID == name.Name() })
}

// removeEmpty removes the directories that are no sessions, if nobody uses them.
func removeEmpty(ctx context.Context, dir string, names []fs.DirEntry, sessions []Entry, now time.Time) (err error) {
	for _, name := range names {
		info, gone := name.Info()
		if gone != nil || !isNone(name, sessions) || now.Sub(info.ModTime()) < graceOfEmpty || ctx.Err() != nil {
			continue
		}
		if failed := Remove(dir, name.Name()); failed != nil && !errors.Is(failed, ErrInUse) && !errors.Is(failed, fs.ErrNotExist) {
			err = errors.Join(err, fmt.Errorf("remove what is left of session %s: %w", name.Name(), failed))
		}
	}
	return err
}
