package pygent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/x/pygent/internal/checkpoint"
	"github.com/x/pygent/internal/sessiondir"
	"github.com/x/pygent/internal/store"
)

// SessionLimits bound what is kept of sessions. For each, zero means the default and
// [NoLimit] none.
type SessionLimits struct {
	Max      int           `json:"max,omitempty"`      // how many; default 500
	MaxBytes int64         `json:"max_size,omitempty"` // of all files together, with those of checkpoints; default 4 GiB
	MaxAge   time.Duration `json:"max_age,omitempty"`  // since a session was used last; default 90 days
}

// The defaults of [SessionLimits].
const (
	DefaultMaxSessions     = 500
	DefaultMaxSessionBytes = 4 << 30
	DefaultMaxSessionAge   = 90 * 24 * time.Hour
)

// PruneSessions removes the sessions in a directory that were used longest ago, until
// the others are within the limits, and returns the ids of those that it has removed.
// checkpoints is the directory that [WithCheckpoints] was given for them, empty if
// there is none: what sessions have there counts and goes with them, also that of
// sessions which were removed otherwise. It never removes one that is open, nor, for
// its size, the one that was used last. Several processes may prune at once. It stops
// when ctx ends.
func PruneSessions(ctx context.Context, dir, checkpoints string, limits SessionLimits) (removed []string, err error) {
	p := pruning{dir: dir, limits: sessiondir.Limits{ // for which a negative limit is none
		Number: cmp.Or(limits.Max, DefaultMaxSessions),
		Bytes:  cmp.Or(limits.MaxBytes, DefaultMaxSessionBytes),
		Age:    cmp.Or(limits.MaxAge, DefaultMaxSessionAge),
	}}
	err = cmp.Or(checkLimit("Max", limits.Max), checkLimit("MaxBytes", limits.MaxBytes), checkLimit("MaxAge", limits.MaxAge))
	if err == nil {
		err = p.prune(ctx, checkpoints)
	}
	if err != nil {
		return p.removed, fmt.Errorf("prune sessions: %w", err)
	}
	return p.removed, nil
}

// pruning is the work of PruneSessions.
type pruning struct {
	dir     string
	limits  sessiondir.Limits
	removed []string
}

func (p *pruning) prune(ctx context.Context, checkpoints string) error {
	trees, err := openTrees(checkpoints)
	if err != nil || trees == nil {
		return errors.Join(err, p.sessions(ctx))
	}
	err = p.measure(trees, checkpoints)
	err = errors.Join(err, p.sessions(ctx))
	removed, orphansErr := removeOrphans(trees, checkpoints, p.dir)
	if removed > 0 || p.limits.More != nil {
		orphansErr = errors.Join(orphansErr, collect(ctx, trees))
	}
	return errors.Join(err, orphansErr, trees.Close())
}

// sessions removes sessions until the others are within the limits.
func (p *pruning) sessions(ctx context.Context) (err error) {
	p.removed, err = sessiondir.Prune(ctx, p.dir, p.limits, time.Now())
	return err
}

