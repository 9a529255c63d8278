package checkpoint

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/x/pygent/internal/checkpoint/objstore"
	"github.com/x/pygent/internal/owner"
	"github.com/x/pygent/internal/pathname"
	"github.com/x/pygent/internal/sessiondir"
)

// sessionLogs are the logs in a store that belong to the sessions of a directory.
type sessionLogs struct {
	trees         *objstore.Store
	dir, sessions string
}

// openSessionLogs returns nil if there is no store.
func openSessionLogs(dir, sessions string) (*sessionLogs, error) {
	if _, err := os.Stat(dir); dir == "" || errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	trees, err := objstore.Open(dir)
	if err != nil {
		return nil, err
	}
	return &sessionLogs{trees, dir, sessions}, nil
}

// PruneSessions removes sessions of a directory until the others are within the limits,
// and returns their ids. What they have in the store dir counts and goes with them, also
// that of sessions which were removed otherwise.
func PruneSessions(ctx context.Context, dir, sessions string, limits sessiondir.Limits) (removed []string, err error) {
	logs, err := openSessionLogs(dir, sessions)
	if logs != nil {
		err = logs.measure(&limits)
	}
	removed, failed := sessiondir.Prune(ctx, sessions, limits, time.Now())
	if logs == nil {
		return removed, errors.Join(err, failed)
	}
	orphans, orphansErr := logs.removeOrphans()
	if orphans > 0 || limits.More != nil {
		orphansErr = errors.Join(orphansErr, logs.collect(ctx))
	}
	return removed, errors.Join(err, failed, orphansErr, logs.trees.Close())
}

// RemoveOrphans removes from the store dir what belongs to sessions that are not in their
// directory any more. A store that does not exist has nothing.
func RemoveOrphans(ctx context.Context, dir, sessions string) error {
	logs, err := openSessionLogs(dir, sessions)
	if logs == nil {
		return err
	}
	_, err = logs.removeOrphans()
	waits, cancel := context.WithTimeout(ctx, collectWithin)
	defer cancel()
	return errors.Join(err, logs.collect(waits), logs.trees.Close())
}

// measure says what the checkpoints of sessions add to their size, if all together is
// too much: each the bytes by which they made the store grow when they were taken.
// What is left, because sessions share it with some that were removed, belongs to none.
func (l *sessionLogs) measure(limits *sessiondir.Limits) error {
	total := sizeOfFiles(l.dir)
	if limits.Bytes <= 0 || total+sizeOfFiles(l.sessions) <= limits.Bytes {
		return nil
	}
	names, err := l.trees.Logs()
	if err != nil {
		return err
	}
	sizes := map[string]int64{}
	for _, name := range names {
		id, ours := l.sessionOf(name)
		refs, err := l.trees.ReadLog(name)
		if !ours || err != nil {
			continue // what cannot be read belongs to none
		}
		for _, ref := range refs {
			sizes[id] += max(Stored(ref), 0)
		}
		total -= sizes[id]
	}
	limits.Beside, limits.More = max(total, 0), sizes
	return nil
}

// sizeOfFiles returns the bytes of the files below a directory, as far as they can be
// counted.
func sizeOfFiles(dir string) (bytes int64) {
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil
		}
		if info, err := d.Info(); err == nil {
			bytes += info.Size()
		}
		return nil
	})
	return bytes
}

// How long the removal of checkpoints waits for those that are being made, and how
// often it looks.
const (
	collectWithin = 5 * time.Second
	collectAgain  = 20 * time.Millisecond
)

// collect removes what no checkpoint needs any more. Where checkpoints are made until
// ctx ends, that is left to the next time.
func (l *sessionLogs) collect(ctx context.Context) error {
	for {
		_, err := l.trees.Collect(ctx, nil)
		if !errors.Is(err, objstore.ErrInUse) {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(collectAgain):
		}
	}
}

// removeOrphans removes the logs of sessions that are not in their directory, and returns
// how many checkpoints they had. A new session has its directory before it has a log.
func (l *sessionLogs) removeOrphans() (removed int, err error) {
	names, err := l.trees.Logs()
	for _, name := range names {
		id, ours := l.sessionOf(name)
		if !ours {
			continue
		}
		if _, gone := os.Lstat(filepath.Join(l.sessions, id)); !errors.Is(gone, fs.ErrNotExist) {
			continue
		}
		refs, _ := l.trees.ReadLog(name)
		failed := l.trees.RemoveLog(name)
		switch {
		case failed == nil:
			removed += len(refs)
		case !errors.Is(failed, objstore.ErrInUse) && !errors.Is(failed, fs.ErrNotExist):
			err = errors.Join(err, failed)
		}
	}
	return removed, err
}

// sessionOf returns the id of the session that a log belongs to.
func (l *sessionLogs) sessionOf(name string) (id string, ours bool) {
	for _, prefix := range []string{logPrefix(l.dir, l.sessions), formerPrefix(l.sessions)} {
		if id, ours := strings.CutPrefix(name, prefix); ours {
			return id, true
		}
	}
	return "", false
}

// LogOfSession returns the name of the log that the session in a directory has in the
// store dir, and what it was before.
func LogOfSession(dir, session string) (name, former string) {
	sessions, id := filepath.Dir(session), filepath.Base(session)
	return logPrefix(dir, sessions) + id, formerPrefix(sessions) + id
}

// logPrefix begins the names of the logs that sessions in a directory have in the store
// dir; their ids follow. It tells apart directories of sessions that share a store, by the
// way from there to them: where both are moved together, as with the directory of the
// user's state, it stays the same.
func logPrefix(dir, sessions string) string {
	way, err := filepath.Rel(realPathOfNew(dir), realPathOfNew(sessions))
	if err != nil {
		return formerPrefix(sessions)
	}
	return "session-" + owner.IDOf(filepath.ToSlash(way)) + "-"
}

// formerPrefix is what logPrefix was before, which held for one place only.
func formerPrefix(sessions string) string {
	return "session-" + owner.IDOf(pathname.Real(sessions)) + "-"
}

// realPathOfNew is the real path of what may not be there yet.
func realPathOfNew(name string) string {
	name = pathname.Real(name)
	parent := filepath.Dir(name)
	if _, err := os.Lstat(name); err == nil || parent == name {
		return name
	}
	return filepath.Join(realPathOfNew(parent), filepath.Base(name))
}