// measure says what the checkpoints of sessions add to their size, if all together is
// too much: each the bytes by which they made the store grow when they were taken.
// What is left, because sessions share it with some that were removed, belongs to none.
func (p *pruning) measure(trees *store.Store, dir string) error {
	total := sizeOfFiles(dir)
	if p.limits.Bytes <= 0 || total+sizeOfFiles(p.dir) <= p.limits.Bytes {
		return nil
	}
	names, err := trees.Logs()
	if err != nil {
		return err
	}
	sizes := map[string]int64{}
	for _, name := range names {
		id, ours := sessionOfLog(name, dir, p.dir)
		refs, err := trees.ReadLog(name)
		if !ours || err != nil {
			continue // what cannot be read belongs to none
		}
		for _, ref := range refs {
			sizes[id] += max(checkpoint.Stored(ref), 0)
		}
		total -= sizes[id]
	}
	p.limits.Beside, p.limits.More = max(total, 0), sizes
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

// RemoveCheckpoints removes the checkpoints in a directory of [WithCheckpoints] that
// belong to sessions of the directory sessions which are not there any more. A
// directory that does not exist has none.
func RemoveCheckpoints(ctx context.Context, dir, sessions string) error {
	trees, err := openTrees(dir)
	if err == nil && trees != nil {
		_, err = removeOrphans(trees, dir, sessions)
		waits, cancel := context.WithTimeout(ctx, collectWithin)
		defer cancel()
		err = errors.Join(err, collect(waits, trees), trees.Close())
	}
	if err != nil {
		return fmt.Errorf("remove checkpoints: %w", err)
	}
	return nil
}

// How long the removal of checkpoints waits for those that are being made, and how
// often it looks.
const (
	collectWithin = 5 * time.Second
	collectAgain  = 20 * time.Millisecond
)

// collect removes what no checkpoint needs any more. Where checkpoints are made until
// ctx ends, that is left to the next time.
func collect(ctx context.Context, trees *store.Store) error {
	for {
		_, err := trees.Collect(ctx, nil)
		if !errors.Is(err, store.ErrInUse) {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(collectAgain):
		}
	}
}

// openTrees opens the store of checkpoints in a directory; nil if there is none.
func openTrees(dir string) (*store.Store, error) {
	if _, err := os.Stat(dir); dir == "" || errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return store.Open(dir)
}

// removeOrphans removes the logs of sessions that are not in a directory, and returns
// how many checkpoints they had. A new session has its directory before it has a log.
func removeOrphans(trees *store.Store, dir, sessions string) (removed int, err error) {
	names, err := trees.Logs()
	for _, name := range names {
		id, ours := sessionOfLog(name, dir, sessions)
		if !ours {
			continue
		}
		if _, gone := os.Lstat(filepath.Join(sessions, id)); !errors.Is(gone, fs.ErrNotExist) {
			continue
		}
		refs, _ := trees.ReadLog(name)
		failed := trees.RemoveLog(name)
		switch {
		case failed == nil:
			removed += len(refs)
		case !errors.Is(failed, store.ErrInUse) && !errors.Is(failed, fs.ErrNotExist):
			err = errors.Join(err, failed)
		}
	}
	return removed, err
}

// logPrefix begins the names of the logs that sessions in a directory have among the
// checkpoints in dir; their ids follow. It tells apart directories of sessions that
// share their checkpoints, by the way from there to them: where both are moved
// together, as with the directory of the user's state, it stays the same.
func logPrefix(dir, sessions string) string {
	way, err := filepath.Rel(realPathOfNew(dir), realPathOfNew(sessions))
	if err != nil {
		return formerPrefix(sessions)
	}
	return "session-" + shortHash(filepath.ToSlash(way)) + "-"
}

// formerPrefix is what logPrefix was before, which held for one place only.
func formerPrefix(sessions string) string {
	return "session-" + shortHash(realPath(sessions)) + "-"
}

// realPathOfNew is realPath of what may not be there yet.
func realPathOfNew(name string) string {
	name = realPath(name)
	parent := filepath.Dir(name)
	if _, err := os.Lstat(name); err == nil || parent == name {
		return name
	}
	return filepath.Join(realPathOfNew(parent), filepath.Base(name))
}

// sessionOfLog returns the id of the session in a directory that a log belongs to.
func sessionOfLog(name, dir, sessions string) (id string, ours bool) {
	for _, prefix := range []string{logPrefix(dir, sessions), formerPrefix(sessions)} {
		if id, ours := strings.CutPrefix(name, prefix); ours {
			return id, true
		}
	}
	return "", false
}

// checkpointLog returns the name of the agent's log, what it was before, and whether
// it ends with the agent.
func (a *Agent) checkpointLog() (name, former string, temporary bool) {
	if dir := a.opts.sessionDir; dir != "" {
		sessions, id := filepath.Dir(dir), filepath.Base(dir)
		return logPrefix(a.opts.checkpoints.dir, sessions) + id, formerPrefix(sessions) + id, false
	}
	return shortHash(a.id), "", a.opts.historyFile == ""
}
